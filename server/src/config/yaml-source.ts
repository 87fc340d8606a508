import {
  type Alias,
  isAlias,
  isMap,
  isNode,
  isPair,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  type Pair,
  parseDocument,
  type Scalar,
  type YAMLError,
} from 'yaml';
import { MAX_DEPTH, MAX_PROBLEMS, TOO_DEEP } from '../model/input-limits.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

/** Replaces references; one that cannot be replaced stays as it is and is listed in `faults`. */
function expandReferences(
  written: string,
  env: Environment,
): { text: string; references: boolean; faults: string[] } {
  const faults: string[] = [];
  let references = false;
  const text = written.replace(/\$\$\{|\$\{([^}]*)(\}?)/g, (match, name: string | undefined, end: string) => {
    if (name === undefined) return '${';
    references = true;
    if (end === '' || !/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) {
      faults.push(`holds a reference that is not \${NAME}: write $\${ for a literal \${`);
      return match;
    }
    const value = Object.hasOwn(env, name) ? env[name] : undefined;
    if (value === undefined)
      faults.push(`reads \${${name}}, but the environment variable ${name} is not set`);
    return value ?? match;
  });
  return { text, references, faults };
}

/** Characters that stand for the braces of references while the text is parsed. */
export interface BracePlaceholders {
  readonly open: string;
  readonly close: string;
}

/** Unicode's noncharacters, which are reserved for use inside a program, and its private-use characters. */
const PLACEHOLDER_RANGES: readonly (readonly [from: number, to: number])[] = [
  [0xfdd0, 0xfdef],
  [0xe000, 0xf8ff],
];

/**
 * The first two candidates that the file contains neither literally nor as an escape. A file may contain any
 * other text.
 */
function choosePlaceholders(text: string): BracePlaceholders {
  const written = new Set(
    Array.from(text.matchAll(PLACEHOLDERS_IN_TEXT), ([, as, digits]) => as ?? fromHex(digits!)),
  );
  const free: string[] = [];
  for (const [from, to] of PLACEHOLDER_RANGES) {
    for (let code = from; code <= to && free.length < 2; code++) {
      const character = String.fromCharCode(code);
      if (!written.has(character)) free.push(character);
    }
  }
  const [open = '\uFDD0', close = '\uFDD1'] = free;
  return { open, close };
}

/** Matches each candidate, and any four digits that may be the escape of one; matches may overlap. */
const PLACEHOLDERS_IN_TEXT =
  /(?=([\uFDD0-\uFDEF\uE000-\uF8FF])|(fd[de][0-9a-f]|(?:e[0-9a-f]|f[0-8])[0-9a-f]{2}))/gi;

function fromHex(digits: string): string {
  return String.fromCharCode(Number.parseInt(digits, 16));
}

/**
 * Replaces the braces of references with marks until the text is parsed: braces end a plain text inside `{…}`
 * and `[…]`, and YAML would refuse `{ token: ${NAME} }`. Lengths and positions stay the same, except after a
 * byte order mark, which no editor counts as a column.
 */
function hideBraces(text: string, { open, close }: BracePlaceholders): string {
  return text.replace(/^\uFEFF/, '').replace(/\$\{([^\s{}]*)\}/g, `$$${open}$1${close}`);
}

function restoreBraces(text: string, { open, close }: BracePlaceholders): string {
  return text.replaceAll(open, '{').replaceAll(close, '}');
}

/** An error in the configuration, or a warning about it. Lines and columns count from 1. */
export interface ConfigProblem {
  readonly file?: string | undefined;
  readonly line?: number;
  readonly column?: number;
  /**
   * A path as `shownPath` writes it (`destinations[0].settings.endpoints[0].url`), a variable's name, or a
   * flag; empty for the file as a whole.
   */
  readonly path: string;
  readonly message: string;
  /** The place within a text that has lines of its own, such as a definition. */
  readonly inText?: LineColumn | undefined;
}

export interface LineColumn {
  readonly line: number;
  readonly column: number;
}

/** Where a value stands in the file. */
export interface ValueLocation {
  readonly at: LineColumn;
  /** Where its key stands, when it has one. */
  readonly key?: LineColumn | undefined;
  /**
   * The text before references were replaced; present only when it had some. Safe to print, unlike the value.
   */
  readonly written?: string | undefined;
  /** The value itself, when it is not a collection; references replaced. */
  readonly value?: unknown;
  /**
   * The place of the first character of a text whose lines stand unchanged in the file: one line, or a
   * literal block.
   */
  readonly text?: LineColumn | undefined;
}

export interface ConfigFile {
  /** The file's content as plain values, references replaced. Empty when the syntax is wrong. */
  readonly value: unknown;
  /** Every value the operator wrote, by its path as `pathText` writes it. */
  readonly places: ReadonlyMap<string, ValueLocation>;
  /** Paths of values that could not be read: `problems` says why, and `value` holds a stand-in. */
  readonly unread: ReadonlySet<string>;
  readonly problems: readonly ConfigProblem[];
}

/**
 * Limits the values of a file: anchors nested in anchors can expand to billions, and no real file needs more
 * than this.
 */
const MAX_VALUES = 100_000;

/** Length limit of a file, in characters. A thousand destinations with all their settings fit into it. */
const MAX_FILE_LENGTH = 4 * 1024 * 1024;

interface ReaderState {
  readonly file: string;
  /** The file with the placeholders of braces. */
  readonly raw: string;
  /** The node that each alias refers to. */
  readonly targets: ReadonlyMap<Alias, Node>;
  readonly env: Environment;
  readonly marks: BracePlaceholders;
  readonly spot: (offset: number) => LineColumn;
  readonly places: Map<string, ValueLocation>;
  readonly unread: Set<string>;
  readonly problems: ConfigProblem[];
  /** The collections around the value being read: an alias to one of them would recurse for ever. */
  readonly open: Set<Node>;
  values: number;
}

/**
 * Reads YAML 1.2 into plain values and remembers where each stands. `${NAME}` in a text reads the environment
 * after parsing, so that a variable's value is always one text and can never add keys; `$${` stands for a
 * literal `${`. spec/contract.md, "Configuration file". Never throws; lists the problems, one more than
 * `MAX_PROBLEMS` at most.
 */
export function readConfigFile(file: { path: string; text: string }, env: Environment): ConfigFile {
  const places = new Map<string, ValueLocation>();
  const unread = new Set<string>();
  if (file.text.length > MAX_FILE_LENGTH) {
    const message = `must have at most ${MAX_FILE_LENGTH} characters, and has ${file.text.length}`;
    return { value: {}, places, unread, problems: [{ file: file.path, path: '', message }] };
  }
  const lines = new LineCounter();
  const marks = choosePlaceholders(file.text);
  // Duplicate keys are found below, where their path is known.
  const raw = hideBraces(file.text, marks);
  const document = parseDocument(raw, {
    lineCounter: lines,
    prettyErrors: false,
    uniqueKeys: false,
  });
  const spot = (offset: number): LineColumn => {
    const { line, col } = lines.linePos(offset);
    return { line: Math.max(line, 1), column: Math.max(col, 1) };
  };
  const problems = syntaxProblems([...document.errors, ...document.warnings], (fault) => ({
    file: file.path,
    ...spot(fault.pos[0]),
    path: '',
    message: syntaxMessage(fault, marks),
  }));
  if (problems.length > 0) return { value: {}, places, unread, problems };

  const reading: ReaderState = {
    file: file.path,
    raw,
    targets: aliasTargets(document.contents),
    env,
    marks,
    spot,
    places,
    unread,
    problems,
    open: new Set(),
    values: 0,
  };
  const value = document.contents === null ? {} : readNode(document.contents, [], reading);
  // A file of comments alone is empty, which is allowed.
  return { value: value === null && reading.values <= 1 ? {} : value, places, unread, problems };
}

/** Matches every key of the configuration and most headers, and hardly ever a token. */
const KEY_LIKE = /^[A-Za-z_-]{1,40}$/;

/**
 * A path as problems show it. A typing mistake may turn a secret into a key (`{ token S3CRET }`, `{ S3CRET
 * }`): a key is therefore shown only as far as it looks like one.
 */
export function shownPath(segments: readonly PropertyKey[]): string {
  return pathText(
    segments.map((segment) => {
      const key = String(segment);
      if (typeof segment === 'number' || KEY_LIKE.test(key) || !/[\p{L}\p{N}]/u.test(key)) return segment;
      return `${/^[A-Za-z_-]{0,40}/.exec(key)?.[0]}…`;
    }),
  );
}

/** Keeps one error per line: a single mistake makes the parser report the rest of its line as well. */
function syntaxProblems(
  faults: readonly YAMLError[],
  problemOf: (fault: YAMLError) => ConfigProblem,
): ConfigProblem[] {
  const problems = new Map<number | undefined, ConfigProblem>();
  for (const fault of faults) {
    const problem = problemOf(fault);
    if (!problems.has(problem.line)) problems.set(problem.line, problem);
    if (problems.size > MAX_PROBLEMS) break;
  }
  return [...problems.values()];
}

/**
 * Resolves all aliases in one pass: the parser's own search walks everything before an alias, once for each
 * alias.
 */
function aliasTargets(contents: Node | null): Map<Alias, Node> {
  const anchors = new Map<string, Node>();
  const targets = new Map<Alias, Node>();
  const look = (node: unknown, depth: number): void => {
    if (isPair(node)) {
      look(node.key, depth);
      look(node.value, depth);
    } else if (isAlias(node)) {
      const target = anchors.get(node.source);
      if (target !== undefined) targets.set(node, target);
    } else if (isScalar(node) || isMap(node) || isSeq(node)) {
      if (node.anchor !== undefined) anchors.set(node.anchor, node);
      // Deeper levels are refused.
      if (!isScalar(node) && depth <= MAX_DEPTH) for (const item of node.items) look(item, depth + 1);
    }
  };
  look(contents, 0);
  return targets;
}

/** Writes a path; a key that is not a plain word stands in quotes and brackets. */
export function pathText(segments: readonly PropertyKey[]): string {
  return segments.reduce<string>((path, segment) => {
    if (typeof segment === 'number') return `${path}[${segment}]`;
    const key = String(segment);
    if (!/^[\w-]+$/.test(key)) return `${path}[${JSON.stringify(key)}]`;
    return path === '' ? key : `${path}.${key}`;
  }, '');
}

function readNode(node: Node, path: readonly PropertyKey[], reading: ReaderState, key?: LineColumn): unknown {
  const target = isAlias(node) ? reading.targets.get(node) : node;
  const at = reading.spot(node.range?.[0] ?? 0);
  const place: ValueLocation = { at, key };
  reading.places.set(pathText(path), place);
  reading.values += 1;
  if (target === undefined)
    return reject(reading, path, at, 'refers to an anchor that is not defined before it');
  if (reading.open.has(target)) return reject(reading, path, at, 'refers to the collection it stands in');
  if (reading.values > MAX_VALUES) {
    // The problem is reported once; the values after it are only left out.
    return reading.values === MAX_VALUES + 1
      ? reject(reading, path, at, `the file stands for more than ${MAX_VALUES} values`)
      : null;
  }
  if (isScalar(target)) {
    const text = target === node ? textStart(target, reading) : undefined;
    return readScalar(target.value, path, reading, { ...place, text });
  }
  if (path.length > MAX_DEPTH) return reject(reading, [], at, TOO_DEEP);
  reading.open.add(target);
  const value = isMap(target)
    ? readMap(target.items, path, reading)
    : isSeq(target)
      ? target.items.map((item, index) => (isNode(item) ? readNode(item, [...path, index], reading) : null))
      : null;
  reading.open.delete(target);
  return value;
}

function readMap(pairs: readonly Pair[], path: readonly PropertyKey[], reading: ReaderState): unknown {
  const entries = new Map<string, unknown>();
  for (const pair of pairs) {
    const keyNode = isNode(pair.key) ? pair.key : undefined;
    const at = reading.spot(keyNode?.range?.[0] ?? 0);
    if (!isScalar(keyNode)) {
      addProblem(reading, path, at, 'must have plain text as keys');
      continue;
    }
    const key = restoreBraces(keyNode.source ?? String(keyNode.value), reading.marks);
    const inner = [...path, key];
    const first = reading.places.get(pathText(inner))?.key;
    if (first !== undefined) addProblem(reading, inner, at, `is given twice, first in line ${first.line}`);
    // The key does no harm here, but schema libraries skip it silently.
    else if (key === '__proto__') addProblem(reading, inner, at, 'is not a possible key');
    else if (isNode(pair.value)) entries.set(key, readNode(pair.value, inner, reading, at));
    else {
      reading.places.set(pathText(inner), { at, key: at });
      entries.set(key, null);
    }
  }
  return Object.fromEntries(entries);
}

function readScalar(
  value: unknown,
  path: readonly PropertyKey[],
  reading: ReaderState,
  place: ValueLocation,
): unknown {
  if (value === null || typeof value === 'number' || typeof value === 'boolean') {
    reading.places.set(pathText(path), { ...place, value });
    return value;
  }
  if (typeof value !== 'string')
    return reject(reading, path, place.at, 'must be text, a number, true or false');
  const written = restoreBraces(value, reading.marks);
  const expanded = expandReferences(written, reading.env);
  for (const fault of expanded.faults) reject(reading, path, place.at, fault);
  const { text, references } = expanded;
  reading.places.set(pathText(path), { ...place, value: text, written: references ? written : undefined });
  return text;
}

/** See `ValueLocation.text`. */
function textStart(
  { range, value, type }: Scalar,
  { raw, spot, marks }: ReaderState,
): LineColumn | undefined {
  if (!range || typeof value !== 'string') return undefined;
  if (type === 'BLOCK_LITERAL') {
    const header = raw.indexOf('\n', range[0]);
    const first = /\S/.exec(value)?.index;
    if (header < 0 || first === undefined) return undefined;
    // Blank lines before the first character are part of the text.
    const blank = value.slice(0, first).split('\n').length - 1;
    const written = raw.slice(header).search(/\S/) + header;
    const { line, column } = spot(written);
    const indentOfText = first - (value.lastIndexOf('\n', first - 1) + 1);
    return { line: line - blank, column: column - indentOfText };
  }
  const quote = type === 'QUOTE_SINGLE' || type === 'QUOTE_DOUBLE' ? 1 : 0;
  const isAsWritten = raw.startsWith(value, range[0] + quote) && !value.includes('\n');
  return isAsWritten && restoreBraces(value, marks) === value ? spot(range[0] + quote) : undefined;
}

/** Rewords the parser's messages: its own quote the text in question, which may be a secret. */
const SYNTAX_MESSAGES: Readonly<Record<string, string>> = {
  TAG_RESOLVE_FAILED: 'a text that begins with ! must stand in quotes',
  BAD_COLLECTION_TYPE: 'a text that begins with ! must stand in quotes',
  BAD_DIRECTIVE: 'a line that begins with % is a directive that does not exist',
  BAD_DQ_ESCAPE: 'there is no such escape sequence in double quotes',
};

/** The parser's message up to the first colon: the quoted text follows it. */
function syntaxMessage({ code, message }: YAMLError, marks: BracePlaceholders): string {
  // The parser recurses once per level.
  if (message.includes('call stack')) return TOO_DEEP;
  if (message.includes('multiple documents'))
    return 'must be one YAML document: remove the line with --- or ...';
  const words = SYNTAX_MESSAGES[code] ?? restoreBraces(message.replace(/: .*$/s, ''), marks);
  return `is not valid YAML: ${words}`;
}

/** Records a problem with an unusable value; `null` takes its place. */
function reject(reading: ReaderState, path: readonly PropertyKey[], at: LineColumn, message: string): null {
  addProblem(reading, path, at, message);
  reading.unread.add(pathText(path));
  return null;
}

function addProblem(
  reading: ReaderState,
  path: readonly PropertyKey[],
  at: LineColumn,
  message: string,
): void {
  if (reading.problems.length > MAX_PROBLEMS) return;
  reading.problems.push({ file: reading.file, ...at, path: shownPath(path), message });
}
