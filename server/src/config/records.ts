import { isObject, type Json, type JsonObject } from '../model/json.ts';
import { ConfigError, formatProblemAt, problemsOfIssues } from './errors.ts';
import { validateDocument } from './validation.ts';
import { type Environment, readConfigFile } from './yaml-source.ts';

/** What a configuration file says about sources and destinations, for a server that runs already. */
export interface FileRecords {
  /** As the file writes them, references replaced: the server fills in what is left out. */
  readonly sources: readonly JsonObject[];
  readonly destinations: readonly JsonObject[];
  /** Keys of the file that are no records, such as `port`: only a start reads them. */
  readonly otherKeys: readonly string[];
  /** One line for the operator about a value, with its place in the file: `f.yaml:12:9  sources[0].name  …`. */
  readonly lineAt: (path: string, message: string) => string;
}

/**
 * Reads the records of a configuration file and validates all of the file, but for references outside the records:
 * the variables behind them are those of the machine where the server starts.
 * Throws a `ConfigError` with every problem there is.
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
  // An empty file says nothing about anything, and nothing is a mapping without keys.
  const value = isObject(read.value) ? (read.value as JsonObject) : {};
  return {
    sources: recordList(value, 'sources'),
    destinations: recordList(value, 'destinations'),
    otherKeys: Object.keys(value).filter((key) => !isRecordPath(key)),
    lineAt: (path, message) => formatProblemAt(path, message, { ...read, path: file.path }),
  };
}

function isRecordPath(path: string): boolean {
  return /^(sources|destinations)([.[]|$)/.test(path);
}

/** Checked before. */
function recordList(value: JsonObject, key: string): readonly JsonObject[] {
  return (value[key] ?? []) as readonly Json[] as readonly JsonObject[];
}
