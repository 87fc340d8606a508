import { hostname } from 'node:os';
import type * as z from 'zod';
import { DESTINATION_TYPES } from '../destinations/list.ts';
import { closestWord } from '../model/closest-word.ts';
import { MAX_PROBLEMS } from '../model/input-limits.ts';
import { defined, isObject } from '../model/json.ts';
import { isLoopback } from '../model/loopback.ts';
import type { DestinationRecord } from '../model/settings.ts';
import { addressesOf } from '../ports/destination-type.ts';
import {
  ConfigError,
  formatProblem,
  formatProblemAt,
  foundText,
  inFileOrder,
  type ProblemFormatter,
  problemsOfIssues,
} from './errors.ts';
import { type configFileSchema, SHARED_KEYS } from './schema.ts';
import { type KnownRecords, validateDocument } from './validation.ts';
import {
  type ConfigFile,
  type ConfigProblem,
  type Environment,
  pathText,
  readConfigFile,
} from './yaml-source.ts';

export type { Condition, EventAggregate, Scalar, Value } from '../model/definition.ts';
export { formatDefinition } from '../users/language/format.ts';
export { snakeCase } from './computation-schema.ts';
export { ConfigError } from './errors.ts';
export { type ExportedRecords, type FileRemarks, formatConfig, type MissingValue } from './export.ts';
export { type CheckedKind, type RecordFault, recordFaults } from './record-faults.ts';
export { type FileRecords, readRecords } from './records.ts';
export type { ConfigProblem } from './yaml-source.ts';

/**
 * The settings of one start, with all defaults: durations in milliseconds, sizes in bytes, paths relative to
 * the working directory. `configFileSchema` describes each key. spec/contract.md, "Configuration file".
 */
export type Config = Readonly<z.output<typeof configFileSchema>> & {
  readonly host: string;
  readonly node: string;
};

export interface ConfigInputs {
  readonly file?: { readonly path: string; readonly text: string } | undefined;
  readonly env: Environment;
  /** The value as typed; checked here like all others. */
  readonly flags: Partial<Readonly<Record<'host' | 'data' | 'log' | 'database', string> & { port: number }>>;
  /** Defaults that depend on the verb: `dev` listens on loopback, `start` on every address. */
  readonly defaults: { readonly host: string };
}

export interface LoadedConfig {
  readonly config: Config;
  /** Warnings for the operator, one line each; none keeps the server from starting. */
  readonly warnings: readonly string[];
  readonly lineAt: ProblemFormatter;
}

/** Variables in their order in messages; spec/contract.md, "Environment". */
const ENVIRONMENT_VARIABLES = {
  MILLRACE_HOST: 'host',
  MILLRACE_PORT: 'port',
  MILLRACE_DATA: 'data',
  MILLRACE_LOG: 'log',
  MILLRACE_ADMIN_TOKEN: 'adminToken',
  MILLRACE_ADMIN_HOST: 'adminHost',
  MILLRACE_ADMIN_PORT: 'adminPort',
  MILLRACE_DATABASE: 'database',
  MILLRACE_NODE: 'node',
  MILLRACE_TRUSTED_PROXIES: 'trustedProxies',
  MILLRACE_SECRETS_KEY: 'secretsKey',
  MILLRACE_SECRETS_KEY_FILE: 'secretsKeyFile',
} as const;

const PREFIX = 'MILLRACE_';

/** Variables that `millrace` reads elsewhere. */
const OTHER_VARIABLES = ['CONFIG', 'DATABASE_PASSWORD_FILE', 'URL'];

type Overrides = { [Key in keyof typeof SHARED_KEYS]?: z.output<(typeof SHARED_KEYS)[Key]> };

/**
 * Merges file, environment and flags, the later over the earlier, and validates each of them whole: an
 * invalid value is refused even where another one overrides it. Throws a `ConfigError` with the problems.
 */
export function loadConfig(inputs: ConfigInputs): LoadedConfig {
  const path = inputs.file?.path ?? '';
  const file: ConfigFile =
    inputs.file === undefined
      ? { value: {}, places: new Map(), unread: new Set(), problems: [] }
      : readConfigFile(inputs.file, inputs.env);
  const checked = validateDocument(file.value);
  const env = readEnvironment(inputs.env);
  const flags = readFlags(inputs.flags);
  const problems = [
    ...file.problems,
    ...('issues' in checked ? problemsOfIssues(checked.issues, { ...file, path }) : []),
    ...env.problems,
    ...flags.problems,
  ];
  if ('issues' in checked || problems.length > 0) throw new ConfigError(problems);
  const { adminToken, adminHost, adminPort, secretsKey, secretsKeyFile, ...shared } = {
    ...env.values,
    ...flags.values,
  };
  const secretsOverride = secretsKey ?? (secretsKeyFile === undefined ? undefined : { file: secretsKeyFile });
  const document = checked.data;
  const config: Config = {
    ...document,
    host: document.host ?? inputs.defaults.host,
    node: document.node ?? hostname(),
    ...shared,
    admin: {
      ...document.admin,
      ...defined({ token: adminToken, host: adminHost, port: adminPort }),
    },
    secrets: {
      ...document.secrets,
      ...defined({ key: secretsOverride }),
    },
  };
  const place = { ...file, path };
  const refusals = [
    portProblem(config, adminPort !== undefined, place),
    adminHostProblem(config, adminHost !== undefined, place),
    rolesProblem(config, place),
    tokenProblem(config, adminToken !== undefined, place),
    secretsProblem(secretsKey, secretsKeyFile),
  ];
  const refused = refusals.filter((problem) => problem !== undefined);
  if (refused.length > 0) throw new ConfigError(refused);
  return {
    config,
    warnings: [...misspelledVariables(inputs.env), ...warningsOf(config, file, path)],
    lineAt: (at, message, inText) => formatProblemAt(at, message, place, inText),
  };
}

type NamedFile = ConfigFile & { readonly path: string };

function portProblem(
  { port, admin }: Config,
  isOfEnvironment: boolean,
  file: NamedFile,
): ConfigProblem | undefined {
  if (port === 0 || admin.port !== port) return undefined;
  const message = `must differ from port ${port}, on which calls are taken`;
  if (isOfEnvironment) return { path: 'MILLRACE_ADMIN_PORT', message };
  return { file: file.path, ...file.places.get('admin.port')?.at, path: 'admin.port', message };
}

function adminHostProblem(
  { admin }: Config,
  isOfEnvironment: boolean,
  file: NamedFile,
): ConfigProblem | undefined {
  if (admin.host === undefined || admin.port !== undefined) return undefined;
  const message = 'is of no use without admin.port: set that too, or leave it out';
  if (isOfEnvironment) return { path: 'MILLRACE_ADMIN_HOST', message };
  return { file: file.path, ...file.places.get('admin.host')?.at, path: 'admin.host', message };
}

function rolesProblem({ database, roles }: Config, file: NamedFile): ConfigProblem | undefined {
  if (roles === undefined || database !== undefined) return undefined;
  const message =
    'needs a database that several nodes share: name one under database, or leave roles out and this process does everything';
  return { file: file.path, ...file.places.get('roles')?.at, path: 'roles', message };
}

/**
 * Shortest token, in characters, on an address that others can reach: a shorter one could be guessed by
 * trial.
 */
const MIN_TOKEN_LENGTH = 16;

function tokenProblem(config: Config, isOfEnvironment: boolean, file: NamedFile): ConfigProblem | undefined {
  const { token } = config.admin;
  const host = adminHost(config);
  if (token === undefined || token.length >= MIN_TOKEN_LENGTH || isLoopback(host)) return undefined;
  const message = `must have at least ${MIN_TOKEN_LENGTH} characters where the server listens on ${host}, or leave it out: a start then makes one`;
  if (isOfEnvironment) return { path: 'MILLRACE_ADMIN_TOKEN', message };
  return { file: file.path, ...file.places.get('admin.token')?.at, path: 'admin.token', message };
}

function secretsProblem(key: string | undefined, file: string | undefined): ConfigProblem | undefined {
  if (key === undefined || file === undefined) return undefined;
  return {
    path: 'MILLRACE_SECRETS_KEY_FILE',
    message: 'cannot be set beside MILLRACE_SECRETS_KEY: leave one of them out',
  };
}

/** Where control API, console and metrics listen. */
function adminHost({ host, admin }: Config): string {
  return admin.port === undefined ? host : (admin.host ?? host);
}

/** Whether control API, console and metrics are on a port that calls of other machines come to. */
export function isAdminExposed({ host, admin }: Config): boolean {
  return admin.port === undefined && !isLoopback(host);
}

interface OverrideResult {
  readonly values: Overrides;
  readonly problems: readonly ConfigProblem[];
}

function readEnvironment(env: Environment): OverrideResult {
  let values: Overrides = {};
  const problems: ConfigProblem[] = [];
  for (const [variable, key] of Object.entries(ENVIRONMENT_VARIABLES)) {
    const text = env[variable];
    if (text === undefined) continue;
    const checked = checkOverride(key, valueOfText(key, text), variable);
    if ('problem' in checked) problems.push(checked.problem);
    else values = { ...values, ...checked.values };
  }
  return { values, problems };
}

/**
 * A variable that is nearly one of ours. Others are left alone: systems set variables of this prefix for
 * services of this name.
 */
function misspelledVariables(env: Environment): string[] {
  const known = Object.keys(ENVIRONMENT_VARIABLES).map((name) => name.slice(PREFIX.length));
  const names = [...known, ...OTHER_VARIABLES];
  return Object.keys(env).flatMap((path) => {
    const name = path.slice(PREFIX.length);
    if (!path.startsWith(PREFIX) || names.includes(name)) return [];
    const meant = closestWord(name, names);
    if (meant === undefined) return [];
    const message = `is no setting, and has no effect; did you mean ${PREFIX}${meant}?`;
    return [formatProblem({ path, message })];
  });
}

/** Of the shared keys two are numbers and one is a list; other input stays text, which the rule refuses. */
function valueOfText(key: keyof Overrides, text: string): unknown {
  if ((key === 'port' || key === 'adminPort') && /^\d{1,9}$/.test(text)) return Number(text);
  if (key === 'trustedProxies')
    return text
      .split(',')
      .map((range) => range.trim())
      .filter(Boolean);
  return text;
}

function readFlags(flags: ConfigInputs['flags']): OverrideResult {
  let values: Overrides = {};
  const problems: ConfigProblem[] = [];
  for (const key of ['host', 'port', 'data', 'log', 'database'] as const) {
    if (flags[key] === undefined) continue;
    const checked = checkOverride(key, flags[key], `--${key}`);
    if ('problem' in checked) problems.push(checked.problem);
    else values = { ...values, ...checked.values };
  }
  return { values, problems };
}

/** Their values are never shown. */
const HIDDEN_OVERRIDES: readonly string[] = ['adminToken', 'database', 'secretsKey'];

function checkOverride(
  key: keyof Overrides,
  value: unknown,
  path: string,
): { values: Overrides } | { problem: ConfigProblem } {
  const checked = SHARED_KEYS[key].safeParse(value);
  if (checked.success) return { values: { [key]: checked.data } };
  const issue = checked.error.issues[0];
  const rule = issue?.message ?? 'is not valid';
  const found = Array.isArray(value) ? (value as unknown[])[Number(issue?.path[0] ?? 0)] : value;
  return {
    problem: { path, message: `${rule}${foundText(found, HIDDEN_OVERRIDES.includes(key))}` },
  };
}

function warningsOf(config: Config, file: ConfigFile, filePath: string): string[] {
  const warnings: ConfigProblem[] = [];
  const warn = (path: string, message: string) => {
    const place = file.places.get(path);
    const spot = place?.key ?? place?.at;
    warnings.push({ file: spot && filePath, ...spot, path, message });
  };
  for (const [index, { type, settings }] of config.destinations.entries())
    for (const { path, message } of DESTINATION_TYPES.get(type)?.settings.warnings?.(settings, undefined) ??
      [])
      warn(pathText(['destinations', index, 'settings', ...path]), message);
  return inFileOrder(warnings).map(formatProblem);
}

/** The URLs of a destination, as the file or the control API has it. */
export function destinationUrls(
  destination: Pick<DestinationRecord, 'type' | 'settings'>,
): readonly string[] {
  return addressesOf(destination, DESTINATION_TYPES).map(({ url }) => url);
}

/** Paths refer to the file. `isCut`: there are more problems. */
export interface RecordProblems {
  readonly faults: readonly {
    readonly path: string;
    readonly message: string;
    /** Of a mistake in the text of a definition: its place there. */
    readonly line?: number;
    readonly column?: number;
  }[];
  readonly isCut: boolean;
}

/** Records as the configuration file has them. */
export interface WrittenRecords {
  readonly sources: readonly object[];
  readonly destinations: readonly object[];
  readonly audiences?: readonly object[];
  readonly traits?: readonly object[];
  readonly alerts?: readonly object[];
}

type CheckedRecords = Pick<Config, 'sources' | 'destinations' | 'audiences' | 'traits' | 'alerts'>;

/**
 * Checks records by the rules of the configuration file, beside the records that a server has and keeps, if
 * any.
 */
export function checkRecords(
  document: WrittenRecords,
  known?: KnownRecords,
): CheckedRecords | RecordProblems {
  const checked = validateDocument(document, known);
  if (!('issues' in checked)) {
    const { sources, destinations, audiences, traits, alerts } = checked.data;
    return { sources, destinations, audiences, traits, alerts };
  }
  const nowhere = { value: document, places: new Map(), unread: new Set<string>(), problems: [], path: '' };
  const problems = problemsOfIssues(checked.issues, nowhere);
  return {
    faults: problems
      .slice(0, MAX_PROBLEMS)
      .map(({ path, message, inText }) => ({ path, message, ...placeInText(path, inText, document) })),
    isCut: problems.length > MAX_PROBLEMS,
  };
}

/** A definition that was written as JSON has no lines. */
function placeInText(
  path: string,
  inText: ConfigProblem['inText'],
  { audiences, traits }: WrittenRecords,
): ConfigProblem['inText'] {
  const [, list, place] = /^(audiences|traits)\[(\d+)\]\.definition$/.exec(path) ?? [];
  const record = (list === 'audiences' ? audiences : traits)?.[Number(place)];
  return record !== undefined && 'definition' in record && isObject(record.definition) ? undefined : inText;
}
