import { StorageError } from '../../../ports/event-log.ts';
import { isSealedBy, openRecord, sealRecord, unknownKey } from '../../encoding/sealed-records.ts';
import type { SecretSeal } from '../../encoding/secret-seal.ts';
import type { Database, Session, Transaction } from '../database.ts';

const SQL = {
  /** First: waits for changes of other nodes, and keeps them waiting until the commit. */
  lock: { name: 'secrets.lock', text: 'select version from settings_version for update' },
  /** The other nodes read the records again. */
  move: { name: 'secrets.move', text: 'update settings_version set version = version + 1' },
  key: { name: 'secrets.key', text: `select value from installation where name = 'secrets_key'` },
  /** $1 name of the key; empty without one. */
  putKey: {
    name: 'secrets.put_key',
    text: `insert into installation(name, value) values ('secrets_key', $1)
      on conflict (name) do update set value = excluded.value`,
  },
  records: { name: 'secrets.records', text: 'select id, kind, name, document from record' },
  /** $1 ids, $2 documents. */
  put: {
    name: 'secrets.put',
    text: `update record r set document = n.document from unnest($1::int[], $2::text[]) n(id, document) where r.id = n.id`,
  },
  /** $1 version of this program. */
  earlier: {
    name: 'secrets.earlier',
    text: 'select node, version from process where expires > clock_timestamp() and version <> $1 order by node',
  },
} as const;

interface StoredRecord {
  readonly id: number;
  readonly kind: string;
  readonly name: string;
  readonly document: string;
}

/**
 * The name of the key that the secrets of all nodes are encrypted with; undefined where they are stored as
 * they are.
 */
export async function storedKeyName(transaction: Transaction): Promise<string | undefined> {
  const [row] = await transaction.rows<{ value: string }>(SQL.key, []);
  return row?.value || undefined;
}

/** The same of a database that may hold no table yet. */
export async function keyNameIn(session: Session): Promise<string | undefined> {
  const [found] = await session.query<{ has: boolean }>(
    `select to_regclass('installation') is not null as has`,
  );
  if (!found!.has) return undefined;
  const [row] = await session.query<{ value: string }>(SQL.key.text);
  return row?.value || undefined;
}

/**
 * Refuses a node that has not been given the key of the others, before it joins them. Throws a
 * `StorageError`.
 */
export async function refuseUnknownKey(session: Session, seal: SecretSeal): Promise<void> {
  const stored = await keyNameIn(session);
  if (stored !== undefined && !seal.has(stored)) throw new StorageError(unknownKey(stored, seal));
}

/**
 * Brings all secrets under the key of this node, in one transaction; without a key but with the one before
 * they are stored as they are again. Versions stay: no record has changed. The other nodes read them with the
 * new key where it is among their previous ones. Resolves to the number of records that were written anew;
 * undefined where nothing was to be done. Rejects with a `StorageError` where a key is missing.
 */
export async function adoptKey(
  database: Database,
  seal: SecretSeal,
  version: string,
): Promise<number | undefined> {
  if (seal.isEmpty) return undefined;
  const records = await database.write(async (transaction) => {
    await transaction.rows(SQL.lock);
    const stored = await storedKeyName(transaction);
    if (stored !== undefined && !seal.has(stored)) throw new StorageError(unknownKey(stored, seal));
    const rows = await transaction.rows<StoredRecord>(SQL.records);
    const others = rows.filter((row) => !isSealedBy(seal, row));
    if (stored === seal.current && others.length === 0) return undefined;
    if (stored === undefined) await refuseEarlierNodes(transaction, version);
    const documents = others.map((row) =>
      sealRecord(seal, seal.current, { ...row, record: openRecord(seal, row) }),
    );
    await transaction.rows(SQL.move);
    await transaction.rows(SQL.put, [others.map(({ id }) => id), documents]);
    await transaction.rows(SQL.putKey, [seal.current ?? '']);
    return others.length;
  });
  if (records !== undefined && records > 0) await database.session(removeRemnants);
  return records;
}

/**
 * Deleted rows keep earlier texts until their file is written anew, and so do the samples that statistics are
 * made of.
 */
async function removeRemnants({ query }: Session): Promise<void> {
  for (const statement of ['vacuum full record', 'analyze record', 'vacuum full pg_statistic'])
    await query(statement);
}

/** A version that knows nothing of encrypted secrets would sign with what it cannot read. */
async function refuseEarlierNodes(transaction: Transaction, version: string): Promise<void> {
  const [other] = await transaction.rows<{ node: string; version: string }>(SQL.earlier, [version]);
  if (other === undefined) return;
  throw new StorageError(
    `secrets.key is new here, and node ${other.node} runs version ${other.version || 'unknown'}, which may not know encrypted secrets: ` +
      'bring all nodes to this version without secrets.key first, and then restart each with it',
  );
}
