import { DatabaseSync, type StatementSync } from 'node:sqlite';
import { HOUR, type Time } from '../../../model/time.ts';
import type { ChunkRow } from '../../encoding/chunk-codec.ts';
import { CounterSums } from '../counter-sums.ts';
import { canBeAvoided, DamageTable, Quarantine, UnwritableChunksError } from '../damage.ts';
import { hasTable } from '../ledger-slots.ts';
import { countInLedger, LedgerTable } from '../ledger-table.ts';
import {
  addLedgerValues,
  CHUNK_COLUMNS,
  type ColumnValue,
  LEDGER_KIND,
  ledgerValues,
  RecordWriter,
  type RedoRecord,
  readRecords,
  STATEMENTS,
  type StatementName,
} from './records.ts';
import { MAX_RECORD_BYTES, RedoSlots, type RedoState, SLOTS } from './slots.ts';

/** Milliseconds after which slots that hold anything are overwritten. */
const WIPE_AFTER = HOUR;

/**
 * A transaction is written down behind so many that were small too. Where large ones come in between, each would have to carry out at once
 * what the last had written down.
 */
const SMALL_ONES = 4;

/** The redo log, among the steps of a quarantine. */
const STEP = 'the redo log';

/** A statement of a table whose newest rows may stand in the redo log. */
export type TableStatement = Pick<StatementSync, 'run' | 'get' | 'all' | 'iterate'>;

/**
 * A transaction by its content. `small`: calls and results that are likely to find room in a few slots; `large`: more of them; `other`:
 * anything else, such as upkeep.
 */
export type TransactionSize = 'small' | 'large' | 'other';

/** Where statements come from: a database, or the redo log before it. */
export interface Statements {
  prepare(sql: string): TableStatement;
  /** A statement that a small transaction only writes down. */
  deferred(name: StatementName): Pick<StatementSync, 'run'>;
}

/** The statements of a file in which nothing waits in the redo log. */
export function directStatements(database: DatabaseSync): Statements {
  return {
    prepare: (sql) => database.prepare(sql),
    deferred: (name) => database.prepare(STATEMENTS[name].sql),
  };
}

/**
 * The redo log: transactions that are written down before they are carried out.
 *
 * A commit writes each page that it changes, whole. One call that comes alone changes seven pages, some hundred bytes in each. A small
 * transaction therefore writes its statements, with their values, into a slot of table `redo`, which is one page, and changes nothing
 * else. Later all slots are carried out in one transaction: when they are full, and before anything reads or changes the tables
 * otherwise. What a transaction changes in memory is as if it had been carried out. docs/decisions/0038-redo-log.md
 *
 * The tables `chunk`, `pending` and `accepted_attempt` may be behind. Their statements come from here.
 */
export class RedoLog implements Statements {
  readonly #database: DatabaseSync;
  readonly #ledger: LedgerTable;
  readonly #quarantine: Quarantine;
  readonly #slots: RedoSlots;
  readonly #executor: RecordExecutor;
  readonly #records = new RecordWriter(MAX_RECORD_BYTES);
  /** Records of the transactions that wait in slots. */
  #live: Buffer[] = [];
  /** Slots that hold them: the next is begun behind these. */
  #used = 0;
  /** Slots that may hold bytes of events, whether void or not. */
  readonly #written = new Set<number>();
  #wipedAt: Time | undefined;
  /** Small transactions since the last large one. */
  #smallOnes = SMALL_ONES;
  /** The open transaction writes its statements down. */
  #isDeferring = false;
  /** The open transaction has carried out what waited. */
  #isCarriedOut = false;

  /** Nothing may wait in the file: see `recoverRedo`. */
  constructor(
    database: DatabaseSync,
    { ledger, quarantine }: { ledger: LedgerTable; quarantine: Quarantine },
  ) {
    this.#database = database;
    this.#ledger = ledger;
    this.#quarantine = quarantine;
    this.#slots = new RedoSlots(database);
    this.#executor = new RecordExecutor(database, quarantine);
    for (const slot of this.#slots.read(() => ledger.commits, quarantine).used) this.#written.add(slot);
  }

  prepare(sql: string): TableStatement {
    const statement = this.#database.prepare(sql);
    const settled = () => {
      this.settle();
      return statement;
    };
    return {
      run: (...values: never[]) => settled().run(...values),
      get: (...values: never[]) => settled().get(...values),
      all: (...values: never[]) => settled().all(...values),
      iterate: (...values: never[]) => settled().iterate(...values),
    } as TableStatement;
  }

  deferred(name: StatementName): Pick<StatementSync, 'run'> {
    const { kind, sql } = STATEMENTS[name];
    const statement = this.#database.prepare(sql);
    return {
      run: (...values: never[]) => {
        if (this.#isDeferring && this.#records.add(kind, values)) return WRITTEN_DOWN;
        this.settle();
        return statement.run(...values);
      },
    } as Pick<StatementSync, 'run'>;
  }

  /** Call behind `begin`. */
  begin(size: TransactionSize): void {
    this.#records.take();
    this.#isCarriedOut = false;
    if (size === 'small') this.#smallOnes++;
    if (size === 'large') this.#smallOnes = 0;
    this.#isDeferring = size === 'small' && this.#smallOnes >= SMALL_ONES && this.#isUsable();
  }

  /** A page that cannot be written must be found before a call is answered. */
  #isUsable(): boolean {
    return !this.#quarantine.hasRanges && !this.#quarantine.steps.includes(STEP);
  }

  /** Carries out what waits, and what the open transaction has written down so far. The rest of it is carried out at once. */
  settle(): void {
    const own = this.#isDeferring ? this.#records.take() : NOTHING;
    if (this.#live.length === 0 && own.length === 0) return;
    this.#isDeferring = false;
    this.#isCarriedOut ||= this.#live.length > 0;
    const waiting = [...this.#live, own];
    this.#live = [];
    this.#used = 0;
    this.#executor.run(waiting.flatMap((records) => [...readRecords(records)]));
  }

  /** Whether transactions wait to be carried out. */
  get isWaiting(): boolean {
    return this.#live.length > 0;
  }

  /** The last step of a transaction: writes it into a slot, or its changes of the ledger behind what it has carried out. */
  write(): void {
    const isWrittenDown = this.#isDeferring && this.#writeDown();
    if (!isWrittenDown) this.settle();
    this.#isDeferring = false;
    if (isWrittenDown) return;
    if (this.#isCarriedOut) this.#slots.mark(this.#ledger.commits + 1);
    this.#ledger.write();
  }

  /** False when the slots have no room for it. */
  #writeDown(): boolean {
    if (!this.#records.add(LEDGER_KIND, ledgerValues(this.#ledger.changes))) return false;
    const records = this.#records.take();
    const parts = RedoSlots.partsOf(records);
    if (this.#used + parts > SLOTS) {
      this.#live.push(records);
      return false;
    }
    this.#slots.put(this.#used + 1, this.#ledger.commits + 1, records);
    for (let part = 1; part <= parts; part++) this.#written.add(this.#used + part);
    this.#used += parts;
    this.#live.push(records);
    this.#ledger.defer();
    return true;
  }

  /** Carries out what waits, in the open transaction, which counts for nothing in the ledger. */
  flush(): void {
    this.settle();
    this.#slots.mark(this.#ledger.commits);
    this.#ledger.flush();
  }

  /** Overwrites the slots, which may hold bytes of erased events, in the open transaction. */
  wipe(): void {
    this.settle();
    for (const slot of this.#written) this.#slots.wipe(slot);
    this.#written.clear();
  }

  /** A step of upkeep: an event past its retention must not stand in a slot for as long as no other comes. */
  wipeStep(now: Time): boolean {
    if (this.#written.size === 0) this.#wipedAt = now;
    this.#wipedAt ??= now;
    if (now - this.#wipedAt < WIPE_AFTER) return false;
    this.wipe();
    return true;
  }
}

const NOTHING = Buffer.alloc(0);
const WRITTEN_DOWN = { changes: 0, lastInsertRowid: 0 };

/** Carries out records. */
class RecordExecutor {
  readonly #statements: ReadonlyMap<number, StatementSync>;
  readonly #quarantine: Quarantine;

  constructor(database: DatabaseSync, quarantine: Quarantine) {
    this.#quarantine = quarantine;
    this.#statements = new Map(
      Object.values(STATEMENTS).map(({ kind, sql }) => [kind, database.prepare(sql)]),
    );
  }

  /** All of them but those of the ledger. A set that is deleted again is not inserted. */
  run(records: readonly RedoRecord[]): void {
    for (const record of withoutPassing(records)) this.runOne(record);
  }

  runOne({ kind, values }: RedoRecord): void {
    if (kind === LEDGER_KIND) return;
    try {
      this.#statements.get(kind)!.run(...values);
    } catch (error) {
      if (kind !== STATEMENTS.putChunk.kind || !this.#quarantine.isConfirmedDamage(error)) throw error;
      const [first, n] = values as [number, number];
      throw new UnwritableChunksError(first, first + n, error);
    }
  }
}

/** Without the pending sets that are inserted and deleted again: on the healthy path, all. */
function withoutPassing(records: readonly RedoRecord[]): readonly RedoRecord[] {
  const inserted = new Map<ColumnValue, RedoRecord>();
  const passing = new Set<RedoRecord>();
  for (const record of records) {
    const [id] = record.values;
    if (record.kind === STATEMENTS.insertPending.kind) inserted.set(id!, record);
    if (record.kind !== STATEMENTS.deletePending.kind) continue;
    const insertion = inserted.get(id!);
    if (insertion !== undefined) passing.add(insertion).add(record);
  }
  return records.filter((record) => !passing.has(record));
}

/**
 * Carries out what an earlier handle or start has left in the slots. A record that meets a damaged page is left out and counted as
 * damage, with its events and deliveries, so that one bad page does not keep the others from it.
 */
export function recoverRedo(database: DatabaseSync, quarantine: Quarantine): void {
  if (!hasTable(database, 'redo')) return;
  const state = stateOf(database, quarantine);
  if (!state.isWhole) quarantine.addStep(STEP);
  if (state.newest === 0) return;
  const left = new Set<RedoRecord>();
  const records = withoutPassing(state.live.flatMap((each) => [...readRecords(each.records)]));
  while (!tryRecovery(database, { state, records, left, quarantine }));
}

/**
 * The same for a file that nobody has open. Returns what of the redo log is damaged, for people; nothing where the file is of an earlier
 * format.
 */
export function recoverFile(path: string): readonly string[] {
  const database = new DatabaseSync(path);
  try {
    // The index of the write-ahead log stays in memory.
    database.exec('pragma locking_mode = exclusive');
    const quarantine = new Quarantine();
    recoverRedo(database, quarantine);
    return quarantine.steps;
  } finally {
    database.close();
  }
}

/** Rows of `chunk` that wait in the redo log, for other connections than the writer's. */
export class WaitingChunks {
  readonly #database: DatabaseSync;
  readonly #quarantine: Quarantine;
  readonly #slots: RedoSlots;
  /** Rows that waited at the last call. */
  #known: readonly { readonly number: number; readonly rows: readonly ChunkRow[] }[] = [];

  constructor(database: DatabaseSync, quarantine: Quarantine) {
    this.#database = database;
    this.#quarantine = quarantine;
    this.#slots = new RedoSlots(database);
  }

  /** In the order of their positions. Call in a read transaction. */
  rows(): readonly ChunkRow[] {
    const done = this.#slots.done(this.#quarantine);
    if (done === undefined) return this.#allRows();
    const known = this.#known.filter(({ number }) => number > done);
    const news = this.#slots.above(known.at(-1)?.number ?? done, this.#quarantine);
    if (news === undefined) return this.#allRows();
    // A transaction that is written down stays as it is, and readers ask for every page of the log.
    this.#known = [...known, ...news.map(({ number, records }) => ({ number, rows: chunksIn(records) }))];
    return this.#known.flatMap(({ rows }) => rows);
  }

  #allRows(): readonly ChunkRow[] {
    const { live } = stateOf(this.#database, this.#quarantine);
    return live.flatMap(({ records }) => chunksIn(records));
  }
}

function chunksIn(records: Uint8Array): ChunkRow[] {
  return [...readRecords(records)]
    .filter(({ kind }) => kind === STATEMENTS.putChunk.kind)
    .map(
      ({ values }) =>
        Object.fromEntries(CHUNK_COLUMNS.map((name, nth) => [name, values[nth]])) as unknown as ChunkRow,
    );
}

/** Whether anything waits in the redo log of a file. */
export function isRedoWaiting(database: DatabaseSync, quarantine = new Quarantine()): boolean {
  if (!hasTable(database, 'redo')) return false;
  return stateOf(database, quarantine).newest > 0;
}

function stateOf(database: DatabaseSync, quarantine: Quarantine): RedoState {
  return new RedoSlots(database).read(() => countInLedger(database, quarantine).commits, quarantine);
}

interface Recovery {
  readonly state: RedoState;
  readonly records: readonly RedoRecord[];
  /** Records that cannot be carried out. */
  readonly left: Set<RedoRecord>;
  readonly quarantine: Quarantine;
}

/** False when it has met damage and must begin anew without that record: SQLite takes no further writes in such a transaction. */
function tryRecovery(database: DatabaseSync, { state, records, left, quarantine }: Recovery): boolean {
  let current: RedoRecord | undefined;
  try {
    database.exec('begin immediate');
    const executor = new RecordExecutor(database, quarantine);
    for (const record of records) {
      current = record;
      if (!left.has(record)) executor.runOne(record);
    }
    current = undefined;
    const ledger = new LedgerTable(database, quarantine);
    ledger.adopt(sumsIn(records), state.newest);
    noteDamage(left, { ledger, damage: new DamageTable(database, quarantine) });
    ledger.flush();
    new RedoSlots(database).mark(state.newest);
    database.exec('commit');
    return true;
  } catch (error) {
    if (database.isTransaction) database.exec('rollback');
    const isNew = canBeAvoided(error) && quarantine.learnFrom(error);
    if (current !== undefined && (isNew || canBeAvoided(error) || quarantine.isConfirmedDamage(error)))
      left.add(current);
    else if (!isNew) throw error;
    return false;
  }
}

function sumsIn(records: readonly RedoRecord[]): CounterSums {
  const sums = new CounterSums();
  for (const { kind, values } of records) if (kind === LEDGER_KIND) addLedgerValues(sums, values);
  return sums;
}

/** Counts what is lost with these records. */
function noteDamage(
  records: ReadonlySet<RedoRecord>,
  { ledger, damage }: { ledger: LedgerTable; damage: DamageTable },
): void {
  let foundAt = 0;
  for (const { kind, values } of records) {
    if (kind === STATEMENTS.putChunk.kind) {
      const [first, n, , until] = values as number[];
      damage.note('chunk', first!, n!);
      foundAt = Math.max(foundAt, until!);
    } else if (kind === STATEMENTS.insertPending.kind) {
      const [id, destination, , , due, , n] = values as number[];
      damage.note('pending', id!, n!);
      ledger.add('destination', destination!, 'dead:event_damaged', n!);
      foundAt = Math.max(foundAt, due!);
    }
  }
  damage.write(foundAt);
}
