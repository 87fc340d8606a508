import type { Decision, Delivery, Outcome } from '../../model/delivery.ts';
import type { Position } from '../../model/event.ts';
import { invariant } from '../../model/invariant.ts';
import type { Monotonic } from '../../model/time.ts';
import type { DeliveryHistory, DeliveryResult, GivenUp, QueueStats } from '../../ports/delivery-queue.ts';
import type { LedgerCount } from './ledger.ts';
import { encodePositions, pushVarint, readVarint } from './pending-set.ts';

/** Positions that one row may span, so that the search for one event reads few rows. */
export const ROW_SPAN = 4096;

/** Latencies are kept in tenths of a millisecond. */
const LATENCY_UNITS = 10;

/** The outcome of a request that was accepted. Of its status 0 stands for none, as of what is no HTTP. */
export function acceptedWith(status: number): Outcome {
  if (status === 0) return { kind: 'accepted', reason: 'accepted' };
  return { kind: 'accepted', reason: `status_${status}`, status };
}

/** A request that was accepted. */
export interface SuccessfulAttempt {
  readonly position: Position;
  readonly startedAt: number;
  readonly latencyMs: number;
  readonly status: number;
}

/**
 * Accepted requests as the rows that keep them, some seven bytes each: a row holds those of one settle to one
 * endpoint. `facts` has four varints a request, in the order of positions: gap since the position before,
 * milliseconds since the first request of the row, latency, status.
 */
export class SuccessfulAttemptRows {
  readonly #groups = new Map<
    string,
    { destination: number; endpoint: string; accepted: SuccessfulAttempt[] }
  >();

  add(destination: number, endpoint: string, accepted: SuccessfulAttempt): void {
    const key = `${destination} ${endpoint}`;
    const group = this.#groups.get(key);
    if (group) group.accepted.push(accepted);
    else this.#groups.set(key, { destination, endpoint, accepted: [accepted] });
  }

  /** `first` and `last` are positions, `at` is the beginning of the first request, in whole milliseconds. */
  *rows() {
    for (const { destination, endpoint, accepted } of this.#groups.values()) {
      for (const { row, ...span } of spansOf(accepted))
        yield { destination, endpoint, ...span, facts: encodeAttempts(row, span.at) };
    }
  }

  /** The same with endpoints by number, and with one row for the requests of all small groups. */
  *sharedRows(numberOf: (endpoint: string) => number) {
    const shared: SharedAttempt[] = [];
    for (const { destination, endpoint: url, accepted } of this.#groups.values()) {
      const endpoint = numberOf(url);
      if (accepted.length < SHARED_BELOW && this.#groups.size > 1)
        for (const attempt of accepted) shared.push({ ...attempt, destination, endpoint });
      else {
        for (const { row, ...span } of spansOf(accepted))
          yield { destination, endpoint, ...span, facts: encodeAttempts(row, span.at) };
      }
    }
    for (const { row, ...span } of spansOf(shared))
      yield { destination: SHARED, endpoint: SHARED, ...span, facts: encodeShared(row, span.at) };
  }
}

/** Requests in rows, by position. */
function* spansOf<Accepted extends SuccessfulAttempt>(accepted: Accepted[]) {
  accepted.sort((a, b) => a.position - b.position);
  for (let from = 0; from < accepted.length; ) {
    let to = from + 1;
    while (to < accepted.length && accepted[to]!.position < accepted[from]!.position + ROW_SPAN) to++;
    const row = accepted.slice(from, to);
    const at = row.reduce((earliest, { startedAt }) => Math.min(earliest, Math.floor(startedAt)), Infinity);
    yield { row, first: row[0]!.position, last: row.at(-1)!.position, at };
    from = to;
  }
}

/** The destination and endpoint of a row that several share: the facts of each request name its own. */
export const SHARED = 0;

/** Groups with fewer requests share rows: of a thousand destinations each has one request in a settle. */
const SHARED_BELOW = 4;

/** A request in a row that destinations share. The endpoint is a number. */
export interface SharedAttempt extends SuccessfulAttempt {
  readonly destination: number;
  readonly endpoint: number;
}

/** Requests as a row of their own needs some fifty bytes more than one in a row that is there. */
function encodeShared(row: readonly SharedAttempt[], at: number): Uint8Array {
  const bytes: number[] = [];
  let before = row[0]!.position;
  for (const attempt of row) {
    pushVarint(bytes, attempt.destination);
    pushVarint(bytes, attempt.endpoint);
    pushAttempt(bytes, attempt, { before, at });
    before = attempt.position;
  }
  return Uint8Array.from(bytes);
}

/** The requests of a row whose destination is `SHARED`. */
export function decodeShared(encoded: Uint8Array, first: Position, at: number): SharedAttempt[] {
  const accepted: SharedAttempt[] = [];
  const cursor = { at: 0 };
  let before = first;
  while (cursor.at < encoded.length) {
    const destination = readVarint(encoded, cursor);
    const endpoint = readVarint(encoded, cursor);
    const attempt = readAttempt(encoded, cursor, { before, at });
    before = attempt.position;
    accepted.push({ destination, endpoint, ...attempt });
  }
  return accepted;
}

function encodeAttempts(row: readonly SuccessfulAttempt[], at: number): Uint8Array {
  const bytes: number[] = [];
  let before = row[0]!.position;
  for (const attempt of row) {
    pushAttempt(bytes, attempt, { before, at });
    before = attempt.position;
  }
  return Uint8Array.from(bytes);
}

/**
 * Base of the differences that encode a request: the position of the request before it, and the begin of the
 * row's first.
 */
interface AttemptBase {
  readonly before: Position;
  readonly at: number;
}

function pushAttempt(
  bytes: number[],
  { position, startedAt, latencyMs, status }: SuccessfulAttempt,
  { before, at }: AttemptBase,
): void {
  pushVarint(bytes, position - before);
  pushVarint(bytes, Math.floor(startedAt) - at);
  pushVarint(bytes, Math.round(latencyMs * LATENCY_UNITS));
  pushVarint(bytes, status);
}

function readAttempt(
  encoded: Uint8Array,
  cursor: { at: number },
  { before, at }: AttemptBase,
): SuccessfulAttempt {
  const position = before + readVarint(encoded, cursor);
  const startedAt = at + readVarint(encoded, cursor);
  const latencyMs = readVarint(encoded, cursor) / LATENCY_UNITS;
  return { position, startedAt, latencyMs, status: readVarint(encoded, cursor) };
}

/** The requests of a row. `first` and `at` stand beside them in it. */
export function decodeAttempts(encoded: Uint8Array, first: Position, at: number): SuccessfulAttempt[] {
  const accepted: SuccessfulAttempt[] = [];
  const cursor = { at: 0 };
  let before = first;
  while (cursor.at < encoded.length) {
    const attempt = readAttempt(encoded, cursor, { before, at });
    before = attempt.position;
    accepted.push(attempt);
  }
  return accepted;
}

/** Retries due within the same tenth of a second share a row. */
const DUE_STEP = 100;

/** Rounds the time of a retry up to the next tenth of a second. */
function roundDue(at: Monotonic): Monotonic {
  invariant(Number.isFinite(at), 'a result that is retried is due at a time');
  return Math.ceil(at / DUE_STEP) * DUE_STEP;
}

/** Deliveries of one destination that are given up together. */
export interface DeadDeliveries {
  readonly destination: number;
  readonly n: number;
  /** The replay or redelivery that enqueued them. */
  readonly origin?: string | null | undefined;
  /** The set, as `encodeSet` writes it. */
  readonly encoded: Uint8Array;
}

/** Deliveries of one destination that were given up together, for one reason. */
export interface DeadLetterSet extends DeadDeliveries {
  readonly at: Monotonic;
  readonly state: GivenUp;
  readonly reason: string;
  readonly note?: string | undefined;
}

/** The count of deliveries given up. */
export function countOf({ destination, state, reason, n }: DeadLetterSet): LedgerCount {
  return { scope: 'destination', id: destination, name: `${state}:${reason}`, n };
}

type UndeliveredDecision = Exclude<Decision, { kind: 'delivered' }>;
type GivenUpDecision = Exclude<UndeliveredDecision, { kind: 'retry' }>;

/** Retries of one destination due at the same time. Each origin has its own group. */
export interface RetryGroup {
  readonly destination: number;
  readonly at: Monotonic;
  readonly origin: string | undefined;
  readonly deliveries: Delivery[];
}

/** Groups what one settle did not deliver, so that deliveries that belong together share a row. */
export class ResultGroups {
  readonly #now: Monotonic;
  readonly #retries = new Map<string, RetryGroup>();
  readonly #deadLetters = new Map<string, Omit<DeadLetterSet, 'n' | 'encoded'> & { positions: number[] }>();

  /** `now` is the time of death of a delivery that died without a request. */
  constructor(now: Monotonic) {
    this.#now = now;
  }

  /** `origin` is that of the set that the delivery was in. */
  add(result: DeliveryResult, decision: UndeliveredDecision, origin: string | undefined): void {
    if (decision.kind === 'retry') {
      const [at, { destination }] = [roundDue(decision.at), result];
      this.#addRetry({ destination, at, origin }, decision.next);
    } else this.#addDeadLetter(result, decision, origin);
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

  #addDeadLetter(result: DeliveryResult, decision: GivenUpDecision, origin: string | undefined): void {
    const { destination, position, set } = result;
    const { kind: state, reason } = decision;
    const { note, at } = decision.kind === 'dropped' ? decision : { at: this.#timeOfDeath(result) };
    // One group for each set: two sets may owe the same event (once new, once replayed), and runs hold each
    // position once.
    const key = `${destination}/${set}/${state}/${reason}/${note ?? ''}`;
    const group = this.#deadLetters.get(key);
    if (group) group.positions.push(position);
    else
      this.#deadLetters.set(key, {
        ...{ destination, at: Math.round(at), state, reason, note, origin },
        positions: [position],
      });
  }

  /** The end of the last request. */
  #timeOfDeath({ attempts }: DeliveryResult): Monotonic {
    const last = attempts.at(-1);
    return last === undefined ? this.#now : Math.round(last.startedAt + last.latencyMs);
  }
}

/** A search for the highest pending positions of one destination. */
export interface HighestQuery {
  readonly tried: boolean | undefined;
  readonly max: number;
  readonly below: Position;
}

/** The pending sets of one destination, summed up by the database. */
export interface StatsRow {
  readonly destination: number;
  readonly held: number;
  readonly onDisk: number;
  readonly retrying: number;
  readonly nextDueAt: Monotonic | null;
  readonly oldest: Position;
}

/** `oldestAt`: when the event at `oldest` arrived; undefined when it is gone. */
export function queueStats(
  { destination, held, onDisk, retrying, nextDueAt }: StatsRow,
  oldestAt: Monotonic | undefined,
): QueueStats {
  return {
    destination,
    held,
    onDisk,
    retrying,
    nextDueAt: nextDueAt ?? undefined,
    oldestAt,
  };
}

/** Whether a pending delivery was tried before, and when it is due unless it is held. */
export function pendingState(
  { rounds }: Delivery,
  dueAt: Monotonic | undefined,
): Pick<DeliveryHistory, 'state' | 'nextAttemptAt'> {
  const state = rounds > 0 ? 'retrying' : 'pending';
  return dueAt === undefined ? { state } : { state, nextAttemptAt: dueAt };
}
