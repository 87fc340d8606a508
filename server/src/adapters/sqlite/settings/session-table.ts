import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { Monotonic } from '../../../model/time.ts';
import type { StoredSession } from '../../../ports/session-store.ts';
import { read, write } from '../rpc.ts';

/** The operations of the session store (ports/session-store.ts). */
export function sessionHandlers(sessions: SessionTable) {
  return {
    beginSession: write((message: BeginMessage) => sessions.begin(message)),
    findSession: read((id: string) => sessions.find(id)),
    endSession: write((id: string) => sessions.end(id)),
  };
}

export interface BeginMessage {
  readonly session: StoredSession;
  readonly now: Monotonic;
  readonly most: number;
}

/** The sessions of the console, a row each, in the order in which they began. */
export class SessionTable {
  readonly #find: StatementSync;
  readonly #insert: StatementSync;
  readonly #dropOver: StatementSync;
  readonly #dropOldest: StatementSync;
  readonly #drop: StatementSync;

  constructor(database: DatabaseSync) {
    this.#find = database.prepare(
      'select id, key, token, expires_at as expiresAt, until from session where id = ?',
    );
    this.#insert = database.prepare(
      'insert into session(id, key, token, expires_at, until) values (?, ?, ?, ?, ?)',
    );
    this.#dropOver = database.prepare('delete from session where until <= ?');
    this.#dropOldest = database.prepare(
      `delete from session where token = ?
       and number not in (select number from session where token = ? order by number desc limit ?) returning id`,
    );
    this.#drop = database.prepare('delete from session where id = ?');
  }

  begin({ session: { id, key, token, expiresAt, until }, now, most }: BeginMessage): string[] {
    this.#dropOver.run(now);
    this.#insert.run(id, key, token, expiresAt, until);
    const gone = this.#dropOldest.all(token, token, most) as unknown as { id: string }[];
    return gone.map((one) => one.id);
  }

  find(id: string): StoredSession | undefined {
    const row = this.#find.get(id) as StoredSession | undefined;
    return row === undefined ? undefined : { ...row };
  }

  end(id: string): undefined {
    this.#drop.run(id);
  }
}
