import type { Position } from '../../model/event.ts';
import type { Time } from '../../model/time.ts';
import type { Batch } from '../../ports/event-log.ts';
import { KeptLines } from './lines.ts';
import type { StoredRecord } from './stored-record.ts';

/**
 * The stored events of one append, kept together as the bytes they came in. Texts and objects are made for whoever asks: kept for
 * every event, they would be most of what an append costs.
 */
export class Chunk {
  readonly first: Position;
  readonly receivedAt: Time;
  readonly #batch: Pick<Batch, 'owed' | 'skipped'>;
  readonly #lines: KeptLines;
  /** Of every event, or of each. */
  readonly #sources: number | readonly number[];
  /** The place of each stored event in the batch; absent when there was no duplicate. */
  #indexes: number[] | undefined;
  /** Positions given, and how many of them are still there. */
  #given = 0;
  #size = 0;
  #gone: Set<Position> | undefined;

  /** Without any event at first; `first` is the position of the first one. */
  constructor(batch: Batch, first: Position) {
    const { events, owed, skipped, receivedAt } = batch;
    this.first = first;
    this.receivedAt = receivedAt;
    this.#batch = { owed, skipped };
    this.#lines = new KeptLines(events);
    const source = events[0]?.source ?? 0;
    const isOfOne = events.every((event) => event.source === source);
    this.#sources = isOfOne ? source : events.map((event) => event.source);
  }

  /** The position behind the last one. */
  get end(): Position {
    return this.first + this.#given;
  }

  /** How many events are still there. */
  get size(): number {
    return this.#size;
  }

  /** Gives the next position to an event of the batch. Called in the order of the batch, and not for duplicates. */
  add(index: number): Position {
    if (index !== this.#given) this.#indexes ??= Array.from({ length: this.#given }, (_, nth) => nth);
    this.#indexes?.push(index);
    this.#size++;
    return this.first + this.#given++;
  }

  has(position: Position): boolean {
    return position >= this.first && position < this.end && this.#gone?.has(position) !== true;
  }

  /** Bytes of JSON. */
  lengthOf(position: Position): number {
    const { from, to } = this.#lines.at(this.#indexOf(position));
    return to - from;
  }

  /** The record of an event that is there. */
  at(position: Position): StoredRecord {
    const index = this.#indexOf(position);
    const { bytes, from, to } = this.#lines.at(index);
    const { owed, skipped } = this.#batch;
    return new KeptRecord(bytes.toString('utf8', from, to), {
      source: typeof this.#sources === 'number' ? this.#sources : this.#sources[index]!,
      receivedAt: this.receivedAt,
      owed: owed.filter(({ indexes }) => indexes.includes(index)).map(({ destination }) => destination),
      skipped: skipped
        .filter(({ indexes }) => indexes.includes(index))
        .map(({ destination, reason }) => ({ destination, reason })),
    });
  }

  /** Nothing of its bytes is left. */
  remove(position: Position): void {
    this.#lines.blank(this.#indexOf(position));
    this.#gone ??= new Set();
    this.#gone.add(position);
    this.#size--;
  }

  #indexOf(position: Position): number {
    const nth = position - this.first;
    return this.#indexes?.[nth] ?? nth;
  }
}

/** Parsed when somebody asks for an id. */
class KeptRecord implements StoredRecord {
  readonly json: string;
  readonly source: number;
  readonly receivedAt: Time;
  readonly owed: StoredRecord['owed'];
  readonly skipped: StoredRecord['skipped'];
  #ids: { readonly messageId: string; readonly userId?: string } | undefined;

  constructor(json: string, facts: Pick<StoredRecord, 'source' | 'receivedAt' | 'owed' | 'skipped'>) {
    this.json = json;
    this.source = facts.source;
    this.receivedAt = facts.receivedAt;
    this.owed = facts.owed;
    this.skipped = facts.skipped;
  }

  get messageId(): string {
    return this.#parsed().messageId;
  }

  get userId(): string | undefined {
    return this.#parsed().userId;
  }

  #parsed(): { readonly messageId: string; readonly userId?: string } {
    this.#ids ??= JSON.parse(this.json) as { messageId: string; userId?: string };
    return this.#ids;
  }
}
