import type { Position } from '../../../model/event.ts';
import type { Time } from '../../../model/time.ts';
import type { EventPrefilter, LogQuery, PositionPage, RangeSize } from '../../../ports/event-log.ts';
import type { FailureTables, SuccessfulAttempts } from '../queue/attempts.ts';
import type { PendingQueries } from '../queue/history.ts';
import type { Chunk } from './chunk-codec.ts';
import { type Chunks, eventLine } from './chunks.ts';
import { messageId } from './dedupe.ts';
import type { KeyHash } from './key-hash.ts';
import type { KeyIndex } from './key-index.ts';
import type { PlanTable } from './plans.ts';
import { UserIndex } from './user-index.ts';

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
const SLICE_HEADERS = 2000;

/** So many chunks whose events need not be read cost as much as one that is read. */
const UNREAD = 8;

type SearchSlice = Omit<PositionPage, 'scanned' | 'reachedAt'>;
type TimeRange = Extract<LogQuery, { from: Time }>;

/** Finds events. Every hash is verified against the event itself. */
export class LogSearch {
  readonly #chunks: Chunks;
  readonly #keys: KeyIndex;
  readonly #users: UserIndex;
  readonly #hash: KeyHash;
  readonly #parts: PrefilterDependencies;

  constructor(
    chunks: Chunks,
    keys: KeyIndex,
    { users, hash, parts }: { users: UserIndex; hash: KeyHash; parts: PrefilterDependencies },
  ) {
    this.#chunks = chunks;
    this.#keys = keys;
    this.#users = users;
    this.#hash = hash;
    this.#parts = parts;
  }

  /** One slice, and how far it has come. `sources`: ids of all there ever were. */
  find(query: LogQuery, below: Position | undefined, sources: Iterable<number>): PositionPage {
    if ('oldestFirst' in query) {
      const from = below ?? 0;
      const slice = this.#upwards(query, from);
      return { ...slice, ...this.#reached(slice.next), scanned: (slice.next ?? this.#chunks.next) - from };
    }
    const from = below ?? this.#chunks.next;
    const slice = this.#downwards(query, from, sources);
    const end = slice.next ?? this.#chunks.oldest()?.first ?? 0;
    return { ...slice, ...this.#reached(slice.next), scanned: Math.max(0, from - end) };
  }

  /** How much arrived in a range of time, from a position on. */
  rangeSize({ from, to }: Pick<TimeRange, 'from' | 'to'>, start: Position): RangeSize {
    const facts = this.#chunks.factsFrom(this.#chunks.firstAt(start), SLICE_HEADERS + 1);
    let [events, bytes] = [0, 0];
    for (const [nth, { first, n, at, until, json, isDamaged }] of facts.entries()) {
      if (nth === SLICE_HEADERS) return { events, bytes, next: first };
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

  #downwards(query: LogQuery, from: Position, sources: Iterable<number>): SearchSlice {
    if ('userId' in query) return this.#byUserId(query.userId, from);
    if ('from' in query) return this.#byTime(query, from);
    const all = this.#byMessageId(query.messageId, sources);
    return { positions: all.filter((position) => position < from) };
  }

  #reached(next: Position | undefined): Pick<PositionPage, 'reachedAt'> {
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
        const line = eventLine(chunk, position);
        if (line.length > 0 && messageId(line) === id) found.add(position);
        return false;
      });
    }
    return [...found].sort((a, b) => b - a);
  }

  /** Events of a user below a position. */
  #byUserId(id: string, below: Position): SearchSlice {
    const words = new Uint32Array(2);
    this.#hash(0, id, words, 0);
    const sought = { id, high: words[0]!, low: words[1]! };
    let next = below;
    for (let blocks = 0; next > 0; blocks++) {
      if (blocks === SLICE_BLOCKS) return { positions: [], next };
      const start = UserIndex.blockStart(next - 1);
      if (!this.#users.excludes(start, sought.high, sought.low))
        return this.#userBetween(start, next, sought);
      next = start;
    }
    return { positions: [] };
  }

  /** Looks into the chunks from `start` up to `below`. */
  #userBetween(start: Position, below: Position, { id, high, low }: UserQuery): SearchSlice {
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
  #byTime(range: TimeRange, below: Position): SearchSlice {
    const facts = this.#chunks.factsBelow(below, SLICE_HEADERS);
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
    return facts.length === SLICE_HEADERS ? { positions, next: facts.at(-1)!.first } : { positions };
  }

  /** Events that arrived in this time, from a position on, in the order of the log. */
  #upwards(range: TimeRange, start: Position): SearchSlice {
    const facts = this.#chunks.factsFrom(this.#chunks.firstAt(start), SLICE_HEADERS + 1);
    const look = this.#lookAt(range);
    const positions: Position[] = [];
    let decoded = 0;
    for (const [nth, { first, n: _, at, until }] of facts.entries()) {
      if (nth === SLICE_HEADERS || decoded >= SLICE_DECODED)
        return { positions, next: Math.max(first, start) };
      // The clock may have been set back: what comes later in the log may have arrived earlier, so none ends the search.
      if (at >= range.to || until < range.from) continue;
      const found = look(first, { from: start, below: Number.POSITIVE_INFINITY });
      decoded += found === undefined ? 1 / UNREAD : 1;
      positions.push(...(found ?? []));
    }
    return { positions };
  }

  /** Looks into the chunk that begins somewhere: the positions found, ascending; `undefined` when its events were not read. */
  #lookAt({ from, to, like }: TimeRange) {
    const test = like === undefined ? undefined : new PrefilterMatcher(like, this.#parts);
    return (first: Position, within: { readonly from: Position; readonly below: Position }) => {
      const numbers = test && this.#chunks.columnsOf(first);
      const marks = numbers && test?.candidatesIn(numbers);
      if (test !== undefined && marks === undefined) return undefined;
      const chunk = this.#chunks.at(first);
      if (chunk === undefined) return undefined;
      if (marks !== undefined) test?.excludeByJson(chunk, marks);
      const positions: Position[] = [];
      for (let index = Math.max(0, within.from - first); index < chunk.n; index++) {
        const [position, arrivedAt] = [first + index, chunk.times[index]!];
        if (position >= within.below) break;
        if (marks?.[index] === 0 || arrivedAt < from || arrivedAt >= to) continue;
        if (eventLine(chunk, position).length > 0) positions.push(position);
      }
      return positions;
    };
  }

  /** Whether the event at a position, whose hash is that of the user, is the user's. */
  #isOf(position: Position, userId: string): boolean {
    const chunk = this.#chunks.at(position);
    if (chunk === undefined) return this.#chunks.isDamaged(position);
    const line = eventLine(chunk, position);
    return line.length > 0 && (JSON.parse(line.toString()) as { userId?: string }).userId === userId;
  }
}

interface UserQuery {
  readonly id: string;
  /** Of the keyed hash. */
  readonly high: number;
  readonly low: number;
}

/** Where it is written what became of events. */
export interface PrefilterDependencies {
  readonly plans: PlanTable;
  readonly accepted: SuccessfulAttempts;
  readonly failures: FailureTables;
  readonly pending: PendingQueries;
}

/** What is known of the events of a chunk without their JSON. */
export type ChunkColumns = Pick<Chunk, 'first' | 'n' | 'sources' | 'plans'>;

/**
 * Tells which events of a chunk may be like what is sought, without parsing them: by their sources, by the bytes of their
 * JSON, and by what is written of their deliveries. Lines are as `JSON.stringify` writes them (`Batch.events`), so a field
 * with its value stands in them in one form only. Nested fields of the same name make it say "perhaps", and nothing worse.
 */
class PrefilterMatcher {
  readonly #like: EventPrefilter;
  readonly #parts: PrefilterDependencies;
  /** Of each, one has to be in the line. */
  readonly #needles: readonly (readonly Buffer[])[];
  readonly #lanes: ReadonlySet<number>;
  /** Lanes that are owed by the plan of this number. */
  readonly #owedByPlan = new Map<number, readonly number[]>();

  constructor(like: EventPrefilter, parts: PrefilterDependencies) {
    this.#like = like;
    this.#parts = parts;
    this.#needles = needlesOf(like);
    this.#lanes = new Set(like.owedTo);
  }

  /** Marks the events that may be like this, by all but their JSON; `undefined` when there are none. */
  candidatesIn(chunk: ChunkColumns): Uint8Array | undefined {
    const { source, owedTo } = this.#like;
    const marks = owedTo === undefined ? new Uint8Array(chunk.n).fill(1) : this.#owed(chunk);
    if (source !== undefined) {
      for (let index = 0; index < chunk.n; index++) if (chunk.sources[index] !== source) marks[index] = 0;
    }
    return marks.includes(1) ? marks : undefined;
  }

  /** Takes away the marks of the events whose JSON says that they are not like this. */
  excludeByJson(chunk: Chunk, marks: Uint8Array): void {
    const [first, ...others] = this.#needles;
    if (first === undefined) return;
    const found = new Uint8Array(chunk.n);
    for (const needle of first) markLinesWith(needle, chunk, found);
    for (let index = 0; index < chunk.n; index++) {
      if (marks[index] === 0) continue;
      const line = found[index] === 0 ? undefined : eventLine(chunk, chunk.first + index);
      const hasAll = line !== undefined && others.every((any) => any.some((needle) => line.includes(needle)));
      if (!hasAll) marks[index] = 0;
    }
  }

  #owed(chunk: ChunkColumns): Uint8Array {
    const byLane = this.#owedByLane(chunk);
    if (this.#like.isDelivered) for (const [lane, marks] of byLane) this.#excludePending(lane, chunk, marks);
    const any = new Uint8Array(chunk.n);
    for (const marks of byLane.values()) {
      for (let index = 0; index < chunk.n; index++) if (marks[index] === 1) any[index] = 1;
    }
    return any;
  }

  /** Of each lane asked for the events that it is or was owed: by their plans, or once more. */
  #owedByLane({ first, n, plans }: ChunkColumns): Map<number, Uint8Array> {
    const byLane = new Map<number, Uint8Array>();
    const mark = (lane: number, position: Position) => {
      if (!this.#lanes.has(lane)) return;
      const marks = byLane.get(lane) ?? new Uint8Array(n);
      byLane.set(lane, marks);
      marks[position - first] = 1;
    };
    for (let index = 0; index < n; index++) {
      for (const lane of this.#lanesOfPlan(plans[index]!)) mark(lane, first + index);
    }
    const { accepted, failures, pending } = this.#parts;
    const isComplete = (lane: number) => byLane.get(lane)?.includes(0) === false;
    const others = new Set([...this.#lanes].filter((lane) => !isComplete(lane)));
    accepted.visitBetween(first, first + n, others, mark);
    failures.visitBetween(first, first + n, others, mark);
    if (this.#like.isDelivered !== true) pending.visitRequeuedBetween(first, first + n, mark);
    return byLane;
  }

  #lanesOfPlan(number: number): readonly number[] {
    const known = this.#owedByPlan.get(number);
    if (known !== undefined) return known;
    const lanes = this.#parts.plans.get(number).owed.filter((lane) => this.#lanes.has(lane));
    this.#owedByPlan.set(number, lanes);
    return lanes;
  }

  #excludePending(lane: number, { first, n }: ChunkColumns, marks: Uint8Array): void {
    const { failures, pending } = this.#parts;
    const unmark = (position: Position) => {
      marks[position - first] = 0;
    };
    failures.visitDead(lane, first, first + n, unmark);
    if (marks.includes(1)) pending.visitBetween(lane, first, first + n, unmark);
  }
}

function needlesOf({ type, anonymousId, event }: EventPrefilter): Buffer[][] {
  const needles: Buffer[][] = [];
  // The rarest first: only the lines that have it are asked for the others.
  if (anonymousId !== undefined) needles.push([jsonField('anonymousId', JSON.stringify(anonymousId))]);
  if (event !== undefined) {
    const value = event.endsWith('*') ? jsonPrefix(event.slice(0, -1)) : JSON.stringify(event);
    needles.push([jsonField('event', value), jsonField('name', value)]);
  }
  if (type !== undefined) needles.push([jsonField('type', JSON.stringify(type))]);
  return needles;
}

function jsonField(name: string, value: string): Buffer {
  return Buffer.from(`"${name}":${value}`);
}

/** As the text begins in JSON. Half of a character is written in another way than the whole, so it is left out. */
function jsonPrefix(text: string): string {
  const whole = /[\ud800-\udbff]$/.test(text) ? text.slice(0, -1) : text;
  return JSON.stringify(whole).slice(0, -1);
}

function markLinesWith(needle: Buffer, { body, starts, n }: Chunk, marks: Uint8Array): void {
  let line = 0;
  for (let at = body.indexOf(needle); at >= 0; at = body.indexOf(needle, starts[line]!)) {
    while (starts[line + 1]! <= at) line++;
    marks[line] = 1;
    line++;
    if (line === n) return;
  }
}
