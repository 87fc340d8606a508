import { LEASE_LOST, SIGN_OF_LIFE } from '../../../src/adapters/postgres/database.ts';
import { SECOND } from '../../../src/model/time.ts';
import type { MemoryContents } from '../../memory-store/contents.ts';
import type { Life } from '../kernel.ts';
import { fence, LeaseTables, type Run, STATEMENTS } from './statements.ts';
import { Locks, MustWait, RowTransaction } from './tables.ts';

/** How PostgreSQL is set, or sets itself: `deadlock_timeout`, `idle_in_transaction_session_timeout`. */
const DEADLOCK_AFTER = SECOND;
const IDLE_AT_MOST = 5 * SECOND;

/** Time between two machines, and on them. */
export interface Wire {
  /** Milliseconds on the clock of the database. */
  now(): number;
  /** Runs something after so many milliseconds, unless that life is over by then. */
  arrive(delay: number, life: Life | undefined, name: string, run: () => void): () => void;
}

/** An error as the server answers with it. */
class ServerError extends Error {
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

/** How an operation of another part of the store ended. */
type Ended = { readonly answer: unknown } | { readonly error: unknown };

/**
 * An operation of a part of the store that is in memory, as a statement of a transaction: it takes effect
 * with the commit, and at once outside of a transaction.
 */
export interface StoreOperation {
  readonly name: string;
  /** Its commit may be in doubt. */
  readonly isDoubtable: boolean;
  apply(): Promise<unknown>;
  /** Called when it has taken effect, or has failed and changed nothing. */
  ended(ended: Ended, isDoubted: boolean): void;
}

/** The name of the statement whose one value is a `StoreOperation`. */
export const STORE_OPERATION = 'world.operation';

/** A query as it comes over a connection. */
export interface Query {
  readonly name?: string | undefined;
  readonly text: string;
  readonly values: readonly unknown[];
}

export interface QueryResult {
  readonly command: string;
  readonly rows: readonly object[];
  readonly fields: readonly unknown[];
}

/** A statement that took effect, whatever its client will hear. */
export interface Effect {
  readonly statement: string;
  readonly values: readonly unknown[];
  readonly rows: readonly object[];
  /** Its client will hear an error all the same. */
  readonly isDoubted: boolean;
}

export type Fate = 'well' | 'refused' | 'broken' | 'doubted';

/** The surroundings of the server, which a test or a world decides about. */
export interface ServerOptions {
  readonly wire: Wire;
  readonly contents: MemoryContents;
  /** Decides about the next statement, or about the commit of a transaction; all go well by default. */
  fateOf?(what: 'statement' | 'commit', operation: StoreOperation | undefined): Fate;
}

const WELL = () => 'well' as const;

/** A server of PostgreSQL, as far as leases need one. */
export class LeaseServer {
  readonly tables: LeaseTables;
  readonly wire: Wire;
  readonly locks = new Locks();
  readonly fateOf: NonNullable<ServerOptions['fateOf']>;
  readonly sessions = new Set<Session>();
  /** Statements that wait for the end of another transaction. */
  readonly waiting = new Set<RowTransaction>();

  constructor({ wire, contents, fateOf = WELL }: ServerOptions) {
    this.tables = new LeaseTables(contents);
    this.wire = wire;
    this.fateOf = fateOf;
  }

  hasSignOfLife(process: number): boolean {
    for (const { signsOfLife } of this.sessions) if (signsOfLife.has(process)) return true;
    return false;
  }
}

/** Hears of a session. */
export interface SessionClient {
  answered(answer: QueryResult | Error): void;
  /** The server has ended the connection. */
  ended(reason: Error | undefined): void;
  /** A statement has taken effect. */
  effect(effect: Effect): void;
}

/** The beginning of a transaction, and the process whose lease guards it. */
const BEGIN = /^begin(?:; select fence\((\d+)\))?$/;

/** One connection, on the side of the server: it does one query after the other. */
export class Session {
  readonly signsOfLife = new Set<number>();
  readonly #server: LeaseServer;
  readonly #client: SessionClient;
  readonly #waiting: (Query | 'goodbye')[] = [];
  #isBusy = false;
  #isOver = false;
  #transaction: RowTransaction | undefined;
  /** After an error, until the end of the transaction. */
  #isFailed = false;
  #operations: StoreOperation[] = [];
  #effects: Omit<Effect, 'isDoubted'>[] = [];
  #forgive = (): void => {};

  constructor(server: LeaseServer, client: SessionClient) {
    this.#server = server;
    this.#client = client;
    server.sessions.add(this);
  }

  ask(query: Query | 'goodbye'): void {
    if (this.#isOver) return;
    this.#waiting.push(query);
    this.#forgive();
    if (!this.#isBusy) this.#next();
  }

  /** Ends it from this side: what is not committed is rolled back. */
  end(reason?: Error): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#server.sessions.delete(this);
    this.#transaction?.rollback();
    this.#client.ended(reason);
  }

  #next(): void {
    const query = this.#waiting.shift();
    if (query === undefined) this.#watchIdle();
    else if (query === 'goodbye') this.end();
    else {
      this.#isBusy = true;
      this.#run(query);
    }
  }

  #watchIdle(): void {
    if (this.#transaction === undefined) return;
    const error = new ServerError('25P03', 'terminating connection due to idle-in-transaction timeout');
    this.#forgive = this.#server.wire.arrive(IDLE_AT_MOST, undefined, 'idle in transaction', () =>
      this.end(error),
    );
  }

  #answer(answer: QueryResult | Error): void {
    this.#isBusy = false;
    if (this.#isOver) return;
    this.#client.answered(answer);
    this.#next();
  }

  #fail(error: Error): void {
    if (this.#transaction !== undefined) this.#isFailed = true;
    this.#answer(error);
  }

  #run(query: Query): void {
    const { text } = query;
    const begun = BEGIN.exec(text);
    if (text === 'rollback') this.#rollback();
    else if (text === 'commit') this.#commit();
    else if (this.#isFailed) this.#answer(new ServerError('25P02', 'current transaction is aborted'));
    else if (begun !== null) this.#begin(begun[1]);
    else this.#runStatement(query);
  }

  #runStatement(query: Query): void {
    const isAlone = this.#transaction === undefined;
    const fate = this.#fateOf(query);
    if (fate === 'broken') this.end(new ServerError('57P01', 'terminating connection'));
    else if (fate === 'refused') this.#fail(new ServerError('53200', 'out of memory'));
    else {
      const transaction = this.#transaction ?? new RowTransaction(this.#server.locks);
      this.#tryOften(transaction, () => {
        const rows = this.#statement(query, transaction);
        const answer = { command: 'SELECT', rows, fields: [] };
        if (isAlone) this.#end(transaction, fate === 'doubted', answer);
        else this.#answer(answer);
      });
    }
  }

  /** The first statement of a transaction stands for all of them; its commit alone may be in doubt. */
  #fateOf({ name, values }: Query): Fate {
    const isFirst = this.#effects.length + this.#operations.length === 0;
    if (name === undefined || !isFirst) return 'well';
    const operation = name === STORE_OPERATION ? (values[0] as StoreOperation) : undefined;
    const fate = this.#server.fateOf('statement', operation);
    return fate === 'doubted' && this.#transaction !== undefined ? 'well' : fate;
  }

  /** Runs a statement until it need not wait for anybody. */
  #tryOften(transaction: RowTransaction, run: () => void): void {
    try {
      run();
    } catch (error) {
      if (!(error instanceof MustWait)) throw error;
      this.#wait(transaction, error.forEndOf, () => this.#tryOften(transaction, run));
    }
  }

  #wait(transaction: RowTransaction, forEndOf: RowTransaction, goOn: () => void): void {
    const { wire, waiting } = this.#server;
    waiting.add(transaction);
    transaction.waitsFor = forEndOf;
    const end = (): boolean => {
      transaction.waitsFor = undefined;
      return waiting.delete(transaction) && !transaction.isOver;
    };
    const forget = wire.arrive(DEADLOCK_AFTER, undefined, 'look for deadlocks', () => {
      if (transaction.isDeadlocked && end()) this.#fail(new ServerError('40P01', 'deadlock detected'));
    });
    forEndOf.atEnd(() => {
      forget();
      if (!end()) return;
      wire.arrive(0.01, undefined, 'lock', () => {
        if (!transaction.isOver) goOn();
      });
    });
  }

  /** `fenced`: the process whose lease is to be there until the end. */
  #begin(fenced: string | undefined): void {
    const transaction = new RowTransaction(this.#server.locks);
    this.#transaction = transaction;
    this.#tryOften(transaction, () => {
      const isGood = fenced === undefined || fence(this.#runOf(transaction), Number(fenced));
      if (isGood) this.#answer({ command: 'SELECT', rows: [], fields: [] });
      else this.#fail(new ServerError(LEASE_LOST, 'the lease is lost'));
    });
  }

  #statement({ name, text, values }: Query, transaction: RowTransaction): readonly object[] {
    if (name === undefined) return this.#text(text);
    if (name === STORE_OPERATION) {
      this.#operations.push(values[0] as StoreOperation);
      return [];
    }
    const statement = STATEMENTS[name];
    if (statement === undefined) throw new Error(`the rows of worlds know no statement ${name}: write it`);
    const rows = statement(this.#runOf(transaction), values as never);
    this.#effects.push({ statement: name, values, rows });
    return rows;
  }

  /** Of a connection that gets ready. */
  #text(text: string): readonly object[] {
    if (text.startsWith('select value as id from installation')) return [{ id: INSTALLATION }];
    if (!text.trimStart().startsWith('set enable_seqscan'))
      throw new Error(`the rows of worlds do not understand ${text}: write it`);
    const [, sign] = new RegExp(`pg_advisory_lock_shared\\(${SIGN_OF_LIFE}, (\\d+)\\)$`).exec(text) ?? [];
    if (sign !== undefined) this.signsOfLife.add(Number(sign));
    return [];
  }

  #runOf(transaction: RowTransaction): Run {
    const server = this.#server;
    return {
      ...{ tables: server.tables, transaction, now: server.wire.now() },
      hasSignOfLife: (process) => server.hasSignOfLife(process),
      giveSignOfLife: (process) => this.signsOfLife.add(process),
    };
  }

  #rollback(): void {
    this.#transaction?.rollback();
    this.#forget();
    this.#answer({ command: 'ROLLBACK', rows: [], fields: [] });
  }

  #commit(): void {
    if (this.#isFailed || this.#transaction === undefined) {
      this.#rollback();
      return;
    }
    const [operation] = this.#operations;
    const isDoubted = this.#server.fateOf('commit', operation) === 'doubted';
    this.#end(this.#transaction, isDoubted, { command: 'COMMIT', rows: [], fields: [] });
  }

  /** Commits. `isDoubted`: nobody hears of it. */
  #end(transaction: RowTransaction, isDoubted: boolean, answer: QueryResult): void {
    const [operations, effects] = [this.#operations, this.#effects];
    const finish = () => {
      transaction.commit();
      for (const effect of effects) this.#client.effect({ ...effect, isDoubted });
      this.#forget();
      if (isDoubted) this.end(new Error('Connection terminated unexpectedly'));
      else this.#answer(answer);
    };
    // Promises of the store in memory settle within the same step.
    const all = operations.map((operation) => carryOut(operation, isDoubted));
    if (all.length === 0) finish();
    else void Promise.all(all).then(finish);
  }

  #forget(): void {
    this.#transaction = undefined;
    this.#isFailed = false;
    this.#operations = [];
    this.#effects = [];
  }
}

async function carryOut(operation: StoreOperation, isDoubted: boolean): Promise<void> {
  const ended = await operation.apply().then(
    (answer) => ({ answer }),
    (error: unknown) => ({ error }),
  );
  operation.ended(ended, isDoubted);
}

/** The id of what the database holds. */
export const INSTALLATION = 'simulated';
