import { randomUUID } from 'node:crypto';
import { uuidv7 } from 'uuidv7';
import manifest from '../package.json' with { type: 'json' };
import { readAuthorities } from './adapters/node/authorities.ts';
import { type SystemClock, systemClockAfter } from './adapters/node/clock.ts';
import { egressRules } from './adapters/node/egress.ts';
import { endpointProblems, judgeEndpoints, literalRefusal } from './adapters/node/explanation.ts';
import { createTransport } from './adapters/node/transport.ts';
import { openSqliteStore, type SqliteStore } from './adapters/sqlite/store.ts';
import { applyFile, type LineAt, SettingsRefused } from './applied-file.ts';
import type { Config } from './config.ts';
import { adminToken } from './control/admin-token.ts';
import { createControl } from './control/control.ts';
import { createMetricsPage } from './control/metrics-page.ts';
import { byDestination } from './deliver/by-destination.ts';
import { Lanes } from './deliver/lanes.ts';
import { tryOut } from './deliver/trial.ts';
import { webhooks } from './destinations/webhooks/webhooks.ts';
import { RateLimits } from './http/rate-limits.ts';
import { Intake } from './ingest/intake.ts';
import { writeKeys } from './ingest/receive.ts';
import { startListeners } from './listeners.ts';
import { type Measured, makeMetrics, measured, observerOf } from './measuring.ts';
import type { Destination } from './model/destination.ts';
import { DAY } from './model/time.ts';
import { measuredLog } from './observe/measured-log.ts';
import { CONTENT_TYPE } from './observe/metrics-text.ts';
import { Observation } from './observe/observation.ts';
import { Tail } from './observe/tail.ts';
import { controlOperations, type Operated } from './operations.ts';
import type { Clock } from './ports/clock.ts';
import type { Logger } from './ports/logger.ts';
import type { Observer, Watching } from './ports/observer.ts';
import type { Store } from './ports/store.ts';
import type { Transport } from './ports/transport.ts';
import { startReplays } from './replaying.ts';
import { Upkeep } from './retain/upkeep.ts';
import { Routes } from './route/plan.ts';
import { SettingsInForce, sourceNames } from './settings-in-force.ts';
import { onWallClock } from './wall-clock.ts';

export { type EgressExplanation, explainEgress } from './adapters/node/explanation.ts';
export { type Reached, reachEndpoint } from './adapters/node/reach.ts';
export { folderUser } from './adapters/sqlite/lock.ts';
export { restoreBackup } from './adapters/sqlite/restoring.ts';
export { verifyFolder } from './adapters/sqlite/verify.ts';
export type { Config } from './config.ts';
export { createLogger } from './logger.ts';
export type { FoundDelivery } from './observe/found-delivery.ts';
export type { Overview } from './observe/overview.ts';
export type { Trace } from './observe/trace.ts';
export { StorageError } from './ports/event-log.ts';
export type { Logger } from './ports/logger.ts';
export type { Happening, Observer } from './ports/observer.ts';

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
  readonly lineAt?: LineAt | undefined;
}

/** The program cannot start; the message is one line for the operator that says what to do. */
export class StartError extends Error {
  /** The settings are the reason, and not the machine. */
  get isOfSettings(): boolean {
    return this.cause instanceof SettingsRefused;
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
    const clock = systemClockAfter(store.lastMark);
    const shown = onWallClock(store, clock);
    const transport = makeTransport(config.egress);
    started.push(() => transport.stop());
    const applying = { ...options, refusalOf: (url: string) => literalRefusal(url, config.egress) };
    const snapshot = await applyFile(config, store.settings, { ...applying, clock });
    const settings = new SettingsInForce(store.settings, snapshot);
    const tail = new Tail({ clock, observer: observerOf(config, options) });
    const sourceName = sourceNames(settings);
    const watched = { ...options, ...measured(), clock, watching: tail.watching, sourceName };
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
    const replays = startReplays({ store: shown, lanes, settings, typeNames: TYPE_NAMES, clock, logger });
    started.push(() => replays.stop());
    const intake = makeIntake(store, lanes, { ...watched, settings, config, observation });
    started.push(() => intake.stop());
    const metrics = makeMetrics({
      ...{ store, lanes, measures: watched.measures, settings, observation, clock },
      ...{ readiness: allOf(store, upkeep, intake), config, version: manifest.version },
    });
    metrics.start();
    started.push(() => metrics.stop());
    const { token, ...kept } = adminToken(config.admin.token, config.data);
    const doors = { adminToken: token, tokens: () => settings.now().tokens, clock, logger };
    const listeners = await startListeners(config, {
      ...{ receiver: intake.receive, tallies: intake.tallies, measures: watched.measures },
      ...{ clock, logger, readiness: allOf(store, upkeep, intake), degraded: upkeep.degraded },
      metrics: createMetricsPage({
        ...{ ...doors, isPublic: config.metrics.public, contentType: CONTENT_TYPE, text: metrics.text },
      }),
      control: await createControl({
        ...{ ...doors, version: manifest.version },
        operations: controlOperations({
          ...{ store: shown, lanes, settings, observation, tail, replays, clock, logger },
          ...outward(config, { transport, clock }),
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
      stop: onlyOnce(stop),
    };
  } catch (error) {
    await stop();
    throw new StartError(error instanceof Error ? error.message : String(error), { cause: error });
  }
}

function openStore({ data, limits }: Config, { logger }: AppOptions): Promise<SqliteStore> {
  return openSqliteStore({ folder: data, filterMemory: limits.dedupeMemory, logger });
}

/** What any of them has against being ready, each reason once. */
function allOf(...parts: readonly { problems(): readonly string[] }[]): () => readonly string[] {
  return () => [...new Set(parts.flatMap((part) => part.problems()))];
}

/** However often it is called, `stop` is called once, and everybody waits for that. */
function onlyOnce(stop: () => Promise<void>): () => Promise<void> {
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

function makeTransport({ allow, proxy, ca }: Config['egress']): Transport {
  return createTransport({
    egress: egressRules(allow),
    ...(proxy === undefined ? {} : { proxy }),
    ...(ca === undefined ? {} : { ca: readAuthorities(ca) }),
  });
}

/** How the control API reaches outside. */
function outward(
  { egress }: Config,
  tools: { readonly transport: Transport; readonly clock: Clock },
): Pick<Operated, 'tryOut' | 'judgeEndpoints'> {
  const trying = { type: webhooks, ...tools };
  return {
    tryOut: (event, destination) => tryOut(event, destination, trying),
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
interface Watched extends Measured {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly watching: Watching;
  readonly sourceName: (id: number) => string;
}

function makeLanes(
  { log, backlog, endpoints: healths }: Store,
  transport: Transport,
  watched: Watched,
): Lanes {
  const { logger, clock, watching, sourceName, measures, traceparents } = watched;
  return new Lanes({
    ...{ log, backlog, healths, transport, clock, logger, watching, sourceName, measures, traceparents },
    random: Math.random,
    types: { webhooks },
  });
}

function makeUpkeep(
  { log }: Store,
  { retention, limits }: Config,
  { clock, logger, settings }: Timed & { readonly settings: SettingsInForce },
): Upkeep {
  const disk = limits.disk === undefined ? {} : { disk: limits.disk };
  const longestWindow = () =>
    Math.max(DAY, ...settings.now().sources.map(({ dedupeWindow = DAY }) => dedupeWindow));
  return new Upkeep({
    log,
    clock,
    logger,
    retention: () => ({ ...retention, ...disk, messageIds: longestWindow() }),
    mark: () => clock.mark(),
  });
}

interface Timed {
  readonly clock: SystemClock;
  readonly logger: Logger;
}

interface Surroundings {
  readonly settings: SettingsInForce;
  readonly config: Config;
  readonly observation: Observation;
}

function makeIntake(
  { log }: Store,
  lanes: Lanes,
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
  }: Watched & Surroundings,
): Intake {
  const rateLimits = new RateLimits(clock);
  let routes = new Routes([], TYPE_NAMES);
  let keys = writeKeys([], config.unknownWriteKeys);
  settings.follow(({ sources, destinations }) => {
    routes = new Routes(destinations, TYPE_NAMES);
    keys = writeKeys(sources, config.unknownWriteKeys);
    rateLimits.configure(sources);
  });
  return new Intake({
    log: measuredLog(log, measures),
    logsCalls: config.log === 'debug',
    traceparents,
    deliverer: lanes,
    plan: (event, source) => routes.plan(event, source),
    commonPlan: (source) => routes.commonPlan(source),
    reaches: (source) => routes.reaches(source),
    newBatchId: randomUUID,
    newMessageId: uuidv7,
    clock,
    logger,
    watching,
    sourceName,
    tallies: observation.tallies,
    samples: observation.samples,
    admit: rateLimits.admit,
    writeKeys: () => keys,
  });
}

function makeObservation(
  { log, backlog, history }: Store,
  lanes: Lanes,
  { logger, clock, settings, config }: Timed & Pick<Surroundings, 'settings' | 'config'>,
): Observation {
  return new Observation({
    ...{ log, history, backlog: byDestination(backlog), clock, logger },
    retention: config.retention.events,
    settings: settings.now,
    lanes: () => lanes.states(),
  });
}

const TYPE_NAMES = { webhooks: webhooks.name };
