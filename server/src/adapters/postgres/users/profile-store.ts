import type { Json } from '../../../model/json.ts';
import { MINUTE, type Time } from '../../../model/time.ts';
import { StorageError } from '../../../ports/event-log.ts';
import type {
  IdentityKey,
  MergeRecord,
  OutboxEntry,
  ProfileChanges,
  ProfileId,
  ProfileStore,
  Timer,
  UsersCursor,
} from '../../../ports/profile-store.ts';
import type { Database, Statement, Transaction } from '../database.ts';
import { rewriteTables } from '../rewriting.ts';
import { PROFILE_STATEMENTS as SQL } from './statements.ts';

/** Whether profiles were ever kept in this database, as of now. */
export async function hasProfiles(database: Database): Promise<() => boolean> {
  const [row] = await database.read((read) => read.rows<CursorRow>(SQL.cursor));
  return () => row!.commits > 0;
}

interface CursorRow {
  readonly position: number;
  readonly clock: number;
  readonly next_profile: number;
  readonly next_outbox: number;
  readonly commits: number;
}

/**
 * The store of profiles in the tables of the database. One node writes it at a time, the one whose process
 * holds the lease: each commit says how many went before it, so that of two writers only one goes on. `stop`
 * closes the database that was given.
 */
export class PostgresProfileStore implements ProfileStore {
  readonly #database: Database;
  /** Commits known to be stored; undefined before the first look, and while the outcome of one is unknown. */
  #commits: number | undefined;
  #isStopped = false;

  constructor(database: Database) {
    this.#database = database;
  }

  async cursor(): Promise<UsersCursor> {
    const row = await this.#cursorRow();
    return {
      position: row.position,
      clock: row.clock,
      nextProfile: row.next_profile,
      nextOutbox: row.next_outbox,
    };
  }

  async resolve(keys: readonly IdentityKey[]): Promise<(ProfileId | undefined)[]> {
    if (keys.length === 0) return [];
    const rows = await this.#rows<{ key: number; profile: number }>(SQL.resolve, [keys]);
    const owners = new Map(rows.map(({ key, profile }) => [key, profile]));
    return keys.map((key) => owners.get(key));
  }

  async get(profiles: readonly ProfileId[]): Promise<(Uint8Array | undefined)[]> {
    if (profiles.length === 0) return [];
    const rows = await this.#rows<{ id: number; state: Buffer }>(SQL.states, [profiles]);
    const states = new Map(rows.map(({ id, state }) => [id, state]));
    return profiles.map((id) => states.get(id));
  }

  commit(changes: ProfileChanges): Promise<void> {
    return this.#change((transaction) => apply(transaction, changes));
  }

  due(now: Time, max: number): Promise<readonly Timer[]> {
    return this.#rows<Timer>(SQL.due, [Math.floor(now / MINUTE), max]);
  }

  scan(after: ProfileId, max: number): Promise<readonly { id: ProfileId; state: Buffer }[]> {
    return this.#rows<{ id: ProfileId; state: Buffer }>(SQL.scan, [after, max]);
  }

  outbox(after: number, max: number): Promise<readonly OutboxEntry[]> {
    return this.#rows<OutboxEntry>(SQL.outbox, [after, max]);
  }

  async merges(profile: ProfileId, max: number): Promise<readonly MergeRecord[]> {
    const rows = await this.#rows<MergeRow>(SQL.merges, [profile, max]);
    return rows.map(({ body, ...rest }) => {
      const known = JSON.parse(body) as Omit<MergeRecord, 'winner' | 'loser' | 'position'>;
      return { ...known, ...rest };
    });
  }

  async document(name: string): Promise<Json | undefined> {
    const [row] = await this.#rows<{ body: string }>(SQL.document, [name]);
    return row && (JSON.parse(row.body) as Json);
  }

  async erase(
    profiles: readonly ProfileId[],
    _texts: readonly string[],
    documents: Readonly<Record<string, Json>> = {},
  ): Promise<void> {
    await this.#change(async (transaction) => {
      const losers = await transaction.rows<{ loser: number }>(SQL.losers, [profiles]);
      await transaction.rows(SQL.eraseOutbox, [[...profiles, ...losers.map(({ loser }) => loser)]]);
      await transaction.rows(SQL.forgetMerges, [profiles]);
      const removed = await transaction.rows(SQL.remove, [profiles]);
      await transaction.rows(SQL.eraseIdentities, [profiles]);
      await transaction.rows(SQL.eraseTimers, [profiles]);
      await transaction.rows(SQL.count, [-removed.length]);
      await putDocuments(transaction, documents);
    });
    // A deleted row stays in its file until the table is written anew.
    await rewriteTables(this.#database, ['profile', 'profile_outbox', 'profile_merge', 'profile_document']);
  }

  clear(documents: Readonly<Record<string, Json>> = {}): Promise<void> {
    return this.#change(async (transaction) => {
      await transaction.rows(SQL.clear, []);
      await transaction.rows(SQL.begin, []);
      await putDocuments(transaction, documents);
    });
  }

  async size() {
    const [row] = await this.#rows<{ profiles: number; bytes: number }>(SQL.size, []);
    return { profiles: row!.profiles, bytes: Number(row!.bytes), damaged: 0 };
  }

  async usedBytes() {
    const [row] = await this.#rows<{ bytes: number }>(SQL.usedBytes, []);
    return Number(row!.bytes);
  }

  /** The server takes back what it can, with its own upkeep. */
  async giveBack() {
    return false;
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#database.stop();
  }

  async #rows<Row>(statement: Statement, values: readonly unknown[]): Promise<Row[]> {
    this.#refuseStopped();
    return await this.#database.read((transaction) => transaction.rows<Row>(statement, values));
  }

  #refuseStopped(): void {
    if (this.#isStopped) throw new StorageError('the store of profiles is stopped');
  }

  async #cursorRow(): Promise<CursorRow> {
    const [row] = await this.#rows<CursorRow>(SQL.cursor, []);
    this.#commits ??= row!.commits;
    return row!;
  }

  /**
   * Stores a change, or learns that it is stored already: the connection may break while the commit is
   * answered.
   */
  async #change(work: (transaction: Transaction) => Promise<void>): Promise<void> {
    this.#refuseStopped();
    const before = this.#commits ?? (await this.#cursorRow()).commits;
    try {
      await this.#database.write(async (transaction) => {
        const [row] = await transaction.rows<{ commits: number }>(SQL.lock, []);
        if (row!.commits !== before) throw new ProfilesMovedError(before, row!.commits);
        await work(transaction);
      });
    } catch (error) {
      this.#commits = undefined;
      if (error instanceof ProfilesMovedError) throw error;
      if ((await this.#cursorRow()).commits !== before + 1) throw error;
    }
    this.#commits = before + 1;
  }
}

/** Another node has written profiles meanwhile: what this one has in memory is out of date. */
class ProfilesMovedError extends StorageError {
  constructor(expected: number, found: number) {
    super(
      `profiles were changed by another node (commit ${found}, expected ${expected}): this node reads them again and goes on`,
    );
  }
}

interface MergeRow {
  readonly winner: number;
  readonly position: number;
  readonly loser: number;
  readonly body: string;
}

async function apply(transaction: Transaction, changes: ProfileChanges): Promise<void> {
  const { put, removed, bind, unbind, timers, firedTimers, outbox, sentTo, merges, documents } = changes;
  const { dissolved = [] } = changes;
  const born = await putStates(transaction, put);
  const gone = removed.length === 0 ? 0 : (await transaction.rows(SQL.remove, [removed])).length;
  const forgotten = await letGo(transaction, changes.forgotten ?? []);
  if (unbind.length > 0) await transaction.rows(SQL.unbind, [unbind]);
  // A key that is bound twice belongs to the last profile.
  const owners = new Map(bind.map(({ key, profile }) => [key, profile]));
  if (owners.size > 0) await transaction.rows(SQL.bind, [[...owners.keys()], [...owners.values()]]);
  const columns = (all: readonly Timer[]) => [
    all.map(({ minute }) => minute),
    all.map(({ profile }) => profile),
  ];
  if (firedTimers.length > 0) await transaction.rows(SQL.unset, columns(firedTimers));
  if (timers.length > 0) await transaction.rows(SQL.set, columns(timers));
  if (outbox.length > 0)
    await transaction.rows(SQL.send, [
      outbox.map(({ sequence }) => sequence),
      outbox.map(({ profile }) => profile),
      outbox.map(({ json }) => json),
    ]);
  if (sentTo !== undefined) await transaction.rows(SQL.sent, [sentTo]);
  if (dissolved.length > 0) await transaction.rows(SQL.forgetMerges, [dissolved]);
  for (const { winner, loser, position, ...rest } of merges) {
    await transaction.rows(SQL.moveMerges, [loser, winner]);
    await transaction.rows(SQL.putMerge, [winner, position, loser, JSON.stringify(rest)]);
  }
  await putDocuments(transaction, documents ?? {});
  const { position, clock, nextProfile, nextOutbox } = changes.cursor;
  await transaction.rows(SQL.move, [position, clock, nextProfile, nextOutbox, born - gone - forgotten]);
}

/** Resolves to the number of profiles that are gone. */
async function letGo(
  transaction: Transaction,
  forgotten: NonNullable<ProfileChanges['forgotten']>,
): Promise<number> {
  if (forgotten.length === 0) return 0;
  const profiles = forgotten.map(({ profile }) => profile);
  await transaction.rows(SQL.forgetMerges, [profiles]);
  await transaction.rows(SQL.eraseIdentities, [profiles]);
  return (await transaction.rows(SQL.remove, [profiles])).length;
}

/** Resolves to the number of new profiles. */
async function putStates(transaction: Transaction, put: ProfileChanges['put']): Promise<number> {
  if (put.length === 0) return 0;
  const states = new Map(put.map(({ id, state }) => [id, state]));
  const values = [[...states.keys()], [...states.values()].map((state) => Buffer.from(state))];
  const rows = await transaction.rows<{ born: boolean }>(SQL.put, values);
  return rows.filter(({ born }) => born).length;
}

async function putDocuments(
  transaction: Transaction,
  documents: Readonly<Record<string, Json>>,
): Promise<void> {
  const all = Object.entries(documents);
  const gone = all.filter(([, value]) => value === null).map(([name]) => name);
  const kept = all.filter(([, value]) => value !== null);
  if (gone.length > 0) await transaction.rows(SQL.removeDocuments, [gone]);
  if (kept.length > 0)
    await transaction.rows(SQL.putDocuments, [
      kept.map(([name]) => name),
      kept.map(([, value]) => JSON.stringify(value)),
    ]);
}
