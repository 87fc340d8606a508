import { isComputationId } from '../../src/model/definition.ts';
import type { Position } from '../../src/model/event.ts';
import type { DeliveryResult, PendingSetId } from '../../src/ports/delivery-queue.ts';
import type { AppendResult, Batch } from '../../src/ports/event-log.ts';
import type { Applied, StoreContents, WorldStore } from './world-store.ts';

export type Fate = 'owed' | 'delivered' | 'dead' | 'dropped' | 'erased';

/** One event, as the world knows it. */
export interface Known {
  readonly id: string;
  /** Undefined for events that the server makes. */
  readonly user: string | undefined;
  readonly source: number;
  position: Position | undefined;
  storedAt: number;
  isErased: boolean;
  /** By `deliveryKey`. */
  readonly fates: Map<string, Fate>;
  /** By `deliveryKey`: when it became owed. */
  readonly owedSince: Map<string, number>;
  /** When its client called first; undefined for events that the server makes. */
  readonly calledAt: number | undefined;
  /** Sets that have it, or had it once. */
  readonly sets: Set<PendingSetId>;
}

/** A result that ended a delivery. */
export interface Settled {
  readonly known: Known;
  readonly key: string;
  readonly result: DeliveryResult;
}

/** Changes that an operation of the store has made. */
export interface Changes {
  readonly stored: readonly Known[];
  readonly settled: readonly Settled[];
  /** Deliveries that were given up without a result, because their retry window was over. */
  readonly expired: readonly { readonly known: Known; readonly key: string }[];
  readonly erased: readonly Known[];
  /** Deliveries that are owed again after they were given up. */
  readonly revived: number;
}

/** Tells deliveries of one event from each other: those of its call, and those of replays. */
export function deliveryKey(lane: number, replay: string | undefined): string {
  return replay === undefined ? String(lane) : `${lane} ${replay}`;
}

export function laneOf(key: string): number {
  return Number.parseInt(key, 10);
}

/** The world's own books of every event, from what the store has applied. */
export class Book {
  readonly byPosition = new Map<Position, Known>();
  readonly #events = new Map<string, Known>();
  readonly #store: Pick<WorldStore, 'newSets'>;
  readonly #contents: StoreContents;
  /** The `deliveryKey` of sets by their id, also of sets that are gone. */
  readonly #keys = new Map<PendingSetId, string>();
  #letters = 0;
  /** Events that are stored and not erased. */
  #alive = 0;

  constructor(store: Pick<WorldStore, 'contents' | 'newSets'>) {
    this.#store = store;
    this.#contents = store.contents;
  }

  /** A call that a client is about to make. */
  expect(id: string, user: string, source: number, now: number): Known {
    return this.#add(id, user, source, now);
  }

  /** The newest event with this messageId: no two sources of a world have one in common. */
  find(id: string): Known | undefined {
    return this.#events.get(id);
  }

  apply({ operation, args, answer }: Applied, now: number): Changes {
    const stored = operation === 'append' ? this.#append(args[0] as Batch, answer as AppendResult, now) : [];
    const revived = this.#owe(now);
    const settled = operation === 'settle' ? this.#settle(args[0] as readonly DeliveryResult[]) : [];
    // Also of an erasure that has failed in the middle.
    this.#alive += stored.length;
    const erased = this.#contents.events.size < this.#alive ? this.#erase() : [];
    this.#alive -= erased.length;
    const isGivenUp = this.#contents.letters.length !== this.#letters && operation !== 'settle';
    this.#letters = this.#contents.letters.length;
    const expired = isGivenUp ? this.#giveUp() : [];
    return { stored, settled, expired, erased, revived };
  }

  /** Whether a delivery waits in the store, or is held. */
  isPending(key: string, position: Position): boolean {
    const { sets } = this.byPosition.get(position) ?? { sets: [] };
    for (const id of sets)
      if (this.#keys.get(id) === key && this.#contents.sets.get(id)?.deliveries.has(position) === true)
        return true;
    return false;
  }

  #add(id: string, user: string | undefined, source: number, calledAt?: number): Known {
    const known: Known = {
      ...{ id, user, source, calledAt, position: undefined, storedAt: 0, isErased: false },
      fates: new Map(),
      owedSince: new Map(),
      sets: new Set(),
    };
    this.#events.set(id, known);
    return known;
  }

  #append(batch: Batch, { positions }: AppendResult, now: number): Known[] {
    const stored: Known[] = [];
    batch.events.forEach(({ messageId, source }, index) => {
      const position = positions[index];
      if (position === undefined) return;
      let known = this.find(messageId) ?? this.#add(messageId, undefined, source);
      if (known.position === position) return;
      // An erased event has no duplicates: what comes after it under the same id is another one.
      if (known.isErased) known = this.#add(messageId, known.user, source);
      known.position = position;
      known.storedAt = now;
      this.byPosition.set(position, known);
      stored.push(known);
    });
    return stored;
  }

  /** Looks at the sets that are new. Returns how many deliveries of them had been given up. */
  #owe(now: number): number {
    let revived = 0;
    for (const { id, destination: lane, origin, deliveries } of this.#store.newSets()) {
      const replay = origin === undefined || isComputationId(origin) ? undefined : origin;
      const key = deliveryKey(lane, replay);
      this.#keys.set(id, key);
      for (const position of deliveries.keys()) {
        const known = this.byPosition.get(position)!;
        known.sets.add(id);
        const fate = known.fates.get(key);
        if (fate === 'owed') continue;
        if (fate === 'dead' || fate === 'dropped') revived++;
        known.fates.set(key, 'owed');
        known.owedSince.set(key, now);
      }
    }
    return revived;
  }

  #settle(results: readonly DeliveryResult[]): Settled[] {
    const settled: Settled[] = [];
    for (const result of results) {
      const known = this.byPosition.get(result.position);
      const key = this.#keys.get(result.set);
      if (known === undefined || key === undefined || result.decision.kind === 'retry') continue;
      if (known.fates.get(key) !== 'owed' || this.isPending(key, result.position)) continue;
      known.fates.set(key, known.isErased ? 'erased' : result.decision.kind);
      if (!known.isErased) settled.push({ known, key, result });
    }
    return settled;
  }

  #erase(): Known[] {
    const erased: Known[] = [];
    for (const known of this.byPosition.values()) {
      if (known.isErased || this.#contents.events.has(known.position!)) continue;
      known.isErased = true;
      erased.push(known);
      for (const [key, fate] of known.fates)
        if (fate === 'owed' && !this.isPending(key, known.position!)) known.fates.set(key, 'erased');
    }
    return erased;
  }

  #giveUp(): { known: Known; key: string }[] {
    const expired: { known: Known; key: string }[] = [];
    for (const known of this.byPosition.values()) {
      for (const [key, fate] of known.fates) {
        if (fate !== 'owed' || this.isPending(key, known.position!)) continue;
        known.fates.set(key, known.isErased ? 'erased' : 'dead');
        if (!known.isErased) expired.push({ known, key });
      }
    }
    return expired;
  }
}
