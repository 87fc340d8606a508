import type { Position } from '../../model/event.ts';
import type { Time } from '../../model/time.ts';
import type { Extent, Found, Query } from '../../ports/event-log.ts';
import { type Chunks, lineOf } from './chunks.ts';
import { messageId } from './dedupe.ts';
import type { KeyHash } from './key-hash.ts';
import type { Keys } from './keys.ts';
import { type LikenessParts, LikenessTest } from './likeness.ts';
import { UserBlocks } from './user-blocks.ts';

/** Chunks looked at in one slice, so that commits wait a few milliseconds at most. */
const SLICE_CHUNKS = 256;

/** Filters of users asked in one slice. */
const SLICE_BLOCKS = 64;

/**
 * Events of chunks that are read and not only looked at, in one slice downwards: a few milliseconds, and few enough chunks
 * to be still decoded when their events are read.
 */
const SLICE_EVENTS = 4000;

/** A walk through the log in its order decodes every chunk, so it takes fewer at once; what is not asked for it only skips. */
const SLICE_DECODED = 32;
const LOOKED_AT = 2000;

/** So many chunks whose events need not be read cost as much as one that is read. */
const UNREAD = 8;

type Slice = Omit<Found, 'looked' | 'reachedAt'>;
type Range = Extract<Query, { from: Time }>;

/** Finds events. Every hash is verified against the event itself. */
export class Search {
  readonly #chunks: Chunks;
  readonly #keys: Keys;
  readonly #users: UserBlocks;
  readonly #hash: KeyHash;
  readonly #parts: LikenessParts;

  constructor(
    chunks: Chunks,
    keys: Keys,
    { users, hash, parts }: { users: UserBlocks; hash: KeyHash; parts: LikenessParts },
  ) {
    this.#chunks = chunks;
    this.#keys = keys;
    this.#users = users;
    this.#hash = hash;
    this.#parts = parts;
  }

  /** One slice, and how far it has come. `sources`: ids of all there ever were. */
  find(query: Query, below: Position | undefined, sources: Iterable<number>): Found {
    if ('oldestFirst' in query) {
      const from = below ?? 0;
      const slice = this.#upwards(query, from);
      return { ...slice, ...this.#reached(slice.next), looked: (slice.next ?? this.#chunks.next) - from };
    }
    const from = below ?? this.#chunks.next;
    const slice = this.#downwards(query, from, sources);
    const end = slice.next ?? this.#chunks.oldest()?.first ?? 0;
    return { ...slice, ...this.#reached(slice.next), looked: Math.max(0, from - end) };
  }

  /** How much arrived in a range of time, from a position on. */
  extent({ from, to }: Pick<Range, 'from' | 'to'>, start: Position): Extent {
    const facts = this.#chunks.factsFrom(this.#chunks.firstAt(start), LOOKED_AT + 1);
    let [events, bytes] = [0, 0];
    for (const [nth, { first, n, at, until, json, isDamaged }] of facts.entries()) {
      if (nth === LOOKED_AT) return { events, bytes, next: first };
      if (isDamaged || at >= to || until < from) continue;
      const isWhole = at >= from && until < to && first >= start;
      const counted = isWhole ? n : this.#arrivedIn(first, { from, to, start });
      events += counted;
      bytes += Math.round((json * counted) / n);
    }
    return { events, bytes };
  }

  #arrivedIn(first: Position, { from, to, start }: { from: Time; to: Time; start: Position }): number {
    let arrived = 0;
    for (const at of this.#chunks.arrivalsIn(first)?.subarray(Math.max(0, start - first)) ?? [])
      if (at >= from && at < to) arrived++;
    return arrived;
  }

  #downwards(query: Query, from: Position, sources: Iterable<number>): Slice {
    if ('userId' in query) return this.#byUserId(query.userId, from);
    if ('from' in query) return this.#byTime(query, from);
    const all = this.#byMessageId(query.messageId, sources);
    return { positions: all.filter((position) => position < from) };
  }

  #reached(next: Position | undefined): Pick<Found, 'reachedAt'> {
    const at = next === undefined ? undefined : this.#chunks.arrivalOf(next);
    return at === undefined ? {} : { reachedAt: at };
  }

  /** All events of these sources with this messageId. */
  #byMessageId(id: string, sources: Iterable<number>): Position[] {
    const found = new Set<Position>();
    const words = new Uint32Array(2);
    for (const source of sources) {
      this.#hash(source, id, words, 0);
      this.#keys.some(words[0]!, words[1]!, Number.NEGATIVE_INFINITY, (position) => {
        const chunk = this.#chunks.at(position);
        // Nothing can be compared: the hash, of 64 bits, is believed.
        if (chunk === undefined && this.#chunks.isDamaged(position)) found.add(position);
        if (chunk === undefined || chunk.sources[position - chunk.first] !== source) return false;
        const line = lineOf(chunk, position);
        if (line.length > 0 && messageId(line) === id) found.add(position);
        return false;
      });
    }
    return [...found].sort((a, b) => b - a);
  }

  /** Events of a user below a position. */
  #byUserId(id: string, below: Position): Slice {
    const words = new Uint32Array(2);
    this.#hash(0, id, words, 0);
    const sought = { id, high: words[0]!, low: words[1]! };
    let next = below;
    for (let blocks = 0; next > 0; blocks++) {
      if (blocks === SLICE_BLOCKS) return { positions: [], next };
      const start = UserBlocks.startOf(next - 1);
      if (!this.#users.excludes(start, sought.high, sought.low))
        return this.#userBetween(start, next, sought);
      next = start;
    }
    return { positions: [] };
  }

  /** Looks into the chunks from `start` up to `below`. */
  #userBetween(start: Position, below: Position, { id, high, low }: Sought): Slice {
    const positions: Position[] = [];
    let [looked, read] = [0, 0];
    let next = below;
    for (const { first, n, users } of this.#chunks.usersBelow(below)) {
      // The log may have a gap here, as large as what retention has let go of.
      if (first + n <= start) return { positions, next: first + n };
      if (looked++ === SLICE_CHUNKS || read >= SLICE_EVENTS) return { positions, next };
      next = Math.max(first, start);
      let mayBe = false;
      for (let index = n - 1; index >= 0; index--) {
        const position = first + index;
        if (users[index * 2] !== high || users[index * 2 + 1] !== low) continue;
        if (position < start || position >= below) continue;
        mayBe = true;
        if (this.#isOf(position, id)) positions.push(position);
      }
      if (mayBe) read += n;
      if (first < start) return { positions, next: start };
    }
    return { positions };
  }

  /** Events that arrived from `from` (inclusive) to `to` (exclusive), below a position. */
  #byTime(range: Range, below: Position): Slice {
    const facts = this.#chunks.factsBelow(below, LOOKED_AT);
    const look = this.#lookAt(range);
    const positions: Position[] = [];
    let [chunks, read] = [0, 0];
    for (const { first, n, at, until } of facts) {
      // The clock may have been set back: what comes earlier in the log may have arrived later, so none ends the search.
      if (at >= range.to || until < range.from) continue;
      chunks++;
      const found = look(first, { from: first, below });
      if (found === undefined) read += n / UNREAD;
      else {
        read += n;
        positions.push(...found.reverse());
      }
      if (read >= SLICE_EVENTS || chunks === SLICE_CHUNKS) return { positions, next: first };
    }
    return facts.length === LOOKED_AT ? { positions, next: facts.at(-1)!.first } : { positions };
  }

  /** Events that arrived in this time, from a position on, in the order of the log. */
  #upwards(range: Range, start: Position): Slice {
    const facts = this.#chunks.factsFrom(this.#chunks.firstAt(start), LOOKED_AT + 1);
    const look = this.#lookAt(range);
    const positions: Position[] = [];
    let decoded = 0;
    for (const [nth, { first, n: _, at, until }] of facts.entries()) {
      if (nth === LOOKED_AT || decoded >= SLICE_DECODED) return { positions, next: Math.max(first, start) };
      // The clock may have been set back: what comes later in the log may have arrived earlier, so none ends the search.
      if (at >= range.to || until < range.from) continue;
      const found = look(first, { from: start, below: Number.POSITIVE_INFINITY });
      decoded += found === undefined ? 1 / UNREAD : 1;
      positions.push(...(found ?? []));
    }
    return { positions };
  }

  /** Looks into the chunk that begins somewhere: the positions found, ascending; `undefined` when its events were not read. */
  #lookAt({ from, to, like }: Range) {
    const test = like === undefined ? undefined : new LikenessTest(like, this.#parts);
    return (first: Position, within: { readonly from: Position; readonly below: Position }) => {
      const numbers = test && this.#chunks.numbersOf(first);
      const marks = numbers && test?.marked(numbers);
      if (test !== undefined && marks === undefined) return undefined;
      const chunk = this.#chunks.at(first);
      if (chunk === undefined) return undefined;
      if (marks !== undefined) test?.readLines(chunk, marks);
      const positions: Position[] = [];
      for (let index = Math.max(0, within.from - first); index < chunk.n; index++) {
        const [position, arrivedAt] = [first + index, chunk.times[index]!];
        if (position >= within.below) break;
        if (marks?.[index] === 0 || arrivedAt < from || arrivedAt >= to) continue;
        if (lineOf(chunk, position).length > 0) positions.push(position);
      }
      return positions;
    };
  }

  /** Whether the event at a position, whose hash is that of the user, is the user's. */
  #isOf(position: Position, userId: string): boolean {
    const chunk = this.#chunks.at(position);
    if (chunk === undefined) return this.#chunks.isDamaged(position);
    const line = lineOf(chunk, position);
    return line.length > 0 && (JSON.parse(line.toString()) as { userId?: string }).userId === userId;
  }
}

interface Sought {
  readonly id: string;
  /** Of the keyed hash. */
  readonly high: number;
  readonly low: number;
}
