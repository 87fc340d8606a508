/**
 * Rows, transactions and locks as PostgreSQL has them under "read committed": a transaction sees what others
 * have committed and what it has changed itself, and whoever wants a row that another one is changing waits
 * for its end. A statement that has waited runs anew from its beginning, with what is committed by then:
 * PostgreSQL looks again at the rows that it waited for, and at nothing else. No statement of the leases can
 * tell the difference but `probe.take`, which may answer with the end of a turn that was just given back.
 */

/** As strong as `for key share`, as a change of the row, or as `for update`. */
export type LockMode = 'share' | 'update' | 'alone';

function areOpposed(a: LockMode, b: LockMode): boolean {
  return a === 'alone' || b === 'alone' || (a === 'update' && b === 'update');
}

/** Thrown by a statement that cannot go on before a transaction has ended. */
export class MustWait {
  readonly forEndOf: RowTransaction;

  constructor(forEndOf: RowTransaction) {
    this.forEndOf = forEndOf;
  }
}

/** Rows of one table, by their key. */
export class Table<Row> {
  readonly name: string;
  /** As they are committed. */
  readonly rows = new Map<string, Row>();

  constructor(name: string) {
    this.name = name;
  }
}

/** Locks of all transactions, by a name for what is locked. */
export class Locks {
  readonly #held = new Map<string, Map<RowTransaction, LockMode>>();

  /** Throws a `MustWait` while another transaction has a lock that is opposed to it. */
  take(name: string, mode: LockMode, by: RowTransaction): void {
    const holders = this.#held.get(name) ?? new Map<RowTransaction, LockMode>();
    for (const [other, held] of holders)
      if (other !== by && areOpposed(mode, held)) throw new MustWait(other);
    this.#held.set(name, holders);
    const before = holders.get(by);
    if (before === undefined || before === 'share' || mode === 'alone') holders.set(by, mode);
  }

  release(by: RowTransaction): void {
    for (const [name, holders] of this.#held) {
      holders.delete(by);
      if (holders.size === 0) this.#held.delete(name);
    }
  }
}

/** One transaction, or one statement outside of any. */
export class RowTransaction {
  isOver = false;
  /** The transaction whose end its statement waits for. */
  waitsFor: RowTransaction | undefined;
  readonly #locks: Locks;
  readonly #changes = new Map<Table<unknown>, Map<string, unknown>>();
  readonly #atCommit: (() => void)[] = [];
  readonly #atEnd: (() => void)[] = [];

  constructor(locks: Locks) {
    this.#locks = locks;
  }

  /** The row as this transaction sees it. */
  get<Row>(table: Table<Row>, key: string): Row | undefined {
    const changed = this.#changes.get(table as Table<unknown>);
    return changed?.has(key) ? (changed.get(key) as Row | undefined) : table.rows.get(key);
  }

  /** All rows of a table as this transaction sees them, in the order of their keys. */
  all<Row>(table: Table<Row>): [string, Row][] {
    const changed = this.#changes.get(table as Table<unknown>) as Map<string, Row | undefined> | undefined;
    const seen: [string, Row][] = [];
    for (const key of new Set([...table.rows.keys(), ...(changed?.keys() ?? [])])) {
      const row = this.get(table, key);
      if (row !== undefined) seen.push([key, row]);
    }
    return seen.sort(([a], [b]) => (a < b ? -1 : 1));
  }

  /** Locks a row, or a key that no row has. Throws a `MustWait`. */
  lock(table: Table<never> | Table<unknown>, key: string, mode: LockMode): void {
    this.#locks.take(`${table.name} ${key}`, mode, this);
  }

  /** Locks what is not a row. Throws a `MustWait`. */
  lockAdvisory(number: number): void {
    this.#locks.take(`advisory ${number}`, 'alone', this);
  }

  /** Writes a row that it has locked. */
  put<Row>(table: Table<Row>, key: string, row: Row): void {
    this.#changed(table).set(key, row);
  }

  /** Deletes a row that it has locked. */
  delete<Row>(table: Table<Row>, key: string): void {
    this.#changed(table).set(key, undefined);
  }

  /** Does something of which nobody knows before the commit. */
  atCommit(run: () => void): void {
    this.#atCommit.push(run);
  }

  /** Tells when it is committed or rolled back. */
  atEnd(run: () => void): void {
    this.#atEnd.push(run);
  }

  commit(): void {
    for (const [table, rows] of this.#changes)
      for (const [key, row] of rows) {
        if (row === undefined) table.rows.delete(key);
        else table.rows.set(key, row);
      }
    for (const run of this.#atCommit) run();
    this.#end();
  }

  rollback(): void {
    this.#end();
  }

  /** Whether it waits for a transaction that waits for it, at last. */
  get isDeadlocked(): boolean {
    let next = this.waitsFor;
    while (next !== undefined && next !== this) next = next.waitsFor;
    return next === this;
  }

  #end(): void {
    this.isOver = true;
    this.waitsFor = undefined;
    this.#locks.release(this);
    for (const run of this.#atEnd.splice(0)) run();
  }

  #changed<Row>(table: Table<Row>): Map<string, Row | undefined> {
    const known = this.#changes.get(table as Table<unknown>);
    if (known !== undefined) return known as Map<string, Row | undefined>;
    const changed = new Map<string, Row | undefined>();
    this.#changes.set(table as Table<unknown>, changed);
    return changed;
  }
}
