import {
  type ErasedCounts,
  isDeleting,
  isSuppressing,
  newSubject,
  newVisitor,
  type RegulationSubject,
  type Suppression,
  userIdsOf,
} from '../../../model/regulation.ts';
import type { Time } from '../../../model/time.ts';
import { StorageError } from '../../../ports/event-log.ts';
import {
  creationEntry,
  type IdHash,
  type NewRegulation,
  newDocument,
  type RegulationChange,
  type RegulationDocument,
  type Regulations,
  type StoredRegulation,
} from '../../../ports/regulations.ts';
import type { Database, Statement, Transaction } from '../database.ts';
import { scrubLog } from '../log/maintenance.ts';
import { rewriteTables } from '../rewriting.ts';
import { note } from '../settings/settings-store.ts';
import { isEnded, SLICE_ENDED } from './ended.ts';
import { REGULATION_STATEMENTS as SQL } from './statements.ts';

/** Hashes read in one slice. */
const SLICE = 20_000;

interface RegulationRow {
  readonly number: number;
  readonly document: string;
}

/**
 * Regulations as JSON documents, their subjects until they are done, and suppressed ids by their keyed hash.
 */
export class PostgresRegulations implements Regulations {
  readonly hashId: IdHash;
  readonly #database: Database;
  readonly #onDamage: (part: string) => void;

  /** `onDamage` gets the name of each part that cannot be read. */
  constructor(database: Database, hashId: IdHash, onDamage: (part: string) => void) {
    this.#database = database;
    this.hashId = hashId;
    this.#onDamage = onDamage;
  }

  create(regulation: NewRegulation): Promise<StoredRegulation> {
    const { id, type, createdAt, userIds, anonymousIds = [] } = regulation;
    const document = newDocument(regulation);
    const isAtOnce = document.step === 'done';
    const hashes = [
      ...userIds.map((userId) => this.#hash('user', userId)),
      ...anonymousIds.map((anonymousId) => this.#hash('anonymous', anonymousId)),
    ];
    const subjects = [...userIds.map(newSubject), ...anonymousIds.map(newVisitor)];
    return this.#database.write(async (transaction) => {
      const values = [id, !isAtOnce, JSON.stringify(document), Buffer.concat(hashes)];
      const [made] = await transaction.rows<{ number: number }>(SQL.insert, values);
      const number = made!.number;
      if (!isAtOnce) await putSubjects(transaction, number, subjects);
      if (isAtOnce) await transaction.rows(SQL.unsuppress, [hashes]);
      else if (isSuppressing(type)) {
        const ids = subjects.map(({ userId }) =>
          type === 'SUPPRESS_ONLY' && userId !== undefined ? Buffer.from(userId) : null,
        );
        await transaction.rows(SQL.suppress, [hashes, ids, createdAt, id]);
      }
      await note(transaction, [creationEntry(regulation)]);
      await transaction.rows(SQL.moveSuppressions, []);
      return { ...document, number };
    });
  }

  get(id: string): Promise<StoredRegulation | undefined> {
    return this.#database.read(async (transaction) => {
      const [row] = await transaction.rows<RegulationRow>(SQL.get, [id]);
      return row && stored(row);
    });
  }

  async list(max: number, below = Number.MAX_SAFE_INTEGER): Promise<readonly StoredRegulation[]> {
    const found: StoredRegulation[] = [];
    for (let from = below; found.length < max; ) {
      const wanted = max - found.length;
      const rows = await this.#rows(SQL.list, [from, wanted]);
      found.push(...this.#undamaged(rows));
      if (rows.length < wanted) break;
      from = rows.at(-1)!.number;
    }
    return found;
  }

  async endedBefore(time: Time): Promise<number> {
    let n = 0;
    for (let after = 0; ; ) {
      const rows = await this.#rows(SQL.ended, [after, SLICE_ENDED]);
      n += rows.filter((row) => isEnded(row, time)).length;
      if (rows.length < SLICE_ENDED) return n;
      after = rows.at(-1)!.number;
    }
  }

  async open(): Promise<readonly StoredRegulation[]> {
    return this.#undamaged(await this.#rows(SQL.open, []));
  }

  subjects(id: string): Promise<readonly RegulationSubject[]> {
    return this.#database.read((transaction) => this.#subjectsOf(transaction, id));
  }

  advance(id: string, { subjects, ...change }: RegulationChange): Promise<void> {
    return this.#database.write(async (transaction) => {
      const [row] = await transaction.rows<RegulationRow>(SQL.lock, [id]);
      if (row === undefined) throw new StorageError(`the regulation ${id} is gone: restore a backup`);
      const { number, ...document } = stored(row);
      if (subjects !== undefined) {
        await putSubjects(transaction, number, subjects);
        if (isSuppressing(document.type))
          await this.#suppressJoined(transaction, subjects, { since: document.createdAt, regulation: id });
      }
      if (change.step === 'clean') {
        if (isDeleting(document.type)) await this.#forgetIds(transaction, id);
        await transaction.rows(SQL.dropSubjects, [number]);
      }
      await put(transaction, number, { ...document, ...change });
    });
  }

  async scrub(): Promise<void> {
    await scrubLog(this.#database);
    // A row that was deleted or changed stays in its file until the table is written anew. These tables are
    // small.
    await rewriteTables(this.#database, ['regulation', 'regulation_subject', 'suppression']);
  }

  suppression(id: string, kind: 'user' | 'anonymous' = 'user'): Promise<Suppression | undefined> {
    return this.#database.read(async (transaction) => {
      const [row] = await transaction.rows<SuppressionRow>(SQL.suppression, [this.#hash(kind, id)]);
      return row && suppressionOf(row);
    });
  }

  suppressions(max: number, after = ''): Promise<readonly Suppression[]> {
    return this.#database.read(async (transaction) =>
      (await transaction.rows<SuppressionRow>(SQL.suppressions, [Buffer.from(after), max])).map(
        suppressionOf,
      ),
    );
  }

  readonly visitSuppressed = async (visit: (hashes: Uint32Array) => void): Promise<void> => {
    for (let after: Buffer = Buffer.alloc(0); ; ) {
      const rows = await this.#database.read((transaction) =>
        transaction.rows<{ hash: Buffer }>(SQL.hashes, [after, SLICE]),
      );
      if (rows.length === 0) return;
      const words = new Uint32Array(rows.length * 2);
      for (const [index, { hash }] of rows.entries()) {
        words[index * 2] = hash.readUInt32BE(0);
        words[index * 2 + 1] = hash.readUInt32BE(4);
      }
      visit(words);
      after = rows.at(-1)!.hash;
    }
  };

  /** The number of changes of suppressions that were ever made, by any node. */
  async version(): Promise<number> {
    return this.#database.read(async (transaction) => {
      const [row] = await transaction.rows<{ version: number }>(SQL.suppressionVersion, []);
      return row!.version;
    });
  }

  #rows(statement: Statement, values: readonly unknown[]): Promise<readonly RegulationRow[]> {
    return this.#database.read((transaction) => transaction.rows<RegulationRow>(statement, values));
  }

  /** A damaged record is named and left out: the others go on. */
  #undamaged(rows: readonly RegulationRow[]): StoredRegulation[] {
    return rows.flatMap((row) => {
      const document = parsed<RegulationDocument>(row.document);
      if (document !== undefined) return [{ ...document, number: row.number }];
      this.#onDamage(`the record of regulation ${row.number}`);
      return [];
    });
  }

  async #suppressJoined(
    transaction: Transaction,
    subjects: readonly RegulationSubject[],
    { since, regulation }: { readonly since: number; readonly regulation: string },
  ): Promise<void> {
    const ofUsers = subjects.flatMap(({ belongsToUser, anonymousId }) =>
      belongsToUser === true && anonymousId !== undefined ? [this.#hash('anonymous', anonymousId)] : [],
    );
    if (ofUsers.length > 0) await transaction.rows(SQL.unsuppressOf, [ofUsers, regulation]);
    const joined = subjects.flatMap(({ userId, anonymousId = '', formerUserIds, anonymousIds }) => {
      const owner = userId === undefined ? this.#hash('anonymous', anonymousId) : this.#hash('user', userId);
      return [
        ...formerUserIds.map((id) => ({ owner, hash: this.#hash('user', id) })),
        ...anonymousIds.map((id) => ({ owner, hash: this.#hash('anonymous', id) })),
      ];
    });
    if (joined.length + ofUsers.length === 0) return;
    const [hashes, owners] = [joined.map(({ hash }) => hash), joined.map(({ owner }) => owner)];
    await transaction.rows(SQL.suppressJoined, [hashes, owners, since, regulation]);
    await transaction.rows(SQL.moveSuppressions, []);
  }

  async #forgetIds(transaction: Transaction, id: string): Promise<void> {
    const subjects = await this.#subjectsOf(transaction, id);
    const ids = subjects.flatMap(userIdsOf);
    await transaction.rows(SQL.forgetIds, [ids.map((userId) => this.#hash('user', userId))]);
  }

  /**
   * Damaged ones are as if they were forgotten: the regulation ends with a reason, and the next one has its
   * turn.
   */
  async #subjectsOf(transaction: Transaction, id: string): Promise<readonly RegulationSubject[]> {
    const [row] = await transaction.rows<{ subjects: string }>(SQL.subjects, [id]);
    if (row === undefined) return [];
    const subjects = parsed<RegulationSubject[]>(row.subjects);
    if (subjects === undefined) this.#onDamage(`the user ids of regulation ${id}`);
    return subjects ?? [];
  }

  #hash(kind: 'user' | 'anonymous', id: string): Buffer {
    const words = new Uint32Array(2);
    this.hashId(kind, id, words, 0);
    const bytes = Buffer.alloc(8);
    bytes.writeUInt32BE(words[0]!, 0);
    bytes.writeUInt32BE(words[1]!, 4);
    return bytes;
  }
}

/** Adds to the receipt of a regulation, in the transaction of an erasure. */
export async function countErased(
  transaction: Transaction,
  id: string,
  { events, deliveries, deadLetters }: ErasedCounts,
): Promise<void> {
  if (events + deliveries + deadLetters === 0) return;
  const [row] = await transaction.rows<RegulationRow>(SQL.lock, [id]);
  if (row === undefined) return;
  const { number, ...document } = stored(row);
  const { erased } = document;
  const sum = {
    events: erased.events + events,
    deliveries: erased.deliveries + deliveries,
    deadLetters: erased.deadLetters + deadLetters,
  };
  await put(transaction, number, { ...document, erased: sum });
}

interface SuppressionRow {
  readonly id: Buffer | null;
  readonly since: number;
  readonly regulation: string;
}

function suppressionOf({ id, since, regulation }: SuppressionRow): Suppression {
  return id === null ? { since, regulation } : { userId: id.toString(), since, regulation };
}

function stored(row: RegulationRow): StoredRegulation {
  const { number } = row;
  const document = parsed<RegulationDocument>(row.document);
  if (document !== undefined) return { ...document, number };
  throw new StorageError(
    `the record of regulation ${number} is damaged: restore a backup of the database, or ask for it anew`,
  );
}

/**
 * Undefined when the text is damaged. Finding a changed letter is left to the checksums of the server's
 * pages.
 */
function parsed<Document extends object>(text: string): Document | undefined {
  try {
    const document: unknown = JSON.parse(text);
    return typeof document === 'object' && document !== null ? (document as Document) : undefined;
  } catch {
    return undefined;
  }
}

async function put(transaction: Transaction, number: number, document: RegulationDocument): Promise<void> {
  await transaction.rows(SQL.update, [number, document.step !== 'done', JSON.stringify(document)]);
}

async function putSubjects(
  transaction: Transaction,
  number: number,
  subjects: readonly RegulationSubject[],
): Promise<void> {
  await transaction.rows(SQL.putSubjects, [number, JSON.stringify(subjects)]);
}
