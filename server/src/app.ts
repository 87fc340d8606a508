import { randomUUID } from 'node:crypto';
import { uuidv7 } from 'uuidv7';
import manifest from '../package.json' with { type: 'json' };
import { readDiskUse } from './adapters/files/disk-use.ts';
import { TimelineFiles } from './adapters/files/timeline-files.ts';
import { TokenUseFile } from './adapters/files/token-use-file.ts';
import { createSocketOpener, readAuthorities } from './adapters/http-client/connector.ts';
import { egressRules } from './adapters/http-client/egress.ts';
import { endpointProblems, judgeEndpoints } from './adapters/http-client/egress-report.ts';
import { parseProxyUrl } from './adapters/http-client/proxy-tunnel.ts';
import { createSendingClient } from './adapters/http-client/threads.ts';
import { createMailer } from './adapters/smtp/mailer.ts';
import { IdleCollector } from './adapters/system/memory.ts';
import type { AlertService } from './alerts/service.ts';
import { SettingsError } from './config/apply.ts';
import type { ProblemFormatter } from './config/errors.ts';
import type { Config } from './config/load.ts';
import { Authenticator, adminToken } from './control-api/auth.ts';
import { createControlApi } from './control-api/server.ts';
import { ConsoleSessions } from './control-api/sessions.ts';
import { TokenUseRecorder } from './control-api/token-uses.ts';
import { byDestination } from './delivery/destination-totals.ts';
import { Dispatcher } from './delivery/dispatcher.ts';
import { DESTINATION_TYPES } from './destinations/list.ts';
import { TurnScheduler } from './http/admission.ts';
import { indexWriteKeys } from './ingest/calls.ts';
import { SourceRateLimiter } from './ingest/rate-limits.ts';
import { IngestService } from './ingest/service.ts';
import { MaintenanceWorker } from './maintenance/worker.ts';
import type { Destination } from './model/destination.ts';
import { defined } from './model/json.ts';
import type { HttpClient } from './ports/http-client.ts';
import type { Logger } from './ports/logger.ts';
import type { Mailer } from './ports/mailer.ts';
import type { Observer } from './ports/telemetry.ts';
import { RegulationService } from './regulations/service.ts';
import { SuppressionFilter } from './regulations/suppression-filter.ts';
import { Replayer } from './replay/replayer.ts';
import { LiveTail } from './reporting/live-tail.ts';
import { ReportService } from './reporting/status.ts';
import { TimelineRecorder } from './reporting/timeline.ts';
import { readTimeline } from './reporting/timeline-query.ts';
import { deliveryLogger } from './telemetry/logging.ts';
import { MetricsPage } from './telemetry/metrics.ts';
import { PROMETHEUS_CONTENT_TYPE } from './telemetry/prometheus.ts';
import { instrumentLog, MetricsRegistry, RecentTraceparents } from './telemetry/registry.ts';
import { announcedLog, type UsersClient } from './users/client.ts';
import type { Publisher } from './users/sync/publisher.ts';
import { createAlerts } from './wiring/alerts.ts';
import { type ControlOperationDependencies, controlOperations } from './wiring/control-operations.ts';
import { lanesIn, openSenders, previews, routerFor, type Senders, targetsIn } from './wiring/destinations.ts';
import {
  callsStored,
  createSingleJobs,
  deliveriesOfAll,
  joinNodes,
  rolesOf,
  sendingGate,
} from './wiring/nodes.ts';
import { logRetention, warnOfUnbounded } from './wiring/retention.ts';
import { startServers } from './wiring/servers.ts';
import { publicKeyLookup, sourceNameLookup } from './wiring/settings-service.ts';
import { type Storage, startStorage } from './wiring/storage.ts';
import { createPublisher, createUsers, erasableUsers } from './wiring/users.ts';

export {
  checkReachability,
  type EgressExplanation,
  explainEgress,
  type ReachabilityResult,
} from './adapters/http-client/egress-report.ts';
export { restoreBackup } from './adapters/sqlite/backup/backup.ts';
export { folderUser } from './adapters/sqlite/data-folder/folder.ts';
export { reapplyRegulations } from './adapters/sqlite/regulations/reapply.ts';
export { verifyFolder } from './adapters/sqlite/upkeep/verification.ts';
export type { Config } from './config/load.ts';
export { StorageError } from './ports/event-log.ts';
export type { Logger } from './ports/logger.ts';
export type { Activity, Observer } from './ports/telemetry.ts';
export type { DeliverySummary, Overview, Trace } from './reporting/contract.ts';
export { createLogger } from './telemetry/logging.ts';
export { databaseProblem, readSecretKeys, type SecretsAtRest, secretsAtRest } from './wiring/storage.ts';

/** The application on one machine: started by `startApp`, stopped by `stop`. */
export interface App {
  /** Base URL of the receiving API, such as `http://127.0.0.1:8080`. */
  readonly url: string;
  /** Base URL of the control API, metrics and console, when `admin.port` gives them a port of their own. */
  readonly adminUrl?: string;
  /** The file that holds the token of the control API; absent when the configuration gave the token. */
  readonly adminTokenFile?: string;
  /** The number of the format of the store. */
  readonly storeFormat: number;
  /** A URL that signs a browser in to the console as the admin, once and within an hour. */
  createSignInLink(): string;
  /**
   * Resolves to why the process has to end, for the operator; absent where nothing of the kind can happen.
   */
  readonly failed?: Promise<string> | undefined;
  /** Answers received calls, settles the deliveries in flight and closes the store. Idempotent. */
  stop(): Promise<void>;
}

export interface AppOptions {
  readonly logger: Logger;
  readonly observer?: Observer;
  /** Formats a problem with the settings; `LoadedConfig.lineAt` names its line in the file. */
  readonly lineAt?: ProblemFormatter | undefined;
  /** False: nothing is sent to anybody, not even alerts, for a look into a copy. `held`: alerts alone. */
  readonly isSending?: boolean | 'held';
}

/** The program cannot start. The message is one line for the operator and says what to do. */
export class StartError extends Error {
  /** True when the settings are the reason; false when it is the machine. */
  get isOfSettings(): boolean {
    return this.cause instanceof SettingsError;
  }

  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'StartError';
  }
}

/**
 * Starts the application from the store outwards, so that the first call finds everything ready, and stops it
 * in the opposite order. Rejects with a `StartError`; every part that had started is stopped then.
 */
export async function startApp(config: Config, options: AppOptions): Promise<App> {
  const started = new StartedParts();
  try {
    const storage = await startStorage(config, options, started);
    const pipeline = await startPipeline({ ...storage, config, options }, started);
    const urls = await startInterfaces({ ...pipeline, config, options }, started);
    const { format, failed } = storage.store;
    return { ...urls, storeFormat: format, failed, stop: () => started.stop() };
  } catch (error) {
    await started.stop();
    throw new StartError(error instanceof Error ? error.message : String(error), { cause: error });
  }
}

/** The parts that run, to be stopped in the opposite order. */
class StartedParts {
  readonly #parts: { stop(): void | Promise<void> }[] = [];
  #stopping: Promise<void> | undefined;

  add<Part extends { stop(): void | Promise<void> }>(part: Part): Part {
    this.#parts.push(part);
    return part;
  }

  /** Idempotent: every call waits for the same stop. */
  stop(): Promise<void> {
    this.#stopping ??= this.#stopAll();
    return this.#stopping;
  }

  async #stopAll(): Promise<void> {
    while (this.#parts.length > 0) await this.#parts.pop()!.stop();
  }
}

interface StorageDependencies extends Storage {
  readonly config: Config;
  readonly options: AppOptions;
}

/** From a received call to its delivery, and the parts that look at it. */
interface Pipeline extends Storage {
  readonly httpClient: HttpClient;
  readonly senders: Senders;
  readonly turns: TurnScheduler;
  readonly tail: LiveTail;
  readonly registry: MetricsRegistry;
  readonly dispatcher: Dispatcher;
  readonly reports: ReportService;
  readonly timeline: TimelineRecorder;
  readonly maintenance: MaintenanceWorker;
  readonly replayer: Replayer;
  readonly ingest: IngestService;
  readonly users: UsersClient;
  readonly regulations: RegulationService;
  readonly alerts: AlertService;
}

/** Starts everything between the store and the ports, deliveries first. */
async function startPipeline(storage: StorageDependencies, started: StartedParts): Promise<Pipeline> {
  const { clock, settings, config, options } = storage;
  const httpClient = started.add(createEgressClient(config));
  const observation: Observation = {
    tail: new LiveTail({ clock, observer: permanentObserver(config, options) }),
    registry: new MetricsRegistry(),
    traceparents: new RecentTraceparents(),
    sourceName: sourceNameLookup(settings),
    turns: new TurnScheduler(),
  };
  const senders = started.add(
    openSenders(DESTINATION_TYPES, { http: httpClient, clock, logger: options.logger }),
  );
  const dispatcher = createDispatcher({ ...storage, ...observation, senders });
  void warnOfEndpoints(settings.now().destinations, config.egress, options.logger);
  await dispatcher.start();
  started.add(dispatcher);
  const reports = createReports(storage, dispatcher);
  reports.start();
  started.add(reports);
  const timeline = createTimeline({ ...storage, ...observation, reports });
  timeline.start();
  started.add(timeline);
  const jobs = started.add(createSingleJobs(storage));
  void warnOfUnbounded(storage);
  const maintenance = createMaintenance(storage);
  await jobs.add('maintenance', maintenance);
  const replayer = createReplayer(storage, dispatcher);
  await jobs.add('replays', replayer);
  const users = started.add(createUsers(storage));
  await jobs.add('users', users.leadership);
  const publisher = createPublisher({ ...storage, ...observation, dispatcher, users, routerFor });
  await jobs.add('users', publisher);
  const suppression = new SuppressionFilter(storage.store.regulations.hashId);
  await suppression.load(storage.store.regulations);
  const receiving = { ...storage, dispatcher, reports, users, suppression };
  const ingest = started.add(createIngest({ ...receiving, ...observation }));
  const regulations = createRegulations({ ...receiving, ingest, publisher });
  await jobs.add('users', regulations);
  reports.include({ users: users.health, regulations: regulations.health, commits: timeline.recentCommits });
  const mailer = createEgressMailer(config.egress);
  const { version } = manifest;
  const alerts = createAlerts({ ...storage, reports, httpClient, mailer, version });
  if (options.isSending !== false) await jobs.add('alerts', alerts);
  started.add(joinNodes({ ...receiving, ingest, regulations, jobs, reports }));
  started.add(new IdleCollector({ store: storage.store.memory, httpClient }));
  const parts = { dispatcher, reports, timeline, maintenance, replayer, ingest, users, regulations, alerts };
  return { ...storage, ...observation, httpClient, senders, ...parts };
}

interface Observation {
  readonly tail: LiveTail;
  readonly registry: MetricsRegistry;
  readonly traceparents: RecentTraceparents;
  readonly sourceName: (id: number) => string;
  readonly turns: TurnScheduler;
}

/** At the level `debug` every round of attempts gets a log line. */
function permanentObserver({ log }: Config, { logger, observer }: AppOptions): Observer | undefined {
  return log === 'debug' ? deliveryLogger(logger, observer) : observer;
}

function createEgressClient({ egress: { allow, proxy, ca }, threads }: Config): HttpClient {
  const authorities = ca === undefined ? {} : { ca: readAuthorities(ca) };
  return createSendingClient({ allow, ...(proxy === undefined ? {} : { proxy }), ...authorities }, threads);
}

function createEgressMailer({ allow, proxy, ca }: Config['egress']): Mailer {
  return createMailer(
    createSocketOpener({
      egress: egressRules(allow),
      ...(proxy === undefined ? {} : { proxy: parseProxyUrl(proxy) }),
      ...(ca === undefined ? {} : { ca: readAuthorities(ca) }),
    }),
  );
}

interface DispatcherInputs extends StorageDependencies, Observation {
  readonly senders: Senders;
}

function createDispatcher(inputs: DispatcherInputs): Dispatcher {
  const { store, clock, settings, options, senders, tail, registry } = inputs;
  const { traceparents, sourceName, turns } = inputs;
  const dispatcher = new Dispatcher({
    log: store.log,
    deliveryQueue: store.queue,
    healths: store.endpointHealth,
    senders: senders.byType,
    clock,
    logger: options.logger,
    currentObserver: tail,
    sourceName,
    measures: registry,
    traceparents,
    random: Math.random,
    worked: turns.delivered,
    types: DESTINATION_TYPES,
    ...sendingGate(store, inputs.config, options),
    probeTurns: store.nodes,
  });
  settings.follow(({ destinations, audiences, traits, gone }) => {
    const named = new Set([...audiences, ...traits].flatMap((computation) => computation.destinations));
    dispatcher.configure(destinations, named, gone.destinations);
  });
  return dispatcher;
}

/** A start does not wait for these warnings and does not fail on them: a name may resolve later. */
async function warnOfEndpoints(
  destinations: readonly Destination[],
  egress: Config['egress'],
  logger: Logger,
): Promise<void> {
  const enabled = destinations
    .filter(({ enabled }) => enabled)
    .map((one) => ({ name: one.name, targets: targetsIn(one) }));
  for (const problem of await endpointProblems(enabled, egress))
    logger.warn({ ...problem }, 'endpoint.unreachable');
}

function createReports(
  { store, storeView, clock, settings, config, options }: StorageDependencies,
  dispatcher: Dispatcher,
): ReportService {
  const { log, queue, history } = storeView;
  return new ReportService({
    log,
    history,
    queue: byDestination(queue),
    settings: settings.now,
    destinationStates: () => dispatcher.states(),
    clock,
    logger: options.logger,
    retention: config.retention.events,
    nodes: store.nodes,
    disk: () => readDiskUse(config.data),
    diskLimit: config.limits.disk,
    version: manifest.version,
    storeId: store.identity.id,
  });
}

interface TimelineInputs extends StorageDependencies {
  readonly reports: ReportService;
  readonly registry: MetricsRegistry;
}

function createTimeline({
  store,
  clock,
  settings,
  config,
  options,
  reports,
  registry,
}: TimelineInputs): TimelineRecorder {
  return new TimelineRecorder({
    ledger: () => reports.ledger(),
    flows: registry,
    settings: settings.now,
    // Problems of a database say nothing of the folder.
    store: new TimelineFiles(config.data, () => config.database === undefined && store.problems().length > 0),
    clock,
    logger: options.logger,
  });
}

function createMaintenance(inputs: StorageDependencies): MaintenanceWorker {
  const { store, clock, options } = inputs;
  return new MaintenanceWorker({
    log: store.log,
    clock,
    logger: options.logger,
    retention: logRetention(inputs),
    mark: () => clock.mark(),
  });
}

/** A replay goes by the same routing rules as a call. */
function createReplayer(
  { store, storeView, clock, settings, options }: StorageDependencies,
  dispatcher: Dispatcher,
): Replayer {
  const { log, history, deadLetters } = storeView;
  return new Replayer({
    log,
    deliveryQueue: store.queue,
    history,
    deadLetters,
    settings,
    clock,
    logger: options.logger,
    parked: (lane, at) => dispatcher.parked(lane, at),
    lanesOf: lanesIn,
    routingPredicate: (destination, sources) => {
      const one = { ...settings.now(), destinations: [{ ...destination, sources, enabled: true }] };
      const router = routerFor(one);
      return (event, source) => router.plan(event, source).owed.length > 0;
    },
  });
}

interface RegulationInputs extends StorageDependencies {
  readonly dispatcher: Dispatcher;
  readonly reports: ReportService;
  readonly ingest: IngestService;
  readonly users: UsersClient;
  readonly publisher: Publisher;
  readonly suppression: SuppressionFilter;
}

function createRegulations(inputs: RegulationInputs): RegulationService {
  const { store, clock, settings, config, options, dispatcher, reports, suppression } = inputs;
  let router = routerFor({ destinations: [] });
  const regulations = new RegulationService({
    regulations: store.regulations,
    log: store.log,
    history: store.history,
    settings: settings.now,
    users: erasableUsers(inputs.users, inputs.publisher),
    identities: config.identities,
    plan: (event, source) => router.plan(event, source),
    targetsOf: targetsIn,
    callsStored: (checkStop) => callsStored(inputs, checkStop),
    delivery: deliveriesOfAll(inputs, dispatcher),
    forgetSamples: (mentions) => reports.forget(mentions),
    filter: suppression,
    newId: uuidv7,
    clock,
    logger: options.logger,
  });
  settings.follow((records) => {
    router = routerFor(records);
    regulations.settingsChanged();
  });
  return regulations;
}

interface IngestInputs extends StorageDependencies, Observation {
  readonly dispatcher: Dispatcher;
  readonly reports: ReportService;
  readonly users: UsersClient;
  readonly suppression: SuppressionFilter;
}

function createIngest(inputs: IngestInputs): IngestService {
  const { store, clock, settings, config, options, dispatcher, reports, users, suppression } = inputs;
  const { tail, registry, traceparents, sourceName, turns } = inputs;
  const rateLimits = new SourceRateLimiter({ clock, logger: options.logger });
  const current = {
    planner: routerFor({ destinations: [] }),
    writeKeys: indexWriteKeys([], config.unknownWriteKeys),
  };
  settings.follow(({ sources, destinations }) => {
    current.planner = routerFor({ destinations });
    current.writeKeys = indexWriteKeys(sources, config.unknownWriteKeys);
    rateLimits.configure(sources);
  });
  return new IngestService({
    log: announcedLog(instrumentLog(store.log, registry), users.callsCommitted),
    logsCalls: config.log === 'debug',
    traceContexts: traceparents,
    recorder: registry,
    liveDelivery: dispatcher,
    current,
    newBatchId: randomUUID,
    // A database takes commits of several connections at once.
    commitsInTurn: config.database === undefined,
    ...(store.nodes === undefined ? {} : { storeProblems: store.nodes.problems }),
    newMessageId: uuidv7,
    worked: turns.accepted,
    clock,
    logger: options.logger,
    currentObserver: tail,
    sourceName,
    ingestCounters: reports.ingestCounters,
    discardSampler: reports.discardSamples,
    checkRateLimit: rateLimits.admit,
    suppression,
  });
}

interface InterfaceInputs extends Pipeline {
  readonly config: Config;
  readonly options: AppOptions;
}

type InterfaceUrls = Omit<App, 'stop' | 'storeFormat' | 'failed'>;

/** Starts the servers: receiving API, control API and metrics page, on one port or two. */
async function startInterfaces(inputs: InterfaceInputs, started: StartedParts): Promise<InterfaceUrls> {
  const { store, clock, settings, tail, registry, turns, maintenance, ingest, users } = inputs;
  const { dispatcher, config, options } = inputs;
  const { logger } = options;
  const problems = () => [store, maintenance, ingest].flatMap((part) => part.problems());
  const readiness = () => [...new Set(problems())];
  const metricsPage = createMetricsPage(inputs, readiness);
  metricsPage.start();
  started.add(metricsPage);
  const { token, file } = adminToken(config.admin.token, config.data);
  const sessions = new ConsoleSessions({ store, clock, logger });
  const tokens = () => settings.now().tokens;
  const tokenUses = started.add(createTokenUses(inputs));
  await tokenUses.start();
  const tokenUsed = tokenUses.note;
  const authenticator = new Authenticator({ adminToken: token, tokens, sessions, clock, tokenUsed });
  const servers = await startServers(config, {
    receiver: ingest.handle,
    discards: ingest.ingestCounters,
    recorder: registry,
    turns,
    publicKey: publicKeyLookup(settings),
    clock,
    logger,
    readiness,
    degraded: () => [maintenance, users, dispatcher].flatMap((part) => part.degraded()),
    control: await createControlApi({
      authenticator,
      idempotency: store.idempotency,
      clock,
      logger,
      version: manifest.version,
      metrics: {
        isPublic: config.metrics.public,
        contentType: PROMETHEUS_CONTENT_TYPE,
        text: metricsPage.text,
      },
      operations: rolesOf(config).includes('control')
        ? controlOperations({
            ...controlDependencies(inputs),
            signIn: { sessions, authenticator },
            lastUse: tokenUses.lastUse,
          })
        : [],
    }),
  });
  started.add(servers);
  // Stopped before the servers, which would otherwise wait for the tail clients until their grace is over.
  started.add(tail);
  const { url, adminUrl } = servers;
  return {
    url,
    ...defined({ adminUrl }),
    ...(file === undefined ? {} : { adminTokenFile: file }),
    createSignInLink: () => `${adminUrl ?? url}/sign-in#code=${sessions.createCode()}`,
  };
}

function createTokenUses({ store, clock, settings, config, options }: InterfaceInputs): TokenUseRecorder {
  const isReplaced = () => config.database === undefined && store.problems().length > 0;
  return new TokenUseRecorder({
    store: new TokenUseFile(config.data, isReplaced),
    tokens: () => settings.now().tokens,
    clock,
    logger: options.logger,
  });
}

function createMetricsPage(inputs: InterfaceInputs, readiness: () => readonly string[]): MetricsPage {
  const { store, clock, settings, dispatcher, reports, registry, users, regulations, config } = inputs;
  return new MetricsPage({
    registry,
    ledger: () => reports.ledger(),
    queue: byDestination(store.queue),
    log: store.log,
    nodes: store.nodes,
    settings: settings.now,
    destinationStates: () => dispatcher.states(),
    callsOfNoSource: () => reports.ingestCounters.read(),
    changedValues: () => reports.ingestCounters.changedValues(),
    rateLimitedRequests: () => reports.ingestCounters.rateLimitedRequests(),
    publicCalls: () => reports.ingestCounters.publicCallsBySource(),
    users: users.health,
    regulations: regulations.health,
    alerts: inputs.alerts.health,
    readiness,
    clock,
    retention: config.retention.events,
    disk: () => readDiskUse(config.data),
    version: manifest.version,
  });
}

function controlDependencies(
  inputs: InterfaceInputs,
): Omit<ControlOperationDependencies, 'signIn' | 'lastUse'> {
  const { storeView, clock, settings, senders, tail, dispatcher, reports, timeline } = inputs;
  const { replayer, regulations, config, options } = inputs;
  return {
    store: storeView,
    deliveryQueue: inputs.store.queue,
    users: inputs.users,
    dispatcher,
    settings,
    reports,
    timeline: (query) => readTimeline(query, timeline),
    tail,
    regulations,
    erasedFrom: config.database === undefined ? 'files' : 'tables',
    replays: replayer,
    types: DESTINATION_TYPES,
    ...previews({ senders, clock }),
    alerts: inputs.alerts,
    file: config,
    judgeEndpoints: (urls) => judgeEndpoints(urls, config.egress),
    retention: config.retention.events,
    clock,
    logger: options.logger,
  };
}
