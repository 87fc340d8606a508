import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { RegulationSubject, Suppression } from '../../../model/regulation.ts';
import type { Time } from '../../../model/time.ts';
import type { IdHash } from '../../../ports/regulations.ts';

/** Hashes read in one slice. */
const SLICE = 20_000;

export interface SuppressionMessage {
  readonly id: string;
  readonly kind: 'user' | 'anonymous';
}

interface Origin {
  readonly since: Time;
  readonly regulation: string;
}

/**
 * Suppressed ids. A user's own row is found by the hash of the userId. The ids that are joined to the user
 * have rows of their own that name the user's hash, so that ending the suppression of the user ends theirs.
 */
export class SuppressionTable {
  readonly #sql: ReturnType<typeof statements>;
  readonly #hashId: IdHash;
  readonly #words = new Uint32Array(2);

  constructor(database: DatabaseSync, hashId: IdHash) {
    this.#sql = statements(database);
    this.#hashId = hashId;
  }

  /** Two words for each id. */
  hashesOf(userIds: readonly string[], anonymousIds: readonly string[]): Uint32Array {
    const hashes = new Uint32Array((userIds.length + anonymousIds.length) * 2);
    for (const [index, id] of userIds.entries()) this.#hashId('user', id, hashes, index * 2);
    for (const [index, id] of anonymousIds.entries())
      this.#hashId('anonymous', id, hashes, (userIds.length + index) * 2);
    return hashes;
  }

  /** An id that is kept already stays kept only when this regulation keeps ids as well. */
  add(userIds: readonly string[], { keepsIds, since, regulation }: Origin & { keepsIds: boolean }): void {
    for (const id of userIds) {
      const [high, low] = this.#hash('user', id);
      this.#sql.put.run(high, low, null, null, keepsIds ? id : null, since, regulation);
    }
  }

  /** Suppresses visitors without a userId, by their anonymous ids. */
  addVisitors(anonymousIds: readonly string[], { since, regulation }: Origin): void {
    for (const id of anonymousIds) {
      const [high, low] = this.#hash('anonymous', id);
      this.#sql.put.run(high, low, null, null, null, since, regulation);
    }
  }

  /**
   * Suppresses the joined ids of users and visitors who are suppressed still, and visitors who belong to a
   * user no longer.
   */
  addJoined(subjects: readonly RegulationSubject[], { since, regulation }: Origin): void {
    for (const { userId, anonymousId = '', formerUserIds, anonymousIds, belongsToUser } of subjects) {
      const [ownerHigh, ownerLow] =
        userId === undefined ? this.#hash('anonymous', anonymousId) : this.#hash('user', userId);
      if (belongsToUser) this.#sql.removeOf.run(ownerHigh, ownerLow, regulation);
      if (this.#sql.has.get(ownerHigh, ownerLow) === undefined) continue;
      for (const id of formerUserIds) {
        const [high, low] = this.#hash('user', id);
        this.#sql.putJoined.run(high, low, ownerHigh, ownerLow, since, regulation);
      }
      for (const id of anonymousIds) {
        const [high, low] = this.#hash('anonymous', id);
        this.#sql.putJoined.run(high, low, ownerHigh, ownerLow, since, regulation);
      }
    }
  }

  /** Ends the suppression of users and visitors with these hashes, and of the ids that are joined to them. */
  remove(hashes: Uint32Array): void {
    for (let at = 0; at < hashes.length; at += 2) {
      this.#sql.remove.run(hashes[at]!, hashes[at + 1]!);
      this.#sql.removeJoined.run(hashes[at]!, hashes[at + 1]!);
    }
  }

  /**
   * Suppresses users whose hashes are known, and the ids joined to them. With several users nobody knows
   * whose a joined id is.
   */
  addHashed(users: Uint32Array, joined: Uint32Array, { since, regulation }: Origin): void {
    for (let at = 0; at < users.length; at += 2)
      this.#sql.put.run(users[at]!, users[at + 1]!, null, null, null, since, regulation);
    const [high, low] = users;
    if (high === undefined || low === undefined) return;
    for (let at = 0; at < joined.length; at += 2)
      this.#sql.putJoined.run(joined[at]!, joined[at + 1]!, high, low, since, regulation);
  }

  /** Keeps only the hashes of these ids. */
  forgetIds(userIds: readonly string[]): void {
    for (const id of userIds) this.#sql.forget.run(...this.#hash('user', id));
  }

  find({ id, kind }: SuppressionMessage): Suppression | undefined {
    const row = this.#sql.find.get(...this.#hash(kind, id)) as SuppressionRow | undefined;
    return row && suppressionOf(row);
  }

  list(max: number, after = ''): Suppression[] {
    return (this.#sql.list.all(after, max) as unknown as SuppressionRow[]).map(suppressionOf);
  }

  /**
   * The hashes behind a hash, in their order; empty at the end. An empty `after` stands for the beginning.
   */
  hashesAfter(after: Uint32Array): Uint32Array {
    const rows = this.#sql.hashes.all(after[0] ?? -1, after[1] ?? -1) as unknown as {
      high: number;
      low: number;
    }[];
    const hashes = new Uint32Array(rows.length * 2);
    rows.forEach(({ high, low }, index) => {
      hashes[index * 2] = high;
      hashes[index * 2 + 1] = low;
    });
    return hashes;
  }

  #hash(kind: 'user' | 'anonymous', id: string): [high: number, low: number] {
    this.#hashId(kind, id, this.#words, 0);
    return [this.#words[0]!, this.#words[1]!];
  }
}

interface SuppressionRow {
  id: string | null;
  since: number;
  regulation: string;
}

function suppressionOf({ id, since, regulation }: SuppressionRow): Suppression {
  return id === null ? { since, regulation } : { userId: id, since, regulation };
}

function statements(database: DatabaseSync) {
  const prepare = (sql: string): StatementSync => database.prepare(sql);
  return {
    put: prepare(
      `insert into suppression(high, low, owner_high, owner_low, id, since, regulation) values (?, ?, ?, ?, ?, ?, ?)
       on conflict(high, low) do update set owner_high = null, owner_low = null, id = excluded.id,
         since = min(since, excluded.since), regulation = excluded.regulation`,
    ),
    // A user who is suppressed on its own account stays so when another user's suppression ends.
    putJoined: prepare(
      `insert into suppression(high, low, owner_high, owner_low, since, regulation) values (?, ?, ?, ?, ?, ?)
       on conflict(high, low) do nothing`,
    ),
    has: prepare('select 1 from suppression where high = ? and low = ?'),
    remove: prepare('delete from suppression where high = ? and low = ?'),
    removeOf: prepare('delete from suppression where high = ? and low = ? and regulation = ?'),
    removeJoined: prepare('delete from suppression where owner_high = ? and owner_low = ?'),
    forget: prepare('update suppression set id = null where high = ? and low = ? and id is not null'),
    find: prepare('select id, since, regulation from suppression where high = ? and low = ?'),
    list: prepare(
      'select id, since, regulation from suppression indexed by suppression_id where id > ? order by id limit ?',
    ),
    hashes: prepare(
      `select high, low from suppression where (high, low) > (?, ?) order by high, low limit ${SLICE}`,
    ),
  };
}
