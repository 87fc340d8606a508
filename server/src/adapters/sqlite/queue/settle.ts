import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { Attempt } from '../../../model/delivery.ts';
import type { Position } from '../../../model/event.ts';
import type { Monotonic } from '../../../model/time.ts';
import type { DeliveryResult, PendingSetId, SettleResult } from '../../../ports/delivery-queue.ts';
import {
  ANSWER_ROWS,
  type AnswerPage,
  answerPage,
  type ChangedAnswer,
  type KeptAnswer,
} from '../../encoding/kept-answers.ts';
import {
  acceptedWith,
  countOf,
  type DeadLetterSet,
  decodeAttempts,
  decodeShared,
  ResultGroups,
  ROW_SPAN,
  SHARED,
  type SharedAttempt,
  type SuccessfulAttempt,
  SuccessfulAttemptRows,
} from '../../encoding/results.ts';
import type { LedgerTable } from '../ledger-table.ts';
import type { KeyIndex } from '../log/key-index.ts';
import type { DeadLetterTable } from './dead-letters.ts';
import type { PendingTable } from './pending.ts';

/** Rows dropped in one slice. */
const SLICE = 256;

/** A request of a delivery to this destination. */
export interface DestinationAttempt {
  readonly destination: number;
  readonly attempt: Attempt;
}

/**
 * Requests that were accepted: one row holds those of one settle to one endpoint, or the few to each of many
 * endpoints.
 */
export class SuccessfulAttempts {
  readonly #insert: StatementSync;
  readonly #withEndpoint: StatementSync;
  readonly #between: StatementSync;
  readonly #drop: StatementSync;
  readonly #intern: StatementSync;
  readonly #url: StatementSync;
  readonly #endpoints = new Map<string, number>();
  #unwritten = new SuccessfulAttemptRows();

  constructor(database: DatabaseSync) {
    this.#insert = database.prepare(
      'insert into accepted_attempt(destination, endpoint, first, last, at, facts) values (?, ?, ?, ?, ?, ?)',
    );
    this.#withEndpoint = database.prepare(
      'select destination, endpoint, first, at, facts from accepted_attempt where first > ? and first <= ? and last >= ?',
    );
    this.#between = database.prepare(
      'select destination, first, at, facts from accepted_attempt where first > ? and first <= ? and last >= ?',
    );
    this.#drop = database.prepare(
      `delete from accepted_attempt where id in
         (select id from accepted_attempt where first < ? order by first limit ${SLICE})`,
    );
    this.#url = database.prepare('select url from endpoint where id = ?');
    this.#intern = database.prepare(
      'insert into endpoint(url) values (?) on conflict(url) do update set url = url returning id',
    );
  }

  /** Gathers a request until `write`. */
  add(destination: number, endpoint: string, accepted: SuccessfulAttempt): void {
    this.#unwritten.add(destination, endpoint, accepted);
  }

  write(): void {
    for (const row of this.#unwritten.sharedRows((url) => this.#idOf(url)))
      this.#insert.run(row.destination, row.endpoint, row.first, row.last, row.at, row.facts);
    this.#unwritten = new SuccessfulAttemptRows();
  }

  /**
   * Visits the events with an accepted request to one of these destinations, from a position on and below
   * another.
   */
  visitBetween(
    from: Position,
    below: Position,
    destinations: ReadonlySet<number>,
    visit: (destination: number, position: Position) => void,
  ): void {
    if (destinations.size === 0) return;
    for (const each of this.#between.iterate(from - ROW_SPAN, below - 1, from) as Iterable<unknown>) {
      const { destination } = each as SuccessfulAttemptRow;
      if (destination !== SHARED && !destinations.has(destination)) continue;
      for (const { position, destination: own } of attemptsIn(each as SuccessfulAttemptRow))
        if (position >= from && position < below && destinations.has(own)) visit(own, position);
    }
  }

  /** The accepted requests for each of these events, by position. The positions may come in any order. */
  at(positions: readonly Position[]): Map<Position, DestinationAttempt[]> {
    const found = new Map<Position, DestinationAttempt[]>(positions.map((position) => [position, []]));
    const sorted = [...found.keys()].sort((a, b) => a - b);
    for (let from = 0; from < sorted.length; ) {
      let to = from + 1;
      // Neighbouring positions mostly share their rows, so these are decoded once for all of them.
      while (to < sorted.length && sorted[to]! - sorted[to - 1]! < ROW_SPAN) to++;
      this.#collect(sorted[from]!, sorted[to - 1]!, found);
      from = to;
    }
    return found;
  }

  #collect(first: Position, last: Position, found: ReadonlyMap<Position, DestinationAttempt[]>): void {
    for (const each of this.#withEndpoint.iterate(first - ROW_SPAN, last, first) as Iterable<unknown>) {
      for (const one of attemptsIn(each as SuccessfulAttemptRow)) {
        const { position, destination, endpoint, startedAt, latencyMs, status } = one;
        const outcome = acceptedWith(status);
        const of = found.get(position);
        if (of === undefined) continue;
        const attempt = { endpoint: this.#urlOf(endpoint), startedAt, latencyMs, outcome };
        of.push({ destination, attempt });
      }
    }
  }

  /** Drops a slice of the rows that are all below a position. False when there are none. */
  dropBelow(position: Position): boolean {
    return Number(this.#drop.run(position - ROW_SPAN).changes) > 0;
  }

  #urlOf(id: number): string {
    return (this.#url.get(id) as { url: string }).url;
  }

  #idOf(url: string): number {
    const known = this.#endpoints.get(url);
    if (known !== undefined) return known;
    const { id } = this.#intern.get(url) as { id: number };
    this.#endpoints.set(url, id);
    return id;
  }
}

/** The requests of a row, each with its destination and endpoint. */
function attemptsIn({ destination, endpoint, facts, first, at }: SuccessfulAttemptRow): SharedAttempt[] {
  if (destination === SHARED) return decodeShared(facts, first, at);
  return decodeAttempts(facts, first, at).map((attempt) => ({ ...attempt, destination, endpoint }));
}

interface SuccessfulAttemptRow {
  destination: number;
  endpoint: number;
  first: number;
  at: number;
  facts: Uint8Array;
}

/** Requests that failed, a row each, with the endpoint's answer. */
export class FailedAttempts {
  readonly #insert: StatementSync;
  readonly #drop: StatementSync;
  readonly #erase: StatementSync;
  readonly #answers: StatementSync;
  readonly #putAnswer: StatementSync;
  readonly #ofDelivery: StatementSync;
  readonly #destinations: StatementSync;
  readonly #between: StatementSync;

  constructor(database: DatabaseSync) {
    this.#insert = database.prepare(
      `insert into failed_attempt(position, destination, started_at, latency_ms, endpoint, kind, reason, status, answer)
       values (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    );
    this.#drop = database.prepare(
      `delete from failed_attempt where rowid in
         (select rowid from (select rowid, started_at, position from failed_attempt order by rowid limit ${SLICE})
          where started_at < ? and position < ?)`,
    );
    this.#erase = database.prepare('delete from failed_attempt where position = ?');
    this.#answers = database.prepare(
      `select rowid as id, answer from failed_attempt where rowid > ? order by rowid limit ${ANSWER_ROWS}`,
    );
    this.#putAnswer = database.prepare('update failed_attempt set answer = ? where rowid = ? and answer = ?');
    this.#ofDelivery = database.prepare(
      `select started_at as startedAt, latency_ms as latencyMs, endpoint, reason, status, answer, kind
       from failed_attempt where position = ? and destination = ? order by rowid`,
    );
    this.#destinations = database.prepare(
      'select distinct destination from failed_attempt where position = ?',
    );
    this.#between = database.prepare(
      'select distinct position, destination from failed_attempt where position >= ? and position < ?',
    );
  }

  /** Keeps the failed requests of a result. */
  insert({ position, destination, attempts }: DeliveryResult): void {
    for (const { startedAt, latencyMs, endpoint, outcome, answer } of attempts) {
      if (outcome.kind === 'accepted') continue;
      this.#insert.run(
        position,
        destination,
        startedAt,
        latencyMs,
        endpoint,
        outcome.kind,
        outcome.reason,
        outcome.status ?? null,
        answer ?? null,
      );
    }
  }

  /** The failed requests of one delivery. */
  of(destination: number, position: Position): Attempt[] {
    const rows = this.#ofDelivery.all(position, destination) as unknown as FailedAttemptRow[];
    return rows.map(({ startedAt, latencyMs, endpoint, kind, reason, status, answer }) => ({
      endpoint,
      startedAt,
      latencyMs,
      outcome: { kind, reason, status: status ?? undefined },
      answer: answer ?? undefined,
    }));
  }

  /** Destinations with a failed request for an event. */
  destinationsOf(position: Position): number[] {
    const rows = this.#destinations.all(position) as unknown as { destination: number }[];
    return rows.map(({ destination }) => destination);
  }

  /**
   * Visits the events with a failed request to one of these destinations, from a position on and below
   * another.
   */
  visitBetween(
    from: Position,
    below: Position,
    destinations: ReadonlySet<number>,
    visit: (destination: number, position: Position) => void,
  ): void {
    if (destinations.size === 0) return;
    const rows = this.#between.all(from, below) as unknown as { destination: number; position: Position }[];
    for (const { destination, position } of rows)
      if (destinations.has(destination)) visit(destination, position);
  }

  /**
   * Drops a slice of the rows from before a time, but none of an event that is still kept. False when there
   * are none.
   */
  dropBefore(time: Monotonic, retainedFrom: Position): boolean {
    return Number(this.#drop.run(time, retainedFrom).changes) > 0;
  }

  /** Drops the failed requests for these events: an endpoint's answer may repeat their content. */
  erase(positions: Iterable<Position>): void {
    for (const position of positions) this.#erase.run(position);
  }

  /** The answers of the rows behind one. */
  answersAfter(id: number): AnswerPage {
    return answerPage(this.#answers.iterate(id) as Iterable<unknown> as Iterable<KeptAnswer>);
  }

  /** Replaces answers. A row may be gone meanwhile, and its number may be that of another one. */
  putAnswers(changed: readonly ChangedAnswer[]): undefined {
    for (const { id, answer, was } of changed) this.#putAnswer.run(answer, id, was);
  }
}

interface FailedAttemptRow {
  startedAt: number;
  latencyMs: number;
  endpoint: string;
  kind: 'retryable' | 'refused';
  reason: string;
  status: number | null;
  answer: string | null;
}

/** Results as they cross to the writer thread: the frequent ones as numbers, the others as objects. */
export interface SettleMessage {
  /**
   * Deliveries that one accepted request ended: `DELIVERED_FIELDS` numbers each (set, position, destination,
   * index of the URL in `endpoints` or −1, start of the request, latency in milliseconds, status).
   */
  readonly delivered: Float64Array;
  readonly endpoints: readonly string[];
  /** The others, and those that have a failed attempt to keep. */
  readonly others: readonly DeliveryResult[];
}

const DELIVERED_FIELDS = 7;

export function encodeResults(results: readonly DeliveryResult[]): SettleMessage {
  const delivered = new Float64Array(results.length * DELIVERED_FIELDS);
  const endpoints: string[] = [];
  const others: DeliveryResult[] = [];
  let at = 0;
  for (const result of results) {
    const { set, position, destination, attempts, decision } = result;
    const [attempt] = attempts;
    const isPlain = attempts.length <= 1 && (attempt === undefined || attempt.outcome.kind === 'accepted');
    if (decision.kind !== 'delivered' || !isPlain) {
      others.push(result);
      continue;
    }
    delivered[at] = set;
    delivered[at + 1] = position;
    delivered[at + 2] = destination;
    delivered[at + 3] = attempt === undefined ? -1 : endpointIndex(attempt.endpoint, endpoints);
    delivered[at + 4] = attempt?.startedAt ?? 0;
    delivered[at + 5] = attempt?.latencyMs ?? 0;
    delivered[at + 6] = attempt?.outcome.status ?? 0;
    at += DELIVERED_FIELDS;
  }
  return { delivered: delivered.subarray(0, at), endpoints, others };
}

/** The most results that wait for a call, to share its commit. */
const FEW_RESULTS = 64;

/** Whether these are few, and all of them delivered. */
export function isFewResults({ delivered, others }: SettleMessage): boolean {
  return others.length === 0 && delivered.length <= FEW_RESULTS * DELIVERED_FIELDS;
}

/** Searches from the end: one settle names few endpoints. */
function endpointIndex(endpoint: string, endpoints: string[]): number {
  const known = endpoints.lastIndexOf(endpoint);
  return known >= 0 ? known : endpoints.push(endpoint) - 1;
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
export class DeliverySettler {
  readonly #dependencies: SettlerDependencies;

  constructor(dependencies: SettlerDependencies) {
    this.#dependencies = dependencies;
  }

  readonly settle = ({ delivered, endpoints, others }: SettleMessage): SettleResult => {
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
  };

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
    const { scope, id, name, n } = countOf(dead);
    this.#dependencies.ledger.add(scope, id, name, n);
    this.#dependencies.deadLetters.insert(dead);
  }
}
