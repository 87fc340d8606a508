import type { Position } from '../../../model/event.ts';
import { type Duration, HOUR, type Monotonic, SECOND } from '../../../model/time.ts';
import type { ClockMark } from '../../../ports/clock.ts';
import { type Retention, StorageError } from '../../../ports/event-log.ts';
import { COMPACTED, IDS_ONLY, REMNANT } from '../../encoding/chunk-lines.ts';
import { mergeableChunks, mergeEvents, nextMerge } from '../../encoding/chunk-merge.ts';
import { remnantOf } from '../../encoding/decisions/retention.ts';
import { countOf } from '../../encoding/results.ts';
import { type Database, LOCKS, type Statement, type Transaction } from '../database.ts';
import { partitionOf } from '../formats.ts';
import { parkOrphans } from '../member.ts';
import { dropAcceptedBelow, dropFailedBefore } from '../queue/attempts.ts';
import { deadPositionsBetween, dropDeadLettersBefore, insertDeadLetters } from '../queue/dead-letters.ts';
import { count } from '../queue/ledger.ts';
import { lowestPending, takeBetween } from '../queue/pending.ts';
import { dropEnded } from '../regulations/ended.ts';
import { rewriteTables } from '../rewriting.ts';
import { dropAuditBefore } from '../settings/settings-store.ts';
import { PROFILE_STATEMENTS } from '../users/statements.ts';
import {
  bytesOf,
  type ChunkTable,
  deleteChunks,
  putChunk,
  type StoredChunk,
  type StoredFacts,
} from './chunk-table.ts';
import { Horizon } from './horizon.ts';
import { CLOSE, makeFilter, passKeys, rotateKeys, sealKeys } from './key-upkeep.ts';
import { retainedFrom } from './log-reader.ts';

/** For how long a slot is open. */
export const SLOT_SPAN: Duration = 6 * HOUR;

/** How long upkeep leaves alone what an append, or a dump, is in the way of. */
const BUSY_FOR: Duration = 2 * SECOND;

/** Chunks that one slice drops, and facts that it reads. */
const SLICE_CHUNKS = 8;
const SLICE_FACTS = 512;

const TRY_ALONE: Statement = {
  name: 'maintain.try',
  text: `select pg_try_advisory_xact_lock(${LOCKS.upkeep}) as mine`,
};

const ALONE: Statement = { name: 'maintain.alone', text: `select pg_advisory_xact_lock(${LOCKS.upkeep})` };

/** Slots that were dropped meanwhile have no file any more. */
const ERASED_SLOTS: Statement = {
  name: 'scrub.slots',
  text: 'select e.slot, e.erasures from erased_slot e join slot s on s.id = e.slot order by e.slot',
};

/** Events that were erased meanwhile need another scrub. */
const SCRUBBED: Statement = {
  name: 'scrub.done',
  text: `delete from erased_slot e using unnest($1::int[], $2::bigint[]) d(slot, erasures)
    where e.slot = d.slot and e.erasures = d.erasures`,
};

const PUT_FACT: Statement = {
  name: 'maintain.fact',
  text: `insert into installation(name, value) values ($1, $2) on conflict (name) do update set value = excluded.value`,
};

const MERGED_TO: Statement = {
  name: 'maintain.merged_to',
  text: `select coalesce((select value::bigint from installation where name = 'merged_to'), 0) as position`,
};

export const OPEN_SLOT: Statement = {
  name: 'maintain.open_slot',
  text: `select s.id, (select c.at from chunk c where c.slot = s.id order by c.first limit 1) as at,
      to_regclass('chunk_' || s.id + 1) is not null as "hasNext"
    from slot s order by s.id desc limit 1`,
};

export interface OpenSlotRow {
  readonly id: number;
  /** When its first event arrived. */
  readonly at: Monotonic | null;
  /** Whether the table of the next one is there. */
  readonly hasNext: boolean;
}

/** Every position from here on is in the new slot. */
const OPEN: Statement = {
  name: 'maintain.open',
  text: 'insert into slot(id, from_position) values ($1::int, take_positions(1))',
};

/** Lets no append begin, and waits for those under way, however long they take. */
const CLOSE_AT_LAST: Statement = {
  name: 'maintain.close_at_last',
  text: `select pg_advisory_xact_lock(${LOCKS.slot})`,
};

/** When the newest event of a closed slot arrived. No append is under way in it: `CLOSE` waited for them. */
const SEAL: Statement = {
  name: 'maintain.seal',
  text: `update slot s set youngest = (select coalesce(max(c.until), 0) from chunk c where c.slot = s.id)
    where s.id = (select min(id) from slot where youngest is null and id < (select max(id) from slot)) returning s.id`,
};

const EMPTY_SLOT: Statement = {
  name: 'maintain.empty_slot',
  text: `select s.id from slot s where s.youngest is not null
    and not exists (select from chunk c where c.slot = s.id) order by s.id limit 1`,
};

const NO_SLOT: Statement = { name: 'maintain.no_slot', text: 'delete from slot where id = $1' };

const WEIGH: Statement = {
  name: 'maintain.weigh',
  text: `insert into volume as v (process, events, bytes) values ($1, $2, $3)
    on conflict (process) do update set events = v.events + excluded.events, bytes = v.bytes + excluded.bytes`,
};

const VOLUME: Statement = {
  name: 'log.volume',
  text: 'select coalesce(sum(events), 0) as events, coalesce(sum(bytes), 0) as bytes from volume',
};

/** Answers to batches of processes that are gone. Nobody has waited for one that long. */
const FORGET: Statement = {
  name: 'maintain.forget',
  text: `delete from batch where stored < clock_timestamp() - interval '1 day' and process not in (select id from process)`,
};

/** Events stored and not past their retention, and bytes of the log. */
export async function volumeOf(
  read: Transaction,
): Promise<{ readonly events: number; readonly bytes: number }> {
  const [row] = await read.rows<{ events: number; bytes: number }>(VOLUME);
  return row!;
}

/** Chunks below this position are merged. */
async function mergedTo(read: Transaction): Promise<Position> {
  const [mark] = await read.rows<{ position: Position }>(MERGED_TO);
  return mark!.position;
}

interface MaintenanceDependencies {
  readonly database: Database;
  readonly chunks: ChunkTable;
  readonly dedupeWindow: Duration;
}

/** The moment and the limits of one slice. */
interface Upkeep {
  readonly now: Monotonic;
  readonly retention: Retention;
  /** MessageIds of events since then are remembered. */
  readonly idsSince: Monotonic;
}

/** Somebody holds a delivery of what was to be dropped. */
class HeldError extends StorageError {
  readonly position: Position;

  constructor(position: Position) {
    super('events past their retention are being delivered: they go when that is done');
    this.position = position;
  }
}

/**
 * Background work on the log, a slice in each transaction, by one process at a time. Positions never change.
 * Nothing disappears without a trace: deliveries still owed of an event become dead letters in the same
 * commit, and events of dead letters stay readable as long as those are kept. A messageId stays until its
 * dedupe window is over.
 */
export class LogMaintenance {
  readonly #dependencies: MaintenanceDependencies;
  readonly #horizon = new Horizon();
  /** When records are looked at next, and up to which number regulations were. */
  #recordsAt: Monotonic = Number.NEGATIVE_INFINITY;
  #endedTo = 0;
  /**
   * When a slot may be opened again, and the table of one dropped, by `performance.now`: what may hold up
   * appends for a moment.
   */
  #rotateAt = 0;
  #dropAt = 0;

  constructor(dependencies: MaintenanceDependencies) {
    this.#dependencies = dependencies;
  }

  /** See `EventLog.maintain`. Another process does the work while it holds the lock of upkeep. */
  async maintain(now: Monotonic, retention: Retention, mark?: ClockMark): Promise<boolean> {
    const { database, dedupeWindow } = this.#dependencies;
    if (mark !== undefined)
      await database.write(async (write) => write.later(PUT_FACT, ['clocks', JSON.stringify(mark)]));
    const upkeep = { now, retention, idsSince: now - (retention.messageIds ?? dedupeWindow) };
    if (await makeFilter(database, upkeep.idsSince)) return true;
    for (let limit = Number.POSITIVE_INFINITY; ; ) {
      try {
        return await database.write((write) => this.#slice(write, upkeep, limit));
      } catch (error) {
        if (!(error instanceof HeldError)) throw error;
        limit = error.position;
      }
    }
  }

  /**
   * The first of these that has something to do does a slice of it. `limit`: nothing from this position on is
   * dropped.
   */
  async #slice(write: Transaction, upkeep: Upkeep, limit: Position): Promise<boolean> {
    const [turn] = await write.rows<{ mine: boolean }>(TRY_ALONE);
    if (!turn!.mine) return false;
    const from = await retainedFrom(write);
    return (
      (await this.#rotate(write, upkeep)) ||
      (await write.rows(SEAL)).length > 0 ||
      (await sealKeys(write)) ||
      // Before merging: a chunk that holds old and new events stays as long as the youngest of them.
      (await this.#dropOld(write, upkeep, { from, limit })) ||
      (await this.#merge(write, upkeep)) ||
      (await this.#dropForSpace(write, upkeep, { from, limit })) ||
      (await this.#dropIds(write, upkeep)) ||
      (await this.#dropRemnants(write, upkeep, upkeep.now - upkeep.retention.deadLetters)) ||
      (await this.#passKeys(write, upkeep, from)) ||
      (await dropSlot(write)) ||
      (await dropFailures(write, upkeep, from)) ||
      (await this.#dropRecords(write, upkeep))
    );
  }

  /** Looks once an hour for old entries of the audit trail, and for receipts of regulations. */
  async #dropRecords(write: Transaction, { now, retention }: Upkeep): Promise<boolean> {
    const { auditBefore, regulationsBefore } = retention;
    if (now < this.#recordsAt) return false;
    if (auditBefore !== undefined && (await dropAuditBefore(write, auditBefore))) return true;
    const { after, hasMore } =
      regulationsBefore === undefined
        ? { after: 0, hasMore: false }
        : await dropEnded(write, this.#endedTo, regulationsBefore);
    this.#endedTo = after;
    if (!hasMore) this.#recordsAt = now + HOUR;
    return hasMore;
  }

  /**
   * Opens the next slot of the log or of keys. An append that takes long makes the slot longer, and stops
   * nobody: it is tried again later.
   */
  async #rotate(write: Transaction, { now }: Upkeep): Promise<boolean> {
    if (performance.now() < this.#rotateAt) return false;
    const hasOpened = (await rotateLog(write, now)) ?? (await rotateKeys(write));
    if (hasOpened === false) this.#rotateAt = performance.now() + BUSY_FOR;
    return hasOpened ?? false;
  }

  /**
   * Merges small neighbours of one slot: then they compress as well as batches do, and a search reads one row
   * instead of hundreds.
   */
  async #merge(write: Transaction, { now }: Upkeep): Promise<boolean> {
    const { chunks } = this.#dependencies;
    const all = await chunks.factsFrom(write, await mergedTo(write), SLICE_FACTS);
    if (all.length === 0) return false;
    let facts = all.filter(({ slot }) => slot === all[0]!.slot);
    const end = Number.POSITIVE_INFINITY;
    let merge = nextMerge(facts, end, now);
    // Large chunks are passed in one slice.
    let passed: StoredFacts | undefined;
    while (merge.length === 1 && facts.length > 1) {
      passed = facts[0];
      facts = facts.slice(1);
      merge = nextMerge(facts, end, now);
    }
    const isClosed = facts.length < all.length;
    if (merge.length === 0 && isClosed) merge = mergeableChunks(facts, end);
    const last = merge.at(-1) ?? passed;
    if (last === undefined) return false;
    if (merge.length > 1) await this.#mergeChunks(write, facts.slice(0, merge.length));
    write.later(PUT_FACT, ['merged_to', String(last.first + last.n)]);
    return true;
  }

  async #mergeChunks(write: Transaction, facts: readonly StoredFacts[]): Promise<void> {
    const firsts = facts.map(({ first }) => first);
    const whole = await this.#dependencies.chunks.holding(write, firsts);
    // An unreadable chunk stays as it is, and so do its neighbours: a person may still recover some of it.
    if (whole.length < facts.length) return;
    const { slot, first } = facts[0]!;
    deleteChunks(write, slot, firsts.slice(1));
    const bytes = putChunk(write, { slot, first, stage: COMPACTED }, mergeEvents(whole));
    weigh(write, 0, bytes - whole.reduce((sum, chunk) => sum + chunk.bytes, 0));
  }

  async #dropOld(write: Transaction, upkeep: Upkeep, span: DropSpan): Promise<boolean> {
    const oldest = upkeep.now - upkeep.retention.events;
    const facts = await this.#dependencies.chunks.factsFrom(write, span.from, SLICE_CHUNKS);
    // The first chunk that must stay ends the slice. Later ones are newer, or the clock was set back and they
    // wait.
    const stays = facts.findIndex(({ until }) => until >= oldest);
    return await this.#drop(write, upkeep, { ...span, facts: stays < 0 ? facts : facts.slice(0, stays) });
  }

  /** Frees space: drops remnants first, then the oldest events, one chunk at a time. */
  async #dropForSpace(write: Transaction, upkeep: Upkeep, span: DropSpan): Promise<boolean> {
    const { disk } = upkeep.retention;
    if (disk === undefined || !(await this.#isOver(write, disk))) return false;
    if (await this.#dropRemnants(write, upkeep, Number.MAX_SAFE_INTEGER)) return true;
    const facts = await this.#dependencies.chunks.factsFrom(write, span.from, 1);
    return await this.#drop(write, upkeep, { ...span, facts, keepsDead: false });
  }

  /** Whether the log takes more than profiles leave of the limit, and more than half of it. */
  async #isOver(write: Transaction, disk: number): Promise<boolean> {
    const { bytes } = await volumeOf(write);
    if (bytes <= disk / 2) return false;
    const [size] = await write.rows<{ profiles: number; bytes: number }>(PROFILE_STATEMENTS.size);
    // Tables without a row have pages too.
    const profiles = size!.profiles === 0 ? 0 : Number(size!.bytes);
    return bytes > Math.max(disk / 2, disk - profiles);
  }

  /** Dead-letters what is owed of these chunks, and drops them. False when none of them can go. */
  async #drop(
    write: Transaction,
    upkeep: Upkeep,
    {
      from,
      limit,
      facts,
      keepsDead = true,
    }: DropSpan & { readonly facts: readonly StoredFacts[]; readonly keepsDead?: boolean },
  ): Promise<boolean> {
    const { settled } = await this.#horizon.settled(write);
    const going = facts.filter(({ first, n }) => first + n <= Math.min(limit, settled));
    const last = going.at(-1);
    if (last === undefined) return false;
    const cut = last.first + last.n;
    await parkOrphans(write);
    await bury(write, upkeep, { from, below: cut });
    const held = await lowestPending(write, from, cut);
    if (held !== undefined) throw new HeldError(held);
    const { chunks } = this.#dependencies;
    const readable = await chunks.holding(
      write,
      going.map(({ first }) => first),
    );
    for (const { slot, first, n } of going) {
      if (readable.some((chunk) => chunk.first === first)) continue;
      deleteChunks(write, slot, [first]);
      weigh(write, -n, 0);
    }
    for (const chunk of readable) {
      const dead = keepsDead
        ? await deadPositionsBetween(write, chunk.first, chunk.first + chunk.n)
        : new Set<Position>();
      weigh(write, -storedIn(chunk), reduce(write, chunk, { dead, idsSince: upkeep.idsSince }));
    }
    write.later(PUT_FACT, ['retained_from', String(cut)]);
    return true;
  }

  /** Drops messageIds whose dedupe window is over. */
  async #dropIds(write: Transaction, { idsSince }: Upkeep): Promise<boolean> {
    const { chunks } = this.#dependencies;
    const rows = await chunks.remnants(write, IDS_ONLY, idsSince + 1);
    for (const row of rows) {
      deleteChunks(write, row.slot, [row.first]);
      weigh(write, 0, -bytesOf(row));
    }
    return rows.length > 0;
  }

  /**
   * Drops remnants whose time is over. Replayed deliveries of their events that are still pending become dead
   * letters.
   */
  async #dropRemnants(write: Transaction, upkeep: Upkeep, before: Monotonic): Promise<boolean> {
    const { chunks } = this.#dependencies;
    const [row] = await chunks.remnants(write, REMNANT, before);
    const chunk = row && chunks.decode(row);
    if (row === undefined) return false;
    await bury(write, upkeep, { from: row.first, below: row.first + row.n });
    if (chunk === undefined) deleteChunks(write, row.slot, [row.first]);
    else weigh(write, 0, reduce(write, chunk, { dead: new Set(), idsSince: upkeep.idsSince }));
    return true;
  }

  /** See `passKeys`. A table that has to wait is tried again later. */
  async #passKeys(write: Transaction, { idsSince }: Upkeep, from: Position): Promise<boolean> {
    if (performance.now() < this.#dropAt) return false;
    const passed = await passKeys(write, { idsSince, from });
    if (passed === undefined) return false;
    if (passed.bytes !== 0) weigh(write, 0, passed.bytes);
    if (passed.hasTable) this.#dropAt = performance.now() + BUSY_FOR;
    return !passed.hasTable;
  }
}

/**
 * Opens a new slot when the open one is old enough. False when an append takes long, undefined when there is
 * nothing to do.
 */
async function rotateLog(write: Transaction, now: Monotonic): Promise<boolean | undefined> {
  const [open] = await write.rows<OpenSlotRow>(OPEN_SLOT);
  if (open!.at === null || open!.at > now - SLOT_SPAN) return undefined;
  await makeNext(write, open!);
  const [closed] = await write.rows<{ isClosed: boolean }>(CLOSE);
  if (!closed!.isClosed) return false;
  write.later(OPEN, [open!.id + 1]);
  write.later(FORGET);
  return true;
}

/** Makes the table of the next slot, with locks that no append waits for. */
async function makeNext(write: Transaction, { id, hasNext }: OpenSlotRow): Promise<void> {
  if (!hasNext) await write.text(partitionOf(id + 1));
}

/** Drops the table of a slot whose last chunk has gone. */
async function dropSlot(write: Transaction): Promise<boolean> {
  const [empty] = await write.rows<{ id: number }>(EMPTY_SLOT);
  if (empty === undefined) return false;
  await write.text(`set local lock_timeout = '1s'; drop table chunk_${empty.id}`);
  write.later(NO_SLOT, [empty.id]);
  return true;
}

/**
 * Writes the files anew that hold erased events or answers of endpoints to them. Nobody can read such a slot
 * meanwhile, so the open one is closed first: appends go on in the next. The write-ahead log, its archives
 * and replicas are the operator's.
 */
export async function scrubLog(database: Database): Promise<void> {
  const slots = await database.write(async (write) => {
    await write.rows(ALONE);
    const erased = await write.rows<{ slot: number; erasures: number }>(ERASED_SLOTS);
    const [open] = await write.rows<{ id: number }>(OPEN_SLOT);
    if (!erased.some(({ slot }) => slot === open!.id)) return erased;
    await write.text(partitionOf(open!.id + 1));
    await write.rows(CLOSE_AT_LAST);
    write.later(OPEN, [open!.id + 1]);
    return erased;
  });
  await rewriteTables(database, [
    ...slots.map(({ slot }) => `chunk_${slot}`),
    'failed_attempt',
    'endpoint_health',
  ]);
  await database.write(async (write) =>
    write.later(SCRUBBED, [slots.map(({ slot }) => slot), slots.map(({ erasures }) => erasures)]),
  );
}

interface DropSpan {
  /** Everything below is past its retention. */
  readonly from: Position;
  readonly limit: Position;
}

/** Makes dead letters of what is owed from a position on and below another. */
async function bury(
  write: Transaction,
  { now }: Upkeep,
  { from, below }: { readonly from: Position; readonly below: Position },
): Promise<void> {
  const taken = await takeBetween(write, from, below);
  const dead = taken.map((set) => ({ ...set, state: 'dead' as const, reason: 'retention_over', at: now }));
  insertDeadLetters(write, dead);
  count(write, dead.map(countOf));
}

/**
 * Reduces a chunk to the events of dead letters and the recent messageIds, or deletes it when it has neither.
 * Returns by how many bytes it grew.
 */
function reduce(
  write: Transaction,
  chunk: StoredChunk,
  { dead, idsSince }: { readonly dead: ReadonlySet<Position>; readonly idsSince: Monotonic },
): number {
  const { slot, first } = chunk;
  const before = chunk.bytes;
  const left = remnantOf(chunk, { dead, idsSince });
  if (left !== undefined) return putChunk(write, { slot, first, stage: left.stage }, left.events) - before;
  deleteChunks(write, slot, [first]);
  return -before;
}

/** Events that were ever stored in a chunk. The line of a duplicate has no source. */
export function storedIn({ sources }: Pick<StoredChunk, 'sources'>): number {
  return sources.reduce((sum, source) => (source === 0 ? sum : sum + 1), 0);
}

/** Counts events and bytes of the log that were stored, or dropped when negative. */
export function weigh(write: Transaction, events: number, bytes: number): void {
  write.later(WEIGH, [write.process, events, bytes]);
}

async function dropFailures(
  write: Transaction,
  { now, retention }: Upkeep,
  from: Position,
): Promise<boolean> {
  const before = now - retention.deadLetters;
  const letters = await dropDeadLettersBefore(write, before, from);
  const failed = await dropFailedBefore(write, before, from);
  const accepted = await dropAcceptedBelow(write, from);
  return letters || failed || accepted;
}
