import { isObject, type Json, type JsonObject } from '../model/json.ts';
import { ConfigError, formatProblemAt, type ProblemFormatter, problemsOfIssues } from './errors.ts';
import { validateDocument } from './validation.ts';
import { type Environment, readConfigFile } from './yaml-source.ts';

/** The records of a configuration file, for a server that is already running. */
export interface FileRecords {
  /** The records as the file writes them, references replaced; the server fills in the defaults. */
  readonly sources: readonly JsonObject[];
  readonly destinations: readonly JsonObject[];
  readonly audiences: readonly JsonObject[];
  readonly traits: readonly JsonObject[];
  readonly alerts: readonly JsonObject[];
  /** The file's other keys, such as `port`: they are read only at a start. */
  readonly otherKeys: readonly string[];
  /**
   * One line for the operator about a value, with its place in the file: `f.yaml:12:9 sources[0].name …`.
   */
  readonly lineAt: ProblemFormatter;
}

/**
 * Reads the records of a configuration file and validates the whole file, except for references outside the
 * records: their variables belong to the machine where the server starts. Throws a `ConfigError` with the
 * problems.
 */
export function readRecords(
  file: { readonly path: string; readonly text: string },
  env: Environment,
): FileRecords {
  const read = readConfigFile(file, env);
  const checked = validateDocument(read.value);
  const problems = [
    ...read.problems.filter(({ path }) => path === '' || isRecordPath(path) || !read.unread.has(path)),
    ...('issues' in checked ? problemsOfIssues(checked.issues, { ...read, path: file.path }) : []),
  ];
  if (problems.length > 0) throw new ConfigError(problems);
  // An empty file is a mapping without keys.
  const value = isObject(read.value) ? (read.value as JsonObject) : {};
  return {
    sources: recordList(value, 'sources'),
    destinations: recordList(value, 'destinations'),
    audiences: recordList(value, 'audiences'),
    traits: recordList(value, 'traits'),
    alerts: recordList(value, 'alerts'),
    otherKeys: Object.keys(value).filter((key) => !isRecordPath(key)),
    lineAt: (path, message, inText) => formatProblemAt(path, message, { ...read, path: file.path }, inText),
  };
}

function isRecordPath(path: string): boolean {
  return /^(sources|destinations|audiences|traits|alerts)([.[]|$)/.test(path);
}

/** Checked before. */
function recordList(value: JsonObject, key: string): readonly JsonObject[] {
  return (value[key] ?? []) as readonly Json[] as readonly JsonObject[];
}
