import manifest from '../../package.json' with { type: 'json' };
import type { AlertService } from '../alerts/service.ts';
import type { ProblemFormatter } from '../config/errors.ts';
import type { Config } from '../config/load.ts';
import { byDestination } from '../delivery/destination-totals.ts';
import { Dispatcher } from '../delivery/dispatcher.ts';
import { DESTINATION_TYPES } from '../destinations/list.ts';
import { TurnScheduler } from '../http/admission.ts';
import { indexWriteKeys } from '../ingest/calls.ts';
import { SourceRateLimiter } from '../ingest/rate-limits.ts';
import { IngestService } from '../ingest/service.ts';
import { MaintenanceWorker } from '../maintenance/worker.ts';
import { defined } from '../model/json.ts';
import { destinationOfLane, type Target } from '../model/lane.ts';
import type { ReadDiskUse } from '../ports/disk-use.ts';
import type { HttpClient } from '../ports/http-client.ts';
import type { Logger } from '../ports/logger.ts';
import type { Mailer } from '../ports/mailer.ts';
import type { Observer } from '../ports/telemetry.ts';
import type { TimelineStore } from '../ports/timeline-store.ts';
import { RegulationService } from '../regulations/service.ts';
import { SuppressionFilter } from '../regulations/suppression-filter.ts';
import { Replayer } from '../replay/replayer.ts';
import { LiveTail } from '../reporting/live-tail.ts';
import { ReportService } from '../reporting/status.ts';
import { TimelineRecorder } from '../reporting/timeline.ts';
import { deliveryLogger } from '../telemetry/logging.ts';
import { instrumentLog, MetricsRegistry, RecentTraceparents } from '../telemetry/registry.ts';
import { announcedLog, type StartUsersThread, type UsersClient } from '../users/client.ts';
import type { Publisher } from '../users/sync/publisher.ts';
import { createAlerts } from './alerts.ts';
import { lanesIn, openSenders, routerFor, type Senders, targetsIn, withholdingOf } from './destinations.ts';
import { callsStored, createSingleJobs, deliveriesOfAll, joinNodes, sendingGate } from './nodes.ts';
import { logRetention, warnOfUnbounded } from './retention.ts';
import { sourceLookup, sourceNameLookup } from './settings-service.ts';
import type { StopList, Storage } from './storage.ts';
import { createPublisher, createUsers, erasableUsers } from './users.ts';

export interface AppOptions {
  readonly logger: Logger;
  readonly observer?: Observer;
  /** Formats a problem with the settings; `LoadedConfig.lineAt` names its line in the file. */
  readonly lineAt?: ProblemFormatter | undefined;
  /** False: nothing is sent to anybody, not even alerts, for a look into a copy. `held`: alerts alone. */
  readonly isSending?: boolean | 'held';
}

/** The parts beyond the store: another caller than `startApp` replaces them by its own. */
export interface Outside {
  readonly httpClient: HttpClient;
  readonly mailer: Mailer;
  /** Starts the thread that keeps profiles. */
  readonly startUsersThread: StartUsersThread;
  /** The share of the time since the last question in which this thread had something to do. */
  readonly busyShare: () => number;
  readonly timelineStore: TimelineStore;
  readonly disk: ReadDiskUse;
  /** Resolves to problems of endpoints that can be seen without a request. */
  readonly endpointProblems: (
    destinations: readonly { readonly name: string; readonly targets: readonly Target[] }[],
  ) => Promise<readonly object[]>;
  /** From 0 (inclusive) to 1 (exclusive). */
  readonly random: () => number;
  /** A new id that no other has, in the order of time as far as that can be. */
  readonly newId: () => string;
}

export interface PipelineInputs extends Storage {
  readonly config: Config;
  readonly options: AppOptions;
  readonly outside: Outside;
}

/** From a received call to its delivery, and the parts that look at it. */
export interface Pipeline extends Storage {
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
export async function startPipeline(storage: PipelineInputs, started: StopList): Promise<Pipeline> {
  const { clock, settings, config, options, outside } = storage;
  const httpClient = started.add(outside.httpClient);
  const observation: Observation = {
    tail: new LiveTail({ clock, observer: permanentObserver(config, options) }),
    registry: new MetricsRegistry(),
    traceparents: new RecentTraceparents(),
    sourceName: sourceNameLookup(settings),
    turns: new TurnScheduler(clock),
  };
  const senders = started.add(
    openSenders(DESTINATION_TYPES, {
      http: httpClient,
      clock,
      logger: options.logger,
      sourceOf: sourceLookup(settings),
    }),
  );
  const dispatcher = createDispatcher({ ...storage, ...observation, senders });
  void warnOfEndpoints(storage);
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
  const users = started.add(createUsers({ ...storage, ...outside }));
  await jobs.add('users', users.leadership);
  const sending = { dispatcher, users, routerFor, newId: outside.newId };
  const publisher = createPublisher({ ...storage, ...observation, ...sending });
  await jobs.add('users', publisher);
  const suppression = new SuppressionFilter(storage.store.regulations.hashId);
  await suppression.load(storage.store.regulations);
  const receiving = { ...storage, dispatcher, reports, users, suppression };
  const ingest = started.add(createIngest({ ...receiving, ...observation }));
  const regulations = createRegulations({ ...receiving, ingest, publisher });
  await jobs.add('users', regulations);
  reports.include({ users: users.health, regulations: regulations.health, commits: timeline.recentCommits });
  const { mailer, newId } = outside;
  const { version } = manifest;
  const alerts = createAlerts({ ...storage, reports, httpClient, mailer, version, newId });
  if (options.isSending !== false) await jobs.add('alerts', alerts);
  started.add(joinNodes({ ...receiving, ingest, regulations, jobs, reports }));
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

interface DispatcherInputs extends PipelineInputs, Observation {
  readonly senders: Senders;
}

function createDispatcher(inputs: DispatcherInputs): Dispatcher {
  const { store, clock, settings, options, outside, senders, tail, registry } = inputs;
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
    random: outside.random,
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
async function warnOfEndpoints({ settings, outside, options }: PipelineInputs): Promise<void> {
  const enabled = settings
    .now()
    .destinations.filter(({ enabled }) => enabled)
    .map((one) => ({ name: one.name, targets: targetsIn(one) }));
  for (const problem of await outside.endpointProblems(enabled))
    options.logger.warn({ ...problem }, 'endpoint.unreachable');
}

function createReports(
  { store, storeView, clock, settings, config, options, outside }: PipelineInputs,
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
    disk: outside.disk,
    diskLimit: config.limits.disk,
    version: manifest.version,
    storeId: store.identity.id,
  });
}

interface TimelineInputs extends PipelineInputs {
  readonly reports: ReportService;
  readonly registry: MetricsRegistry;
}

function createTimeline(inputs: TimelineInputs): TimelineRecorder {
  const { clock, settings, options, outside, reports, registry } = inputs;
  return new TimelineRecorder({
    ledger: () => reports.ledger(),
    flows: registry,
    settings: settings.now,
    store: outside.timelineStore,
    clock,
    logger: options.logger,
  });
}

function createMaintenance(inputs: PipelineInputs): MaintenanceWorker {
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
  { store, storeView, clock, settings, options }: PipelineInputs,
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
      const now = settings.now();
      // The others are there for their names, which are theirs alone in an integrations object.
      const destinations = now.destinations.map((one) =>
        one.id === destination.id ? { ...one, sources, enabled: true } : { ...one, sources: [] },
      );
      const router = routerFor({ ...now, destinations });
      const isIts = ({ id }: { readonly id: number }) => destinationOfLane(id) === destination.id;
      return (event, source) => router.plan(event, source).owed.some(isIts);
    },
    withholding: withholdingOf,
  });
}

interface RegulationInputs extends PipelineInputs {
  readonly dispatcher: Dispatcher;
  readonly reports: ReportService;
  readonly ingest: IngestService;
  readonly users: UsersClient;
  readonly publisher: Publisher;
  readonly suppression: SuppressionFilter;
}

function createRegulations(inputs: RegulationInputs): RegulationService {
  const { store, clock, settings, config, options, outside, dispatcher, reports, suppression } = inputs;
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
    newId: outside.newId,
    clock,
    logger: options.logger,
  });
  settings.follow((records) => {
    router = routerFor(records);
    regulations.settingsChanged();
  });
  return regulations;
}

interface IngestInputs extends PipelineInputs, Observation {
  readonly dispatcher: Dispatcher;
  readonly reports: ReportService;
  readonly users: UsersClient;
  readonly suppression: SuppressionFilter;
}

function createIngest(inputs: IngestInputs): IngestService {
  const { store, clock, settings, config, options, outside, dispatcher, reports, users, suppression } =
    inputs;
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
    log: announcedLog(instrumentLog(store.log, registry, clock), users.callsCommitted),
    logsCalls: config.log === 'debug',
    traceContexts: traceparents,
    recorder: registry,
    liveDelivery: dispatcher,
    current,
    newBatchId: outside.newId,
    // A database takes commits of several connections at once.
    commitsInTurn: config.database === undefined,
    ...defined({ storeProblems: store.nodes?.problems }),
    newMessageId: outside.newId,
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
