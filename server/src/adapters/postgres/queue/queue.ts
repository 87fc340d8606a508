import type {
  DeadLetterQueue,
  DeliveryHistories,
  DeliveryQueue,
  EndpointHealthStore,
} from '../../../ports/delivery-queue.ts';
import { countOf } from '../../encoding/results.ts';
import type { Database } from '../database.ts';
import type { PostgresNodes } from '../nodes.ts';
import { insertDeadLetters, StoredDeadLetters } from './dead-letters.ts';
import { loadHealth } from './endpoint-health.ts';
import { type LoggedFacts, StoredHistories } from './history.ts';
import { count, readLedger } from './ledger.ts';
import { type PendingSets, takeExpired } from './pending.ts';
import { enqueue } from './replay-cursors.ts';
import { ResultSettler } from './settle.ts';

interface QueueDependencies {
  readonly database: Database;
  readonly nodes: Pick<PostgresNodes, 'adopt'>;
  readonly log: LoggedFacts;
  /** Also owes the events that the log appends. */
  readonly pending: PendingSets;
}

/** The ports of ports/delivery-queue.ts. */
interface QueuePorts {
  readonly queue: DeliveryQueue;
  readonly history: DeliveryHistories;
  readonly deadLetters: DeadLetterQueue;
  readonly endpointHealth: EndpointHealthStore;
}

/** The delivery queue, what became of deliveries, and the health of endpoints. */
export function queueOf({ database, nodes, log, pending }: QueueDependencies): QueuePorts {
  const history = new StoredHistories(database, log);
  const settler = new ResultSettler(database, pending);
  const queue: DeliveryQueue = {
    stats: () => history.stats(),
    nextDue: () => pending.nextDue(database),
    claim: (destination, max, now) => pending.claim(database, { destination, max, now }),
    settle: (results) => settler.settle(results),
    makeDue: (destination, now) => database.write((write) => pending.makeDue(write, destination, now)),
    expire: (destination, before, reason) =>
      database.write(async (write) => {
        const expired = await takeExpired(write, destination, before);
        const dead = expired.map((set) => ({ ...set, at: before, state: 'dead' as const, reason }));
        insertDeadLetters(write, dead);
        count(write, dead.map(countOf));
        return dead.reduce((sum, { n }) => sum + n, 0);
      }),
    enqueue: (slice) => enqueue(database, pending, slice),
    recoverOrphans: async () => {
      const parked = await nodes.adopt();
      if (parked > 0) pending.adopted();
      return parked;
    },
    ledger: () => readLedger(database, log),
  };
  return {
    queue,
    history,
    deadLetters: new StoredDeadLetters(database, pending),
    endpointHealth: { load: () => loadHealth(database), save: (healths) => settler.save(healths) },
  };
}
