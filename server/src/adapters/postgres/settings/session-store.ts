import type { SessionStore, StoredSession } from '../../../ports/session-store.ts';
import type { Database } from '../database.ts';

const SQL = {
  /** $1 now. */
  dropOver: { name: 'session.drop_over', text: 'delete from session where until <= $1' },
  /** $1 id, $2 key, $3 token, $4 expires_at, $5 until. */
  insert: {
    name: 'session.insert',
    text: 'insert into session(id, key, token, expires_at, until) values ($1, $2, $3, $4, $5)',
  },
  /** $1 token, $2 most. */
  dropOldest: {
    name: 'session.drop_oldest',
    text: `delete from session where token = $1
      and number not in (select number from session where token = $1 order by number desc limit $2) returning id`,
  },
  find: {
    name: 'session.find',
    text: 'select id, key, token, expires_at as "expiresAt", until from session where id = $1',
  },
  drop: { name: 'session.drop', text: 'delete from session where id = $1' },
} as const;

/** The sessions of the console, which every node knows. */
export class PostgresSessions implements SessionStore {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  begin(session: StoredSession, now: number, most: number): Promise<readonly string[]> {
    const { id, key, token, expiresAt, until } = session;
    return this.#database.write(async (transaction) => {
      await transaction.rows(SQL.dropOver, [now]);
      await transaction.rows(SQL.insert, [id, key, token, expiresAt, until]);
      const gone = await transaction.rows<{ id: string }>(SQL.dropOldest, [token, most]);
      return gone.map((one) => one.id);
    });
  }

  async find(id: string): Promise<StoredSession | undefined> {
    const [row] = await this.#database.read((read) => read.rows<StoredSession>(SQL.find, [id]));
    return row;
  }

  end(id: string): Promise<void> {
    return this.#database.write(async (transaction) => {
      await transaction.rows(SQL.drop, [id]);
    });
  }
}
