import type { Config } from './config.ts';
import { byDestination } from './deliver/by-destination.ts';
import type { Lanes } from './deliver/lanes.ts';
import { RecentTraceparents } from './deliver/traceparents.ts';
import { Metrics } from './observe/metrics.ts';
import { MetricsCounts } from './observe/metrics-counts.ts';
import type { Observation } from './observe/observation.ts';
import { settledLines } from './observe/settled-lines.ts';
import type { Clock } from './ports/clock.ts';
import type { Logger } from './ports/logger.ts';
import type { Observer } from './ports/observer.ts';
import type { Store } from './ports/store.ts';
import type { SettingsInForce } from './settings-in-force.ts';

/** What is kept of what happens, beside the store and no part of it. */
export interface Measured {
  readonly measures: MetricsCounts;
  readonly traceparents: RecentTraceparents;
}

export function measured(): Measured {
  return { measures: new MetricsCounts(), traceparents: new RecentTraceparents() };
}

/** A line for each round is made only for whoever has asked for so many. */
export function observerOf(
  { log }: Pick<Config, 'log'>,
  { logger, observer }: { readonly logger: Logger; readonly observer?: Observer },
): Observer | undefined {
  return log === 'debug' ? settledLines(logger, observer) : observer;
}

export interface MetricsParts {
  readonly store: Pick<Store, 'log' | 'backlog'>;
  readonly lanes: Lanes;
  readonly measures: MetricsCounts;
  readonly settings: SettingsInForce;
  readonly observation: Observation;
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
}: MetricsParts): Metrics {
  return new Metrics({
    ...{ ...rest, counts: measures, backlog: byDestination(store.backlog), log: store.log },
    ...{ folder: config.data, retention: config.retention.events },
    settings: settings.now,
    ledger: () => observation.ledger(),
    lanes: () => lanes.states(),
    callsOfNoSource: () => observation.tallies.read(),
  });
}
