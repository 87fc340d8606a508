import type { Lanes } from './deliver/lanes.ts';
import type { Destination } from './model/destination.ts';
import type { Clock } from './ports/clock.ts';
import type { Logger } from './ports/logger.ts';
import type { Store } from './ports/store.ts';
import { Replays } from './replay/replays.ts';
import { Routes } from './route/plan.ts';
import type { SettingsInForce } from './settings-in-force.ts';

export interface ReplayingParts {
  readonly store: Pick<Store, 'log' | 'backlog' | 'history' | 'deadLetters'>;
  readonly lanes: Pick<Lanes, 'parked'>;
  readonly settings: SettingsInForce;
  readonly typeNames: Readonly<Record<Destination['type'], string>>;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Replays, with the rules that events are planned by, and goes on with those that a restart has interrupted. */
export function startReplays(parts: ReplayingParts): Replays {
  const { store, lanes, settings, typeNames, clock, logger } = parts;
  const { log, backlog, history, deadLetters } = store;
  const replays = new Replays({
    ...{ log, backlog, history, deadLetters, settings, clock, logger },
    parked: (lane, at) => lanes.parked(lane, at),
    goesTo: (destination, sources) => {
      const routes = new Routes([{ ...destination, sources, enabled: true }], typeNames);
      return (event, source) => routes.plan(event, source).owed.length > 0;
    },
  });
  replays.start();
  return replays;
}
