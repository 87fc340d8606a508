import type { DatabaseSync } from 'node:sqlite';
import { StorageError } from '../../../ports/event-log.ts';
import type { RowOf } from '../../../ports/installation.ts';
import { checksumOf, withoutChecksum } from '../../encoding/hashes.ts';
import { decodeOwner, textSum, UsersTables } from '../users/users-tables.ts';
import type { PartReaders, ProfilePart } from './parts.ts';
import { KeyedTableReader, type LeaveOut, NumberedTableReader } from './table-reader.ts';

interface ProfileReaderOptions {
  /** The log that the profiles must have been made from. */
  readonly log: string;
  readonly leaveOut: LeaveOut;
}

const NOTHING = { page: () => ({ rows: [] }) };

const NO_PROFILES: Pick<PartReaders, ProfilePart> = {
  profileCursor: NOTHING,
  profiles: NOTHING,
  identities: NOTHING,
  timers: NOTHING,
  outbox: NOTHING,
  merges: NOTHING,
  profileDocuments: NOTHING,
};

/**
 * Reads the tables of users.db; undefined where there is none. Rows whose checksum does not hold are left
 * out, as they are when profiles are read.
 */
export function profileReaders(
  users: DatabaseSync | undefined,
  { log, leaveOut }: ProfileReaderOptions,
): Pick<PartReaders, ProfilePart> {
  if (users === undefined) return NO_PROFILES;
  const tables = new UsersTables(users);
  if (tables.cursor === undefined || tables.log !== log)
    throw new StorageError(
      'users.db is damaged or was made from another log: move users.db and users.db-wal away, and profiles are made from ' +
        'the log again at the new place',
    );
  const { position, clock, nextProfile, nextOutbox } = tables.cursor;
  return {
    profileCursor: { page: () => ({ rows: [{ position, clock, nextProfile, nextOutbox }] }) },
    profiles: new NumberedTableReader(
      users,
      'select id as key, state from profile where id >= ? order by id',
      ({ key: id, state }: { key: number; state: Uint8Array }) => {
        const whole = withoutChecksum(state, checksumOf(id));
        return whole && [{ id, state: whole }];
      },
      leaveOut,
    ),
    identities: new NumberedTableReader(
      users,
      'select key, owner from identity where key >= ? order by key',
      ({ key, owner }: { key: number; owner: number }) => {
        const profile = decodeOwner(key, owner);
        return profile === undefined ? undefined : [{ key, profile }];
      },
      leaveOut,
    ),
    outbox: new NumberedTableReader(
      users,
      'select sequence as key, profile, json, sum from outbox where sequence >= ? order by sequence',
      ({ key: sequence, sum, ...row }: StoredEntry) =>
        sum === textSum(row.json, sequence, row.profile) ? [{ sequence, ...row }] : undefined,
      leaveOut,
    ),
    ...keyedReaders(users, leaveOut),
  };
}

interface StoredEntry {
  readonly key: number;
  readonly profile: number;
  readonly json: string;
  readonly sum: number;
}

type Summed<Row> = Row & { readonly sum: number };

function keyedReaders(
  users: DatabaseSync,
  leaveOut: LeaveOut,
): Pick<PartReaders, 'timers' | 'merges' | 'profileDocuments'> {
  return {
    timers: new KeyedTableReader<RowOf<'timers'>, RowOf<'timers'>>(users, {
      sql: 'select minute, profile from timer where (minute, profile) > (?, ?) order by minute, profile limit ?',
      start: [-1, -1],
      keyOf: ({ minute, profile }) => [minute, profile],
      convert: (row) => [{ ...row }],
      leaveOut,
    }),
    merges: new KeyedTableReader<Summed<RowOf<'merges'>>, RowOf<'merges'>>(users, {
      sql: `select winner, position, loser, body, sum from merge
        where (winner, position, loser) > (?, ?, ?) order by winner, position, loser limit ?`,
      start: [-1, -1, -1],
      keyOf: ({ winner, position, loser }) => [winner, position, loser],
      convert: ({ sum, ...row }) =>
        sum === textSum(row.body, row.winner, row.position, row.loser) ? [row] : undefined,
      leaveOut,
    }),
    profileDocuments: new KeyedTableReader<Summed<RowOf<'profileDocuments'>>, RowOf<'profileDocuments'>>(
      users,
      {
        sql: 'select name, body, sum from document where name > ? order by name limit ?',
        start: [''],
        keyOf: ({ name }) => [name],
        convert: ({ sum, ...row }) => (sum === textSum(row.name + row.body) ? [row] : undefined),
        leaveOut,
      },
    ),
  };
}
