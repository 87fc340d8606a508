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
import { SettingsError } from './config/apply.ts';
import type { Config } from './config/load.ts';
import { Authenticator, adminToken } from './control-api/auth.ts';
import { compatOperations } from './control-api/operations/compat-regulations.ts';
import { createControlApi } from './control-api/server.ts';
import { ConsoleSessions } from './control-api/sessions.ts';
import { TokenUseRecorder } from './control-api/token-uses.ts';
import { byDestination } from './delivery/destination-totals.ts';
import { DESTINATION_TYPES } from './destinations/list.ts';
import { defined } from './model/json.ts';
import type { HttpClient } from './ports/http-client.ts';
import type { Mailer } from './ports/mailer.ts';
import { readTimeline } from './reporting/timeline-query.ts';
import { MetricsPage } from './telemetry/metrics.ts';
import { PROMETHEUS_CONTENT_TYPE } from './telemetry/prometheus.ts';
import { type ControlOperationDependencies, controlOperations } from './wiring/control-operations.ts';
import { previews } from './wiring/destinations.ts';
import { rolesOf } from './wiring/nodes.ts';
import { type AppOptions, type Outside, type Pipeline, startPipeline } from './wiring/pipeline.ts';
import { startServers } from './wiring/servers.ts';
import { consentLookup, publicKeyLookup, scriptKeyLookup } from './wiring/settings-service.ts';
import { type ProgramStore, startStorage } from './wiring/storage.ts';
import { busyShareOfThisThread, startUsersThread } from './wiring/users.ts';

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
export type { AppOptions } from './wiring/pipeline.ts';
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
    const outside = createOutside(config, storage.store);
    const pipeline = await startPipeline({ ...storage, config, options, outside }, started);
    started.add(new IdleCollector({ store: storage.store.memory, httpClient: outside.httpClient }));
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

/** The network, the files beside the store, and the chance of this machine. */
function createOutside(config: Config, store: ProgramStore): Outside {
  const { data, database, egress } = config;
  return {
    httpClient: createEgressClient(config),
    mailer: createEgressMailer(egress),
    startUsersThread,
    // On PostgreSQL the thread of profiles waits for the database most of its time.
    busyShare: database === undefined ? busyShareOfThisThread() : () => 0,
    // Problems of a database say nothing of the folder.
    timelineStore: new TimelineFiles(data, () => database === undefined && store.problems().length > 0),
    disk: () => readDiskUse(data),
    endpointProblems: (destinations) => endpointProblems(destinations, egress),
    random: Math.random,
    newId: uuidv7,
  };
}

function createEgressClient({ egress: { allow, proxy, ca }, threads }: Config): HttpClient {
  return createSendingClient(
    { allow, ...defined({ proxy, ca: ca === undefined ? undefined : readAuthorities(ca) }) },
    threads,
  );
}

function createEgressMailer({ allow, proxy, ca }: Config['egress']): Mailer {
  return createMailer(
    createSocketOpener({
      egress: egressRules(allow),
      ...defined({
        proxy: proxy === undefined ? undefined : parseProxyUrl(proxy),
        ca: ca === undefined ? undefined : readAuthorities(ca),
      }),
    }),
  );
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
    consentSettings: consentLookup(settings),
    scriptKey: scriptKeyLookup(settings),
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
      compat: rolesOf(config).includes('control') ? compatOperations(inputs) : [],
    }),
  });
  started.add(servers);
  // Stopped before the servers, which would otherwise wait for the tail clients until their grace is over.
  started.add(tail);
  const { url, adminUrl } = servers;
  return {
    url,
    ...defined({ adminUrl, adminTokenFile: file }),
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
