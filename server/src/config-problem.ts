import * as z from 'zod';
import { type ConfigFile, type Place, type Problem, pathText, shownPath } from './config-file.ts';
import { configDocument } from './config-schema.ts';
import { isObject } from './model/json.ts';
import { visible } from './visible-text.ts';

type Issue = z.core.$ZodIssue;
type Path = readonly PropertyKey[];

/** Values under these keys are credentials, or may be: problems are logged, so they are never quoted. */
const SECRETS = /(^|\.)(token|database|sharedSecret|signingSecrets|writeKeys|headers)([.[]|$)/;

/** Everything that is wrong with the configuration at once; the message has one line per problem, in file order. */
export class ConfigError extends Error {
  readonly problems: readonly Problem[];

  constructor(problems: readonly Problem[]) {
    super(problems.map(lineOf).join('\n'));
    this.name = 'ConfigError';
    this.problems = problems;
  }
}

/** One line for the operator: `millrace.yaml:12:9  sources[0].name  must be …`. */
export function lineOf(problem: Problem): string {
  const spot = problem.line === undefined ? '' : `:${problem.line}:${problem.column ?? 1}`;
  const where = problem.file === undefined ? '' : `${problem.file}${spot}`;
  return visible([where, problem.path, problem.message].filter((part) => part !== '').join('  '));
}

/** In the order of the file; what is not in the file comes last. */
export function inOrder(problems: readonly Problem[]): Problem[] {
  const line = (problem: Problem) => problem.line ?? Number.POSITIVE_INFINITY;
  return [...problems].sort((a, b) =>
    line(a) === line(b) ? (a.column ?? 0) - (b.column ?? 0) : line(a) < line(b) ? -1 : 1,
  );
}

/** The schema's view of a file as problems with their places; values that could not be read are left out. */
export function problemsOf(issues: readonly Issue[], file: ConfigFile & { path: string }): Problem[] {
  const problems: Problem[] = [];
  for (const issue of issues) {
    for (const { path, message, atKey, isBare } of told(issue, file)) {
      const text = pathText(path);
      if (file.unread.has(text)) continue;
      const place = nearest(path, file);
      const spot = atKey ? (place?.key ?? place?.at) : place?.at;
      // Of one with more in it than a key has, the rest is left out in any case.
      const isHidden = isBare && shownPath(path) === text;
      const shown = shownPath(isHidden ? path.with(-1, '…') : path);
      problems.push({ file: file.path, ...(spot ?? { line: 1, column: 1 }), path: shown, message });
    }
  }
  // Two checks of one value may say the same.
  return problems.filter(
    (problem, index) =>
      problems.findIndex((other) => other.path === problem.path && other.message === problem.message) ===
      index,
  );
}

interface Told {
  readonly path: Path;
  readonly message: string;
  /** Whether the key is wrong rather than its value. */
  readonly atKey: boolean;
  /** Whether the key stands there without a value, and may be a secret that was to be one: `{ S3CRET }`. */
  readonly isBare: boolean;
}

/** What one issue says: unknown keys come several in one. */
function told(issue: Issue, file: ConfigFile): Told[] {
  if (issue.code === 'unrecognized_keys') {
    const allowed = keysAt(issue.path);
    return issue.keys.map((key) => ({
      path: [...issue.path, key],
      message: unknownKey(key, allowed),
      atKey: true,
      isBare: valueAt(file.value, [...issue.path, key]) === null && closest(key, allowed) === undefined,
    }));
  }
  const custom = issue.code === 'custom' ? (issue.params ?? {}) : undefined;
  const complete = custom !== undefined && custom['found'] !== true;
  const message = complete ? issue.message : `${issue.message}${foundAt(issue, file)}`;
  const missing = !complete && valueAt(file.value, issue.path) === undefined;
  return [
    {
      path: issue.path,
      message: missing ? `is missing: ${issue.message}` : message,
      atKey: custom?.['at'] === 'key',
      isBare: issue.path.at(-2) === 'headers' && valueAt(file.value, issue.path) === null,
    },
  ];
}

function foundAt(issue: Issue, file: ConfigFile): string {
  const text = pathText(issue.path);
  const value = valueAt(file.value, issue.path);
  const written = file.places.get(text)?.written;
  // A value from the environment is often a secret, and what it is called helps more than what it says.
  if (written !== undefined) return `, found the value of ${JSON.stringify(written)}`;
  // A rule of a free text begins so; for a port or a duration quotes would not help.
  const unquoted = issue.message.startsWith('must be text') && ['number', 'boolean'].includes(typeof value);
  // Where a mapping or a list belongs, a text may be what was to stand in it: `admin: token S3CRET`.
  const isContainer =
    issue.code === 'invalid_type' && ['object', 'record', 'array'].includes(String(issue.expected));
  if (isContainer && !Array.isArray(value) && !isObject(value))
    return `, found ${value === null ? 'nothing' : typeof value === 'string' ? 'text' : `a ${typeof value}`}`;
  return `${foundText(value, SECRETS.test(text))}${unquoted ? ': put it in quotes' : ''}`;
}

/** `, found …`; nothing where the value is a secret that must not be shown. */
export function foundText(value: unknown, secret = false): string {
  if (value === null) return ', found nothing';
  if (Array.isArray(value))
    return `, found ${value.length === 0 ? 'an empty list' : `a list of ${value.length}`}`;
  if (isObject(value)) return `, found a mapping of ${Object.keys(value).length}`;
  if (typeof value === 'string') {
    if (secret && value !== '') return '';
    return `, found ${JSON.stringify(quotable(value))}`;
  }
  if (secret) return `, found a ${typeof value}`;
  return `, found ${typeof value === 'number' ? 'the number ' : ''}${String(value)}`;
}

/** Long texts are cut; what may be a credential in an address is left out. */
function quotable(text: string): string {
  // With both, it cannot be told which of them ends the part that may be shown.
  if (/[?#]/.test(text) && text.includes('@')) return '…';
  const harmless = text.replace(/^.*@/s, '…@').replace(/([?#]).*$/s, '$1…');
  return harmless.length <= 80 ? harmless : `${harmless.slice(0, 79)}…`;
}

function unknownKey(key: string, allowed: readonly string[]): string {
  const similar = closest(key, allowed);
  const hint = similar === undefined ? '' : ` did you mean ${similar}?`;
  return `is not a known key;${hint} allowed here: ${allowed.join(', ')}`;
}

/** The keys the schema knows at a path, read from its JSON Schema; only ever needed to say what is wrong. */
function keysAt(path: Path): string[] {
  let schema: z.core.JSONSchema.BaseSchema | undefined = z.toJSONSchema(configDocument, { io: 'input' });
  for (const segment of path) {
    const next: unknown = typeof segment === 'number' ? schema?.items : schema?.properties?.[String(segment)];
    schema = isObject(next) ? (next as z.core.JSONSchema.BaseSchema) : undefined;
  }
  return Object.keys(schema?.properties ?? {});
}

/** The one word that a slip of the fingers, or another habit of writing names, could have turned into `key`. */
function closest(key: string, words: readonly string[]): string | undefined {
  const plain = (word: string) => word.toLowerCase().replace(/[_-]/g, '');
  const ranked = words
    .map((word) => ({ word, distance: editDistance(plain(key), plain(word)) }))
    .sort((a, b) => a.distance - b.distance);
  const best = ranked[0];
  if (best === undefined || best.distance > Math.max(1, Math.floor(best.word.length / 4))) return undefined;
  return best.word;
}

/** How many letters are inserted, left out, replaced, or swapped with their neighbour. */
function editDistance(from: string, to: string): number {
  let above: number[] = [];
  let row = Array.from({ length: to.length + 1 }, (_, column) => column);
  for (let line = 1; line <= from.length; line++) {
    const next = [line];
    for (let column = 1; column <= to.length; column++) {
      const replaced = row[column - 1]! + (from[line - 1] === to[column - 1] ? 0 : 1);
      const swapped = from[line - 1] === to[column - 2] && from[line - 2] === to[column - 1];
      const least = Math.min(replaced, row[column]! + 1, next[column - 1]! + 1);
      next.push(swapped ? Math.min(least, above[column - 2]! + 1) : least);
    }
    above = row;
    row = next;
  }
  return row[to.length]!;
}

/** The place of a value, or of the innermost thing around it that the file holds. */
function nearest(path: Path, file: ConfigFile): Place | undefined {
  for (let length = path.length; length >= 0; length--) {
    const place = file.places.get(pathText(path.slice(0, length)));
    if (place !== undefined) return place;
  }
  return undefined;
}

function valueAt(value: unknown, path: Path): unknown {
  return path.reduce<unknown>((inner, segment) => {
    if (Array.isArray(inner)) return inner[Number(segment)];
    return isObject(inner) && Object.hasOwn(inner, segment) ? inner[String(segment)] : undefined;
  }, value);
}
