import type * as z from 'zod';
import { type ConfigFile, type Environment, type Problem, readConfigFile } from './config-file.ts';
import { ConfigError, foundText, inOrder, lineOf, problemsOf } from './config-problem.ts';
import { configDocument, SHARED_KEYS } from './config-schema.ts';
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
  const parsed = configDocument.safeParse(file.value);
  const env = readEnvironment(inputs.env);
  const flags = readFlags(inputs.flags);
  const problems = [
    ...file.problems,
    ...(parsed.success ? [] : problemsOf(parsed.error.issues, { ...file, path })),
    ...env.problems,
    ...flags.problems,
  ];
  if (!parsed.success || problems.length > 0) throw new ConfigError(inOrder(problems));
  const { adminToken, ...shared } = { ...env.values, ...flags.values };
  const document = parsed.data;
  const config: Config = {
    ...document,
    host: document.host ?? inputs.defaults.host,
    ...shared,
    admin: { ...document.admin, ...(adminToken !== undefined && { token: adminToken }) },
  };
  if (config.port !== 0 && config.admin.port === config.port) {
    const place = file.places.get('admin.port');
    const message = `must differ from port ${config.port}, on which calls are taken`;
    throw new ConfigError([{ file: path, ...place?.at, path: 'admin.port', message }]);
  }
  return { config, warnings: warningsOf(config, file, path) };
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
  const known = new Set(config.sources.map((source) => source.name));
  for (const [index, destination] of config.destinations.entries()) {
    for (const [place, name] of destination.sources.entries()) {
      if (known.has(name)) continue;
      // Only a warning: a source of an earlier start, or one made over the API, stays.
      const message = `names the source ${JSON.stringify(name)}, which this file does not define`;
      warn(`destinations[${index}].sources[${place}]`, message);
    }
  }
  return inOrder(warnings).map(lineOf);
}

/**
 * Checks sources and destinations as the configuration file is checked, all of them together. `faults` has the paths of
 * the file and no places in it.
 */
export function recordsIn(document: {
  readonly sources: readonly object[];
  readonly destinations: readonly object[];
}):
  | Pick<Config, 'sources' | 'destinations'>
  | { readonly faults: readonly { readonly path: string; readonly message: string }[] } {
  const parsed = configDocument.safeParse(document);
  if (parsed.success) return { sources: parsed.data.sources, destinations: parsed.data.destinations };
  const nowhere = { value: document, places: new Map(), unread: new Set<string>(), problems: [], path: '' };
  const problems = problemsOf(parsed.error.issues, nowhere);
  return { faults: problems.map(({ path, message }) => ({ path, message })) };
}
