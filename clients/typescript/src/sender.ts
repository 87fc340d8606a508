import type { Entry } from './backlog.ts';
import { type Batch, batchOf, endangered } from './batch.ts';
import { LARGEST_CALL } from './encode.ts';
import type { FailureCode } from './failure.ts';
import type { Settings } from './options.ts';
import type { Reports } from './reports.ts';
import { type Answer, type Posting, post, roomFor } from './request.ts';
import { backoff, MOST_TRIES, spread, verdictOf } from './retry.ts';
import { Room } from './room.ts';

type Timer = ReturnType<typeof setTimeout> | undefined;

/**
 * Takes accepted calls to the server. Each of them ends in exactly one of `delivered`, `failed`, or still
 * `pending` in a spool when the client is closed.
 *
 *   accepted ─▶ waiting (backlog) ─▶ batch ─▶ request ─▶ delivered
 *                                      ▲         │ ├────▶ failed: refused
 *                                      └─ wait ◀─┘ └────▶ failed: gave_up, after ten tries without a spool
 *
 * After a failure there is one request at a time, with growing pauses, until one is answered well. The batch
 * that failed waits twice as long as the others, so that one batch the server cannot digest does not hold up
 * the rest.
 */
export class Sender {
  readonly #settings: Settings;
  readonly #reports: Reports;
  readonly #room: Room;
  readonly #largest: number;
  readonly #postings = new Map<Posting, Batch>();
  #retrying: Batch[] = [];
  /** Calls that have left the backlog. */
  #taken = 0;
  /** Calls up to this number are sent without waiting for more. */
  #wanted = 0;
  /** Bytes that wait, about: what an earlier process left behind is not among them. */
  #bytes = 0;
  /** In a row, of all requests. */
  #failures = 0;
  /** The last of them. */
  #lastFailure: Answer | undefined;
  #pausedUntil = 0;
  /** The part of it that a `Retry-After` is the reason for. */
  #askedUntil = 0;
  #scheduled = false;
  #ended = false;
  #flushTimer: Timer;
  #wakeTimer: Timer;

  constructor(settings: Settings, reports: Reports) {
    this.#settings = settings;
    this.#reports = reports;
    this.#room = new Room(() => settings.backlog.roomy || this.#ended);
    this.#largest = roomFor(settings.writeKey);
    settings.backlog.start({
      found: (count) => {
        reports.accept(count);
        this.#sendAll();
      },
      lost: (entries, code) => {
        // A spool that drops its oldest calls may drop some that are in requests already.
        const begun = entries.filter(({ number }) => number !== undefined);
        const waiting = entries.filter(({ number }) => number === undefined);
        for (const entry of waiting) entry.number = ++this.#taken;
        reports.end(begun, { code, tries: 1, uncertain: true });
        reports.end(waiting, { code, tries: 0, uncertain: code === 'expired' });
      },
    });
  }

  accept(entry: Entry): FailureCode | undefined {
    const refused = this.#settings.backlog.add(entry);
    if (refused === undefined) {
      this.#reports.accept(1);
      this.#bytes += entry.bytes + 1;
    }
    // Calls that fill a request, or the memory, do not wait for more.
    if (refused !== undefined || this.#bytes >= this.#largest || this.#isWanted()) {
      if (this.#waiting < this.#settings.flushAt) this.#wanted = this.#reports.accepted;
      this.#schedule();
    } else this.#startFlushTimer();
    return refused;
  }

  /** Resolves when every call accepted until now has been answered for, or the time is over. */
  flush(timeout?: number): Promise<void> {
    this.#sendAll();
    return this.#reports.answered(timeout);
  }

  room(timeout?: number): Promise<boolean> {
    return this.#room.wait(timeout);
  }

  /** Accepts no more calls. Calls without an answer in time are reported, or stay in the spool. */
  async close(timeout: number): Promise<void> {
    await this.flush(timeout);
    this.#ended = true;
    clearTimeout(this.#flushTimer);
    clearTimeout(this.#wakeTimer);
    const postings = [...this.#postings.keys()];
    for (const posting of postings) posting.abort();
    await Promise.all(postings.map(({ answer }) => answer));
    const { backlog } = this.#settings;
    if (!backlog.durable) {
      for (const batch of this.#retrying) this.#close(batch);
      for (let rest = this.#take(); rest.length > 0; rest = this.#take()) this.#close(batchOf(rest));
    }
    this.#room.look();
    await backlog.close();
  }

  /**
   * The page may be going away: sends up to so many bytes of what is unanswered in a request that survives
   * the page. Calls in requests are among them, because requests end with the page; the server knows
   * repetitions by their message ids. Returns what was sent.
   */
  depart(bytes: number): readonly Entry[] {
    const entries = endangered([...this.#postings.values(), ...this.#retrying], bytes);
    let left = bytes;
    for (const entry of entries) left -= entry.bytes + 1;
    // A call of the largest size always comes out of the backlog, fitting or not.
    if (left > LARGEST_CALL) for (const entry of this.#take(left)) entries.add(entry);
    if (entries.size > 0) this.#send(batchOf(entries, true));
    return [...entries];
  }

  /** The network is back: what waits is tried now, unless the server itself asked for patience. */
  hurry(): void {
    this.#pausedUntil = this.#askedUntil;
    for (const batch of this.#retrying) batch.notBefore = this.#askedUntil;
    this.#sendAll();
  }

  get #waiting(): number {
    return this.#reports.accepted - this.#taken;
  }

  #isWanted(): boolean {
    return this.#waiting >= this.#settings.flushAt || (this.#wanted > this.#taken && this.#waiting > 0);
  }

  #sendAll(): void {
    this.#wanted = this.#reports.accepted;
    this.#schedule();
  }

  /** After the caller's own code: calls made one after the other then share their requests. */
  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    queueMicrotask(() => {
      this.#scheduled = false;
      this.#pump();
    });
  }

  #startFlushTimer(): void {
    this.#flushTimer ??= setTimeout(() => {
      this.#flushTimer = undefined;
      this.#sendAll();
    }, this.#settings.flushAfter);
  }

  /** Starts every request that may start now, and sees to it that it is called again when another may. */
  #pump(): void {
    if (this.#ended) return;
    clearTimeout(this.#wakeTimer);
    const most = this.#failures > 0 ? 1 : this.#settings.uploads;
    // A request on its way calls again when it ends.
    while (this.#postings.size < most) {
      const now = performance.now();
      const at = this.#nextStart();
      if (at > now) {
        this.#wake(at - now);
        break;
      }
      const again = this.#retrying.findIndex(({ notBefore }) => notBefore <= now);
      if (again >= 0) this.#send(this.#retrying.splice(again, 1)[0]!);
      else if (!this.#sendNext()) this.#pausedUntil = now + UNREADABLE;
    }
    if (this.#waiting > 0) this.#startFlushTimer();
  }

  /** `performance.now()` from which a request may start; infinite when there is nothing to send. */
  #nextStart(): number {
    const fresh = this.#isWanted() && this.#retrying.length < this.#settings.uploads ? 0 : Infinity;
    const again = Math.min(...this.#retrying.map(({ notBefore }) => notBefore));
    return Math.max(this.#pausedUntil, Math.min(fresh, again));
  }

  /**
   * A wait for the server keeps a program running that would otherwise be finished, unless its calls are safe
   * in a spool: then they wait for the next start.
   */
  #wake(ms: number): void {
    if (ms === Infinity) return;
    this.#wakeTimer = setTimeout(() => this.#pump(), Math.ceil(ms));
    const { unref } = this.#wakeTimer as { unref?: () => void };
    if (this.#settings.backlog.durable) unref?.call(this.#wakeTimer);
  }

  /** `false` when nothing comes out of the backlog although calls wait in it: its disk cannot be read now. */
  #sendNext(): boolean {
    // Where these are too large for one request, the rest of them goes at once too.
    this.#wanted = Math.max(
      this.#wanted,
      Math.min(this.#taken + this.#settings.flushAt, this.#reports.accepted),
    );
    const taken = this.#taken;
    const entries = this.#take();
    this.#send(batchOf(entries));
    return this.#taken > taken;
  }

  #take(bytes = this.#largest): Entry[] {
    const entries = this.#settings.backlog.take(this.#settings.flushAt, bytes);
    for (const entry of entries) {
      entry.number = ++this.#taken;
      this.#bytes -= entry.bytes + 1;
    }
    if (this.#waiting === 0 || this.#bytes < 0) this.#bytes = 0;
    return entries;
  }

  /** Nothing to send is no request: all of it was lost, or has been answered for in another one. */
  #send(batch: Batch): void {
    const entries = batch.entries.filter(({ settled }) => !settled);
    if (entries.length === 0) return;
    batch.tries++;
    const posting = post(this.#settings, entries, batch.departing);
    this.#postings.set(posting, batch);
    void posting.answer.then((answer) => {
      this.#postings.delete(posting);
      this.#answered(batch, answer);
      this.#pump();
    });
  }

  #answered(batch: Batch, answer: Answer): void {
    const verdict = answer.cause === undefined ? verdictOf(answer.status) : 'retry';
    if (this.#settings.verbose) this.#log(batch, answer);
    if (verdict !== 'retry') {
      this.#failures = 0;
      this.#lastFailure = undefined;
      this.#settle(batch, verdict === 'delivered' ? undefined : 'refused', answer);
      return;
    }
    this.#failures++;
    // A request that closing cut off says nothing of the server.
    if (!this.#ended) this.#lastFailure = answer;
    batch.uncertain ||= answer.uncertain;
    const { durable } = this.#settings.backlog;
    if (!durable && batch.tries >= MOST_TRIES) this.#settle(batch, 'gave_up', answer);
    else if (!durable && this.#ended) this.#close(batch, answer);
    else this.#wait(batch, answer.retryAfter);
  }

  #wait(batch: Batch, retryAfter: number): void {
    const { random, scale } = this.#settings.clock;
    const now = performance.now();
    const asked = spread(retryAfter, random);
    batch.notBefore = now + Math.max(backoff(batch.tries, random), asked) * scale;
    const pause = Math.max(backoff(this.#failures, random) / 2, asked) * scale;
    this.#pausedUntil = Math.max(this.#pausedUntil, now + pause);
    this.#askedUntil = Math.max(this.#askedUntil, now + asked * scale);
    batch.departing = false;
    this.#retrying.push(batch);
  }

  /** The time is over. Where no request got an answer, that is the reason, and closing only the moment. */
  #close(batch: Batch, cutOff?: Answer): void {
    const last = this.#lastFailure;
    this.#settle(batch, last?.status === 0 ? 'unreachable' : 'closed', last ?? cutOff);
  }

  #settle(batch: Batch, code?: FailureCode, answer?: Answer): void {
    const entries = batch.entries.filter(({ settled }) => !settled);
    this.#settings.backlog.settle(entries);
    const { tries, uncertain } = batch;
    this.#reports.end(entries, { tries, uncertain, code, answer });
    this.#room.look();
  }

  #log({ entries, tries }: Batch, { status, said }: Answer): void {
    this.#settings.log(
      `${entries.length} calls, try ${tries}: ${`${status || 'no answer:'} ${said}`.trim()}`,
    );
  }
}

/** How long a disk that cannot be read is left alone. */
const UNREADABLE = 1_000;
