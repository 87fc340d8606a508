import { randomUUID } from 'node:crypto';
import { uuidv7 } from 'uuidv7';
import { recordsIn } from './config.ts';
import { auditOperations } from './control/audit.ts';
import { configOperations } from './control/configuration.ts';
import { deadLetterOperations } from './control/dead-letters.ts';
import { type ActionTools, actionOperations } from './control/destination-actions.ts';
import { destinationOperations } from './control/destinations.ts';
import type { Operation } from './control/operation.ts';
import { readingOperations } from './control/reading.ts';
import { sourceOperations } from './control/sources.ts';
import { tokenOperations } from './control/tokens.ts';
import type { Lanes } from './deliver/lanes.ts';
import type { Destination } from './model/destination.ts';
import type { Observation } from './observe/observation.ts';
import type { Clock } from './ports/clock.ts';
import type { Store } from './ports/store.ts';
import type { SettingsInForce } from './settings-in-force.ts';

/** What the control API looks at and changes. */
export interface Operated {
  readonly store: Pick<Store, 'log' | 'deadLetters'>;
  readonly lanes: Pick<Lanes, 'parked'>;
  readonly settings: Pick<SettingsInForce, 'now' | 'change' | 'audit'>;
  readonly observation: Observation;
  readonly tryOut: ActionTools['tryOut'];
  readonly clock: Clock;
}

/** Everything the control API can be asked. */
export function controlOperations({
  store,
  lanes,
  settings,
  observation,
  tryOut,
  clock,
}: Operated): Operation[] {
  const records = {
    ...{ settings, clock, check: recordsIn },
    pending: async (destination: Destination) => (await observation.statusOf(destination)).pending,
    statusOf: observation.statusOf,
  };
  return [
    ...readingOperations(observation),
    ...sourceOperations(records),
    ...destinationOperations(records),
    ...actionOperations({ settings, clock, tryOut, newMessageId: uuidv7 }),
    ...deadLetterOperations({
      ...{ deadLetters: store.deadLetters, log: store.log, settings, clock, newId: randomUUID },
      parked: (lane, at) => lanes.parked(lane, at),
    }),
    ...configOperations(records),
    ...tokenOperations(records),
    ...auditOperations(records),
  ];
}
