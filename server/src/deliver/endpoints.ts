import type { Destination } from '../model/destination.ts';
import type { EndpointHealth } from '../model/endpoint-health.ts';
import { type Duration, type Monotonic, SECOND } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { EndpointHealths } from '../ports/endpoint-healths.ts';
import type { Logger } from '../ports/logger.ts';
import { Endpoint, type EndpointState } from './endpoint.ts';

/** Counts that change are written so often, and a change of the state so soon after the write before. */
const EVERY: Duration = 10 * SECOND;
const SOON: Duration = SECOND;

/** Destinations written at once: a document of some kilobytes each. */
const SLICE = 200;

export interface EndpointsTools {
  readonly healths: EndpointHealths;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** The endpoints of one destination, in the order of its settings. The list is another one after a change of the settings. */
export interface WatchedEndpoints {
  readonly endpoints: readonly Endpoint[];
}

/**
 * How every endpoint of every destination does, and the way of that into the store and back. It is written when results
 * of deliveries are written, in their commit, at most once a second; where none are, by itself, every ten seconds as long
 * as something changes. A destination's document is a row; never does a request cost a write.
 */
export class Endpoints {
  readonly #tools: EndpointsTools;
  readonly #watched = new Map<number, Watched>();
  /** Whose health is not kept as it is now. */
  readonly #dirty = new Set<number>();
  /** A state has changed since the last write. */
  #isUrgent = false;
  #writtenAt: Monotonic = Number.NEGATIVE_INFINITY;
  #writing: Promise<void> | undefined;
  #cancelTimer: (() => void) | undefined;
  /** After a change of a state that no result of a delivery may follow. */
  #cancelSoon: (() => void) | undefined;
  #hasFailed = false;
  #stopped = false;

  constructor(tools: EndpointsTools) {
    this.#tools = tools;
  }

  /** An endpoint keeps its health as long as its destination has its URL, also when it changes its place. */
  configure({ id, settings }: Destination): void {
    const watched = this.#of(id);
    const left = [...watched.endpoints];
    const endpoints = settings.endpoints.map(({ url }) => {
      const known = left.findIndex((one) => one.url === url);
      if (known >= 0) return left.splice(known, 1)[0]!;
      return new Endpoint(url, (isTurned) => this.#changed(id, isTurned));
    });
    watched.endpoints = endpoints;
    // What is kept of an endpoint that is gone goes too.
    if (left.length > 0) this.#changed(id, false);
  }

  /** The same object for as long as the program runs. */
  of(destination: number): WatchedEndpoints {
    return this.#of(destination);
  }

  states(destination: number): readonly EndpointState[] {
    return this.#of(destination).endpoints.map((endpoint, place) => endpoint.shown(place));
  }

  /** Takes up what an earlier process has kept. Call after `configure`. Rejects with a `StorageError`. */
  async recall(): Promise<void> {
    for (const { destination, endpoints } of await this.#tools.healths.load()) {
      const left = [...this.#of(destination).endpoints];
      for (const kept of endpoints.filter(isHealth)) {
        const known = left.findIndex(({ url }) => url === kept.url);
        if (known >= 0) left.splice(known, 1)[0]!.recall(kept);
        else this.#changed(destination, false);
      }
    }
  }

  /** Results of deliveries are being written now: what is due goes with them. */
  ride(): void {
    if (this.#dirty.size === 0) return;
    const age = this.#tools.clock.monotonic() - this.#writtenAt;
    if (age >= (this.#isUrgent ? SOON : EVERY)) this.#write();
  }

  /** Writes what has changed; what is noted later is forgotten. Resolves in any case. Idempotent. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#cancelTimer?.();
    this.#cancelSoon?.();
    for (let tries = 0; tries < 2 || (this.#dirty.size > 0 && !this.#hasFailed); tries++) {
      await this.#writing;
      this.#write();
      await this.#writing;
    }
  }

  #of(destination: number): Watched {
    let watched = this.#watched.get(destination);
    if (watched === undefined) {
      watched = { endpoints: [] };
      this.#watched.set(destination, watched);
    }
    return watched;
  }

  /** Runs for every request. */
  #changed(destination: number, isTurned: boolean): void {
    if (isTurned && !this.#isUrgent) this.#hurry();
    if (this.#dirty.has(destination)) return;
    this.#dirty.add(destination);
    this.#wake();
  }

  #hurry(): void {
    this.#isUrgent = true;
    this.#wake();
  }

  /** Sees to it that what has changed is written, also when no result of a delivery is. */
  #wake(): void {
    if (this.#stopped) return;
    const { clock } = this.#tools;
    this.#cancelTimer ??= clock.after(EVERY, () => {
      this.#cancelTimer = undefined;
      this.#write();
    });
    if (!this.#isUrgent) return;
    this.#cancelSoon ??= clock.after(SOON, () => {
      this.#cancelSoon = undefined;
      this.#write();
    });
  }

  #write(): void {
    if (this.#writing !== undefined || this.#dirty.size === 0) return;
    this.#cancelTimer?.();
    this.#cancelSoon?.();
    this.#cancelTimer = undefined;
    this.#cancelSoon = undefined;
    this.#isUrgent = false;
    this.#writtenAt = this.#tools.clock.monotonic();
    const slice = [...this.#dirty].slice(0, SLICE);
    for (const id of slice) this.#dirty.delete(id);
    const healths = slice.map((destination) => ({
      destination,
      endpoints: this.#of(destination).endpoints.map((endpoint) => endpoint.health()),
    }));
    this.#writing = this.#keep(healths).then((isKept) => {
      this.#writing = undefined;
      if (!isKept) for (const id of slice) this.#dirty.add(id);
      if (this.#dirty.size > 0) this.#wake();
    });
  }

  async #keep(healths: Parameters<EndpointHealths['keep']>[0]): Promise<boolean> {
    try {
      await this.#tools.healths.keep(healths);
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

interface Watched {
  endpoints: readonly Endpoint[];
}

/** A store may hold what another version wrote. */
function isHealth(value: unknown): value is EndpointHealth {
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
