import type { DatabaseSync } from 'node:sqlite';
import type { Monotonic } from '../../../model/time.ts';
import type { DestinationHealth, RedeliverySlice, ReplaySlice } from '../../../ports/delivery-queue.ts';
import type { ChangedAnswer, KeptText } from '../../encoding/kept-answers.ts';
import type { LedgerAnswer } from '../../encoding/ledger.ts';
import { spreadSkipSets } from '../../encoding/plans.ts';
import type { DamageTable } from '../damage.ts';
import type { LedgerTable } from '../ledger-table.ts';
import type { Chunks } from '../log/chunks.ts';
import type { KeyIndex } from '../log/key-index.ts';
import type { PlanTable } from '../log/plans.ts';
import { read, write } from '../rpc.ts';
import { type DeadLetterCountMessage, type DeadLetterListMessage, DeadLetterTable } from './dead-letters.ts';
import { EndpointHealthTable } from './endpoint-health.ts';
import { EventHistories, type PendingMessage, PendingQueries } from './history.ts';
import { PendingTable } from './pending.ts';
import { ReplayCursors } from './replay-cursors.ts';
import { DeliverySettler, FailedAttempts, SuccessfulAttempts } from './settle.ts';

/**
 * The operations of the delivery queue, of what became of deliveries, and of the health of endpoints
 * (ports/delivery-queue.ts).
 */
export function queueHandlers(queue: QueueTables) {
  return {
    stats: read(() => queue.pendingQueries.stats()),
    nextDue: read(() => queue.pending.nextDue()),
    claim: write(({ destination, max, now }: ClaimMessage) => queue.pending.claim(destination, max, now)),
    settle: write(queue.settler.settle),
    makeDue: write(({ destination, now }: MakeDueMessage) => queue.pending.makeDue(destination, now)),
    expire: write((message: ExpireMessage) => queue.expire(message)),
    enqueue: write((slice: ReplaySlice) => queue.replayCursors.enqueue(slice)),
    recoverOrphans: write(() => queue.pending.recoverOrphans()),
    ledger: read(() => queue.ledger()),

    readHistories: read((positions: Float64Array) => queue.histories.of(positions)),
    findPending: read((message: PendingMessage) => queue.pendingQueries.page(message)),
    progress: read((origin: string) => queue.replayCursors.progress(origin)),
    pendingOf: read((origins: readonly string[]) => queue.replayCursors.pendingOf(origins)),
    answersAfter: read(({ text, after }: AnswersMessage) => queue.keptTexts(text).answersAfter(after)),
    putAnswers: write(({ text, changed }: PutAnswersMessage) => queue.keptTexts(text).putAnswers(changed)),

    listDeadLetters: read((message: DeadLetterListMessage) => queue.deadLetters.list(message)),
    countDeadLetters: read((message: DeadLetterCountMessage) => queue.deadLetters.count(message)),
    redeliver: write((slice: RedeliverySlice) => queue.deadLetters.redeliver(slice)),

    loadHealth: read(() => queue.endpointHealth.load()),
    saveHealth: write((healths: readonly DestinationHealth[]) => queue.endpointHealth.save(healths)),
  };
}

interface AnswersMessage {
  readonly text: KeptText;
  readonly after: number;
}

interface PutAnswersMessage {
  readonly text: KeptText;
  readonly changed: readonly ChangedAnswer[];
}

interface ClaimMessage {
  readonly destination: number;
  readonly max: number;
  readonly now: Monotonic;
}

interface MakeDueMessage {
  readonly destination: number;
  readonly now: Monotonic;
}

interface ExpireMessage {
  readonly destination: number;
  readonly before: Monotonic;
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
  readonly #plans: PlanTable;

  constructor(
    database: DatabaseSync,
    { epoch, chunks, keys, plans, ledger, damage }: QueueTablesDependencies,
  ) {
    this.#ledger = ledger;
    this.#plans = plans;
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
      this.settler.deadLetter({ ...set, at: before, state: 'dead', reason });
      n += set.n;
    }
    return n;
  }

  /** The table that has these texts. */
  keptTexts(text: KeptText): Pick<FailedAttempts, 'answersAfter' | 'putAnswers'> {
    return text === 'answer' ? this.failedAttempts : this.deadLetters;
  }

  ledger(): LedgerAnswer {
    const counters = spreadSkipSets(this.#ledger.all(), (set) => this.#plans.set(set));
    return { counters, pending: this.pendingQueries.sums() };
  }
}
