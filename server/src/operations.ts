import { randomUUID } from 'node:crypto';
import { uuidv7 } from 'uuidv7';
import { recordsIn } from './config.ts';
import { destination, source } from './config-schema.ts';
import { auditOperations } from './control/audit.ts';
import { backupOperations } from './control/backups.ts';
import { configOperations } from './control/configuration.ts';
import { deliveryOperations } from './control/deliveries.ts';
import { type ActionTools, actionOperations } from './control/destination-actions.ts';
import { destinationOperations } from './control/destinations.ts';
import type { EndpointTools } from './control/endpoint-check.ts';
import { eventOperations } from './control/events.ts';
import type { Operation } from './control/operation.ts';
import { readingOperations } from './control/reading.ts';
import { redeliveryOperations } from './control/redeliveries.ts';
import { replayOperations } from './control/replays.ts';
import { sourceOperations } from './control/sources.ts';
import { tailOperations } from './control/tail.ts';
import { tokenOperations } from './control/tokens.ts';
import type { Lanes } from './deliver/lanes.ts';
import type { Destination } from './model/destination.ts';
import type { Observation } from './observe/observation.ts';
import { Search } from './observe/search.ts';
import type { Tail } from './observe/tail.ts';
import type { Clock } from './ports/clock.ts';
import type { Logger } from './ports/logger.ts';
import type { Store } from './ports/store.ts';
import type { Replays } from './replay/replays.ts';
import type { SettingsInForce } from './settings-in-force.ts';

/** What the control API looks at and changes. */
export interface Operated {
  readonly store: Pick<Store, 'log' | 'backlog' | 'history' | 'deadLetters' | 'backup'>;
  readonly lanes: Pick<Lanes, 'parked'>;
  readonly settings: Pick<SettingsInForce, 'now' | 'change' | 'audit'>;
  readonly observation: Observation;
  readonly tail: Pick<Tail, 'open'>;
  readonly replays: Pick<Replays, 'preview' | 'standing' | 'ended'>;
  readonly tryOut: ActionTools['tryOut'];
  readonly judgeEndpoints: EndpointTools['judgeEndpoints'];
  readonly clock: Clock;
  readonly logger: Logger;
}

/** A write key is made where none is given. */
const schemas = { source: source.partial({ writeKeys: true }), destination };

/** Everything the control API can be asked. */
export function controlOperations({
  store,
  lanes,
  settings,
  observation,
  tail,
  replays,
  tryOut,
  judgeEndpoints,
  clock,
  logger,
}: Operated): Operation[] {
  const records = {
    ...{ settings, clock, check: recordsIn, schemas, judgeEndpoints },
    pending: async () => {
      const { destinations } = await observation.ledger();
      return ({ name }: Destination) => destinations[name]?.pending ?? 0;
    },
    statusOf: observation.statusOf,
  };
  const { log, history, deadLetters } = store;
  const search = new Search({ ...{ log, history, deadLetters, clock }, settings: () => settings.now() });
  return [
    ...readingOperations(observation),
    ...tailOperations({ settings, open: (wish) => tail.open(wish) }),
    ...sourceOperations(records),
    ...destinationOperations(records),
    ...actionOperations({ settings, clock, tryOut, newMessageId: uuidv7, statusOf: observation.statusOf }),
    ...eventOperations({ settings, search }),
    ...deliveryOperations({ settings, search }),
    ...redeliveryOperations({
      ...{ log, history, deadLetters, settings, clock, newId: uuidv7, ...replays },
      backlog: store.backlog,
      parked: (lane, at) => lanes.parked(lane, at),
    }),
    ...replayOperations({ settings, clock, newId: uuidv7, ...replays }),
    ...configOperations(records),
    ...tokenOperations(records),
    ...auditOperations(records),
    ...backupOperations({
      ...{ clock, logger, newId: randomUUID },
      backup: (folder, progress) => store.backup(folder, progress),
    }),
  ];
}
