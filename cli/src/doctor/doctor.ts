import {
  checkReachability,
  databaseProblem,
  explainEgress,
  folderUser,
  type Overview,
  secretsAtRest,
  verifyFolder,
} from '@millrace/server';
import { type Config, ConfigError, destinationUrls, loadConfig } from '@millrace/server/config';
import { type ControlFlags, controlAddress, readControl } from '../control-api.ts';
import { paintFor } from '../paint.ts';
import { readinessOf } from '../readiness.ts';
import type { ExitCode, RunContext } from '../run-context.ts';
import { fileOf } from '../start.ts';
import { readTextFile, UnreadableFile } from '../text-file.ts';
import { dataFolder, lookAtFolder } from './data-folder.ts';
import { diskSpace, lookAtSpace } from './disk-space.ts';
import { endpoint } from './endpoint.ts';
import type { Finding } from './finding.ts';
import { nodeVersion } from './node-version.ts';
import { lookAtOpenFiles, openFiles } from './open-files.ts';
import { doctorReport, sums } from './report.ts';
import { secrets } from './secrets.ts';
import { type ServerFacts, server, storedEvents } from './server.ts';
import { measureSyncs, syncTime } from './sync-time.ts';

export interface DoctorOptions extends ControlFlags {
  readonly config?: string;
  readonly json?: boolean;
}

/**
 * `millrace doctor`: checks the machine, the server if it runs, and the route to each endpoint without
 * sending a request. Ends with 1 when a check fails. spec/contract.md, "Verbs that ask".
 */
export async function doctor(options: DoctorOptions, context: RunContext): Promise<ExitCode> {
  const { config, finding } = configurationOf(options, context);
  const isStore = config.database === undefined;
  const folder = lookAtFolder(config.data, isStore);
  const folderFinding = dataFolder(folder);
  const canWrite = folder.kind === 'folder' && folder.isWritable;
  const user = folderUser(folder.path);
  const files = lookAtOpenFiles(user.isInUse ? user.pid : undefined, config.limits.connections);
  const { facts, destinations } = await askServer({ options, config, folder: user }, context);
  const endpoints = await endpointsOf([...config.destinations, ...destinations], config);
  const knowsRules = fileOf(options.config, context.env) !== undefined;
  const findings = [
    nodeVersion(process.version),
    finding,
    folderFinding,
    ...(canWrite ? [syncTime(measureSyncs(folder.path))] : []),
    ...(folder.kind === 'file' ? [] : [diskSpace(lookAtSpace(folder.path, config.limits.disk))]),
    ...(files === undefined ? [] : [openFiles(files)]),
    secrets(await secretsAtRest(config, !user.isInUse)),
    ...server(facts),
    ...(facts.ready === undefined ? await databaseOf(config) : []),
    ...(user.isInUse || !isStore ? [] : storedIn(folder.path, context)),
    ...endpoints.map((one) => endpoint({ ...one, knowsRules }, Date.now())),
  ];
  const { failures, warnings } = sums(findings);
  context.out.write(
    options.json
      ? `${JSON.stringify({ failures, warnings, findings })}\n`
      : doctorReport(findings, paintFor(context.out, context.env)),
  );
  return failures > 0 ? 1 : 0;
}

/** Checks whether a start could use the database, while no server runs that would know more. */
async function databaseOf({ database }: Pick<Config, 'database'>): Promise<Finding[]> {
  if (database === undefined) return [];
  const problem = await databaseProblem(database);
  const check = 'database';
  return problem === undefined
    ? [{ check, verdict: 'ok', found: 'it answers, and a start can use it' }]
    : [{ check, verdict: 'fail', found: problem }];
}

/**
 * Reads all stored data if no server uses it. A large store takes a while, so a terminal shows the progress.
 */
function storedIn(folder: string, { err }: RunContext): Finding[] {
  let shown = -1;
  const progress = (looked: number, of: number) => {
    const percent = Math.floor((looked / Math.max(1, of)) * 100);
    if (!err.isTTY || percent === shown) return;
    shown = percent;
    err.write(`\r\u001b[K${percent} % of the stored events are looked through`);
  };
  try {
    const stored = verifyFolder(folder, progress);
    if (shown >= 0) err.write('\r\u001b[K');
    if (stored === undefined) return [];
    if (stored !== 'later') return [storedEvents(stored.damage)];
    const found =
      'not looked through: the last server was not stopped properly, and the next start finishes its work first';
    return [{ check: 'stored events', verdict: 'ok', found }];
  } catch (error) {
    const found = `millrace.db cannot be read (${error instanceof Error ? error.message : String(error)})`;
    return [
      { check: 'stored events', verdict: 'fail', found, advice: 'restore a backup with millrace restore' },
    ];
  }
}

/** The configuration of a start on this machine, or the defaults when it is unusable. */
function configurationOf(
  { config: path, data }: DoctorOptions,
  context: RunContext,
): { config: Config; finding: Finding } {
  const check = 'configuration';
  const file = fileOf(path, context.env);
  const flags = data === undefined ? {} : { data };
  const defaults = { host: '0.0.0.0' };
  const bare = () => loadConfig({ env: {}, flags, defaults }).config;
  const advice = 'mend these lines: a start with this configuration ends with the same';
  const text = file === undefined ? undefined : readTextFile(file.path);
  if (text instanceof UnreadableFile) {
    const found = `${file?.path} ${text.reason}`;
    return { config: bare(), finding: { check, verdict: 'fail', found, advice } };
  }
  try {
    const read = file === undefined || text === undefined ? {} : { file: { path: file.path, text } };
    const { config, warnings } = loadConfig({ ...read, env: context.env, flags, defaults });
    const { sources, destinations } = config;
    const named = file === undefined ? 'no file: flags and environment alone' : file.path;
    const found = `${named}; sources ${sources.length}, destinations ${destinations.length}`;
    if (warnings.length === 0) return { config, finding: { check, verdict: 'ok', found } };
    return { config, finding: { check, verdict: 'warn', found: [found, ...warnings].join('\n') } };
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return { config: bare(), finding: { check, verdict: 'fail', found: error.message, advice } };
  }
}

interface Asked {
  readonly options: DoctorOptions;
  readonly config: Config;
  readonly folder: ServerFacts['folder'];
}

type Shown = Pick<Config['destinations'][number], 'name' | 'type' | 'enabled' | 'settings'>;

async function askServer(
  { options, config, folder }: Asked,
  context: RunContext,
): Promise<{ facts: ServerFacts; destinations: readonly Shown[] }> {
  const { token } = config.admin;
  const address = controlAddress(
    { url: context.env['MILLRACE_URL'] || localUrl(config), ...options, data: config.data },
    token === undefined ? context.env : { ...context.env, MILLRACE_ADMIN_TOKEN: token },
  );
  const began = Date.now();
  if (typeof address === 'string')
    return { facts: { url: '?', error: address, folder, askedAt: began }, destinations: [] };
  const url = address.url.origin;
  const ready = await readinessOf(address.url);
  if ('error' in ready)
    return { facts: { url, error: ready.error, folder, askedAt: began }, destinations: [] };
  const asked = Date.now();
  const status = await readControl(address, 'status');
  const askedAt = (asked + Date.now()) / 2;
  const overview = status.kind === 'failed' ? status.message : (status.value as Overview);
  const records = await readControl(address, 'config');
  const shown = records.kind === 'failed' ? {} : Object(records.value);
  const destinations: readonly Shown[] = Array.isArray(shown.destinations) ? shown.destinations : [];
  return { facts: { url, ready, overview, folder, askedAt }, destinations };
}

/** The address of a server started on this machine with this configuration. */
function localUrl({ host: ofCalls, port, admin, tls }: Config): string {
  const host = admin.port === undefined ? ofCalls : (admin.host ?? ofCalls);
  const name = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host;
  const bracketed = name.includes(':') ? `[${name}]` : name;
  return `${tls === undefined ? 'http' : 'https'}://${bracketed}:${admin.port ?? port}`;
}

/**
 * Checks each endpoint once, although file and server may both name it. All run at once: each waits for the
 * network.
 */
async function endpointsOf(destinations: readonly Shown[], { egress }: Config) {
  const all = destinations.flatMap((one) =>
    destinationUrls(one).map((url, index) => ({
      destination: one.name,
      nth: index + 1,
      url,
      isEnabled: one.enabled,
    })),
  );
  const seen = new Set<string>();
  const each = all.filter(({ destination, url }) => {
    const key = JSON.stringify([destination, url]);
    return !seen.has(key) && seen.add(key);
  });
  return await Promise.all(
    each.map(async (one) => {
      const { url } = await explainEgress(one.url, egress);
      return { ...one, url, reached: await checkReachability(one.url, egress) };
    }),
  );
}
