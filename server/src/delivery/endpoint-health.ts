import {
  type EndpointError,
  type EndpointHealth,
  type HealthChange,
  type Outcome,
  REQUEST_RESULTS,
  type RequestResult,
} from '../model/delivery.ts';
import { defined } from '../model/json.ts';
import { nameOfTarget, type Target } from '../model/lane.ts';
import { maskUrl } from '../model/secrets.ts';
import { type Duration, MINUTE, type Monotonic, SECOND, type Time } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { EndpointHealthStore } from '../ports/delivery-queue.ts';
import { StorageError } from '../ports/event-log.ts';
import type { Logger } from '../ports/logger.ts';
import { EndpointRest } from './circuit-breaker.ts';
import type { EndpointState } from './contract.ts';

/** Length of the history of state changes. */
const MAX_HISTORY = 20;

/** Entries of one minute in the history; further changes are counted in the last entry. */
const MAX_CHANGES_A_MINUTE = 6;

/** Characters of the answer kept with the last error. */
const ANSWER_EXCERPT = 200;

/**
 * Health of one endpoint, by every request that was sent to it. Late answers count too, which come after a
 * sibling has accepted the event. Recording a request allocates nothing.
 */
export class EndpointTracker {
  /** The URL, or the name of what has none (`nameOfTarget`). */
  readonly url: string;
  readonly #label: string;
  /** Not kept over a restart: the endpoint is asked once more, and may ask for a rest again. */
  readonly rest = new EndpointRest();
  readonly #onChange: (isTurned: boolean) => void;
  /** Requests by result, in the order of `REQUEST_RESULTS`: since this program started, and before. */
  readonly #counts = new Float64Array(REQUEST_RESULTS.length);
  readonly #countsBefore = new Float64Array(REQUEST_RESULTS.length);
  #state: 'healthy' | 'failing' | undefined;
  #since: Time = 0;
  #acceptedAt: Time | undefined;
  #lastFailure: { at: Time; reason: string; status: number | undefined; answer: string } | undefined;
  #history: MutableHealthChange[] = [];

  /** `onChange` is called at every request; `isTurned`: the state has changed. */
  constructor(target: Target, onChange: (isTurned: boolean) => void) {
    this.url = nameOfTarget(target);
    this.#label = target.label;
    this.#onChange = onChange;
  }

  get state(): 'healthy' | 'failing' | undefined {
    return this.#state;
  }

  /** When the first request of the state ended. */
  get since(): Time {
    return this.#since;
  }

  get lastError(): EndpointError | undefined {
    if (this.#lastFailure === undefined) return undefined;
    const { at, reason, status, answer } = this.#lastFailure;
    return {
      at,
      reason,
      ...defined({ status, answer: answer === '' ? undefined : answer.slice(0, ANSWER_EXCERPT) }),
    };
  }

  /** Records the end of a request, at a time of the wall clock. Runs for every request. */
  record(outcome: Outcome, answer: string, at: Time): void {
    this.#counts[resultIndexOf(outcome)]!++;
    const state = outcome.kind === 'accepted' ? 'healthy' : 'failing';
    if (state === 'healthy') this.#acceptedAt = at;
    else this.#recordFailure(outcome, answer, at);
    const isTurned = state !== this.#state;
    if (isTurned) this.#changeState(state, at, outcome);
    this.#onChange(isTurned);
  }

  /** Adds what an earlier process has saved to what was recorded since the start. */
  restore(saved: EndpointHealth): void {
    REQUEST_RESULTS.forEach((result, index) => {
      this.#countsBefore[index] = saved.attempts[result] ?? 0;
    });
    if (this.#state !== undefined) return;
    this.#state = saved.state;
    this.#since = saved.since ?? 0;
    this.#acceptedAt = saved.lastAcceptedAt;
    this.#history = saved.history.slice(-MAX_HISTORY).map((change) => ({ flaps: 0, ...change }));
    if (saved.lastError === undefined) return;
    const { at, reason, status, answer = '' } = saved.lastError;
    this.#lastFailure = { at, reason, status, answer };
  }

  /** The record that the store keeps. */
  health(): EndpointHealth {
    const { lastError } = this;
    return {
      url: this.url,
      ...defined({ state: this.#state, since: this.#state && this.#since }),
      ...defined({ lastAcceptedAt: this.#acceptedAt, lastError }),
      attempts: countsByResult((index) => this.#counts[index]! + this.#countsBefore[index]!),
      history: this.#history.map(toHealthChange),
    };
  }

  /** Forgets an answer in which something stands that was erased. Says whether there was one. */
  redact(mentions: (text: string) => boolean): boolean {
    if (this.#lastFailure === undefined || !mentions(this.#lastFailure.answer)) return false;
    this.#lastFailure.answer = '';
    return true;
  }

  /** The state that status screens show. `place`: in the settings, from 0. */
  view(place: number): EndpointState {
    const { url, state = 'healthy', ...health } = this.health();
    return {
      endpoint: maskUrl(url),
      label: `${place + 1}/${this.#label}`,
      state,
      ...health,
      attemptsSinceStart: countsByResult((index) => this.#counts[index]!),
    };
  }

  #recordFailure({ reason, status }: Outcome, answer: string, at: Time): void {
    this.#lastFailure ??= { at, reason, status, answer };
    this.#lastFailure.at = at;
    this.#lastFailure.reason = reason;
    this.#lastFailure.status = status;
    this.#lastFailure.answer = answer;
  }

  #changeState(state: 'healthy' | 'failing', at: Time, { reason }: Outcome): void {
    this.#state = state;
    this.#since = at;
    const last = this.#history.at(-1);
    const early = this.#history.at(-MAX_CHANGES_A_MINUTE);
    if (last !== undefined && early !== undefined && Math.abs(at - early.at) < MINUTE) {
      last.at = at;
      last.state = state;
      last.reason = reason;
      last.flaps++;
      return;
    }
    this.#history.push({ at, state, reason, flaps: 0 });
    if (this.#history.length > MAX_HISTORY) this.#history.shift();
  }
}

interface MutableHealthChange {
  at: Time;
  state: 'healthy' | 'failing';
  reason?: string;
  flaps: number;
}

function toHealthChange({ at, state, reason, flaps }: MutableHealthChange): HealthChange {
  return {
    at,
    state,
    ...defined({ reason: state === 'healthy' ? undefined : reason, flaps: flaps || undefined }),
  };
}

function countsByResult(read: (index: number) => number): EndpointHealth['attempts'] {
  const counts: Partial<Record<RequestResult, number>> = {};
  REQUEST_RESULTS.forEach((result, index) => {
    const n = read(index);
    if (n > 0) counts[result] = n;
  });
  return counts;
}

/** Changed counts are written this often. A changed state is written this soon after the write before. */
const WRITE_INTERVAL: Duration = 10 * SECOND;
const URGENT_WRITE_DELAY: Duration = SECOND;

/** Destinations written at once: a record of some kilobytes each. */
const WRITE_BATCH = 200;

export interface EndpointRegistryDependencies {
  readonly healths: EndpointHealthStore;
  readonly clock: Clock;
  readonly logger: Logger;
}

/**
 * The endpoints of one destination, in the order of its settings. A change of the settings replaces the list.
 */
export interface DestinationEndpoints {
  trackers: readonly EndpointTracker[];
}

/**
 * Health of every endpoint of every destination. It is saved in the commits that write results of deliveries,
 * at most once a second, and by itself every ten seconds while it changes without such commits. Each
 * destination is one row; a single request never costs a write.
 */
export class EndpointRegistry {
  readonly #dependencies: EndpointRegistryDependencies;
  readonly #byDestination = new Map<number, DestinationEndpoints>();
  /** Destinations whose health has changed since it was saved. */
  readonly #dirty = new Set<number>();
  /** The state of an endpoint has changed since the last write. */
  #isUrgent = false;
  #writtenAt: Monotonic = Number.NEGATIVE_INFINITY;
  #writing: Promise<void> | undefined;
  #cancelTimer: (() => void) | undefined;
  /** Runs after a change of state, because no result of a delivery may follow it. */
  #cancelUrgentTimer: (() => void) | undefined;
  #hasFailed = false;
  #stopped = false;

  constructor(dependencies: EndpointRegistryDependencies) {
    this.#dependencies = dependencies;
  }

  /**
   * An endpoint keeps its health while its destination has its URL, also at another place of the settings.
   */
  configure(id: number, targets: readonly Target[]): void {
    const endpoints = this.#of(id);
    const left = [...endpoints.trackers];
    endpoints.trackers = targets.map((target) => {
      const index = left.findIndex((one) => one.url === nameOfTarget(target));
      if (index >= 0) return left.splice(index, 1)[0]!;
      return new EndpointTracker(target, (isTurned) => this.#markDirty(id, isTurned));
    });
    // The next write removes endpoints that are gone.
    if (left.length > 0) this.#markDirty(id, false);
  }

  /** Always the same object for a destination. */
  endpointsOf(destination: number): Readonly<DestinationEndpoints> {
    return this.#of(destination);
  }

  states(destination: number): readonly EndpointState[] {
    return this.#of(destination).trackers.map((tracker, place) => tracker.view(place));
  }

  /**
   * Restores the health that an earlier process has saved. Call after `configure`. Rejects with a
   * `StorageError`.
   */
  async restore(): Promise<void> {
    for (const { destination, endpoints } of await this.#dependencies.healths.load()) {
      const left = [...this.#of(destination).trackers];
      for (const saved of endpoints.filter(isEndpointHealth)) {
        const index = left.findIndex(({ url }) => url === saved.url);
        if (index >= 0) left.splice(index, 1)[0]!.restore(saved);
        else this.#markDirty(destination, false);
      }
    }
  }

  /** Forgets answers in which something stands that was erased. Resolves when the store has none of them. */
  async redact(mentions: (text: string) => boolean): Promise<void> {
    // What the store has may be older than what is in memory, and mention more.
    for (const [id, { trackers }] of this.#byDestination) {
      for (const tracker of trackers) tracker.redact(mentions);
      if (trackers.length > 0) this.#dirty.add(id);
    }
    while (this.#writing !== undefined || this.#dirty.size > 0) {
      await this.#writing;
      this.#write();
      await this.#writing;
      if (this.#hasFailed) throw new StorageError('the health of endpoints could not be saved: see the log');
    }
  }

  /** Writes what is due. Called while results of deliveries are written, to share their commit. */
  writeIfDue(): void {
    if (this.#dirty.size === 0) return;
    const age = this.#dependencies.clock.monotonic() - this.#writtenAt;
    if (age >= (this.#isUrgent ? URGENT_WRITE_DELAY : WRITE_INTERVAL)) this.#write();
  }

  /** Writes what has changed; later changes are lost. Never rejects. Idempotent. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#cancelTimer?.();
    this.#cancelUrgentTimer?.();
    for (let tries = 0; tries < 2 || (this.#dirty.size > 0 && !this.#hasFailed); tries++) {
      await this.#writing;
      this.#write();
      await this.#writing;
    }
  }

  #of(destination: number): DestinationEndpoints {
    let endpoints = this.#byDestination.get(destination);
    if (endpoints === undefined) {
      endpoints = { trackers: [] };
      this.#byDestination.set(destination, endpoints);
    }
    return endpoints;
  }

  /** Runs for every request. */
  #markDirty(destination: number, isTurned: boolean): void {
    if (isTurned && !this.#isUrgent) this.#markUrgent();
    if (this.#dirty.has(destination)) return;
    this.#dirty.add(destination);
    this.#scheduleWrite();
  }

  #markUrgent(): void {
    this.#isUrgent = true;
    this.#scheduleWrite();
  }

  /** Sets the timers that write changes when no results of deliveries are written. */
  #scheduleWrite(): void {
    if (this.#stopped) return;
    const { clock } = this.#dependencies;
    this.#cancelTimer ??= clock.after(WRITE_INTERVAL, () => {
      this.#cancelTimer = undefined;
      this.#write();
    });
    if (!this.#isUrgent) return;
    this.#cancelUrgentTimer ??= clock.after(URGENT_WRITE_DELAY, () => {
      this.#cancelUrgentTimer = undefined;
      this.#write();
    });
  }

  #write(): void {
    if (this.#writing !== undefined || this.#dirty.size === 0) return;
    this.#cancelTimer?.();
    this.#cancelUrgentTimer?.();
    this.#cancelTimer = undefined;
    this.#cancelUrgentTimer = undefined;
    this.#isUrgent = false;
    this.#writtenAt = this.#dependencies.clock.monotonic();
    const slice = [...this.#dirty].slice(0, WRITE_BATCH);
    for (const id of slice) this.#dirty.delete(id);
    const healths = slice.map((destination) => ({
      destination,
      endpoints: this.#of(destination).trackers.map((tracker) => tracker.health()),
    }));
    this.#writing = this.#save(healths).then((isSaved) => {
      this.#writing = undefined;
      if (!isSaved) for (const id of slice) this.#dirty.add(id);
      if (this.#dirty.size > 0) this.#scheduleWrite();
    });
  }

  async #save(healths: Parameters<EndpointHealthStore['save']>[0]): Promise<boolean> {
    try {
      await this.#dependencies.healths.save(healths);
      this.#hasFailed = false;
      return true;
    } catch (error) {
      // Logged once: other writes log the failure too, and only the view of the last seconds is lost.
      if (!this.#hasFailed) this.#dependencies.logger.warn({ error }, 'endpoints.not_kept');
      this.#hasFailed = true;
      return false;
    }
  }
}

/** The store may hold a record that another version wrote. */
function isEndpointHealth(value: unknown): value is EndpointHealth {
  if (typeof value !== 'object' || value === null) return false;
  const found = new Map(Object.entries(value));
  const attempts = found.get('attempts');
  return (
    typeof found.get('url') === 'string' &&
    typeof attempts === 'object' &&
    attempts !== null &&
    Array.isArray(found.get('history'))
  );
}

const STATUS_CLASSES = [3, 4, 5];
const OTHER_STATUS = REQUEST_RESULTS.indexOf('status_other');
const OTHER = REQUEST_RESULTS.indexOf('other');
const RESULT_INDEXES = new Map<string, number>(REQUEST_RESULTS.map((result, place) => [result, place]));

/** The index in `REQUEST_RESULTS` of an outcome. Runs for every request. */
function resultIndexOf({ kind, reason, status }: Outcome): number {
  if (kind === 'accepted') return 0;
  if (status === undefined) return RESULT_INDEXES.get(reason) ?? OTHER;
  const place = STATUS_CLASSES.indexOf(Math.floor(status / 100));
  return place < 0 ? OTHER_STATUS : place + 1;
}
