import { keyHash } from '../../src/adapters/encoding/hashes.ts';
import type { Event, Position } from '../../src/model/event.ts';
import { DAY, type Time } from '../../src/model/time.ts';
import {
  type AppendResult,
  type Batch,
  type LogQuery,
  type NewEvent,
  StorageError,
} from '../../src/ports/event-log.ts';
import type { BeforeCommit, ClusterMember, InHand, NewSet } from './cluster-member.ts';
import { bytesOf, untried } from './cluster-member.ts';
import type { Row, Value } from './postgres.ts';

/** A chunk as its row has it: here one line of JSON for each event, an empty one where there is none. */
export interface Chunk {
  readonly slot: number;
  readonly first: Position;
  readonly at: Time;
  readonly lines: string[];
  readonly sources: number[];
  readonly users: string[];
}

const hash = keyHash(new Uint8Array(8));

/** The key hash of (source, id) as the signed 64-bit number that a column takes; source 0 for users. */
export function hashOf(source: number, id: string): string {
  const words = new Uint32Array(2);
  hash(source, id, words, 0);
  return String(BigInt.asIntN(64, (BigInt(words[0]!) << 32n) | BigInt(words[1]!)));
}

/** The statements of the event log, played by one process. */
export class ClusterLog {
  readonly #member: ClusterMember;
  #batches = 0;

  constructor(member: ClusterMember) {
    this.#member = member;
  }

  async append(batch: Batch, beforeCommit?: BeforeCommit): Promise<AppendResult> {
    const held = new Map<number, InHand>();
    const done = await this.#member.transaction(async () => {
      held.clear();
      const windows = batch.events.map((event) => event.dedupeWindow ?? DAY);
      const [known] = await this.#member.call(
        'append.known',
        batch.id,
        batch.receivedAt - Math.max(DAY, ...windows),
      );
      if (known!['answer'] != null) return JSON.parse(known!['answer']) as (number | null)[][];
      return await this.#store(batch, {
        slot: Number(known!['slot']),
        oldest: Number(known!['oldest']),
        held,
      });
    }, beforeCommit);
    if (done.lost) throw new StorageError('this process lost its lease');
    for (const [id, set] of held) this.#member.held.set(id, set);
    const [positions, sets] = done.answer.map((column) => column.map((one) => one ?? undefined));
    return { positions: positions!, held: sets! };
  }

  async #store(batch: Batch, to: { slot: number; oldest: number; held: Map<number, InHand> }) {
    const { call, id } = { call: this.#member.call.bind(this.#member), id: this.#member.id };
    const { events, receivedAt } = batch;
    const [taken] =
      events.length === 0 ? [] : await this.#member.session.run(`select take_positions(${events.length})`);
    const first = Number(taken?.['take_positions']);
    const places = events.length === 0 ? [] : await this.#place(batch, first, to);
    if (places.some((place) => place !== null)) {
      const lines = events.map(({ json }, index) => (places[index] === null ? '' : json));
      const users = events.map(({ userId }, index) =>
        places[index] === null || !userId ? '0' : hashOf(0, userId),
      );
      const sources = Buffer.from(JSON.stringify(events.map(({ source }) => source)));
      const facts = [to.slot, first, events.length, receivedAt, receivedAt, 0];
      await call('append.chunk', ...facts, sources, null, users, Buffer.from(lines.join('\n')));
    }
    const placed = (indexes: readonly number[]) => indexes.flatMap((index) => places[index] ?? []);
    const sets: NewSet[] = batch.owed.map(({ destination, state, indexes }) => {
      const owner = state === 'held' ? id : null;
      const times = { due: receivedAt, since: receivedAt };
      return { destination, owner, ...times, origin: null, deliveries: untried(placed(indexes)) };
    });
    const born = sets.filter(({ deliveries }) => deliveries.length > 0);
    const ids = await this.#member.owe(born);
    for (const [nth, set] of born.entries()) {
      if (set.owner !== null) to.held.set(ids[nth]!, { ...set, edits: 0, left: [...set.deliveries] });
    }
    await this.#member.count([
      ...events.map(
        ({ source }, index) =>
          ['source', source, places[index] === null ? 'duplicates' : 'accepted', 1] as const,
      ),
      ...batch.received.flatMap(({ source, calls, discarded }) => [
        ['source', source, 'received', calls] as const,
        ...Object.entries(discarded).map(
          ([reason, n]) => ['source', source, `discarded:${reason}`, n] as const,
        ),
      ]),
      ...born.map(
        ({ destination, deliveries }) => ['destination', destination, 'owed', deliveries.length] as const,
      ),
      ...batch.skipped
        .map(
          (one) =>
            ['destination', one.destination, `skipped:${one.reason}`, placed(one.indexes).length] as const,
        )
        .filter(([, , , n]) => n > 0),
    ]);
    const setOf = (set: NewSet) => (set.owner === null ? null : (ids[born.indexOf(set)] ?? null));
    const answer = [places, sets.map(setOf)];
    await call('append.batch', batch.id, id, ++this.#batches, to.slot, JSON.stringify(answer));
    return answer;
  }

  /** The position of each event; null where it is a duplicate. */
  async #place(batch: Batch, first: Position, { slot, oldest }: { slot: number; oldest: number }) {
    const { events } = batch;
    const keys = events.map(({ source, messageId }) => hashOf(source, messageId));
    const own = events.map((_, index) => first + index);
    const fresh = await this.#member.call('append.keys', slot, oldest, keys, own);
    const places: (Position | null)[] = own.map(() => null);
    for (const { position } of fresh) places[Number(position) - first] = Number(position);
    for (const [index, event] of events.entries()) {
      while (places[index] === null && !(await this.#isKnown(batch, event, { oldest, first, places }))) {
        const [again] = await this.#member.call('append.again', slot, keys[index]!, own[index]!);
        if (again !== undefined) places[index] = own[index]!;
      }
    }
    return places;
  }

  /** Whether an existing key belongs to this event: hashes may collide. */
  async #isKnown(
    batch: Batch,
    event: NewEvent,
    { oldest, first, places }: { oldest: number; first: Position; places: readonly (Position | null)[] },
  ): Promise<boolean> {
    const matches = await this.#member.call('append.matches', oldest, [
      hashOf(event.source, event.messageId),
    ]);
    const positions = matches.map(({ position }) => Number(position));
    const isSame = (one: { source: number; messageId: string }) =>
      one.source === event.source && one.messageId === event.messageId;
    const inBatch = (position: Position) =>
      places[position - first] != null && isSame(batch.events[position - first]!);
    if (positions.some(inBatch)) return true;
    const since = batch.receivedAt - (event.dedupeWindow ?? DAY);
    for (const { at, lines, sources } of await this.chunks(
      positions.filter((position) => position < first),
    )) {
      if (at <= since) continue;
      const known = lines.some(
        (line, nth) => line !== '' && isSame({ ...JSON.parse(line), source: sources[nth]! }),
      );
      if (known) return true;
    }
    return false;
  }

  /** The chunks that hold these positions. */
  async chunks(positions: readonly Position[]): Promise<Chunk[]> {
    return (await this.#member.call('read.chunks', positions)).map(chunkOf);
  }

  async read(positions: readonly Position[]): Promise<(Event | undefined)[]> {
    const chunks = await this.chunks(positions);
    return positions.map((position) => {
      const chunk = chunks.find(({ first, lines }) => position >= first && position < first + lines.length);
      const line = chunk?.lines[position - chunk.first];
      return line ? (JSON.parse(line) as Event) : undefined;
    });
  }

  /** The whole answer of `find`, without slices. */
  async find(query: LogQuery): Promise<Position[]> {
    const every = Number.MAX_SAFE_INTEGER;
    const positions: Position[] = [];
    const keep = (chunk: Chunk, is: (event: Event) => boolean) => {
      for (const [nth, line] of chunk.lines.entries()) {
        if (line !== '' && is(JSON.parse(line) as Event)) positions.push(chunk.first + nth);
      }
    };
    if ('messageId' in query) {
      const sources = await this.#member.call('settings.load');
      const hashes = sources.map(({ id }) => hashOf(Number(id), query.messageId));
      const rows = await this.#member.call('find.message', hashes, every);
      const known = rows.map(({ position }) => Number(position));
      for (const chunk of await this.chunks(known))
        keep(chunk, ({ messageId }) => messageId === query.messageId);
    } else if ('userId' in query) {
      for (const slot of await this.#slots()) {
        for (const chunk of await this.ofUser(slot, query.userId))
          keep(chunk, ({ userId }) => userId === query.userId);
      }
    } else if ('anonymousId' in query)
      throw new Error('The sketch of the cluster does not find anonymousIds.');
    else {
      for (const slot of await this.#slots()) {
        const { from, to } = query;
        for (const chunk of await this.#slices('find.time', slot, [from, to]))
          if (chunk.at >= from && chunk.at < to) keep(chunk, () => true);
      }
    }
    return positions.sort((one, other) => other - one);
  }

  /** The answer of `find` in log order, up to where another process may still add lower positions. */
  async upwards({ from, to }: { readonly from: Time; readonly to: Time }): Promise<Position[]> {
    const settled = await this.#member.transaction(async () => {
      await this.#member.call('maintain.close');
      const [row] = await this.#member.call('find.settled');
      return Number(row!['position']);
    });
    const positions: Position[] = [];
    for (const slot of await this.#slots()) {
      let next: string | null = '0';
      while (next !== null) {
        const [slice]: Row[] = await this.#member.call('find.upwards', slot, next, from, to);
        next = slice!['next'] ?? null;
        for (const { first, at, lines } of await this.chunks(hitsOf(slice!))) {
          if (at < from || at >= to) continue;
          for (const [nth, line] of lines.entries()) if (line !== '') positions.push(first + nth);
        }
      }
    }
    return positions.filter((position) => !settled.lost && position <= settled.answer);
  }

  /** The chunks of a slot that may hold events of this user. */
  ofUser(slot: number, userId: string): Promise<Chunk[]> {
    return this.#slices('find.user', slot, [hashOf(0, userId)]);
  }

  /** The chunks of a slot that a statement picks, slice by slice. */
  async #slices(name: string, slot: number, which: readonly Value[]): Promise<Chunk[]> {
    const chunks: Chunk[] = [];
    let below: string | null = String(Number.MAX_SAFE_INTEGER);
    while (below !== null) {
      const [slice] = await this.#member.call(name, slot, below, ...which);
      below = slice!['next'] ?? null;
      chunks.push(...(await this.chunks(hitsOf(slice!))));
    }
    return chunks;
  }

  async #slots(): Promise<number[]> {
    const rows = await this.#member.session.run('select id from slot union select 0 order by 1');
    return rows.map(({ id }) => Number(id));
  }
}

function hitsOf(slice: Row): Position[] {
  return (slice['hits'] ?? '{}').slice(1, -1).split(',').filter(Boolean).map(Number);
}

export function chunkOf(row: Row): Chunk {
  return {
    slot: Number(row['slot']),
    first: Number(row['first']),
    at: Number(row['at']),
    lines: bytesOf(row['body']!).toString().split('\n'),
    sources: JSON.parse(bytesOf(row['sources']!).toString()) as number[],
    users: row['users']!.slice(1, -1).split(','),
  };
}
