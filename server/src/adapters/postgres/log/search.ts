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
import { eventLine, messageIdOf, REMNANT } from '../../encoding/chunk-lines.ts';
import { ANONYMOUS_NAMESPACE, type KeyHash, USER_NAMESPACE } from '../../encoding/hashes.ts';
import { needlesOf, Owners, SharedIdSearch, unmarkWithout } from '../../encoding/line-search.ts';
import type { Statement, Transaction } from '../database.ts';
import type { ChunkTable, StoredChunk, StoredFacts } from './chunk-table.ts';
import { Horizon } from './horizon.ts';
import { findEverywhere } from './key-slots.ts';

/** Facts of chunks read in one slice. */
const SLICE_FACTS = 1000;

/** Events of chunks read whole in one slice. */
const SLICE_EVENTS = 4000;

const SOURCES: Statement = {
  name: 'search.sources',
  text: `select distinct id from ledger where scope = 'source'`,
};

type TimeRange = Extract<LogQuery, { from: Monotonic }>;
type SearchSlice = Omit<PositionPage, 'scanned' | 'reachedAt'> & {
  readonly reached?: StoredFacts | undefined;
};

/** Finds events. Every match by hash is compared with the event itself. */
export class EventSearch {
  readonly #chunks: ChunkTable;
  readonly #hash: KeyHash;
  readonly #horizon = new Horizon();

  constructor(chunks: ChunkTable, hash: KeyHash) {
    this.#chunks = chunks;
    this.#hash = hash;
  }

  /** Does one slice of a search; see `EventLog.find`. */
  async find(read: Transaction, query: LogQuery, below?: Position): Promise<PositionPage> {
    const { settled, end } = await this.#horizon.settled(read);
    if ('oldestFirst' in query) {
      const from = below ?? 0;
      const { reached, ...slice } = await this.#ascending(read, query, { from, below: settled });
      return { ...slice, reachedAt: reached?.at, scanned: (slice.next ?? settled) - from };
    }
    const from = below ?? end;
    const { reached, ...slice } = await this.#descending(read, query, from);
    return { ...slice, reachedAt: reached?.at, scanned: Math.max(0, from - (slice.next ?? 0)) };
  }

  /** See `EventLog.rangeSize`. */
  async rangeSize(
    read: Transaction,
    range: { readonly from: Monotonic; readonly to: Monotonic },
    start: Position,
  ): Promise<RangeSize> {
    const facts = await this.#factsAt(read, start, SLICE_FACTS + 1);
    let [events, bytes] = [0, 0];
    for (const [nth, { first, n, at, until, json, isDamaged }] of facts.entries()) {
      if (nth === SLICE_FACTS) return { events, bytes, next: first };
      if (isDamaged || at >= range.to || until < range.from) continue;
      const isWhole = at >= range.from && until < range.to && first >= start;
      const counted = isWhole ? n : await this.#arrivedIn(read, first, { ...range, start });
      events += counted;
      bytes += Math.round((json * counted) / n);
    }
    return { events, bytes };
  }

  /** Does one slice of `EventLog.sharedIds`. */
  async sharedIds(read: Transaction, query: SharedIdsQuery, from: Position): Promise<SharedIds> {
    const search = new SharedIdSearch(query);
    const facts = await this.#factsAt(read, from, SLICE_FACTS);
    const { taken, next } = sliceOf(facts);
    for (const chunk of await this.#chunks.holding(read, firstsOf(taken)))
      for (let index = 0; index < chunk.n; index++)
        search.look(eventLine(chunk, chunk.first + index), chunk.sources[index]!);
    const going = next ?? (facts.length === SLICE_FACTS ? facts.at(-1)!.first + facts.at(-1)!.n : undefined);
    return { shared: [...search.shared], next: going };
  }

  /** How many events of a chunk arrived in a range of time, from position `start` on. */
  async #arrivedIn(
    read: Transaction,
    first: Position,
    { from, to, start }: { readonly from: Monotonic; readonly to: Monotonic; readonly start: Position },
  ): Promise<number> {
    const [columns] = await this.#chunks.columns(read, [first]);
    let arrived = 0;
    for (const at of columns?.times.subarray(Math.max(0, start - first)) ?? [])
      if (at >= from && at < to) arrived++;
    return arrived;
  }

  /** Facts from the chunk on that holds a position. */
  async #factsAt(read: Transaction, position: Position, limit: number): Promise<StoredFacts[]> {
    const [before] = await this.#chunks.factsBelow(read, position + 1, 1);
    const start = before !== undefined && before.first + before.n > position ? before.first : position;
    return await this.#chunks.factsFrom(read, start, limit);
  }

  async #descending(read: Transaction, query: LogQuery, below: Position): Promise<SearchSlice> {
    if ('userId' in query) return await this.#byOwner(read, { kind: 'userId', id: query.userId }, below);
    if ('anonymousId' in query)
      return await this.#byOwner(read, { kind: 'anonymousId', id: query.anonymousId }, below);
    if ('userIds' in query) return await this.#byOwners(read, query, below);
    if ('from' in query) return await this.#byTime(read, query, below);
    return { positions: await this.#byMessageId(read, query.messageId, below) };
  }

  /**
   * The events of all sources with this messageId, the newest first. A damaged one cannot be compared: its
   * hash counts.
   */
  async #byMessageId(read: Transaction, id: string, below: Position): Promise<Position[]> {
    const sources = await read.rows<{ id: number }>(SOURCES);
    const words = new Uint32Array(sources.length * 2);
    for (const [nth, source] of sources.entries()) this.#hash(source.id, id, words, nth * 2);
    const found = new Set(await findEverywhere(read, words));
    const positions = [...found].filter((position) => position < below).sort((a, b) => b - a);
    const chunks = await this.#chunks.holding(read, positions);
    const damaged = new Set(
      await this.#chunks.damaged(
        read,
        positions.filter((one) => !chunkAt(chunks, one)),
      ),
    );
    return positions.filter((position) => {
      const chunk = chunkAt(chunks, position);
      if (chunk === undefined) return damaged.has(position);
      const line = eventLine(chunk, position);
      return line.length > 0 && messageIdOf(line) === id;
    });
  }

  /** Events of a user, or of an anonymousId without one, below a position, the newest first. */
  async #byOwner(read: Transaction, owner: EventOwner, below: Position): Promise<SearchSlice> {
    const hash = new Uint32Array(2);
    this.#hash(owner.kind === 'userId' ? USER_NAMESPACE : ANONYMOUS_NAMESPACE, owner.id, hash, 0);
    const facts = await this.#chunks.factsOfUser(read, hash, { below, limit: SLICE_FACTS });
    const { taken, next, reached } = sliceOf(facts, ({ hit }) => hit);
    const positions: Position[] = [];
    for (const chunk of await this.#chunks.holding(read, firstsOf(taken))) {
      for (let index = 0; index < chunk.n; index++) {
        const isTheirs = chunk.users[index * 2] === hash[0] && chunk.users[index * 2 + 1] === hash[1];
        if (isTheirs && chunk.first + index < below && isOf(chunk, index, owner))
          positions.push(chunk.first + index);
      }
    }
    return downwards(positions, { facts, next, reached });
  }

  /** Events of many owners below a position, the newest first: each chunk is read once, whoever is in it. */
  async #byOwners(read: Transaction, query: OwnersQuery, below: Position): Promise<SearchSlice> {
    const owners = new Owners(query, this.#hash);
    const facts = await this.#chunks.factsBelow(read, below, SLICE_FACTS);
    const { taken, next, reached } = sliceOf(facts);
    const positions: Position[] = [];
    for (const chunk of await this.#chunks.holding(read, firstsOf(taken))) {
      for (let index = 0; index < chunk.n && chunk.first + index < below; index++) {
        if (!owners.hasHash(chunk.users[index * 2]!, chunk.users[index * 2 + 1]!)) continue;
        if (owners.have(eventLine(chunk, chunk.first + index))) positions.push(chunk.first + index);
      }
    }
    return downwards(positions, { facts, next, reached });
  }

  /**
   * Events that arrived in a range of time, below a position, the newest first. A clock may have been set
   * back: no chunk ends the search.
   */
  async #byTime(read: Transaction, range: TimeRange, below: Position): Promise<SearchSlice> {
    const facts = await this.#chunks.factsBelow(read, below, SLICE_FACTS);
    const { taken, next, reached } = sliceOf(facts, ({ at, until }) => at < range.to && until >= range.from);
    const positions = await this.#inRange(read, taken, range);
    return downwards(
      positions.filter((position) => position < below),
      { facts, next, reached },
    );
  }

  /**
   * Events that arrived in a range of time, from a position on, in the order of the log, as far as it is
   * settled.
   */
  async #ascending(
    read: Transaction,
    range: TimeRange,
    { from, below }: { readonly from: Position; readonly below: Position },
  ): Promise<SearchSlice> {
    const facts = (await this.#factsAt(read, from, SLICE_FACTS)).filter(({ first }) => first < below);
    const { taken, next, reached } = sliceOf(facts, ({ at, until }) => at < range.to && until >= range.from);
    const found = await this.#inRange(read, taken, range);
    const positions = found.filter((position) => position >= from);
    const going = next ?? (facts.length === SLICE_FACTS ? facts.at(-1)!.first + facts.at(-1)!.n : undefined);
    if (going === undefined) return { positions };
    return { positions, next: Math.max(going, from), reached };
  }

  /** The events of these chunks that arrived in a range of time, ascending. */
  async #inRange(read: Transaction, taken: readonly StoredFacts[], range: TimeRange): Promise<Position[]> {
    const wanted = range.like === undefined ? firstsOf(taken) : await this.#mayMatch(read, taken, range.like);
    const needles = range.like === undefined ? [] : needlesOf(range.like);
    const positions: Position[] = [];
    for (const chunk of await this.#chunks.holding(read, wanted)) {
      const marks = marksOf(chunk, range.like);
      unmarkWithout(needles, chunk, marks);
      for (let index = 0; index < chunk.n; index++) {
        const at = chunk.times[index]!;
        if (marks[index] === 0 || at < range.from || at >= range.to) continue;
        if (eventLine(chunk, chunk.first + index).length > 0) positions.push(chunk.first + index);
      }
    }
    return positions;
  }

  /** Where those chunks begin that have an event of the source. */
  async #mayMatch(
    read: Transaction,
    taken: readonly StoredFacts[],
    { source }: EventPrefilter,
  ): Promise<Position[]> {
    if (source === undefined) return firstsOf(taken);
    const columns = await this.#chunks.columns(read, firstsOf(taken));
    return columns.filter(({ sources }) => sources.includes(source)).map(({ first }) => first);
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

function isOf(chunk: StoredChunk, index: number, { kind, id }: EventOwner): boolean {
  const line = eventLine(chunk, chunk.first + index);
  if (line.length === 0) return false;
  const { userId, anonymousId } = JSON.parse(line.toString()) as { userId?: string; anonymousId?: string };
  return kind === 'userId' ? userId === id : userId === undefined && anonymousId === id;
}

function marksOf(chunk: StoredChunk, like: EventPrefilter | undefined): Uint8Array {
  const marks = new Uint8Array(chunk.n).fill(1);
  const source = like?.source;
  if (source !== undefined)
    for (let index = 0; index < chunk.n; index++) if (chunk.sources[index] !== source) marks[index] = 0;
  return marks;
}

/**
 * The chunks of a slice that are to be read whole, as many as one slice reads; `next`: where the first one
 * begins that is not.
 */
function sliceOf<Facts extends StoredFacts>(
  facts: readonly Facts[],
  isWanted: (facts: Facts) => boolean = () => true,
) {
  const taken: Facts[] = [];
  let events = 0;
  let last: Facts | undefined;
  for (const one of facts) {
    if (events >= SLICE_EVENTS) return { taken, last, next: one.first, reached: one };
    last = one;
    if (!isWanted(one) || one.isDamaged) continue;
    taken.push(one);
    // Those past their retention have few events left.
    events += one.stage < REMNANT ? one.n : 1;
  }
  return { taken, last, next: undefined, reached: undefined };
}

/** A slice of a search downwards, which goes on below the last chunk that it looked at. */
function downwards(
  positions: Position[],
  {
    facts,
    next,
    reached,
  }: {
    readonly facts: readonly StoredFacts[];
    readonly next: Position | undefined;
    readonly reached: StoredFacts | undefined;
  },
): SearchSlice {
  positions.sort((a, b) => b - a);
  if (next !== undefined && reached !== undefined)
    return { positions, next: reached.first + reached.n, reached };
  const last = facts.at(-1);
  return facts.length === SLICE_FACTS && last !== undefined
    ? { positions, next: last.first, reached: last }
    : { positions };
}

function firstsOf(facts: readonly StoredFacts[]): Position[] {
  return facts.map(({ first }) => first);
}

function chunkAt(chunks: readonly StoredChunk[], position: Position): StoredChunk | undefined {
  return chunks.find(({ first, n }) => position >= first && position < first + n);
}
