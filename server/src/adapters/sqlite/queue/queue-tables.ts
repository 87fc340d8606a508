import type { DatabaseSync } from 'node:sqlite';
import type { Decision, Delivery } from '../../../model/delivery.ts';
import type { Time } from '../../../model/time.ts';
import type {
  DeliveryResult,
  DestinationHealth,
  PendingSetId,
  RedeliverySlice,
  ReplaySlice,
  SettleResult,
} from '../../../ports/delivery-queue.ts';
import type { DamageTable } from '../damage.ts';
import type { LedgerAnswer, LedgerTable } from '../ledger.ts';
import type { Chunks } from '../log/chunks.ts';
import type { KeyIndex } from '../log/key-index.ts';
import type { PlanTable } from '../log/plans.ts';
import { read, write } from '../rpc.ts';
import { DELIVERED_FIELDS, FailedAttempts, type SettleMessage, SuccessfulAttempts } from './attempts.ts';
import {
  type DeadLetterCountMessage,
  type DeadLetterListMessage,
  type DeadLetterSet,
  DeadLetterTable,
} from './dead-letters.ts';
import { EndpointHealthTable } from './endpoint-health.ts';
import { EventHistories, type PendingMessage, PendingQueries } from './history.ts';
import { PendingTable } from './pending.ts';
import { encodePositions } from './pending-set.ts';
import { ReplayCursors } from './replay-cursors.ts';

/** The operations of the delivery queue, of what became of deliveries, and of the health of endpoints (ports/delivery-queue.ts). */
export function queueHandlers(queue: QueueTables) {
  return {
    stats: read(() => queue.pendingQueries.stats()),
    claim: write(({ destination, max, now }: ClaimMessage) => queue.pending.claim(destination, max, now)),
    settle: write((message: SettleMessage) => queue.settler.settle(message)),
    makeDue: write(({ destination, now }: MakeDueMessage) => queue.pending.makeDue(destination, now)),
    expire: write((message: ExpireMessage) => queue.expire(message)),
    enqueue: write((slice: ReplaySlice) => queue.replayCursors.enqueue(slice)),
    recoverOrphans: write(() => queue.pending.recoverOrphans()),
    ledger: read(() => queue.ledger()),

    readHistories: read((positions: Float64Array) => queue.histories.of(positions)),
    findPending: read((message: PendingMessage) => queue.pendingQueries.page(message)),
    progress: read((origin: string) => queue.replayCursors.progress(origin)),

    listDeadLetters: read((message: DeadLetterListMessage) => queue.deadLetters.list(message)),
    countDeadLetters: read((message: DeadLetterCountMessage) => queue.deadLetters.count(message)),
    redeliver: write((slice: RedeliverySlice) => queue.deadLetters.redeliver(slice)),

    loadHealth: read(() => queue.endpointHealth.load()),
    saveHealth: write((healths: readonly DestinationHealth[]) => queue.endpointHealth.save(healths)),
  };
}

interface ClaimMessage {
  readonly destination: number;
  readonly max: number;
  readonly now: Time;
}

interface MakeDueMessage {
  readonly destination: number;
  readonly now: Time;
}

interface ExpireMessage {
  readonly destination: number;
  readonly before: Time;
  readonly reason: string;
}

interface QueueTablesDependencies {
  /** Number of this start of the program. Sets that an earlier start held are orphans. */
  readonly epoch: number;
  readonly chunks: Chunks;
  readonly keys: KeyIndex;
  readonly plans: PlanTable;
  readonly ledger: LedgerTable;
  readonly damage: DamageTable;
}

/** The tables of the delivery queue, and what each operation does to them inside the caller's transaction. */
export class QueueTables {
  readonly pending: PendingTable;
  /** Reads of table "pending" that change nothing. */
  readonly pendingQueries: PendingQueries;
  readonly successfulAttempts: SuccessfulAttempts;
  readonly failedAttempts: FailedAttempts;
  readonly histories: EventHistories;
  readonly replayCursors: ReplayCursors;
  readonly deadLetters: DeadLetterTable;
  readonly settler: DeliverySettler;
  readonly endpointHealth: EndpointHealthTable;
  readonly #ledger: LedgerTable;

  constructor(
    database: DatabaseSync,
    { epoch, chunks, keys, plans, ledger, damage }: QueueTablesDependencies,
  ) {
    this.#ledger = ledger;
    this.pending = new PendingTable(database, { epoch, ledger, damage });
    this.pendingQueries = new PendingQueries(database, this.pending.held, chunks);
    this.successfulAttempts = new SuccessfulAttempts(database);
    this.failedAttempts = new FailedAttempts(database);
    this.replayCursors = new ReplayCursors(database, { pending: this.pending, ledger });
    this.deadLetters = new DeadLetterTable(database, {
      pending: this.pending,
      ledger,
      replayCursors: this.replayCursors,
    });
    this.histories = new EventHistories(chunks, {
      plans,
      pending: this.pendingQueries,
      successfulAttempts: this.successfulAttempts,
      failedAttempts: this.failedAttempts,
      deadLetters: this.deadLetters,
    });
    this.settler = new DeliverySettler({
      pending: this.pending,
      ledger,
      successfulAttempts: this.successfulAttempts,
      failedAttempts: this.failedAttempts,
      deadLetters: this.deadLetters,
      keys,
    });
    this.endpointHealth = new EndpointHealthTable(database);
  }

  /** Gives up one slice of the deliveries whose retry window is over; how many. */
  expire({ destination, before, reason }: ExpireMessage): number {
    let n = 0;
    for (const set of this.pending.expire(destination, before)) {
      this.settler.deadLetter({ destination, at: before, reason, ...set });
      n += set.n;
    }
    return n;
  }

  ledger(): LedgerAnswer {
    return { counters: this.#ledger.all(), pending: this.pendingQueries.sums() };
  }
}

interface SettlerDependencies {
  readonly pending: PendingTable;
  readonly ledger: LedgerTable;
  readonly successfulAttempts: SuccessfulAttempts;
  readonly failedAttempts: FailedAttempts;
  readonly deadLetters: DeadLetterTable;
  /** When the newest event arrived: the best estimate of the present time. */
  readonly keys: Pick<KeyIndex, 'newest'>;
}

/** Writes the results of deliveries: to the pending sets, the ledger, the attempts and the dead letters. */
class DeliverySettler {
  readonly #dependencies: SettlerDependencies;

  constructor(dependencies: SettlerDependencies) {
    this.#dependencies = dependencies;
  }

  settle({ delivered, endpoints, others }: SettleMessage): SettleResult {
    const touched = new Set<PendingSetId>();
    const successes = new Map<number, number>();
    let ignored = 0;
    for (let at = 0; at < delivered.length; at += DELIVERED_FIELDS) {
      const [set, position, destination] = [delivered[at]!, delivered[at + 1]!, delivered[at + 2]!];
      if (!this.#dependencies.pending.take({ set, position, destination })) ignored++;
      else {
        touched.add(set);
        successes.set(destination, (successes.get(destination) ?? 0) + 1);
        const endpoint = endpoints[delivered[at + 3]!];
        const [startedAt, latencyMs, status] = [delivered[at + 4]!, delivered[at + 5]!, delivered[at + 6]!];
        if (endpoint !== undefined)
          this.#dependencies.successfulAttempts.add(destination, endpoint, {
            position,
            startedAt,
            latencyMs,
            status,
          });
      }
    }
    for (const [destination, n] of successes)
      this.#dependencies.ledger.add('destination', destination, 'delivered', n);
    const groups = new ResultGroups(this.#dependencies.keys.newest);
    for (const result of others) {
      if (!this.#dependencies.pending.take(result)) ignored++;
      else {
        touched.add(result.set);
        this.#conclude(result, groups);
      }
    }
    for (const { destination, at, deliveries, origin } of groups.retries())
      this.#dependencies.pending.scheduleRetry(destination, at, deliveries, origin);
    for (const dead of groups.deadLetters()) this.deadLetter(dead);
    this.#dependencies.successfulAttempts.write();
    this.#dependencies.pending.writeSets(touched);
    return { ignored };
  }

  #conclude(result: DeliveryResult, groups: ResultGroups): void {
    const { destination, position } = result;
    this.#dependencies.failedAttempts.insert(result);
    for (const { endpoint, startedAt, latencyMs, outcome } of result.attempts) {
      const { kind, status = 0 } = outcome;
      if (kind === 'accepted')
        this.#dependencies.successfulAttempts.add(destination, endpoint, {
          position,
          startedAt,
          latencyMs,
          status,
        });
    }
    if (result.decision.kind === 'delivered')
      this.#dependencies.ledger.add('destination', result.destination, 'delivered', 1);
    else groups.add(result, result.decision, this.#dependencies.pending.originOf(result.set));
  }

  deadLetter(dead: DeadLetterSet): void {
    this.#dependencies.ledger.add('destination', dead.destination, `dead:${dead.reason}`, dead.n);
    this.#dependencies.deadLetters.insert(dead);
  }
}

type FailedDecision = Exclude<Decision, { kind: 'delivered' }>;

/** Retries of one destination due at the same time. Each origin has its own group. */
interface RetryGroup {
  readonly destination: number;
  readonly at: Time;
  readonly origin: string | undefined;
  readonly deliveries: Delivery[];
}

/** Groups the failures of one settle, so that those that belong together share a row. */
class ResultGroups {
  readonly #now: Time;
  readonly #retries = new Map<string, RetryGroup>();
  readonly #deadLetters = new Map<string, Omit<DeadLetterSet, 'n' | 'encoded'> & { positions: number[] }>();

  /** `now` is the time of death of a delivery that died without a request. */
  constructor(now: Time) {
    this.#now = now;
  }

  /** `origin` is that of the set that the delivery was in. */
  add(result: DeliveryResult, decision: FailedDecision, origin: string | undefined): void {
    if (decision.kind === 'retry') {
      const [at, { destination }] = [PendingTable.roundDue(decision.at), result];
      this.#addRetry({ destination, at, origin }, decision.next);
    } else this.#addDeadLetter(result, decision.reason, origin);
  }

  retries(): Iterable<RetryGroup> {
    return this.#retries.values();
  }

  *deadLetters(): Generator<DeadLetterSet> {
    for (const { positions, ...dead } of this.#deadLetters.values()) {
      const encoded = encodePositions(positions.sort((a, b) => a - b));
      yield { ...dead, n: positions.length, encoded };
    }
  }

  #addRetry(of: Omit<RetryGroup, 'deliveries'>, next: Delivery): void {
    const key = `${of.destination}/${of.at}/${of.origin}`;
    const group = this.#retries.get(key);
    if (group) group.deliveries.push(next);
    else this.#retries.set(key, { ...of, deliveries: [next] });
  }

  #addDeadLetter(result: DeliveryResult, reason: string, origin: string | undefined): void {
    const { destination, position, set } = result;
    // By set: two sets may owe the same event, once new and once replayed, and runs hold a position once.
    const key = `${destination}/${set}/${reason}`;
    const group = this.#deadLetters.get(key);
    if (group) group.positions.push(position);
    else
      this.#deadLetters.set(key, {
        destination,
        at: this.#timeOfDeath(result),
        reason,
        origin,
        positions: [position],
      });
  }

  /** The end of the last request. */
  #timeOfDeath({ attempts }: DeliveryResult): Time {
    const last = attempts.at(-1);
    return last === undefined ? this.#now : Math.round(last.startedAt + last.latencyMs);
  }
}
