import { randomUUID } from 'node:crypto';
import { uuidv7 } from 'uuidv7';
import manifest from '../package.json' with { type: 'json' };
import { createHttpClient } from './adapters/http-client/client.ts';
import { readAuthorities } from './adapters/http-client/connector.ts';
import { egressRules } from './adapters/http-client/egress.ts';
import { endpointProblems, judgeEndpoints, literalRefusal } from './adapters/http-client/egress-report.ts';
import { openSqliteStore, type SqliteStore } from './adapters/sqlite/store.ts';
import { createSystemClock, type SystemClock } from './adapters/system/clock.ts';
import { wallClockStore } from './adapters/system/wall-clock-store.ts';
import { applyConfigFile, type ProblemFormatter, SettingsError } from './config/apply.ts';
import type { Config } from './config/load.ts';
import { adminToken } from './control-api/auth.ts';
import { createControlApi } from './control-api/server.ts';
import { type ControlOperationDependencies, controlOperations } from './control-operations.ts';
import { byDestination } from './delivery/destination-totals.ts';
import { Dispatcher } from './delivery/dispatcher.ts';
import { sendTestDelivery } from './delivery/test-delivery.ts';
import { webhooks } from './destinations/webhooks/destination.ts';
import { SourceRateLimiter } from './http/rate-limiter.ts';
import { IngestService } from './ingest/service.ts';
import { indexWriteKeys } from './ingest/write-key-auth.ts';
import { MaintenanceWorker } from './maintenance/worker.ts';
import type { Destination } from './model/destination.ts';
import { DAY } from './model/time.ts';
import type { Clock } from './ports/clock.ts';
import type { HttpClient } from './ports/http-client.ts';
import type { Logger } from './ports/logger.ts';
import type { Store } from './ports/store.ts';
import type { CurrentObserver, Observer } from './ports/telemetry.ts';
import { Replayer } from './replay/replayer.ts';
import { LiveTail } from './reporting/live-tail.ts';
import { ReportService } from './reporting/status.ts';
import { Router } from './routing/router.ts';
import { startServers } from './servers.ts';
import { SettingsService, sourceNameLookup } from './settings-service.ts';
import { deliveryLogger } from './telemetry/logging.ts';
import { MetricsPage } from './telemetry/metrics.ts';
import { PROMETHEUS_CONTENT_TYPE } from './telemetry/prometheus.ts';
import { instrumentLog, MetricsRegistry } from './telemetry/registry.ts';
import { RecentTraceparents } from './telemetry/traces.ts';

export {
  checkReachability,
  type EgressExplanation,
  explainEgress,
  type ReachabilityResult,
} from './adapters/http-client/egress-report.ts';
export { restoreBackup } from './adapters/sqlite/backup/restore.ts';
export { folderUser } from './adapters/sqlite/data-folder/folder.ts';
export { verifyFolder } from './adapters/sqlite/upkeep/verification.ts';
export type { Config } from './config/load.ts';
export { StorageError } from './ports/event-log.ts';
export type { Logger } from './ports/logger.ts';
export type { Activity, Observer } from './ports/telemetry.ts';
export type { DeliverySummary, Overview, Trace } from './reporting/contract.ts';
export { createLogger } from './telemetry/logging.ts';

export interface App {
  /** Where it takes calls, such as `http://127.0.0.1:8080`. */
  readonly url: string;
  /** Where control API, metrics and console are, when `admin.port` gives them a port of their own. */
  readonly adminUrl?: string;
  /** Where the token of the control API is kept; absent when the configuration gave it. */
  readonly adminTokenFile?: string;
  /** Answers what was received, writes down what was delivered, and gives everything up. Idempotent. */
  stop(): Promise<void>;
}

export interface AppOptions {
  readonly logger: Logger;
  readonly observer?: Observer;
  /** How a problem with the settings is told: `LoadedConfig` has one that names the line. */
  readonly lineAt?: ProblemFormatter | undefined;
}

/** The program cannot start; the message is one line for the operator that says what to do. */
export class StartError extends Error {
  /** The settings are the reason, and not the machine. */
  get isOfSettings(): boolean {
    return this.cause instanceof SettingsError;
  }

  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'StartError';
  }
}

/**
 * Puts the parts together and starts them from the store outwards, so that the first call finds everything ready.
 * Rejects with a `StartError`.
 */
export async function startApp(config: Config, options: AppOptions): Promise<App> {
  const started: (() => Promise<void>)[] = [];
  const stop = async () => {
    while (started.length > 0) await started.pop()!();
  };
  try {
    const { logger } = options;
    const store = await openStore(config, options);
    started.push(() => store.stop());
    const clock = createSystemClock(store.lastClockMark);
    const shown = wallClockStore(store, clock);
    const transport = makeTransport(config.egress);
    started.push(() => transport.stop());
    const applying = { ...options, refusalOf: (url: string) => literalRefusal(url, config.egress) };
    const snapshot = await applyConfigFile(config, store.settings, { ...applying, clock });
    const settings = new SettingsService(store.settings, snapshot);
    const tail = new LiveTail({ clock, observer: createObserver(config, options) });
    const sourceName = sourceNameLookup(settings);
    const watched = { ...options, ...createInstruments(), clock, watching: tail.watching, sourceName };
    const lanes = makeLanes(store, transport, watched);
    settings.follow((now) =>
      lanes.configure([...now.destinations, ...now.gone.destinations.map(withoutEndpoints)]),
    );
    void warnOfEndpoints(settings.now().destinations, config.egress, options.logger);
    await lanes.start();
    started.push(() => lanes.stop());
    const observation = makeObservation(shown, lanes, { ...options, clock, settings, config });
    observation.start();
    started.push(() => observation.stop());
    const upkeep = makeUpkeep(store, config, { clock, logger, settings });
    upkeep.start();
    started.push(() => upkeep.stop());
    const replays = startReplayer({ store: shown, lanes, settings, clock, logger });
    started.push(() => replays.stop());
    const intake = makeIntake(store, lanes, { ...watched, settings, config, observation });
    started.push(() => intake.stop());
    const metrics = makeMetrics({
      ...{ store, lanes, measures: watched.measures, settings, observation, clock },
      ...{ readiness: problemsOfAll(store, upkeep, intake), config, version: manifest.version },
    });
    metrics.start();
    started.push(() => metrics.stop());
    const { token, ...kept } = adminToken(config.admin.token, config.data);
    const doors = { adminToken: token, tokens: () => settings.now().tokens, clock, logger };
    const listeners = await startServers(config, {
      ...{ receiver: intake.handle, discards: intake.discardCounters, recorder: watched.measures },
      ...{ clock, logger, readiness: problemsOfAll(store, upkeep, intake), degraded: upkeep.degraded },
      control: await createControlApi({
        ...doors,
        version: manifest.version,
        metrics: metricsPage(config, metrics),
        operations: controlOperations({
          ...{ store: shown, lanes, settings, observation, tail, replays, clock, logger },
          ...outboundDependencies(config, { transport, clock }),
        }),
      }),
    });
    started.push(() => listeners.stop());
    // Viewers would otherwise hold up the listener until its grace is over.
    started.push(async () => tail.stop());
    return {
      url: listeners.url,
      ...(listeners.adminUrl === undefined ? {} : { adminUrl: listeners.adminUrl }),
      ...(kept.file === undefined ? {} : { adminTokenFile: kept.file }),
      stop: callOnce(stop),
    };
  } catch (error) {
    await stop();
    throw new StartError(error instanceof Error ? error.message : String(error), { cause: error });
  }
}

function metricsPage({ metrics: { public: isPublic } }: Config, { text }: Pick<MetricsPage, 'text'>) {
  return { isPublic, contentType: PROMETHEUS_CONTENT_TYPE, text };
}

function openStore({ data, limits }: Config, { logger }: AppOptions): Promise<SqliteStore> {
  return openSqliteStore({ folder: data, filterMemory: limits.dedupeMemory, logger });
}

/** What any of them has against being ready, each reason once. */
function problemsOfAll(...parts: readonly { problems(): readonly string[] }[]): () => readonly string[] {
  return () => [...new Set(parts.flatMap((part) => part.problems()))];
}

/** However often it is called, `stop` is called once, and everybody waits for that. */
function callOnce(stop: () => Promise<void>): () => Promise<void> {
  let stopping: Promise<void> | undefined;
  return () => {
    stopping ??= stop();
    return stopping;
  };
}

/** A destination that was removed: what it is still owed is given up, because there is nowhere to send it. */
function withoutEndpoints(destination: Destination): Destination {
  return {
    ...destination,
    enabled: true,
    paused: false,
    settings: { ...destination.settings, endpoints: [] },
  };
}

function makeTransport({ allow, proxy, ca }: Config['egress']): HttpClient {
  return createHttpClient({
    egress: egressRules(allow),
    ...(proxy === undefined ? {} : { proxy }),
    ...(ca === undefined ? {} : { ca: readAuthorities(ca) }),
  });
}

/** How the control API reaches outside. */
function outboundDependencies(
  { egress }: Config,
  tools: { readonly transport: HttpClient; readonly clock: Clock },
): Pick<ControlOperationDependencies, 'tryOut' | 'judgeEndpoints'> {
  const trying = { type: webhooks, ...tools };
  return {
    tryOut: (event, destination) => sendTestDelivery(event, destination, trying),
    judgeEndpoints: (urls) => judgeEndpoints(urls, egress),
  };
}

/** Not waited for, and no reason not to start: names may resolve later, and other destinations are not to suffer. */
async function warnOfEndpoints(
  destinations: readonly Destination[],
  egress: Config['egress'],
  logger: Logger,
): Promise<void> {
  const enabled = destinations.filter(({ enabled }) => enabled);
  for (const problem of await endpointProblems(enabled, egress))
    logger.warn({ ...problem }, 'endpoint.unreachable');
}

/** What those who watch are told, and by what name. */
interface ObservationDependencies extends Instruments {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly watching: CurrentObserver;
  readonly sourceName: (id: number) => string;
}

function makeLanes(
  { log, queue: backlog, endpointHealth: healths }: Store,
  transport: HttpClient,
  watched: ObservationDependencies,
): Dispatcher {
  const { logger, clock, watching, sourceName, measures, traceparents } = watched;
  return new Dispatcher({
    log,
    backlog,
    healths,
    transport,
    clock,
    logger,
    currentObserver: watching,
    sourceName,
    measures,
    traceparents,
    random: Math.random,
    types: { webhooks },
  });
}

function makeUpkeep(
  { log }: Store,
  { retention, limits }: Config,
  { clock, logger, settings }: ClockAndLogger & { readonly settings: SettingsService },
): MaintenanceWorker {
  const disk = limits.disk === undefined ? {} : { disk: limits.disk };
  const longestWindow = () =>
    Math.max(DAY, ...settings.now().sources.map(({ dedupeWindow = DAY }) => dedupeWindow));
  return new MaintenanceWorker({
    log,
    clock,
    logger,
    retention: () => ({ ...retention, ...disk, messageIds: longestWindow() }),
    mark: () => clock.mark(),
  });
}

interface ClockAndLogger {
  readonly clock: SystemClock;
  readonly logger: Logger;
}

interface SettingsDependencies {
  readonly settings: SettingsService;
  readonly config: Config;
  readonly observation: ReportService;
}

function makeIntake(
  { log }: Store,
  lanes: Dispatcher,
  {
    logger,
    clock,
    watching,
    sourceName,
    measures,
    traceparents,
    settings,
    config,
    observation,
  }: ObservationDependencies & SettingsDependencies,
): IngestService {
  const rateLimits = new SourceRateLimiter(clock);
  let router = routerFor([]);
  let keys = indexWriteKeys([], config.unknownWriteKeys);
  settings.follow(({ sources, destinations }) => {
    router = routerFor(destinations);
    keys = indexWriteKeys(sources, config.unknownWriteKeys);
    rateLimits.configure(sources);
  });
  return new IngestService({
    log: instrumentLog(log, measures),
    logsCalls: config.log === 'debug',
    traceContexts: traceparents,
    liveDelivery: lanes,
    plan: (event, source) => router.plan(event, source),
    commonPlan: (source) => router.commonPlan(source),
    hasDestinations: (source) => router.hasDestinations(source),
    newBatchId: randomUUID,
    newMessageId: uuidv7,
    clock,
    logger,
    currentObserver: watching,
    sourceName,
    discardCounters: observation.tallies,
    discardSampler: observation.samples,
    checkRateLimit: rateLimits.admit,
    writeKeys: () => keys,
  });
}

function makeObservation(
  { log, queue: backlog, history }: Store,
  lanes: Dispatcher,
  { logger, clock, settings, config }: ClockAndLogger & Pick<SettingsDependencies, 'settings' | 'config'>,
): ReportService {
  return new ReportService({
    ...{ log, history, backlog: byDestination(backlog), clock, logger },
    retention: config.retention.events,
    settings: settings.now,
    lanes: () => lanes.states(),
  });
}

function routerFor(destinations: readonly Destination[]): Router {
  return new Router(destinations, { webhooks: webhooks.name });
}

/** What is kept of what happens, beside the store and no part of it. */
export interface Instruments {
  readonly measures: MetricsRegistry;
  readonly traceparents: RecentTraceparents;
}

export function createInstruments(): Instruments {
  return { measures: new MetricsRegistry(), traceparents: new RecentTraceparents() };
}

/** A line for each round is made only for whoever has asked for so many. */
export function createObserver(
  { log }: Pick<Config, 'log'>,
  { logger, observer }: { readonly logger: Logger; readonly observer?: Observer },
): Observer | undefined {
  return log === 'debug' ? deliveryLogger(logger, observer) : observer;
}

export interface MetricsParts {
  readonly store: Pick<Store, 'log' | 'queue'>;
  readonly lanes: Dispatcher;
  readonly measures: MetricsRegistry;
  readonly settings: SettingsService;
  readonly observation: ReportService;
  readonly readiness: () => readonly string[];
  readonly clock: Clock;
  readonly config: Pick<Config, 'data' | 'retention'>;
  readonly version: string;
}

export function makeMetrics({
  store,
  lanes,
  measures,
  settings,
  observation,
  config,
  ...rest
}: MetricsParts): MetricsPage {
  return new MetricsPage({
    ...{ ...rest, counts: measures, backlog: byDestination(store.queue), log: store.log },
    ...{ folder: config.data, retention: config.retention.events },
    settings: settings.now,
    ledger: () => observation.ledger(),
    lanes: () => lanes.states(),
    callsOfNoSource: () => observation.tallies.read(),
  });
}

export interface ReplayerParts {
  readonly store: Pick<Store, 'log' | 'queue' | 'history' | 'deadLetters'>;
  readonly lanes: Pick<Dispatcher, 'parked'>;
  readonly settings: SettingsService;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Replays, with the rules that events are planned by, and goes on with those that a restart has interrupted. */
export function startReplayer(parts: ReplayerParts): Replayer {
  const { store, lanes, settings, clock, logger } = parts;
  const { log, queue: backlog, history, deadLetters } = store;
  const replays = new Replayer({
    ...{ log, backlog, history, deadLetters, settings, clock, logger },
    parked: (lane, at) => lanes.parked(lane, at),
    routingPredicate: (destination, sources) => {
      const router = routerFor([{ ...destination, sources, enabled: true }]);
      return (event, source) => router.plan(event, source).owed.length > 0;
    },
  });
  replays.start();
  return replays;
}
