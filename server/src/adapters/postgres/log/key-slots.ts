import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Position } from '../../../model/event.ts';
import { type Duration, type Monotonic, SECOND } from '../../../model/time.ts';
import type { Logger } from '../../../ports/logger.ts';
import type { Database, Statement, Transaction } from '../database.ts';
import { binaryArrayOf } from './key-arrays.ts';
import { SplitBlockFilter } from './split-block-filter.ts';

const LIST: Statement = {
  name: 'key_slot.list',
  text: 'select id, tag, youngest, filter_bytes as "filterBytes" from key_slot order by id',
};

const FIND: Statement = { name: 'key_slot.find', text: 'select * from find_keys($1::int[], $2::bigint[])' };

/** Parts that are read at once: a megabyte, which is garbage afterwards. */
const SLICE_PARTS = 4;

/** As text: `pg` would read bytes as hexadecimal digits, half as long again. */
const PARTS: Statement = {
  name: 'key_filter.parts',
  text: `select encode(words, 'base64') as words from key_filter where slot = $1 and part >= $2 order by part limit ${SLICE_PARTS}`,
};

/**
 * How often a node asks for filters that are missing. Until it has them the database is asked about more
 * keys.
 */
const LOOK_EVERY: Duration = SECOND;

interface KeySlot {
  readonly id: number;
  readonly tag: number;
  /** When its last event arrived; null where that is not known yet. */
  readonly youngest: Monotonic | null;
  /** Null while it has no filter. */
  readonly filterBytes: number | null;
}

/** A filter, and the tag of the slot that followed: what one of another history holds, it may not know. */
interface SlotFilter {
  readonly filter: SplitBlockFilter;
  readonly next: number;
}

/** The slot that a transaction stores its keys in. No other opens before the transaction has ended. */
export interface OpenKeySlot {
  readonly id: number;
  readonly tag: number;
}

/** A key of a batch, by the index of its event, and a slot that may hold it. */
export interface AskedKey {
  readonly slot: number;
  readonly index: number;
}

export interface KeySlotsOptions {
  /** Bytes that filters may take. Beyond it the tables of the oldest slots are asked about each event. */
  readonly memory: number;
  readonly logger?: Pick<Logger, 'warn'> | undefined;
}

/**
 * Tells which closed slots may hold a key. Keys are rows of the slot that was open when they came, and its
 * unique index decides between two that come at once; nothing of it is in the memory of a node. A slot gets
 * no keys any more when the next one is open. Then upkeep makes a filter of it (key-upkeep.ts), which nodes
 * load when they need it, and a new event is looked for in the few slots whose filter takes it for one of
 * theirs. A slot without a filter is asked about every event.
 *
 * A failover may undo what a node has seen. The next slot has another tag then, and filters behind which it
 * stood are dropped.
 */
export class KeySlots {
  readonly #database: Database;
  readonly #options: KeySlotsOptions;
  /** The oldest first, the open one last. */
  #slots: readonly KeySlot[] = [];
  #filters: ReadonlyMap<number, SlotFilter> = new Map();
  #looking: Promise<void> | undefined;
  #lookAt = 0;
  #isShort = false;
  #isStopped = false;

  constructor(database: Database, options: KeySlotsOptions) {
    this.#database = database;
    this.#options = options;
  }

  /** Loads filters in the background, so that the first batch finds some. */
  prepare(): void {
    this.#lookSoon();
  }

  /** Resolves when nothing is read any more. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#looking;
  }

  /**
   * The closed slots to ask about the keys from the index `first` on, pairs of words, of events since a time.
   */
  async mayHold(
    read: Transaction,
    open: OpenKeySlot,
    { keys, first, since }: { readonly keys: Uint32Array; readonly first: number; readonly since: Monotonic },
  ): Promise<AskedKey[]> {
    const last = this.#slots.at(-1);
    if (last?.id !== open.id || last.tag !== open.tag) this.#know(await read.rows<KeySlot>(LIST));
    const all = Array.from({ length: keys.length / 2 - first }, (_, nth) => first + nth);
    const asked: AskedKey[] = [];
    for (const { id, youngest } of this.#slots) {
      if (id >= open.id || (youngest !== null && youngest <= since)) continue;
      const filter = this.#filters.get(id)?.filter;
      if (filter === undefined) this.#lookSoon();
      for (const index of filter?.among(keys, first) ?? all) asked.push({ slot: id, index });
    }
    return asked;
  }

  #know(slots: readonly KeySlot[]): void {
    const nextOf = new Map(slots.slice(0, -1).map(({ id }, nth) => [id, slots[nth + 1]!.tag]));
    this.#filters = new Map([...this.#filters].filter(([id, { next }]) => nextOf.get(id) === next));
    this.#slots = slots;
  }

  #lookSoon(): void {
    const now = performance.now();
    if (this.#looking !== undefined || this.#isStopped || now < this.#lookAt) return;
    this.#lookAt = now + LOOK_EVERY;
    // A look that fails is made again with the next batch.
    this.#looking = this.#look()
      .catch(() => undefined)
      .finally(() => {
        this.#looking = undefined;
      });
  }

  /** Loads the filters that the memory has room for, the newest first, and drops older ones for them. */
  async #look(): Promise<void> {
    this.#know(await this.#database.read((read) => read.rows<KeySlot>(LIST)));
    const made = this.#slots.slice(0, -1).filter(({ filterBytes }) => filterBytes !== null);
    const fitting: KeySlot[] = [];
    let bytes = 0;
    for (const slot of made.toReversed()) {
      bytes += slot.filterBytes!;
      if (bytes <= this.#options.memory) fitting.push(slot);
    }
    this.#sayIfShort(fitting.length < made.length, bytes);
    this.#filters = new Map([...this.#filters].filter(([id]) => fitting.some((slot) => slot.id === id)));
    for (const { id, filterBytes } of fitting) {
      if (this.#filters.has(id)) continue;
      const next = this.#slots[this.#slots.findIndex((slot) => slot.id === id) + 1]?.tag;
      const filter = await this.#load(id, filterBytes!);
      if (this.#isStopped) return;
      // A batch may have found another history meanwhile.
      const at = this.#slots.findIndex((slot) => slot.id === id);
      if (filter === undefined || next === undefined || this.#slots[at + 1]?.tag !== next) continue;
      this.#filters = new Map(this.#filters).set(id, { filter, next });
    }
  }

  /** Undefined when it has gone meanwhile. */
  async #load(slot: number, bytes: number): Promise<SplitBlockFilter | undefined> {
    const words = Buffer.alloc(bytes);
    let length = 0;
    for (let part = 0; length < bytes; part += SLICE_PARTS) {
      const rows = await this.#database.read((read) => read.rows<{ words: string }>(PARTS, [slot, part]));
      if (rows.length === 0 || this.#isStopped) return undefined;
      for (const row of rows) length += words.write(row.words, length, 'base64');
      await nextTurn();
    }
    return SplitBlockFilter.of(words);
  }

  /** Said once until they fit again. */
  #sayIfShort(isShort: boolean, needed: number): void {
    const { memory, logger } = this.#options;
    if (isShort && !this.#isShort) logger?.warn({ memory, needed }, 'dedupe.memory_short');
    this.#isShort = isShort;
  }
}

/** Where a key stands. */
export interface FoundKey extends AskedKey {
  /** −1 where the event was erased. */
  readonly position: Position;
  /** Its number among the keys of the slot with the same hash. */
  readonly nth: number;
}

/** Where keys stand. `keys`: of all events of the batch, as pairs of words. */
export async function findKeys(
  read: Transaction,
  keys: Uint32Array,
  asked: readonly AskedKey[],
): Promise<FoundKey[]> {
  const slots = asked.map(({ slot }) => slot);
  const indexes = asked.map(({ index }) => index);
  const rows = await read.rows<Omit<FoundKey, keyof AskedKey> & { readonly nr: number }>(FIND, [
    slots,
    binaryArrayOf(wordsAt(keys, indexes)),
  ]);
  return rows.map(({ nr, position, nth }) => ({ ...asked[nr - 1]!, position, nth }));
}

/** The pairs of words at these indexes. */
export function wordsAt(keys: Uint32Array, indexes: readonly number[]): Uint32Array {
  const words = new Uint32Array(indexes.length * 2);
  for (const [nth, index] of indexes.entries()) words.set(keys.subarray(index * 2, index * 2 + 2), nth * 2);
  return words;
}

/** Where keys stand in all slots, closed or open. */
export async function findEverywhere(read: Transaction, keys: Uint32Array): Promise<Position[]> {
  const asked: AskedKey[] = [];
  for (const { id } of await read.rows<KeySlot>(LIST))
    for (let index = 0; index * 2 < keys.length; index++) asked.push({ slot: id, index });
  const found = await findKeys(read, keys, asked);
  return found.map(({ position }) => position).filter((position) => position >= 0);
}
