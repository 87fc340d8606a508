import { randomBytes } from 'node:crypto';
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { crc32 } from 'node:zlib';
import { StorageError } from '../../ports/event-log.ts';

/** Facts about this installation, by name, each with a checksum: one that is damaged is as good as none. */
export class InstallationFacts {
  readonly #get: StatementSync;
  readonly #put: StatementSync;

  constructor(database: DatabaseSync) {
    this.#get = database.prepare('select value, sum from installation where name = ?');
    this.#put = database.prepare(
      `insert into installation(name, value, sum) values (?, ?, ?)
       on conflict do update set value = excluded.value, sum = excluded.sum`,
    );
  }

  /** `damaged` stands for a fact that cannot be trusted; undefined for one that was never written. */
  number(name: string): number | 'damaged' | undefined {
    const value = this.#value(name);
    return value === undefined || typeof value === 'number' ? value : 'damaged';
  }

  bytes(name: string): Uint8Array | 'damaged' | undefined {
    const value = this.#value(name);
    return value === undefined || value instanceof Uint8Array ? value : 'damaged';
  }

  put(name: string, value: number | Uint8Array): void {
    this.#put.run(name, value, factSum(name, value));
  }

  #value(name: string): unknown {
    const row = this.#get.get(name) as { value: number | Uint8Array; sum: number } | undefined;
    if (row === undefined) return undefined;
    return row.sum === factSum(name, row.value) ? row.value : 'damaged';
  }
}

export function factSum(name: string, value: number | Uint8Array): number {
  return crc32(typeof value === 'number' ? String(value) : value, crc32(name));
}

export interface Installation {
  /** Number of this start. */
  readonly epoch: number;
  /** Secret of the key hash. */
  readonly keySecret: Uint8Array;
  /** Tells this store from every other; copies and backups have the same. */
  readonly id: string;
}

/** Called once per start: numbers it, and makes the secret of the key hash and the id at the very first one. */
export function beginEpoch(database: DatabaseSync): Installation {
  const facts = new InstallationFacts(database);
  database.exec('begin immediate');
  const known = facts.bytes('key_secret');
  if (known === 'damaged') {
    throw new StorageError(
      'millrace.db is damaged: without the secret of its key hash no duplicate can be recognised; restore a backup with ' +
        'millrace restore',
    );
  }
  const keySecret = known ?? randomBytes(8);
  if (known === undefined) facts.put('key_secret', keySecret);
  const found = facts.bytes('id');
  // Nothing but the mark in the folder refers to it, and is made to follow.
  const id = found === undefined || found === 'damaged' ? randomBytes(16) : found;
  if (id !== found) facts.put('id', id);
  const last = facts.number('epoch') ?? 0;
  const epoch = (last === 'damaged' ? highestOwner(database) : last) + 1;
  facts.put('epoch', epoch);
  database.exec('commit');
  return { epoch, keySecret, id: textOf(id) };
}

/** How far a store has come, and which it is as far as it says so. */
export interface FoundStanding {
  readonly id?: string | 'damaged';
  readonly commits: number;
}

/** Of a file of any format, or one that has no table yet. */
export function standingIn(database: DatabaseSync): FoundStanding {
  const has = database.prepare(`select 1 from sqlite_schema where type = 'table' and name = ?`);
  const row =
    has.get('installation') && database.prepare(`select * from installation where name = 'id'`).get();
  const ledger = `select value from ledger where scope = 'store' and name = 'commits'`;
  const counted = has.get('ledger') && database.prepare(ledger).get();
  const commits = Number(counted?.['value'] ?? 0);
  if (!row) return { commits };
  const { value, sum } = row as unknown as { value: Uint8Array; sum: number };
  const isWhole = value instanceof Uint8Array && sum === factSum('id', value);
  return { id: isWhole ? textOf(value) : 'damaged', commits };
}

function textOf(id: Uint8Array): string {
  return Buffer.from(id).toString('hex');
}

/** The number of some start of the program that still owns deliveries. */
function highestOwner(database: DatabaseSync): number {
  const { owner } = database.prepare('select max(owner) as owner from pending').get() as {
    owner: number | null;
  };
  return owner ?? 0;
}
