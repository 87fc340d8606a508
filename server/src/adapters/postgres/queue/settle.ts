import type { Monotonic } from '../../../model/time.ts';
import type {
  DeliveryResult,
  DestinationHealth,
  PendingSetId,
  SettleResult,
} from '../../../ports/delivery-queue.ts';
import { type PendingRow, setOf } from '../../encoding/decisions/pending.ts';
import type { LedgerCount } from '../../encoding/ledger.ts';
import { decodeSet, HeldSet } from '../../encoding/pending-set.ts';
import { countOf, ResultGroups, SuccessfulAttemptRows } from '../../encoding/results.ts';
import { type Database, type Statement, type Transaction, UnknownCommitError } from '../database.ts';
import { EndpointNumbers, insertAccepted, insertFailed } from './attempts.ts';
import { insertDeadLetters } from './dead-letters.ts';
import { saveHealth } from './endpoint-health.ts';
import { count } from './ledger.ts';
import { heldRows, leave, type PendingSets } from './pending.ts';

/** When the newest event arrived: the best estimate of the present time. */
const NEWEST: Statement = {
  name: 'settle.newest',
  text: 'select at from chunk where slot > 0 order by slot desc, first desc limit 1',
};

/** Results in one transaction at most. What comes meanwhile waits for the next one. */
const MOST_RESULTS = 10_000;

/** How often a transaction is done again whose commit nobody knows of. */
const MOST_REPEATS = 3;

/** The results that one caller wants written. */
interface SettleRequest {
  /** The process that held the deliveries. Under another lease the same rows may have been claimed again. */
  readonly process: number;
  readonly results: readonly DeliveryResult[];
  readonly healths: readonly DestinationHealth[];
  readonly resolve: (result: SettleResult) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Writes the results of deliveries: to the pending sets, the ledger, the attempts and the dead letters. One
 * transaction at a time takes all that has come since the last one, so that many results cost few commits.
 */
export class ResultSettler {
  readonly #database: Database;
  readonly #pending: PendingSets;
  readonly #endpoints: EndpointNumbers;
  #waiting: SettleRequest[] = [];
  #isBusy = false;

  constructor(database: Database, pending: PendingSets) {
    this.#database = database;
    this.#pending = pending;
    this.#endpoints = new EndpointNumbers(database);
  }

  /** See `DeliveryQueue.settle`. */
  settle(results: readonly DeliveryResult[]): Promise<SettleResult> {
    return this.#ask(results, []);
  }

  /** See `EndpointHealthStore.save`: shares the commit of the results of the same turn. */
  async save(healths: readonly DestinationHealth[]): Promise<void> {
    await this.#ask([], structuredClone(healths));
  }

  #ask(results: readonly DeliveryResult[], healths: readonly DestinationHealth[]): Promise<SettleResult> {
    if (results.length + healths.length === 0) return Promise.resolve({ ignored: 0 });
    return new Promise((resolve, reject) => {
      this.#waiting.push({ process: this.#database.process, results, healths, resolve, reject });
      if (!this.#isBusy) void this.#work();
    });
  }

  async #work(): Promise<void> {
    this.#isBusy = true;
    // The end of the turn: what else it wants written comes along.
    await undefined;
    while (this.#waiting.length > 0) {
      const requests = this.#take();
      try {
        const ignored = await this.#write(requests);
        for (const [nth, { resolve }] of requests.entries()) resolve({ ignored: ignored[nth]! });
      } catch (error) {
        for (const { reject } of requests) reject(error);
      }
    }
    this.#isBusy = false;
  }

  #take(): SettleRequest[] {
    let n = 0;
    let end = 0;
    while (end < this.#waiting.length && (end === 0 || n < MOST_RESULTS))
      n += this.#waiting[end++]!.results.length;
    return this.#waiting.splice(0, end);
  }

  /** Resolves to the number of ignored results of each request. */
  async #write(requests: readonly SettleRequest[]): Promise<number[]> {
    let before: number[] | undefined;
    for (let repeat = 0; ; repeat++) {
      let ignored: number[] | undefined;
      try {
        const urls = await this.#endpoints.of(urlsOf(requests));
        await this.#database.write(async (transaction) => {
          ignored = await this.#transact(transaction, requests, urls);
        });
        // All gone: the transaction of which nobody knew has happened.
        const isDone = ignored!.every((n, nth) => n === requests[nth]!.results.length);
        return isDone ? (before ?? ignored!) : ignored!;
      } catch (error) {
        if (!(error instanceof UnknownCommitError) || repeat >= MOST_REPEATS) throw error;
        before = ignored ?? before;
      }
    }
  }

  async #transact(
    transaction: Transaction,
    requests: readonly SettleRequest[],
    urls: ReadonlyMap<string, number>,
  ): Promise<number[]> {
    const isOurs = ({ process }: SettleRequest) => process === transaction.process;
    const results = requests.filter(isOurs).flatMap((request) => request.results);
    const sets = await readHeld(transaction, results);
    const newest = results.some(isDeadUntried) ? await newestArrival(transaction) : 0;
    const settled = new SettledResults(sets, newest);
    const ignored = requests.map((request) =>
      isOurs(request) ? settled.add(request.results) : request.results.length,
    );
    const touched = [...sets.values()].filter(({ isTouched }) => isTouched);
    for (const { row, held } of touched) transaction.balance.pending(row.destination, -held.drainTaken());
    leave(
      transaction,
      touched.map(({ row, held }) => ({ ...row, left: held.deliveries() })),
    );
    this.#pending.scheduleRetries(transaction, settled.groups.retries());
    const dead = [...settled.groups.deadLetters()];
    insertDeadLetters(transaction, dead);
    insertFailed(transaction, settled.failed);
    insertAccepted(transaction, settled.accepted, urls);
    saveHealth(
      transaction,
      requests.flatMap((request) => request.healths),
    );
    count(transaction, [...settled.counts, ...dead.map(countOf)]);
    return ignored;
  }
}

/** A set that this process holds, while its results are written. */
interface OpenSet {
  readonly row: PendingRow;
  readonly held: HeldSet;
  isTouched: boolean;
}

/** The sum of the results of one transaction. */
class SettledResults {
  readonly groups: ResultGroups;
  readonly accepted = new SuccessfulAttemptRows();
  readonly failed: DeliveryResult[] = [];
  readonly counts: LedgerCount[] = [];
  readonly #sets: ReadonlyMap<PendingSetId, OpenSet>;

  constructor(sets: ReadonlyMap<PendingSetId, OpenSet>, newest: Monotonic) {
    this.#sets = sets;
    this.groups = new ResultGroups(newest);
  }

  /** Returns the number of results that change nothing. */
  add(results: readonly DeliveryResult[]): number {
    let ignored = 0;
    for (const result of results) {
      const set = this.#sets.get(result.set);
      if (set?.row.destination !== result.destination || !set.held.take(result.position)) ignored++;
      else this.#conclude(result, set);
    }
    return ignored;
  }

  #conclude(result: DeliveryResult, set: OpenSet): void {
    const { destination, position, attempts, decision } = result;
    set.isTouched = true;
    let hasFailed = false;
    for (const { endpoint, startedAt, latencyMs, outcome } of attempts) {
      const { kind, status = 0 } = outcome;
      if (kind !== 'accepted') hasFailed = true;
      else this.accepted.add(destination, endpoint, { position, startedAt, latencyMs, status });
    }
    if (hasFailed) this.failed.push(result);
    if (decision.kind !== 'delivered') this.groups.add(result, decision, set.held.origin);
    else this.counts.push({ scope: 'destination', id: destination, name: 'delivered', n: 1 });
  }
}

async function readHeld(
  transaction: Transaction,
  results: readonly DeliveryResult[],
): Promise<Map<PendingSetId, OpenSet>> {
  const ids = [...new Set(results.map(({ set }) => set))];
  const sets = new Map<PendingSetId, OpenSet>();
  if (ids.length === 0) return sets;
  for (const row of await heldRows(transaction, ids)) {
    const encoded = setOf(row);
    if (encoded === undefined) continue;
    const held = HeldSet.fromDeliveries(row.destination, decodeSet(encoded), row.origin);
    sets.set(row.id, { row, held, isTouched: false });
  }
  return sets;
}

async function newestArrival(transaction: Transaction): Promise<Monotonic> {
  const [newest] = await transaction.rows<{ at: Monotonic }>(NEWEST);
  return newest?.at ?? 0;
}

function isDeadUntried({ decision, attempts }: DeliveryResult): boolean {
  return decision.kind === 'dead' && attempts.length === 0;
}

function* urlsOf(requests: readonly SettleRequest[]): Generator<string> {
  for (const { results } of requests)
    for (const { attempts } of results)
      for (const { outcome, endpoint } of attempts) if (outcome.kind === 'accepted') yield endpoint;
}
