import type * as z from 'zod';
import { checkDocument, type KnownRecords } from './config-check.ts';
import { type ConfigFile, type Environment, type Problem, readConfigFile } from './config-file.ts';
import { ConfigError, foundText, inOrder, lineAt, lineOf, problemsOf } from './config-problem.ts';
import { SHARED_KEYS } from './config-schema.ts';
import { MOST_PROBLEMS } from './model/excess.ts';
import { secretWarning } from './model/secrets.ts';
import type { Duration } from './model/time.ts';
import type { DestinationRecord, SourceRecord } from './ports/settings.ts';

export { ConfigError } from './config-problem.ts';
export { type FileRecords, readRecords } from './config-records.ts';
export { configText, type ShownRecords } from './config-text.ts';

/** Everything an operator decides, with every default filled in. contract.md section 3. */
export interface Config {
  /** The address to listen on. */
  readonly host: string;
  /** 0 takes any free port. */
  readonly port: number;
  /** The folder of the embedded engine, relative to the working directory. */
  readonly data: string;
  readonly database?: string;
  readonly admin: { readonly token?: string; readonly port?: number };
  readonly retention: { readonly events: Duration; readonly deadLetters: Duration };
  readonly unknownWriteKeys: 'refuse' | 'discard';
  /** `allow`: address ranges in CIDR form. `ca`: path of a PEM file. */
  readonly egress: { readonly allow: readonly string[]; readonly proxy?: string; readonly ca?: string };
  /** Where clients reach this server. */
  readonly publicUrl?: string;
  /** Address ranges in CIDR form. */
  readonly trustedProxies: readonly string[];
  /** Paths of PEM files. */
  readonly tls?: { readonly cert: string; readonly key: string };
  readonly metrics: { readonly public: boolean };
  /** Counts, and sizes in bytes. */
  readonly limits: {
    readonly connections: number;
    readonly requests: number;
    readonly requestBytes: number;
    readonly disk?: number;
    readonly dedupeMemory: number;
  };
  readonly log: 'debug' | 'info' | 'warn' | 'error';
  readonly sources: readonly SourceRecord[];
  readonly destinations: readonly DestinationRecord[];
}

export interface ConfigInputs {
  readonly file?: { readonly path: string; readonly text: string };
  readonly env: Environment;
  /** As typed: checked here like everything else. */
  readonly flags: Partial<Readonly<Record<'host' | 'data' | 'log', string> & { port: number }>>;
  /** What depends on the verb: `dev` listens on loopback, `start` on every address. */
  readonly defaults: { readonly host: string };
}

export interface LoadedConfig {
  readonly config: Config;
  /** One line each, for the operator; nothing that keeps the server from starting. */
  readonly warnings: readonly string[];
  /** One line for the operator about a value by its path, with its place in the file. */
  readonly lineAt: (path: string, message: string) => string;
}

/** What this version accepts, so that a file can be written for good, but does not act on yet. */
const WITHOUT_EFFECT: readonly { path: string; because: string }[] = [
  { path: 'database', because: 'events are kept by the embedded engine in the folder that data names' },
];

/** Variables in their order in messages; contract.md section 1, "Environment". */
const VARIABLES = {
  MILLRACE_HOST: 'host',
  MILLRACE_PORT: 'port',
  MILLRACE_DATA: 'data',
  MILLRACE_LOG: 'log',
  MILLRACE_ADMIN_TOKEN: 'adminToken',
} as const;

type Overrides = { [Key in keyof typeof SHARED_KEYS]?: z.output<(typeof SHARED_KEYS)[Key]> };

/**
 * Puts file, environment and flags together, the later over the earlier, and validates all of each: a wrong value is
 * refused even where another one hides it. Throws a `ConfigError` with every problem there is.
 */
export function loadConfig(inputs: ConfigInputs): LoadedConfig {
  const path = inputs.file?.path ?? '';
  const file: ConfigFile =
    inputs.file === undefined
      ? { value: {}, places: new Map(), unread: new Set(), problems: [] }
      : readConfigFile(inputs.file, inputs.env);
  const checked = checkDocument(file.value);
  const env = readEnvironment(inputs.env);
  const flags = readFlags(inputs.flags);
  const problems = [
    ...file.problems,
    ...('issues' in checked ? problemsOf(checked.issues, { ...file, path }) : []),
    ...env.problems,
    ...flags.problems,
  ];
  if ('issues' in checked || problems.length > 0) throw new ConfigError(problems);
  const { adminToken, ...shared } = { ...env.values, ...flags.values };
  const document = checked.data;
  const config: Config = {
    ...document,
    host: document.host ?? inputs.defaults.host,
    ...shared,
    admin: { ...document.admin, ...(adminToken !== undefined && { token: adminToken }) },
  };
  const place = { ...file, path };
  const refusals = [portRefusal(config, place), tokenRefusal(config, adminToken !== undefined, place)];
  const refused = refusals.filter((problem) => problem !== undefined);
  if (refused.length > 0) throw new ConfigError(refused);
  return {
    config,
    warnings: warningsOf(config, file, path),
    lineAt: (at, message) => lineAt(at, message, place),
  };
}

type NamedFile = ConfigFile & { readonly path: string };

function portRefusal({ port, admin }: Config, file: NamedFile): Problem | undefined {
  if (port === 0 || admin.port !== port) return undefined;
  const message = `must differ from port ${port}, on which calls are taken`;
  return { file: file.path, ...file.places.get('admin.port')?.at, path: 'admin.port', message };
}

/** What anybody can reach, somebody tries tokens at. */
const SHORTEST_TOKEN = 16;

function tokenRefusal(
  { host, admin: { token } }: Config,
  isOfEnvironment: boolean,
  file: NamedFile,
): Problem | undefined {
  if (token === undefined || token.length >= SHORTEST_TOKEN || isLoopback(host)) return undefined;
  const message = `must have at least ${SHORTEST_TOKEN} characters where the server listens on ${host}, or leave it out: a start then makes one`;
  if (isOfEnvironment) return { path: 'MILLRACE_ADMIN_TOKEN', message };
  return { file: file.path, ...file.places.get('admin.token')?.at, path: 'admin.token', message };
}

function isLoopback(host: string): boolean {
  return /^(localhost\.?|127\.\d+\.\d+\.\d+|::1)$/i.test(host);
}

interface Read {
  readonly values: Overrides;
  readonly problems: readonly Problem[];
}

function readEnvironment(env: Environment): Read {
  let values: Overrides = {};
  const problems: Problem[] = [];
  for (const [variable, key] of Object.entries(VARIABLES)) {
    const text = env[variable];
    if (text === undefined) continue;
    // The only number among them; anything that is not one stays text, which the rule refuses.
    const value = key === 'port' && /^\d{1,9}$/.test(text) ? Number(text) : text;
    const checked = check(key, value, variable);
    if ('problem' in checked) problems.push(checked.problem);
    else values = { ...values, ...checked.values };
  }
  return { values, problems };
}

function readFlags(flags: ConfigInputs['flags']): Read {
  let values: Overrides = {};
  const problems: Problem[] = [];
  for (const key of ['host', 'port', 'data', 'log'] as const) {
    if (flags[key] === undefined) continue;
    const checked = check(key, flags[key], `--${key}`);
    if ('problem' in checked) problems.push(checked.problem);
    else values = { ...values, ...checked.values };
  }
  return { values, problems };
}

function check(
  key: keyof Overrides,
  value: unknown,
  path: string,
): { values: Overrides } | { problem: Problem } {
  const checked = SHARED_KEYS[key].safeParse(value);
  if (checked.success) return { values: { [key]: checked.data } };
  const rule = checked.error.issues[0]?.message ?? 'is not valid';
  return { problem: { path, message: `${rule}${foundText(value, key === 'adminToken')}` } };
}

function warningsOf(config: Config, file: ConfigFile, filePath: string): string[] {
  const warnings: Problem[] = [];
  const warn = (path: string, message: string) => {
    const place = file.places.get(path);
    const spot = place?.key ?? place?.at;
    warnings.push({ ...(spot && { file: filePath, ...spot }), path, message });
  };
  for (const { path, because } of WITHOUT_EFFECT) {
    if (file.places.has(path)) warn(path, `has no effect in this version: ${because}`);
  }
  for (const [index, { settings }] of config.destinations.entries()) {
    const message = secretWarning(settings.sharedSecret);
    if (message !== undefined) warn(`destinations[${index}].settings.sharedSecret`, message);
  }
  return inOrder(warnings).map(lineOf);
}

/** Paths are those of the file, without places in it. `isCut`: there are more. */
export interface RecordFaults {
  readonly faults: readonly { readonly path: string; readonly message: string }[];
  readonly isCut: boolean;
}

/** Checks sources and destinations as the configuration file is checked, beside the records that a server has and keeps, if any. */
export function recordsIn(
  document: { readonly sources: readonly object[]; readonly destinations: readonly object[] },
  known?: KnownRecords,
): Pick<Config, 'sources' | 'destinations'> | RecordFaults {
  const checked = checkDocument(document, known);
  if (!('issues' in checked))
    return { sources: checked.data.sources, destinations: checked.data.destinations };
  const nowhere = { value: document, places: new Map(), unread: new Set<string>(), problems: [], path: '' };
  const problems = problemsOf(checked.issues, nowhere);
  return {
    faults: problems.slice(0, MOST_PROBLEMS).map(({ path, message }) => ({ path, message })),
    isCut: problems.length > MOST_PROBLEMS,
  };
}
