import * as z from 'zod';
import { DESTINATION_TYPES } from '../destinations/list.ts';
import { closestWord } from '../model/closest-word.ts';
import { MAX_PROBLEMS } from '../model/input-limits.ts';
import { isObject } from '../model/json.ts';
import { visible } from '../model/visible-text.ts';
import { configFileSchema } from './schema.ts';
import {
  type ConfigFile,
  type ConfigProblem,
  type LineColumn,
  pathText,
  shownPath,
  type ValueLocation,
} from './yaml-source.ts';

type Issue = z.core.$ZodIssue;
type Path = readonly PropertyKey[];

/** Values under these keys are credentials, or may be: problems are logged, so they are never quoted. */
const SECRET_KEYS = [
  ...['token', 'database', 'password', 'secrets', 'signingSecrets', 'writeKeys', 'headers'],
  ...[...DESTINATION_TYPES.values()].flatMap(({ settings: { hidden } }) =>
    [...hidden.secrets, ...(hidden.credentials ?? []), ...(hidden.headers ?? [])].map(keyOf),
  ),
];
const SECRET_PATHS = new RegExp(`(^|\\.)(${SECRET_KEYS.join('|')})([.[]|$)`);

/** `endpoints[].headers` → `headers` */
function keyOf(place: string): string {
  return place.replace(/(\[\])+$/, '').replace(/^.*\./, '');
}

/**
 * The problems of a configuration, at most the first `MAX_PROBLEMS`. The message has one line per problem, in
 * file order, and says when there are more.
 */
export class ConfigError extends Error {
  readonly problems: readonly ConfigProblem[];

  constructor(problems: readonly ConfigProblem[]) {
    const told = inFileOrder(problems).slice(0, MAX_PROBLEMS);
    const lines = told.map(formatProblem);
    if (problems.length > told.length)
      lines.push(`These are the first ${MAX_PROBLEMS} problems; there are more.`);
    super(lines.join('\n'));
    this.name = 'ConfigError';
    this.problems = told;
  }
}

/**
 * Writes one line for the operator about a value by its path, or about a place in its text, with the place in
 * the file where there is one.
 */
export type ProblemFormatter = (path: string, message: string, inText?: LineColumn) => string;

/** One line for the operator: `millrace.yaml:12:9  sources[0].name  must be …`. */
export function formatProblem(problem: ConfigProblem): string {
  const spot = problem.line === undefined ? '' : `:${problem.line}:${problem.column ?? 1}`;
  const where = problem.file === undefined ? '' : `${problem.file}${spot}`;
  return visible([where, problem.path, problem.message].filter((part) => part !== '').join('  '));
}

/** Sorts by position in the file; problems outside the file come last. */
export function inFileOrder(problems: readonly ConfigProblem[]): ConfigProblem[] {
  const line = (problem: ConfigProblem) => problem.line ?? Number.POSITIVE_INFINITY;
  return [...problems].sort((a, b) =>
    line(a) === line(b) ? (a.column ?? 0) - (b.column ?? 0) : line(a) < line(b) ? -1 : 1,
  );
}

/**
 * Turns the schema's issues into problems with their places; values that could not be read are left out.
 * Returns at most one more than `MAX_PROBLEMS`, which shows that there are more; nothing is computed for the
 * rest.
 *
 * @param schema The schema of the whole file.
 */
export function problemsOfIssues(
  issues: readonly Issue[],
  file: ConfigFile & { path: string },
  schema: z.ZodType = configFileSchema,
): ConfigProblem[] {
  const problems = new Map<string, ConfigProblem>();
  for (const { path, message, atKey, isBare, inText } of reportIssues(issues, file, schema)) {
    const text = pathText(path);
    if (file.unread.has(text)) continue;
    const place = nearestLocation(path, file);
    const spot = (atKey ? place?.key : spotInText(place, inText)) ?? place?.at;
    // A key that `shownPath` has cut needs no hiding.
    const isHidden = isBare && shownPath(path) === text;
    const shown = shownPath(isHidden ? path.with(-1, '…') : path);
    // Two checks of one value may report the same problem.
    const said = `${text}\n${message}`;
    if (problems.has(said)) continue;
    const where = { file: file.path, ...(spot ?? { line: 1, column: 1 }) };
    problems.set(said, { ...where, path: shown, message, inText });
    if (problems.size > MAX_PROBLEMS) break;
  }
  return [...problems.values()];
}

interface IssueReport {
  readonly path: Path;
  readonly message: string;
  /** Whether the key is wrong rather than its value. */
  readonly atKey: boolean;
  /** Whether the key has no value, and may be a misplaced secret: `{ S3CRET }`. */
  readonly isBare: boolean;
  /** The place within a text that has lines of its own, such as a definition. */
  readonly inText?: LineColumn | undefined;
}

/**
 * The place in the file of a place in one of its texts; undefined where the file has the text in another
 * form.
 */
function spotInText(
  place: ValueLocation | undefined,
  inText: LineColumn | undefined,
): LineColumn | undefined {
  if (place?.text === undefined || inText === undefined) return undefined;
  return { line: place.text.line + inText.line - 1, column: place.text.column + inText.column - 1 };
}

/** Yields the findings of the issues one by one: a single issue may list several unknown keys. */
function* reportIssues(
  issues: readonly Issue[],
  file: ConfigFile,
  schema: z.ZodType,
): Generator<IssueReport> {
  for (const issue of issues) {
    if (issue.code === 'unrecognized_keys') {
      const allowed = knownKeysAt(issue.path, schema, file.value);
      for (const key of issue.keys)
        yield {
          path: [...issue.path, key],
          message: unknownKey(key, allowed),
          atKey: true,
          isBare:
            valueAt(file.value, [...issue.path, key]) === null && closestWord(key, allowed) === undefined,
        };
    } else yield reportIssue(issue, file);
  }
}

function reportIssue(issue: Issue, file: ConfigFile): IssueReport {
  const custom = issue.code === 'custom' ? (issue.params ?? {}) : undefined;
  const complete = custom !== undefined && custom['found'] !== true;
  const message = complete ? issue.message : `${issue.message}${foundTextAt(issue, file)}`;
  const missing = !complete && valueAt(file.value, issue.path) === undefined;
  return {
    path: issue.path,
    message: missing ? `is missing: ${issue.message}` : message,
    atKey: custom?.['at'] === 'key',
    inText: lineColumnOf(custom),
    isBare: issue.path.at(-2) === 'headers' && valueAt(file.value, issue.path) === null,
  };
}

function lineColumnOf(params: Readonly<Record<string, unknown>> | undefined): LineColumn | undefined {
  const { line, column } = params ?? {};
  return typeof line === 'number' && typeof column === 'number' ? { line, column } : undefined;
}

function foundTextAt(issue: Issue, file: ConfigFile): string {
  const text = pathText(issue.path);
  const value = valueAt(file.value, issue.path);
  const written = file.places.get(text)?.written;
  // A value from the environment is often a secret, and its name helps more than its content.
  if (written !== undefined) return `, found the value of ${JSON.stringify(written)}`;
  // The rules of free texts begin with these words; quotes would not help a port or a duration.
  const unquoted = issue.message.startsWith('must be text') && ['number', 'boolean'].includes(typeof value);
  // A text in place of a mapping or a list may be its intended content: `admin: token S3CRET`.
  const isContainer =
    issue.code === 'invalid_type' && ['object', 'record', 'array'].includes(String(issue.expected));
  if (isContainer && !Array.isArray(value) && !isObject(value))
    return `, found ${value === null ? 'nothing' : typeof value === 'string' ? 'text' : `a ${typeof value}`}`;
  return `${foundText(value, SECRET_PATHS.test(text))}${unquoted ? ': put it in quotes' : ''}`;
}

/** `, found …`; empty where the value is a secret that must not be shown. */
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

/** Cuts long texts, and leaves out the parts of an address that may be credentials. */
function quotable(text: string): string {
  // When both occur, either may end the part that can be shown safely.
  if (/[?#]/.test(text) && text.includes('@')) return '…';
  const harmless = text.replace(/^.*@/s, '…@').replace(/([?#]).*$/s, '$1…');
  return harmless.length <= 80 ? harmless : `${harmless.slice(0, 79)}…`;
}

function unknownKey(key: string, allowed: readonly string[]): string {
  const similar = closestWord(key, allowed);
  const hint = similar === undefined ? '' : ` did you mean ${similar}?`;
  return `is not a known key;${hint} allowed here: ${allowed.join(', ')}`;
}

/**
 * Each is built once, and only when there is a problem: it costs as much as validating hundreds of records.
 */
const jsonSchemas = new Map<z.ZodType, z.core.JSONSchema.BaseSchema>();

/**
 * The keys the schema allows at a path of a value, read from its JSON Schema; needed only to describe
 * problems.
 */
function knownKeysAt(path: Path, ofFile: z.ZodType, value: unknown): string[] {
  const built = jsonSchemas.get(ofFile) ?? z.toJSONSchema(ofFile, { io: 'input' });
  jsonSchemas.set(ofFile, built);
  let schema: z.core.JSONSchema.BaseSchema | undefined = built;
  for (const [depth, segment] of path.entries()) {
    const properties = propertiesOf(schema, valueAt(value, path.slice(0, depth)));
    const next: unknown = typeof segment === 'number' ? schema?.items : properties[String(segment)];
    schema = isObject(next) ? (next as z.core.JSONSchema.BaseSchema) : undefined;
  }
  return Object.keys(propertiesOf(schema, valueAt(value, path)));
}

/**
 * The properties that a value may have. Where there are several variants, those of the one that its `type`
 * chooses, and of every one where it chooses none.
 */
function propertiesOf(
  schema: z.core.JSONSchema.BaseSchema | undefined,
  value: unknown,
): Readonly<Record<string, unknown>> {
  const variants = (schema?.oneOf ?? schema?.anyOf ?? []) as readonly z.core.JSONSchema.BaseSchema[];
  const type = isObject(value) ? value['type'] : undefined;
  const chosen = variants.filter(({ properties }) => {
    const known = properties?.['type'];
    return isObject(known) && known['const'] === type;
  });
  const used = chosen.length === 0 ? variants : chosen;
  return Object.assign({}, schema?.properties, ...used.map(({ properties }) => properties));
}

/** The place of a value, or of the innermost value around it that the file has. */
function nearestLocation(path: Path, file: ConfigFile): ValueLocation | undefined {
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

/**
 * One line for the operator about a path as `pathText` writes it, with the place of its innermost part in the
 * file.
 *
 * @param inText The place within the text at the path.
 */
export function formatProblemAt(
  path: string,
  message: string,
  file: ConfigFile & { readonly path: string },
  inText?: LineColumn,
): string {
  for (let part = path; part !== ''; part = part.replace(/(\.[^.[]*|\[[^[]*)$/, '')) {
    const place = file.places.get(part);
    if (place !== undefined) {
      const spot = part === path ? spotInText(place, inText) : undefined;
      return formatProblem({ file: file.path, ...(spot ?? place.at), path, message });
    }
    if (!/[.[]/.test(part)) break;
  }
  return formatProblem({ file: file.path === '' ? undefined : file.path, path, message });
}
