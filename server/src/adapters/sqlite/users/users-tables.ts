import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { crc32 } from 'node:zlib';
import type { Json } from '../../../model/json.ts';
import { MINUTE, type Time } from '../../../model/time.ts';
import type {
  ForgottenProfile,
  IdentityKey,
  MergeRecord,
  OutboxEntry,
  ProfileChanges,
  ProfileId,
  Timer,
  UsersCursor,
} from '../../../ports/profile-store.ts';
import { checksumOf, withChecksum, withoutChecksum } from '../../encoding/hashes.ts';
import { InstallationFacts } from '../installation.ts';

/** Where a file without a commit stands. */
const NEW: UsersCursor = { position: 0, clock: 0, nextProfile: 1, nextOutbox: 1 };

interface StateRow {
  readonly id: number;
  readonly state: Uint8Array;
}

interface OutboxRow extends OutboxEntry {
  readonly sum: number;
}

interface MergeRow {
  readonly body: string;
  readonly sum: number;
  readonly winner: number;
  readonly position: number;
  readonly loser: number;
}

/**
 * The tables of one open file of profiles. Rows whose checksum does not hold read as if they did not exist,
 * and are counted. Changes need the caller's transaction; what is kept in memory is right only while every
 * transaction is committed.
 */
export class UsersTables {
  readonly #database: DatabaseSync;
  readonly #sql: ReturnType<typeof statements>;
  readonly #facts: InstallationFacts;
  readonly #damaged = new Set<string>();
  /** Undefined when a fact is damaged: nothing may be applied then. */
  #cursor: UsersCursor | undefined;
  #profiles: number;
  #commits: number;
  readonly #pageSize: number;

  constructor(database: DatabaseSync) {
    this.#database = database;
    this.#sql = statements(database);
    this.#facts = new InstallationFacts(database);
    this.#cursor = this.#readCursor();
    this.#profiles = this.#number('profiles', 0) ?? 0;
    this.#commits = this.#number('commits', 0) ?? 0;
    this.#pageSize = (database.prepare('pragma page_size').get() as { page_size: number }).page_size;
  }

  get cursor(): UsersCursor | undefined {
    return this.#cursor;
  }

  /** Number of transactions in this file. After a failed commit it tells whether the commit happened. */
  get commits(): number {
    return this.#commits;
  }

  /** The log that was applied; undefined in a new file. */
  get log(): string | undefined {
    const id = this.#facts.bytes('log');
    return id instanceof Uint8Array ? Buffer.from(id).toString() : undefined;
  }

  /** Counters of an earlier file, so that no number is given twice, and the log that will be applied. */
  begin(log: string, { nextProfile, nextOutbox }: Pick<UsersCursor, 'nextProfile' | 'nextOutbox'>): void {
    this.#facts.put('log', Buffer.from(log));
    this.#putCursor({ ...NEW, nextProfile, nextOutbox });
  }

  /** Puts what a cleared file keeps into this one. */
  carry(outbox: readonly OutboxEntry[], documents: Readonly<Record<string, Json>>): void {
    for (const entry of outbox) this.#putEntry(entry);
    for (const [name, value] of Object.entries(documents)) this.#putDocument(name, value);
  }

  #readCursor(): UsersCursor | undefined {
    const position = this.#number('position', NEW.position);
    const clock = this.#number('clock', NEW.clock);
    const nextProfile = this.#number('next_profile', NEW.nextProfile);
    const nextOutbox = this.#number('next_outbox', NEW.nextOutbox);
    if (position === undefined || clock === undefined) return undefined;
    if (nextProfile === undefined || nextOutbox === undefined) return undefined;
    return { position, clock, nextProfile, nextOutbox };
  }

  #number(name: string, otherwise: number): number | undefined {
    const value = this.#facts.number(name) ?? otherwise;
    return value === 'damaged' ? undefined : value;
  }

  #putCursor(cursor: UsersCursor): void {
    this.#facts.put('position', cursor.position);
    this.#facts.put('clock', cursor.clock);
    this.#facts.put('next_profile', cursor.nextProfile);
    this.#facts.put('next_outbox', cursor.nextOutbox);
    this.#cursor = cursor;
  }

  resolve(keys: readonly IdentityKey[]): (ProfileId | undefined)[] {
    const { owner } = this.#sql;
    return keys.map((key) => {
      const row = owner.get(key) as { owner: number } | undefined;
      if (row === undefined) return undefined;
      return decodeOwner(key, row.owner) ?? this.#damage('identity', key);
    });
  }

  get(profiles: readonly ProfileId[]): (Uint8Array | undefined)[] {
    const { state } = this.#sql;
    return profiles.map((id) => {
      const row = state.get(id) as Pick<StateRow, 'state'> | undefined;
      return row && this.#stateIn({ id, state: row.state });
    });
  }

  #stateIn({ id, state }: StateRow): Uint8Array | undefined {
    return withoutChecksum(state, checksumOf(id)) ?? this.#damage('profile', id);
  }

  #damage(table: string, key: number): undefined {
    this.#damaged.add(`${table} ${key}`);
    return undefined;
  }

  /**
   * Writes a slice. Rows are written in the order of their keys, so that neighbours share a page while it is
   * at hand.
   */
  apply(changes: ProfileChanges): void {
    const sql = this.#sql;
    const born = this.#cursor?.nextProfile ?? 0;
    for (const { id, state } of [...changes.put].sort(byId)) {
      if (id >= born) this.#profiles++;
      sql.put.run(id, withChecksum(state, checksumOf(id)));
    }
    for (const id of changes.removed) this.#profiles -= Number(sql.remove.run(id).changes);
    for (const key of changes.unbind) sql.unbind.run(key);
    for (const one of changes.forgotten ?? []) this.#letGo(one);
    for (const { key, profile } of [...changes.bind].sort(byKey))
      sql.bind.run(key, encodeOwner(key, profile));
    for (const { minute, profile } of changes.firedTimers) sql.unset.run(minute, profile);
    for (const { minute, profile } of changes.timers) sql.set.run(minute, profile);
    for (const entry of changes.outbox) this.#putEntry(entry);
    if (changes.sentTo !== undefined) sql.sent.run(changes.sentTo);
    for (const id of changes.dissolved ?? []) sql.forgetMerges.run(id);
    for (const record of changes.merges) this.#merge(record);
    for (const [name, value] of Object.entries(changes.documents ?? {})) this.#putDocument(name, value);
    this.#putCursor(changes.cursor);
    this.#count();
  }

  #letGo({ profile, keys }: ForgottenProfile): void {
    const sql = this.#sql;
    this.#profiles -= Number(sql.remove.run(profile).changes);
    for (const key of keys) sql.unbindFrom.run(key, profile);
    sql.forgetMerges.run(profile);
  }

  #count(): void {
    this.#facts.put('profiles', this.#profiles);
    this.#facts.put('commits', ++this.#commits);
  }

  #putEntry({ sequence, profile, json }: OutboxEntry): void {
    this.#sql.send.run(sequence, profile, json, textSum(json, sequence, profile));
  }

  #merge(record: MergeRecord): void {
    const { winner, loser } = record;
    for (const earlier of this.#mergesOf(loser, Number.MAX_SAFE_INTEGER))
      this.#putMerge({ ...earlier, winner });
    this.#sql.forgetMerges.run(loser);
    this.#putMerge(record);
  }

  #putMerge({ winner, loser, position, ...rest }: MergeRecord): void {
    const body = JSON.stringify(rest);
    this.#sql.putMerge.run(winner, position, loser, body, textSum(body, winner, position, loser));
  }

  #putDocument(name: string, value: Json): void {
    if (value === null) {
      this.#sql.removeDocument.run(name);
      return;
    }
    const body = JSON.stringify(value);
    this.#sql.putDocument.run(name, body, textSum(name + body));
  }

  due(now: Time, max: number): Timer[] {
    return this.#sql.due.all(Math.floor(now / MINUTE), max) as unknown as Timer[];
  }

  scan(after: ProfileId, max: number): { id: ProfileId; state: Uint8Array }[] {
    const found: { id: ProfileId; state: Uint8Array }[] = [];
    for (let from = after; found.length < max; ) {
      const rows = this.#sql.scan.all(from, max - found.length) as unknown as StateRow[];
      if (rows.length === 0) break;
      for (const row of rows) {
        const state = this.#stateIn(row);
        if (state !== undefined) found.push({ id: row.id, state });
      }
      from = rows.at(-1)!.id;
    }
    return found;
  }

  outbox(after: number, max: number): OutboxEntry[] {
    const rows = this.#sql.outbox.all(after, max) as unknown as OutboxRow[];
    return rows.flatMap(({ sum, ...entry }) => {
      if (sum === textSum(entry.json, entry.sequence, entry.profile)) return [entry];
      this.#damage('outbox', entry.sequence);
      return [];
    });
  }

  merges(profile: ProfileId, max: number): MergeRecord[] {
    return this.#mergesOf(profile, max);
  }

  #mergesOf(profile: ProfileId, max: number): MergeRecord[] {
    const rows = this.#sql.merges.all(profile, max) as unknown as MergeRow[];
    return rows.flatMap(({ body, sum, winner, position, loser }) => {
      if (sum !== textSum(body, winner, position, loser)) {
        this.#damage('merge', loser);
        return [];
      }
      const rest = JSON.parse(body) as Omit<MergeRecord, 'winner' | 'loser' | 'position'>;
      return [{ ...rest, winner, loser, position }];
    });
  }

  document(name: string): Json | undefined {
    const row = this.#sql.document.get(name) as { body: string; sum: number } | undefined;
    if (row === undefined) return undefined;
    if (row.sum !== textSum(name + row.body)) return this.#damage('document', 0);
    return JSON.parse(row.body) as Json;
  }

  /**
   * Deletes every row of these profiles, and of those that were merged into them, and stores these documents.
   */
  erase(profiles: readonly ProfileId[], documents: Readonly<Record<string, Json>>): void {
    const sql = this.#sql;
    for (const profile of profiles) {
      const losers = sql.losers.all(profile) as unknown as { loser: ProfileId }[];
      for (const { loser } of losers) sql.eraseOutbox.run(loser);
      sql.eraseOutbox.run(profile);
      sql.forgetMerges.run(profile);
      this.#profiles -= Number(sql.remove.run(profile).changes);
    }
    // Neither table has an index by profile: erasing is rare, and the index would be as large as the table.
    const list = JSON.stringify(profiles);
    sql.eraseIdentities.run(list);
    sql.eraseTimers.run(list);
    for (const [name, value] of Object.entries(documents)) this.#putDocument(name, value);
    this.#facts.put('scrub', 1);
    this.#count();
  }

  /** Rows were erased, and their bytes may still be in the files. */
  get isScrubDue(): boolean {
    return (this.#facts.number('scrub') ?? 0) !== 0;
  }

  /** The files hold no byte of erased rows. */
  scrubbed(): void {
    this.#facts.put('scrub', 0);
    this.#count();
  }

  freePages(): number {
    return (this.#sql.freePages.get() as { freelist_count: number }).freelist_count;
  }

  pages(): number {
    return (this.#sql.pages.get() as { page_count: number }).page_count;
  }

  size(): { profiles: number; damaged: number } {
    return { profiles: this.#profiles, damaged: this.#damaged.size };
  }

  bytes(): number {
    return this.pages() * this.#pageSize;
  }

  /** Of the pages that hold something. */
  usedBytes(): number {
    return (this.pages() - this.freePages()) * this.#pageSize;
  }

  get isTransaction(): boolean {
    return this.#database.isTransaction;
  }
}

const byId = (a: { id: number }, b: { id: number }) => a.id - b.id;
const byKey = (a: { key: number }, b: { key: number }) => a.key - b.key;

function statements(database: DatabaseSync) {
  const prepare = (sql: string): StatementSync => database.prepare(sql);
  return {
    owner: prepare('select owner from identity where key = ?'),
    bind: prepare('insert or replace into identity(key, owner) values (?, ?)'),
    unbind: prepare('delete from identity where key = ?'),
    unbindFrom: prepare(`delete from identity where key = ? and ${OWNER_PROFILE} = ?`),
    state: prepare('select state from profile where id = ?'),
    put: prepare('insert or replace into profile(id, state) values (?, ?)'),
    remove: prepare('delete from profile where id = ?'),
    scan: prepare('select id, state from profile where id > ? order by id limit ?'),
    set: prepare('insert or ignore into timer(minute, profile) values (?, ?)'),
    unset: prepare('delete from timer where minute = ? and profile = ?'),
    due: prepare('select minute, profile from timer where minute <= ? order by minute, profile limit ?'),
    send: prepare('insert into outbox(sequence, profile, json, sum) values (?, ?, ?, ?)'),
    sent: prepare('delete from outbox where sequence <= ?'),
    outbox: prepare(
      'select sequence, profile, json, sum from outbox where sequence > ? order by sequence limit ?',
    ),
    putMerge: prepare(
      'insert or replace into merge(winner, position, loser, body, sum) values (?, ?, ?, ?, ?)',
    ),
    merges: prepare(
      'select winner, position, loser, body, sum from merge where winner = ? order by position desc, loser desc limit ?',
    ),
    losers: prepare('select loser from merge where winner = ?'),
    forgetMerges: prepare('delete from merge where winner = ?'),
    document: prepare('select body, sum from document where name = ?'),
    putDocument: prepare('insert or replace into document(name, body, sum) values (?, ?, ?)'),
    removeDocument: prepare('delete from document where name = ?'),
    eraseOutbox: prepare('delete from outbox where profile = ?'),
    eraseIdentities: prepare(
      `delete from identity where ${OWNER_PROFILE} in (select value from json_each(?))`,
    ),
    eraseTimers: prepare('delete from timer where profile in (select value from json_each(?))'),
    freePages: prepare('pragma freelist_count'),
    pages: prepare('pragma page_count'),
  };
}

/**
 * The owner of an identity and its checksum are one number, so that a row of the largest table stays at some
 * 16 bytes.
 */
const OWNER_SUMS = 4096;

/** The column `owner` of an identity. */
function encodeOwner(key: IdentityKey, profile: ProfileId): number {
  return profile * OWNER_SUMS + ownerSum(key, profile);
}

/** The profile in the column `owner`; undefined when the checksum does not hold. */
export function decodeOwner(key: IdentityKey, owner: number): ProfileId | undefined {
  const profile = Math.floor(owner / OWNER_SUMS);
  return owner % OWNER_SUMS === ownerSum(key, profile) ? profile : undefined;
}

/** The profile in the column `owner`, in SQL. */
const OWNER_PROFILE = `(owner / ${OWNER_SUMS})`;

const WORD = 2 ** 32;

/**
 * Twelve bits that change with any bit of either number: the multiplication and the shifts of MurmurHash3's
 * last step.
 */
function ownerSum(key: IdentityKey, profile: ProfileId): number {
  let sum = Math.imul(key % WORD, 0x9e3779b1) ^ Math.imul(key / WORD, 0x85ebca6b);
  sum = Math.imul(sum ^ (sum >>> 15) ^ (profile % WORD), 0xc2b2ae35) ^ Math.imul(profile / WORD, 0x27d4eb2f);
  sum = Math.imul(sum ^ (sum >>> 13), 0x85ebca6b);
  return (sum ^ (sum >>> 16)) & (OWNER_SUMS - 1);
}

/** The checksum of a row that is a text under some numbers. */
export function textSum(text: string, ...numbers: readonly number[]): number {
  return crc32(text, checksumOf(...numbers));
}
