import { randomUUID } from 'node:crypto';
import { uuidv7 } from 'uuidv7';
import { systemClock } from './adapters/node/clock.ts';
import { egressRules } from './adapters/node/egress.ts';
import { createTransport } from './adapters/node/transport.ts';
import { openSqliteStore } from './adapters/sqlite/store.ts';
import type { Config } from './config.ts';
import { Lanes } from './deliver/lanes.ts';
import { webhooks } from './destinations/webhooks/webhooks.ts';
import { createListener } from './http/listener.ts';
import { Intake } from './ingest/intake.ts';
import { writeKeys } from './ingest/receive.ts';
import type { Logger } from './ports/logger.ts';
import type { Observer } from './ports/observer.ts';
import type { SettingsSnapshot } from './ports/settings.ts';
import type { Store } from './ports/store.ts';
import type { Transport } from './ports/transport.ts';
import { Upkeep } from './retain/upkeep.ts';
import { Routes } from './route/plan.ts';

export type { Config } from './config.ts';
export { createLogger } from './logger.ts';
export type { Logger } from './ports/logger.ts';
export type { Happening, Observer } from './ports/observer.ts';

export interface App {
  /** Where it listens, such as `http://127.0.0.1:8080`. */
  readonly url: string;
  /** Answers what was received, writes down what was delivered, and gives everything up. Idempotent. */
  stop(): Promise<void>;
}

export interface AppOptions {
  readonly logger: Logger;
  readonly observer?: Observer;
}

/** The program cannot start; the message is one line for the operator that says what to do. */
export class StartError extends Error {
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
    const store = await openSqliteStore({
      folder: config.data,
      filterMemory: config.limits.dedupeMemory,
    });
    started.push(() => store.stop());
    const transport = createTransport({ egress: egressRules(config.egress.allow) });
    started.push(() => transport.stop());
    const snapshot = await store.settings.apply({
      sources: config.sources,
      destinations: config.destinations,
    });
    const lanes = makeLanes(store, transport, options);
    lanes.configure(snapshot.destinations);
    await lanes.start();
    started.push(() => lanes.stop());
    const upkeep = makeUpkeep(store, config, options);
    upkeep.start();
    started.push(() => upkeep.stop());
    const intake = makeIntake(store, lanes, { ...options, snapshot, config });
    started.push(() => intake.stop());
    const listener = createListener({
      receiver: intake.receive,
      clock: systemClock,
      logger: options.logger,
      readiness: () => [],
      host: config.host,
      port: config.port,
    });
    const { host, port } = await listener.start();
    started.push(() => listener.stop());
    let stopping: Promise<void> | undefined;
    return {
      url: `http://${host.includes(':') ? `[${host}]` : host}:${port}`,
      stop: () => {
        stopping ??= stop();
        return stopping;
      },
    };
  } catch (error) {
    await stop();
    throw new StartError(error instanceof Error ? error.message : String(error), { cause: error });
  }
}

function makeLanes({ log, backlog }: Store, transport: Transport, { logger, observer }: AppOptions): Lanes {
  return new Lanes({
    log,
    backlog,
    transport,
    clock: systemClock,
    logger,
    observer,
    random: Math.random,
    types: { webhooks },
  });
}

function makeUpkeep({ log }: Store, { retention, limits }: Config, { logger }: AppOptions): Upkeep {
  const disk = limits.disk === undefined ? {} : { disk: limits.disk };
  return new Upkeep({ log, clock: systemClock, logger, retention: { ...retention, ...disk } });
}

function makeIntake(
  { log }: Store,
  lanes: Lanes,
  { logger, observer, snapshot, config }: AppOptions & { snapshot: SettingsSnapshot; config: Config },
): Intake {
  const routes = new Routes(snapshot.destinations, { webhooks: webhooks.name });
  const keys = writeKeys(snapshot.sources, config.unknownWriteKeys);
  const names = new Map(snapshot.sources.map(({ id, name }) => [id, name]));
  return new Intake({
    log,
    deliverer: lanes,
    plan: (event, source) => routes.plan(event, source),
    newBatchId: randomUUID,
    newMessageId: uuidv7,
    clock: systemClock,
    logger,
    observer,
    writeKeys: () => keys,
    sourceName: (id) => names.get(id) ?? String(id),
  });
}
