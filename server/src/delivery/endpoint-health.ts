import type { Outcome } from '../model/delivery.ts';
import type { Destination } from '../model/destination.ts';
import {
  type EndpointError,
  type EndpointHealth,
  type HealthChange,
  REQUEST_RESULTS,
  type RequestResult,
  resultIndexOf,
} from '../model/endpoint-health.ts';
import { maskUrl } from '../model/secrets.ts';
import { type Duration, MINUTE, type Monotonic, SECOND, type Time } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { EndpointHealthStore } from '../ports/delivery-queue.ts';
import type { HttpResult } from '../ports/http-client.ts';
import type { Logger } from '../ports/logger.ts';
import type { EndpointState } from './contract.ts';

/** Changes of the state that are kept. */
const MAX_HISTORY = 20;

/** Of them so many may be of the same minute; further ones are counted in the last. */
const MAX_CHANGES_A_MINUTE = 6;

/** Characters of an answer that are kept with the last error. */
const ANSWER_EXCERPT = 200;

/**
 * How one endpoint does, by the requests that were sent to it: also by those whose answers nobody waited for any more,
 * because a sibling had accepted the event. Noting one changes a few fields and makes nothing new.
 */
export class EndpointTracker {
  readonly url: string;
  readonly #onChange: (isTurned: boolean) => void;
  /** By the places of `RESULTS`: since this program started, and before. */
  readonly #counts = new Float64Array(REQUEST_RESULTS.length);
  readonly #countsBefore = new Float64Array(REQUEST_RESULTS.length);
  #state: 'healthy' | 'failing' | undefined;
  #since: Time = 0;
  #acceptedAt: Time | undefined;
  #lastFailure: { at: Time; reason: string; status: number | undefined; answer: string } | undefined;
  #history: MutableHealthChange[] = [];

  /** `changed` is called at every request; `isTurned`: its state is another one. */
  constructor(url: string, changed: (isTurned: boolean) => void) {
    this.url = url;
    this.#onChange = changed;
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
      ...{ at, reason },
      ...(status === undefined ? {} : { status }),
      ...(answer === '' ? {} : { answer: answer.slice(0, ANSWER_EXCERPT) }),
    };
  }

  /** A request has ended, at this time of the wall clock. Runs for every request. */
  record(outcome: Outcome, answer: HttpResult, at: Time): void {
    this.#counts[resultIndexOf(outcome)]!++;
    const state = outcome.kind === 'accepted' ? 'healthy' : 'failing';
    if (state === 'healthy') this.#acceptedAt = at;
    else this.#recordFailure(outcome, answer, at);
    const isTurned = state !== this.#state;
    if (isTurned) this.#changeState(state, at, outcome);
    this.#onChange(isTurned);
  }

  /** Takes up what an earlier process has kept; what was noted since the start goes on from there. */
  restore(kept: EndpointHealth): void {
    REQUEST_RESULTS.forEach((result, place) => {
      this.#countsBefore[place] = kept.attempts[result] ?? 0;
    });
    if (this.#state !== undefined) return;
    this.#state = kept.state;
    this.#since = kept.since ?? 0;
    this.#acceptedAt = kept.lastAcceptedAt;
    this.#history = kept.history.slice(-MAX_HISTORY).map((change) => ({ flaps: 0, ...change }));
    if (kept.lastError === undefined) return;
    const { at, reason, status, answer = '' } = kept.lastError;
    this.#lastFailure = { at, reason, status, answer };
  }

  /** To be kept. */
  health(): EndpointHealth {
    const { lastError } = this;
    return {
      url: this.url,
      ...(this.#state === undefined ? {} : { state: this.#state, since: this.#since }),
      ...(this.#acceptedAt === undefined ? {} : { lastAcceptedAt: this.#acceptedAt }),
      ...(lastError === undefined ? {} : { lastError }),
      attempts: countsByResult((place) => this.#counts[place]! + this.#countsBefore[place]!),
      history: this.#history.map(toHealthChange),
    };
  }

  /** To be shown. `place`: in the settings, from 0. */
  view(place: number): EndpointState {
    const { url, state = 'healthy', ...health } = this.health();
    return {
      endpoint: maskUrl(url),
      label: `${place + 1}/${URL.canParse(url) ? new URL(url).host : ''}`,
      ...{ state, ...health },
      attemptsSinceStart: countsByResult((nth) => this.#counts[nth]!),
    };
  }

  #recordFailure({ reason, status }: Outcome, answer: HttpResult, at: Time): void {
    const text = answer.kind === 'answered' ? answer.body : answer.detail;
    this.#lastFailure ??= { at, reason, status, answer: text };
    this.#lastFailure.at = at;
    this.#lastFailure.reason = reason;
    this.#lastFailure.status = status;
    this.#lastFailure.answer = text;
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
    ...{ at, state },
    ...(state === 'healthy' || reason === undefined ? {} : { reason }),
    ...(flaps === 0 ? {} : { flaps }),
  };
}

function countsByResult(read: (place: number) => number): EndpointHealth['attempts'] {
  const counts: Partial<Record<RequestResult, number>> = {};
  REQUEST_RESULTS.forEach((result, place) => {
    const n = read(place);
    if (n > 0) counts[result] = n;
  });
  return counts;
}

/** Counts that change are written so often, and a change of the state so soon after the write before. */
const WRITE_INTERVAL: Duration = 10 * SECOND;
const URGENT_WRITE_DELAY: Duration = SECOND;

/** Destinations written at once: a document of some kilobytes each. */
const WRITE_BATCH = 200;

export interface EndpointRegistryDependencies {
  readonly healths: EndpointHealthStore;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** The endpoints of one destination, in the order of its settings. A change of the settings replaces the list. */
export interface DestinationEndpoints {
  endpoints: readonly EndpointTracker[];
}

/**
 * How every endpoint of every destination does, and the way of that into the store and back. It is written when results
 * of deliveries are written, in their commit, at most once a second; where none are, by itself, every ten seconds as long
 * as something changes. A destination's document is a row; never does a request cost a write.
 */
export class EndpointRegistry {
  readonly #tools: EndpointRegistryDependencies;
  readonly #byDestination = new Map<number, DestinationEndpoints>();
  /** Whose health is not kept as it is now. */
  readonly #dirty = new Set<number>();
  /** A state has changed since the last write. */
  #isUrgent = false;
  #writtenAt: Monotonic = Number.NEGATIVE_INFINITY;
  #writing: Promise<void> | undefined;
  #cancelTimer: (() => void) | undefined;
  /** After a change of a state that no result of a delivery may follow. */
  #cancelUrgentTimer: (() => void) | undefined;
  #hasFailed = false;
  #stopped = false;

  constructor(tools: EndpointRegistryDependencies) {
    this.#tools = tools;
  }

  /** An endpoint keeps its health as long as its destination has its URL, also when it changes its place. */
  configure({ id, settings }: Destination): void {
    const watched = this.#of(id);
    const left = [...watched.endpoints];
    const endpoints = settings.endpoints.map(({ url }) => {
      const known = left.findIndex((one) => one.url === url);
      if (known >= 0) return left.splice(known, 1)[0]!;
      return new EndpointTracker(url, (isTurned) => this.#markDirty(id, isTurned));
    });
    watched.endpoints = endpoints;
    // What is kept of an endpoint that is gone goes too.
    if (left.length > 0) this.#markDirty(id, false);
  }

  /** The same object for as long as the program runs. */
  endpointsOf(destination: number): Readonly<DestinationEndpoints> {
    return this.#of(destination);
  }

  states(destination: number): readonly EndpointState[] {
    return this.#of(destination).endpoints.map((endpoint, place) => endpoint.view(place));
  }

  /** Takes up what an earlier process has kept. Call after `configure`. Rejects with a `StorageError`. */
  async restore(): Promise<void> {
    for (const { destination, endpoints } of await this.#tools.healths.load()) {
      const left = [...this.#of(destination).endpoints];
      for (const kept of endpoints.filter(isEndpointHealth)) {
        const known = left.findIndex(({ url }) => url === kept.url);
        if (known >= 0) left.splice(known, 1)[0]!.restore(kept);
        else this.#markDirty(destination, false);
      }
    }
  }

  /** Results of deliveries are being written now: what is due goes with them. */
  writeIfDue(): void {
    if (this.#dirty.size === 0) return;
    const age = this.#tools.clock.monotonic() - this.#writtenAt;
    if (age >= (this.#isUrgent ? URGENT_WRITE_DELAY : WRITE_INTERVAL)) this.#write();
  }

  /** Writes what has changed; what is noted later is forgotten. Resolves in any case. Idempotent. */
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
    let watched = this.#byDestination.get(destination);
    if (watched === undefined) {
      watched = { endpoints: [] };
      this.#byDestination.set(destination, watched);
    }
    return watched;
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

  /** Sees to it that what has changed is written, also when no result of a delivery is. */
  #scheduleWrite(): void {
    if (this.#stopped) return;
    const { clock } = this.#tools;
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
    this.#writtenAt = this.#tools.clock.monotonic();
    const slice = [...this.#dirty].slice(0, WRITE_BATCH);
    for (const id of slice) this.#dirty.delete(id);
    const healths = slice.map((destination) => ({
      destination,
      endpoints: this.#of(destination).endpoints.map((endpoint) => endpoint.health()),
    }));
    this.#writing = this.#save(healths).then((isKept) => {
      this.#writing = undefined;
      if (!isKept) for (const id of slice) this.#dirty.add(id);
      if (this.#dirty.size > 0) this.#scheduleWrite();
    });
  }

  async #save(healths: Parameters<EndpointHealthStore['save']>[0]): Promise<boolean> {
    try {
      await this.#tools.healths.save(healths);
      this.#hasFailed = false;
      return true;
    } catch (error) {
      // Said once: what else is written says it too, and nothing is lost but the view of the last seconds.
      if (!this.#hasFailed) this.#tools.logger.warn({ error }, 'endpoints.not_kept');
      this.#hasFailed = true;
      return false;
    }
  }
}

/** A store may hold what another version wrote. */
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
