import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { crc32 } from 'node:zlib';
import {
  type ErasedCounts,
  isDeleting,
  isSuppressing,
  newSubject,
  newVisitor,
  type RegulationSubject,
  userIdsOf,
} from '../../../model/regulation.ts';
import type { Time } from '../../../model/time.ts';
import { StorageError } from '../../../ports/event-log.ts';
import {
  creationEntry,
  hasEnded,
  type NewRegulation,
  newDocument,
  type RegulationChange,
  type RegulationDocument,
  type StoredRegulation,
} from '../../../ports/regulations.ts';
import { checksumOf } from '../../encoding/hashes.ts';
import type { Quarantine } from '../damage.ts';
import { read, write } from '../rpc.ts';
import type { AuditTable } from '../settings/records.ts';
import { decodeHashes, type JournalEntry } from './journal.ts';
import type { SuppressionMessage, SuppressionTable } from './suppression-table.ts';

/** The operations of the store of regulations (ports/regulations.ts). */
export function regulationHandlers(regulations: RegulationTable) {
  const { suppressions } = regulations;
  return {
    createRegulation: write((made: NewRegulation) => regulations.create(made)),
    regulation: read((id: string) => regulations.get(id)),
    listRegulations: read(({ max, below }: RegulationListMessage) => regulations.list(max, below)),
    openRegulations: read(() => regulations.open()),
    endedRegulations: read((before: Time) => regulations.countEnded(before)),
    knowsRegulation: read((id: string) => regulations.knows(id)),
    regulationSubjects: read((id: string) => regulations.subjects(id)),
    advanceRegulation: write(({ id, change }: AdvanceMessage) => regulations.advance(id, change)),
    regulationHashes: read((id: string) => regulations.hashesOf(id)),
    reapplyRegulation: write((entry: JournalEntry) => regulations.reapply(entry)),
    suppression: read((message: SuppressionMessage) => suppressions.find(message)),
    suppressions: read(({ max, after }: SuppressionListMessage) => suppressions.list(max, after)),
    suppressed: read(
      (after: Uint32Array) => suppressions.hashesAfter(after),
      (hashes) => [hashes.buffer as ArrayBuffer],
    ),
  };
}

export interface RegulationListMessage {
  readonly max: number;
  readonly below?: number;
}

export interface AdvanceMessage {
  readonly id: string;
  readonly change: RegulationChange;
}

export interface SuppressionListMessage {
  readonly max: number;
  readonly after?: string;
}

/**
 * Zeros before the subjects: more than a page of the file, so that none of the ids behind them is in a cell.
 */
export const ZEROS = 8192;

interface RegulationTableDependencies {
  readonly suppressions: SuppressionTable;
  readonly audit: Pick<AuditTable, 'add'>;
  readonly quarantine: Pick<Quarantine, 'addStep'>;
}

/** Regulations as JSON documents, and their subjects until they are done. */
export class RegulationTable {
  readonly suppressions: SuppressionTable;
  readonly #audit: Pick<AuditTable, 'add'>;
  readonly #quarantine: Pick<Quarantine, 'addStep'>;
  readonly #sql: ReturnType<typeof statements>;
  /** Regulations up to this number were looked at for those that may go. */
  #droppedTo = 0;

  constructor(database: DatabaseSync, { suppressions, audit, quarantine }: RegulationTableDependencies) {
    this.#quarantine = quarantine;
    this.#sql = statements(database);
    this.suppressions = suppressions;
    this.#audit = audit;
  }

  create(regulation: NewRegulation): StoredRegulation {
    const { id, type, createdAt, userIds, anonymousIds = [] } = regulation;
    const document = newDocument(regulation);
    const isAtOnce = document.step === 'done';
    const hashes = this.suppressions.hashesOf(userIds, anonymousIds);
    const { lastInsertRowid } = this.#sql.insert.run(id, isAtOnce ? 0 : 1, '', bytesOf(hashes), 0);
    const number = Number(lastInsertRowid);
    this.#write(number, document);
    this.#audit.add(creationEntry(regulation));
    if (isAtOnce) this.suppressions.remove(hashes);
    else this.#putSubjects(number, [...userIds.map(newSubject), ...anonymousIds.map(newVisitor)]);
    if (isSuppressing(type)) {
      const keepsIds = type === 'SUPPRESS_ONLY';
      this.suppressions.add(userIds, { keepsIds, since: createdAt, regulation: id });
      this.suppressions.addVisitors(anonymousIds, { since: createdAt, regulation: id });
    }
    return { ...document, number };
  }

  get(id: string): StoredRegulation | undefined {
    const row = this.#sql.get.get(id) as RegulationRow | undefined;
    return row === undefined || isGone(row) ? undefined : stored(row);
  }

  /** Whether a regulation was ever carried out here, also one whose receipt is gone. */
  knows(id: string): boolean {
    return this.#sql.get.get(id) !== undefined;
  }

  countEnded(before: Time): number {
    const all = this.#undamaged(this.#sql.list.iterate(Number.MAX_SAFE_INTEGER) as Iterable<unknown>);
    let n = 0;
    for (const regulation of all) if (hasEnded(regulation, before)) n++;
    return n;
  }

  /**
   * Lets the receipts of some regulations go that ended before a time. Their ids stay: a restore must not
   * carry them out again, on users who have come back. False when all were looked at and none was dropped.
   */
  dropEnded(before: Time): boolean {
    const rows = this.#sql.after.all(this.#droppedTo, SLICE_REGULATIONS) as unknown as RegulationRow[];
    let hasDropped = false;
    for (const row of rows) {
      this.#droppedTo = row.number;
      if (!isSound(row) || isGone(row) || !hasEnded(stored(row), before)) continue;
      this.#sql.letGo.run(GONE, regulationChecksum(row.number, GONE), row.number);
      hasDropped = true;
    }
    const isEnd = rows.length < SLICE_REGULATIONS;
    if (isEnd) this.#droppedTo = 0;
    return hasDropped || !isEnd;
  }

  list(max: number, below = Number.MAX_SAFE_INTEGER): StoredRegulation[] {
    const found: StoredRegulation[] = [];
    for (const regulation of this.#undamaged(this.#sql.list.iterate(below) as Iterable<unknown>)) {
      found.push(regulation);
      if (found.length >= max) break;
    }
    return found;
  }

  open(): StoredRegulation[] {
    return [...this.#undamaged(this.#sql.open.all())];
  }

  /** A damaged record is named and left out: the others go on. */
  *#undamaged(rows: Iterable<unknown>): Generator<StoredRegulation> {
    for (const row of rows as Iterable<RegulationRow>) {
      if (isGone(row)) continue;
      if (isSound(row)) yield stored(row);
      else this.#quarantine.addStep(`the record of regulation ${row.number}`);
    }
  }

  subjects(id: string): readonly RegulationSubject[] {
    const row = this.#sql.subjects.get(id) as { subjects: Uint8Array } | undefined;
    if (row === undefined) return [];
    try {
      return JSON.parse(Buffer.from(row.subjects).toString('utf8', ZEROS)) as RegulationSubject[];
    } catch {
      // As if they were forgotten: the regulation ends with a reason, and the next one has its turn.
      this.#quarantine.addStep(`the user ids of regulation ${id}`);
      return [];
    }
  }

  advance(id: string, { subjects, ...change }: RegulationChange): void {
    const known = this.get(id);
    if (known === undefined) throw new StorageError(`the regulation ${id} is gone: restore a backup`);
    const { number, ...document } = known;
    if (subjects !== undefined) {
      this.#putSubjects(number, subjects);
      if (isSuppressing(document.type))
        this.suppressions.addJoined(subjects, { since: document.createdAt, regulation: id });
    }
    if (change.step === 'clean') {
      if (isDeleting(document.type)) {
        const all = this.subjects(id).flatMap(userIdsOf);
        this.suppressions.forgetIds(all);
      }
      this.#sql.dropSubjects.run(number);
    }
    this.#write(number, { ...document, ...change });
  }

  /** The keyed hashes of its users, as the journal has them. */
  hashesOf(id: string): string {
    const row = this.#sql.hashes.get(id) as { hashes: Uint8Array } | undefined;
    return row === undefined ? '' : Buffer.from(row.hashes).toString('base64');
  }

  /**
   * Stores a regulation that was carried out after the backup that this store comes from. Its events are
   * erased next.
   */
  reapply({ id, type, at, users, joined }: JournalEntry): void {
    const hashes = decodeHashes(users);
    const document: RegulationDocument = {
      ...{ id, type, createdAt: at, finishedAt: at, by: 'restore', subjects: hashes.length / 2 },
      ...{ overallStatus: 'FINISHED', step: 'done', streamStatus: [] },
      erased: { events: 0, deliveries: 0, deadLetters: 0 },
    };
    const { lastInsertRowid } = this.#sql.insert.run(id, 0, '', bytesOf(hashes), 0);
    this.#write(Number(lastInsertRowid), document);
    if (type === 'UNSUPPRESS') this.suppressions.remove(hashes);
    else if (isSuppressing(type))
      this.suppressions.addHashed(hashes, decodeHashes(joined), { since: at, regulation: id });
  }

  /** Adds to the receipt of a regulation. */
  readonly countErased = (id: string, { events, deliveries, deadLetters }: ErasedCounts): void => {
    const known = this.get(id);
    if (known === undefined || events + deliveries + deadLetters === 0) return;
    const { number, ...document } = known;
    const { erased } = document;
    const sum = {
      events: erased.events + events,
      deliveries: erased.deliveries + deliveries,
      deadLetters: erased.deadLetters + deadLetters,
    };
    this.#write(number, { ...document, erased: sum });
  };

  #putSubjects(number: number, subjects: readonly RegulationSubject[]): void {
    this.#sql.putSubjects.run(
      number,
      Buffer.concat([Buffer.alloc(ZEROS), Buffer.from(JSON.stringify(subjects))]),
    );
  }

  #write(number: number, document: RegulationDocument): void {
    const text = JSON.stringify(document);
    this.#sql.update.run(document.step === 'done' ? 0 : 1, text, regulationChecksum(number, text), number);
  }
}

/** Regulations that one slice looks at. */
const SLICE_REGULATIONS = 100;

/** In the place of a receipt that is gone. */
export const GONE = '';

function isGone({ document }: Pick<RegulationRow, 'document'>): boolean {
  return document === GONE;
}

interface RegulationRow {
  number: number;
  document: string;
  sum: number;
}

function isSound({ number, document, sum }: RegulationRow): boolean {
  return sum === regulationChecksum(number, document);
}

function stored(row: RegulationRow): StoredRegulation {
  const { number, document } = row;
  if (!isSound(row)) {
    throw new StorageError(
      `the record of regulation ${number} is damaged: restore a backup with millrace restore, or ask for it anew`,
    );
  }
  return { ...(JSON.parse(document) as RegulationDocument), number };
}

/** Of the row of a regulation. */
export function regulationChecksum(number: number, document: string): number {
  return crc32(document, checksumOf(number));
}

function bytesOf(words: Uint32Array): Uint8Array {
  return new Uint8Array(words.buffer, words.byteOffset, words.byteLength);
}

function statements(database: DatabaseSync) {
  const prepare = (sql: string): StatementSync => database.prepare(sql);
  return {
    insert: prepare('insert into regulation(id, open, document, hashes, sum) values (?, ?, ?, ?, ?)'),
    update: prepare('update regulation set open = ?, document = ?, sum = ? where number = ?'),
    get: prepare('select number, document, sum from regulation where id = ?'),
    list: prepare('select number, document, sum from regulation where number < ? order by number desc'),
    after: prepare('select number, document, sum from regulation where number > ? order by number limit ?'),
    letGo: prepare("update regulation set document = ?, hashes = x'', sum = ? where number = ?"),
    open: prepare(
      'select number, document, sum from regulation indexed by regulation_open where open = 1 order by number',
    ),
    subjects: prepare(
      'select s.subjects from regulation_subject s join regulation r on r.number = s.number where r.id = ?',
    ),
    putSubjects: prepare('insert or replace into regulation_subject(number, subjects) values (?, ?)'),
    hashes: prepare('select hashes from regulation where id = ?'),
    dropSubjects: prepare('delete from regulation_subject where number = ?'),
  };
}
