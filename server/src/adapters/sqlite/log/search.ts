import type { Position } from '../../../model/event.ts';
import type { Monotonic } from '../../../model/time.ts';
import type {
  EventPrefilter,
  LogQuery,
  OwnersQuery,
  PositionPage,
  RangeSize,
  SharedIds,
  SharedIdsQuery,
} from '../../../ports/event-log.ts';
import type { Chunk } from '../../encoding/chunk-codec.ts';
import { eventLine, messageIdOf } from '../../encoding/chunk-lines.ts';
import { ANONYMOUS_NAMESPACE, hashLines, type KeyHash, USER_NAMESPACE } from '../../encoding/hashes.ts';
import { needlesOf, Owners, SharedIdSearch, unmarkWithout } from '../../encoding/line-search.ts';
import type { Watermarks } from '../installation.ts';
import type { DeadLetterTable } from '../queue/dead-letters.ts';
import type { PendingQueries } from '../queue/history.ts';
import type { FailedAttempts, SuccessfulAttempts } from '../queue/settle.ts';
import type { Chunks } from './chunks.ts';
import type { KeyIndex } from './key-index.ts';
import type { PlanTable } from './plans.ts';
import { UserIndex } from './user-index.ts';

/** Chunks that one slice passes, so that commits wait a few milliseconds at most. */
const SLICE_CHUNKS = 256;

/** User filters read in one slice. */
const SLICE_BLOCKS = 64;

/**
 * Events of decoded chunks in one slice of a descending search: a few milliseconds, and few enough chunks to
 * be still in the cache when their events are read.
 */
const SLICE_EVENTS = 4000;

/** Chunks decoded in one slice of an ascending search, which decodes every chunk of its range. */
const SLICE_DECODED = 32;
/** Facts of chunks read in one slice. */
const SLICE_FACTS = 2000;

/** Chunks that are not decoded cost as much as one decoded chunk, this many of them. */
const SKIPPED_PER_DECODED = 8;

type SearchSlice = Omit<PositionPage, 'scanned' | 'reachedAt'>;
type TimeRange = Extract<LogQuery, { from: Monotonic }>;

export interface LogSearchDependencies extends PrefilterDependencies {
  readonly chunks: Chunks;
  readonly keys: KeyIndex;
  readonly users: UserIndex;
  readonly watermarks: Pick<Watermarks, 'anonymousFrom'>;
  readonly hash: KeyHash;
}

/** Finds events. Every match by hash is compared with the event itself. */
export class LogSearch {
  readonly #chunks: Chunks;
  readonly #dependencies: LogSearchDependencies;

  constructor(dependencies: LogSearchDependencies) {
    this.#chunks = dependencies.chunks;
    this.#dependencies = dependencies;
  }

  /** Does one slice of a search. `sources`: ids of all sources that ever were. */
  find(query: LogQuery, below: Position | undefined, sources: Iterable<number>): PositionPage {
    if ('oldestFirst' in query) {
      const from = below ?? 0;
      const slice = this.#ascending(query, from);
      return { ...slice, ...this.#reached(slice.next), scanned: (slice.next ?? this.#chunks.next) - from };
    }
    const from = below ?? this.#chunks.next;
    const slice = this.#descending(query, from, sources);
    const end = slice.next ?? this.#chunks.oldest()?.first ?? 0;
    return { ...slice, ...this.#reached(slice.next), scanned: Math.max(0, from - end) };
  }

  /** See `EventLog.rangeSize`. */
  rangeSize({ from, to }: Pick<TimeRange, 'from' | 'to'>, start: Position): RangeSize {
    const facts = this.#chunks.factsFrom(this.#chunks.firstAt(start), SLICE_FACTS + 1);
    let [events, bytes] = [0, 0];
    for (const [nth, { first, n, at, until, json, isDamaged }] of facts.entries()) {
      if (nth === SLICE_FACTS) return { events, bytes, next: first };
      if (isDamaged || at >= to || until < from) continue;
      const isWhole = at >= from && until < to && first >= start;
      const counted = isWhole ? n : this.#arrivedIn(first, { from, to, start });
      events += counted;
      bytes += Math.round((json * counted) / n);
    }
    return { events, bytes };
  }

  /** How many events of a chunk arrived in a range of time, from position `start` on. */
  #arrivedIn(
    first: Position,
    { from, to, start }: { from: Monotonic; to: Monotonic; start: Position },
  ): number {
    let arrived = 0;
    for (const at of this.#chunks.arrivalsIn(first)?.subarray(Math.max(0, start - first)) ?? [])
      if (at >= from && at < to) arrived++;
    return arrived;
  }

  #descending(query: LogQuery, from: Position, sources: Iterable<number>): SearchSlice {
    if ('userId' in query) return this.#byOwner({ kind: 'userId', id: query.userId }, from);
    if ('anonymousId' in query) return this.#byOwner({ kind: 'anonymousId', id: query.anonymousId }, from);
    if ('userIds' in query) return this.#byOwners(query, from);
    if ('from' in query) return this.#byTime(query, from);
    const all = this.#byMessageId(query.messageId, sources);
    return { positions: all.filter((position) => position < from) };
  }

  #reached(next: Position | undefined): Pick<PositionPage, 'reachedAt'> {
    const at = next === undefined ? undefined : this.#chunks.arrivalOf(next);
    return at === undefined ? {} : { reachedAt: at };
  }

  /** The events of these sources with this messageId, the newest first. */
  #byMessageId(id: string, sources: Iterable<number>): Position[] {
    const found = new Set<Position>();
    const words = new Uint32Array(2);
    for (const source of sources) {
      this.#dependencies.hash(source, id, words, 0);
      this.#dependencies.keys.some(words[0]!, words[1]!, Number.NEGATIVE_INFINITY, (position) => {
        const chunk = this.#chunks.at(position);
        // A damaged event cannot be compared. Its 64-bit hash counts as a match.
        if (chunk === undefined && this.#chunks.isDamaged(position)) found.add(position);
        if (chunk === undefined || chunk.sources[position - chunk.first] !== source) return false;
        const line = eventLine(chunk, position);
        if (line.length > 0 && messageIdOf(line) === id) found.add(position);
        return false;
      });
    }
    return [...found].sort((a, b) => b - a);
  }

  /** Events of a user or an anonymousId below a position, the newest first. */
  #byOwner(owner: EventOwner, below: Position): SearchSlice {
    const words = new Uint32Array(2);
    const namespace = owner.kind === 'userId' ? USER_NAMESPACE : ANONYMOUS_NAMESPACE;
    this.#dependencies.hash(namespace, owner.id, words, 0);
    const unhashedBelow = owner.kind === 'userId' ? 0 : this.#dependencies.watermarks.anonymousFrom;
    const sought = { ...owner, high: words[0]!, low: words[1]!, unhashedBelow };
    let next = below;
    for (let blocks = 0; next > 0; blocks++) {
      if (blocks === SLICE_BLOCKS) return { positions: [], next };
      const start = UserIndex.blockStart(next - 1);
      const isHashed = start >= unhashedBelow;
      if (!isHashed || !this.#dependencies.users.excludes(start, sought.high, sought.low))
        return this.#ofOwnerBetween(start, next, sought);
      next = start;
    }
    return { positions: [] };
  }

  /** Events of a user from `start` up to `below`, the newest first. */
  #ofOwnerBetween(start: Position, below: Position, owner: SoughtOwner): SearchSlice {
    const { high, low, unhashedBelow } = owner;
    const positions: Position[] = [];
    let [passed, read] = [0, 0];
    let next = below;
    for (const { first, n, users } of this.#chunks.usersBelow(below)) {
      // Retention may have left a large gap here.
      if (first + n <= start) return { positions, next: first + n };
      if (passed++ === SLICE_CHUNKS || read >= SLICE_EVENTS) return { positions, next };
      next = Math.max(first, start);
      let mayBe = false;
      for (let index = n - 1; index >= 0; index--) {
        const position = first + index;
        const [itsHigh, itsLow] = [users[index * 2], users[index * 2 + 1]];
        const isUnhashed = position < unhashedBelow && itsHigh === 0 && itsLow === 0;
        if (!isUnhashed && (itsHigh !== high || itsLow !== low)) continue;
        if (position < start || position >= below) continue;
        mayBe = true;
        if (this.#isOf(position, owner)) positions.push(position);
      }
      if (mayBe) read += n;
      if (first < start) return { positions, next: start };
    }
    return { positions };
  }

  /** Events of many owners below a position, the newest first: one look at the hashes of each event. */
  #byOwners({ userIds, anonymousIds }: OwnersQuery, below: Position): SearchSlice {
    const { hash, watermarks } = this.#dependencies;
    const owners = new Owners({ userIds, anonymousIds }, hash);
    const unhashedBelow = anonymousIds.length === 0 ? 0 : watermarks.anonymousFrom;
    const positions: Position[] = [];
    let [passed, read] = [0, 0];
    let next = below;
    for (const { first, n, users } of this.#chunks.usersBelow(below)) {
      if (passed++ === SLICE_CHUNKS || read >= SLICE_EVENTS) return { positions, next };
      next = first;
      let mayBe = false;
      for (let index = Math.min(n, below - first) - 1; index >= 0; index--) {
        const [high, low] = [users[index * 2]!, users[index * 2 + 1]!];
        const isUnhashed = first + index < unhashedBelow && high === 0 && low === 0;
        if (!isUnhashed && !owners.hasHash(high, low)) continue;
        mayBe = true;
        const chunk = this.#chunks.at(first + index);
        const isTheirs =
          chunk === undefined
            ? !isUnhashed && this.#chunks.isDamaged(first + index)
            : owners.have(eventLine(chunk, first + index));
        if (isTheirs) positions.push(first + index);
      }
      if (mayBe) read += n;
    }
    return { positions };
  }

  /**
   * One slice of the events whose user, or anonymousId, has one of these hashes (two words each), from a
   * position on.
   */
  hashed(hashes: Uint32Array, from: Position): { readonly positions: Position[]; readonly next?: Position } {
    const wanted = new Set<string>();
    for (let at = 0; at < hashes.length; at += 2) wanted.add(`${hashes[at]} ${hashes[at + 1]}`);
    const { watermarks, hash } = this.#dependencies;
    const positions: Position[] = [];
    const facts = this.#chunks.factsFrom(this.#chunks.firstAt(from), SLICE_DECODED + 1);
    for (const [nth, { first, n }] of facts.entries()) {
      if (nth === SLICE_DECODED) return { positions, next: first };
      const chunk = this.#chunks.at(first);
      if (chunk === undefined) continue;
      const { users } = first < watermarks.anonymousFrom ? hashLines(hash, chunk) : chunk;
      for (let index = 0; index < n; index++)
        if (wanted.has(`${users[index * 2]} ${users[index * 2 + 1]}`)) positions.push(first + index);
    }
    return { positions };
  }

  /** Does one slice of `EventLog.sharedIds`. */
  sharedIds(query: SharedIdsQuery, from: Position): SharedIds {
    const search = new SharedIdSearch(query);
    const facts = this.#chunks.factsFrom(this.#chunks.firstAt(from), SLICE_DECODED + 1);
    for (const [nth, { first, n }] of facts.entries()) {
      if (nth === SLICE_DECODED) return { shared: [...search.shared], next: first };
      const chunk = this.#chunks.at(first);
      if (chunk === undefined) continue;
      for (let index = 0; index < n; index++)
        search.look(eventLine(chunk, first + index), chunk.sources[index]!);
    }
    return { shared: [...search.shared] };
  }

  /** Events that arrived from `from` (inclusive) to `to` (exclusive), below a position, the newest first. */
  #byTime(range: TimeRange, below: Position): SearchSlice {
    const facts = this.#chunks.factsBelow(below, SLICE_FACTS);
    const search = this.#searchChunk(range);
    const positions: Position[] = [];
    let [chunks, read] = [0, 0];
    for (const { first, n, at, until } of facts) {
      // The clock may have been set back, so earlier events may have arrived later. No chunk ends the search.
      if (at >= range.to || until < range.from) continue;
      chunks++;
      const found = search(first, { from: first, below });
      if (found === undefined) read += n / SKIPPED_PER_DECODED;
      else {
        read += n;
        positions.push(...found.reverse());
      }
      if (read >= SLICE_EVENTS || chunks === SLICE_CHUNKS) return { positions, next: first };
    }
    return facts.length === SLICE_FACTS ? { positions, next: facts.at(-1)!.first } : { positions };
  }

  /** Events that arrived in a range of time, from a position on, in the order of the log. */
  #ascending(range: TimeRange, start: Position): SearchSlice {
    const facts = this.#chunks.factsFrom(this.#chunks.firstAt(start), SLICE_FACTS + 1);
    const search = this.#searchChunk(range);
    const positions: Position[] = [];
    let decoded = 0;
    for (const [nth, { first, n: _, at, until }] of facts.entries()) {
      if (nth === SLICE_FACTS || decoded >= SLICE_DECODED) return { positions, next: Math.max(first, start) };
      // The clock may have been set back, so later events may have arrived earlier. No chunk ends the search.
      if (at >= range.to || until < range.from) continue;
      const found = search(first, { from: start, below: Number.POSITIVE_INFINITY });
      decoded += found === undefined ? 1 / SKIPPED_PER_DECODED : 1;
      positions.push(...(found ?? []));
    }
    return { positions };
  }

  /**
   * A function that searches one chunk: the positions it finds, ascending; undefined when it did not decode
   * the chunk.
   */
  #searchChunk({ from, to, like }: TimeRange) {
    const matcher = like === undefined ? undefined : new PrefilterMatcher(like, this.#dependencies);
    return (first: Position, range: { readonly from: Position; readonly below: Position }) => {
      const columns = matcher && this.#chunks.columnsOf(first);
      const marks = columns && matcher?.candidatesIn(columns);
      if (matcher !== undefined && marks === undefined) return undefined;
      const chunk = this.#chunks.at(first);
      if (chunk === undefined) return undefined;
      if (marks !== undefined) matcher?.excludeByJson(chunk, marks);
      const positions: Position[] = [];
      for (let index = Math.max(0, range.from - first); index < chunk.n; index++) {
        const [position, arrivedAt] = [first + index, chunk.times[index]!];
        if (position >= range.below) break;
        if (marks?.[index] === 0 || arrivedAt < from || arrivedAt >= to) continue;
        if (eventLine(chunk, position).length > 0) positions.push(position);
      }
      return positions;
    };
  }

  /**
   * Whether the event at a position, which has the hash of the owner, is theirs. A damaged event counts as
   * theirs.
   */
  #isOf(position: Position, { kind, id, unhashedBelow }: SoughtOwner): boolean {
    const chunk = this.#chunks.at(position);
    if (chunk === undefined) return position >= unhashedBelow && this.#chunks.isDamaged(position);
    const line = eventLine(chunk, position);
    if (line.length === 0 || (position < unhashedBelow && !mayHold(line, id))) return false;
    const { userId, anonymousId } = JSON.parse(line.toString()) as { userId?: string; anonymousId?: string };
    return kind === 'userId' ? userId === id : userId === undefined && anonymousId === id;
  }
}

/**
 * The person that a search is for: the user with this id, or the visitor who has nothing but this
 * anonymousId.
 */
interface EventOwner {
  readonly kind: 'userId' | 'anonymousId';
  readonly id: string;
}

interface SoughtOwner extends EventOwner {
  /** The words of the keyed hash. */
  readonly high: number;
  readonly low: number;
  /** Events of lower positions stand without the hash of an anonymousId: an earlier format wrote them. */
  readonly unhashedBelow: Position;
}

/** Spares parsing most lines. */
function mayHold(line: Buffer, id: string): boolean {
  return line.includes(JSON.stringify(id));
}

/** The tables that tell what became of events. */
export interface PrefilterDependencies {
  readonly plans: PlanTable;
  readonly successfulAttempts: SuccessfulAttempts;
  readonly failedAttempts: FailedAttempts;
  readonly deadLetters: DeadLetterTable;
  readonly pending: PendingQueries;
}

/** The columns of a chunk that can be read without its events. */
export type ChunkColumns = Pick<Chunk, 'first' | 'n' | 'sources' | 'plans'>;

/**
 * Tells which events of a chunk may match a filter, without parsing them: by source, by the bytes of their
 * JSON, and by the records of their deliveries. Lines are as `JSON.stringify` writes them, so a field with
 * its value has only one form. A nested field of the same name causes a false match, which the caller
 * rejects.
 */
class PrefilterMatcher {
  readonly #like: EventPrefilter;
  readonly #dependencies: PrefilterDependencies;
  /** A line must contain one needle of each list. */
  readonly #needles: readonly (readonly Buffer[])[];
  readonly #destinations: ReadonlySet<number>;
  /** The sought destinations that a plan owes, by plan number. */
  readonly #owedByPlan = new Map<number, readonly number[]>();

  constructor(like: EventPrefilter, dependencies: PrefilterDependencies) {
    this.#like = like;
    this.#dependencies = dependencies;
    this.#needles = needlesOf(like);
    this.#destinations = new Set(like.owedTo);
  }

  /** Marks the events that may match, by everything but their JSON; undefined when none may. */
  candidatesIn(chunk: ChunkColumns): Uint8Array | undefined {
    const { source, owedTo } = this.#like;
    const marks = owedTo === undefined ? new Uint8Array(chunk.n).fill(1) : this.#owed(chunk);
    if (source !== undefined) {
      for (let index = 0; index < chunk.n; index++) if (chunk.sources[index] !== source) marks[index] = 0;
    }
    return marks.includes(1) ? marks : undefined;
  }

  /** Clears the marks of events whose JSON does not match. */
  excludeByJson(chunk: Chunk, marks: Uint8Array): void {
    unmarkWithout(this.#needles, chunk, marks);
  }

  #owed(chunk: ChunkColumns): Uint8Array {
    const byDestination = this.#owedByDestination(chunk);
    if (this.#like.isDelivered)
      for (const [id, marks] of byDestination) this.#excludePending(id, chunk, marks);
    const any = new Uint8Array(chunk.n);
    for (const marks of byDestination.values()) {
      for (let index = 0; index < chunk.n; index++) if (marks[index] === 1) any[index] = 1;
    }
    return any;
  }

  /**
   * For each sought destination, the events it is or was owed: by their plans, by replays or by redelivery.
   */
  #owedByDestination({ first, n, plans }: ChunkColumns): Map<number, Uint8Array> {
    const byDestination = new Map<number, Uint8Array>();
    const mark = (id: number, position: Position) => {
      if (!this.#destinations.has(id)) return;
      const marks = byDestination.get(id) ?? new Uint8Array(n);
      byDestination.set(id, marks);
      marks[position - first] = 1;
    };
    for (let index = 0; index < n; index++) {
      for (const id of this.#owedByPlanOf(plans[index]!)) mark(id, first + index);
    }
    const { successfulAttempts, failedAttempts, deadLetters, pending } = this.#dependencies;
    const isComplete = (id: number) => byDestination.get(id)?.includes(0) === false;
    const others = new Set([...this.#destinations].filter((id) => !isComplete(id)));
    successfulAttempts.visitBetween(first, first + n, others, mark);
    failedAttempts.visitBetween(first, first + n, others, mark);
    deadLetters.visitBetween(first, first + n, others, mark);
    if (this.#like.isDelivered !== true) pending.visitRequeuedBetween(first, first + n, mark);
    return byDestination;
  }

  #owedByPlanOf(number: number): readonly number[] {
    const known = this.#owedByPlan.get(number);
    if (known !== undefined) return known;
    const owed = this.#dependencies.plans.get(number).owed.filter((id) => this.#destinations.has(id));
    this.#owedByPlan.set(number, owed);
    return owed;
  }

  #excludePending(id: number, { first, n }: ChunkColumns, marks: Uint8Array): void {
    const { deadLetters, pending } = this.#dependencies;
    const unmark = (position: Position) => {
      marks[position - first] = 0;
    };
    deadLetters.visitBetween(first, first + n, new Set([id]), (_, position) => unmark(position));
    if (marks.includes(1)) pending.visitBetween(id, first, first + n, unmark);
  }
}
