import type { Position } from '../../model/event.ts';
import type { NewEvent } from '../../ports/event-log.ts';

/** What has a name. */
export type Named = Pick<NewEvent, 'source' | 'messageId' | 'idsInPlace'>;

/** Numbers of a slot: the hash of a name, and the position of the newest event of that name. */
const SLOT = 2;
const POSITION = 1;
const FREE = 0;
/** Behind it there may be others. */
const GONE = -1;

/**
 * Where the newest event of every name is, by a hash of its source and messageId: an open-addressing table in one piece of
 * memory, at most half full. Names with the same hash stand behind each other, so whoever finds one looks at the event itself.
 *
 * The hash has no secret, as a table of an adapter for the network must have: clients could prepare names that fall together.
 */
export class Names {
  #slots = new Int32Array(1024 * SLOT);
  /** Slots that are not free. */
  #used = 0;

  /** The first slot with this hash; −1 when there is none. */
  first(hash: number): number {
    return this.#from(this.#homeOf(hash), hash);
  }

  /** The next slot with the same hash; −1 when there is none. */
  next(slot: number): number {
    return this.#from(this.#behind(slot), this.#slots[slot]!);
  }

  positionAt(slot: number): Position {
    return this.#slots[slot + POSITION]!;
  }

  /** Another event of the name at this slot has become the newest. */
  replace(slot: number, position: Position): void {
    this.#slots[slot + POSITION] = position;
  }

  remove(slot: number): void {
    this.#slots[slot + POSITION] = GONE;
  }

  /** Adds a name that is not there. */
  add(hash: number, position: Position): void {
    if (this.#used * SLOT * 2 >= this.#slots.length) this.#grow();
    this.#insert(hash, position);
  }

  #from(slot: number, hash: number): number {
    const slots = this.#slots;
    while (slots[slot + POSITION] !== FREE) {
      if (slots[slot] === hash && slots[slot + POSITION] !== GONE) return slot;
      slot = this.#behind(slot);
    }
    return -1;
  }

  #homeOf(hash: number): number {
    return (hash << 1) & (this.#slots.length - 1);
  }

  #behind(slot: number): number {
    return (slot + SLOT) & (this.#slots.length - 1);
  }

  #insert(hash: number, position: Position): void {
    let slot = this.#homeOf(hash);
    while (this.#slots[slot + POSITION] !== FREE) slot = this.#behind(slot);
    this.#slots[slot] = hash;
    this.#slots[slot + POSITION] = position;
    this.#used++;
  }

  #grow(): void {
    const slots = this.#slots;
    this.#slots = new Int32Array(slots.length * 2);
    this.#used = 0;
    for (let slot = 0; slot < slots.length; slot += SLOT) {
      const position = slots[slot + POSITION]!;
      if (position !== FREE && position !== GONE) this.#insert(slots[slot]!, position);
    }
  }
}

/** The hash of an event's name: from bytes where its messageId is in place, which are the units of its text. */
export function hashOfName(event: Named): number {
  const { source, idsInPlace } = event;
  let hash = source;
  if (idsInPlace === undefined) {
    const { messageId } = event;
    for (let at = 0; at < messageId.length; at++) hash = mixed(hash, messageId.charCodeAt(at));
  } else {
    const { bytes, idFrom, idTo } = idsInPlace;
    for (let at = idFrom; at < idTo; at++) hash = mixed(hash, bytes[at]!);
  }
  return hash ^ (hash >>> 15);
}

/** FNV-1a. */
function mixed(hash: number, unit: number): number {
  return Math.imul(hash ^ unit, 0x01000193);
}
