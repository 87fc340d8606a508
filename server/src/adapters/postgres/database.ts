import pg from 'pg';
import { endWith, InvariantError, rethrowInvariant } from '../../model/invariant.ts';
import { StorageError } from '../../ports/event-log.ts';
import type { Logger } from '../../ports/logger.ts';
import { LedgerBalance } from '../encoding/ledger.ts';
import { connectionOptions, type Host, hostsOf, shownPlace } from './connection.ts';
import { asStorageError, SHARED_SESSIONS, stateOf } from './errors.ts';

/**
 * Advisory locks of the database. Positions: held for the microseconds in which a block is taken. Slot:
 * shared by every append, alone for the opening of a slot of the log or of keys. Adoption, upkeep and schema:
 * alone. Migration: held by the program that moves the whole installation. See also `SIGN_OF_LIFE`.
 */
export const LOCKS = {
  positions: 1,
  slot: 2,
  adoption: 3,
  upkeep: 4,
  schema: 5,
  migration: 7,
} as const;

/** A statement that is prepared once per connection, under its name. */
export interface Statement {
  readonly name: string;
  readonly text: string;
}

/** Work inside one transaction, or a read outside of any. */
export interface Transaction {
  /** The number of the process whose lease guards the transaction; see member.ts. */
  readonly process: number;
  /** The changes to the sums of lanes, which must come out before the commit. */
  readonly balance: LedgerBalance;
  /** Runs a statement. bigint and numeric columns are numbers, bytea columns are Buffers. */
  rows<Row>(statement: Statement, values?: readonly unknown[]): Promise<Row[]>;
  /** Runs statements given as text, such as those that make tables. */
  text(statements: string): Promise<void>;
  /** Sends a statement whose rows nobody needs. Its failure fails the transaction. */
  later(statement: Statement, values?: readonly unknown[]): void;
}

/** A connection that is used for statements as text, such as those that make tables. */
export interface Session {
  /** The rows of the last statement that has any. */
  query<Row>(text: string): Promise<Row[]>;
}

/** The connection broke while a transaction was committed: nobody knows whether it happened. */
export class UnknownCommitError extends StorageError {}

/** This process lost its lease: others may have adopted what it held, and nothing was written. */
export class LostLeaseError extends StorageError {
  constructor() {
    super('this node lost its lease in the database, and holds no deliveries any more: it joins again');
  }
}

/** How the caller's program sees the database; defaults suit one node. */
export interface DatabaseOptions {
  /** See `connectionOptions`. */
  readonly url: string;
  /** Connections at most. */
  readonly connections?: number;
  /**
   * Called when an invariant does not hold in a transaction, which is rolled back. Default: the process ends.
   */
  readonly onBroken?: (error: InvariantError) => void;
  readonly logger?: Pick<Logger, 'info' | 'warn' | 'error'>;
  /** Connections of the driver; another one where no server is asked. */
  readonly Client?: typeof pg.Client;
}

/** The most connections of one process, if the caller says nothing. */
const CONNECTIONS = 8;

/** Milliseconds after which work counts as stuck, and its connection is destroyed. */
const STUCK_AFTER = 30_000;

/** Milliseconds to wait for a new connection. */
const CONNECT_WITHIN = 10_000;

/**
 * How often two connections are compared. Between two looks, another client of the same pooler may have taken
 * its connection.
 */
const SESSION_LOOKS = 3;

/** How often a transaction is done again after a deadlock. */
const MOST_REPEATS = 20;

/**
 * Of every connection. Index scans whatever the statistics say, and one plan for all values: a claim planned
 * while its table was empty stalls when it has filled. A transaction that its process forgets ends by itself,
 * because adoption waits for it.
 */
const SESSION_SETTINGS = `
  set enable_seqscan = off; set enable_bitmapscan = off; set enable_hashjoin = off; set enable_mergejoin = off;
  set enable_material = off; set jit = off; set plan_cache_mode = force_generic_plan; set client_min_messages = warning;
  set idle_in_transaction_session_timeout = '5s'; set synchronous_commit = on`;

/**
 * The first key of the advisory locks that connections hold for as long as they last. The second is the
 * number of the process.
 */
export const SIGN_OF_LIFE = 6;

/**
 * A process lives as long as one of its connections does: the system closes those of a dead one, whatever its
 * lease says.
 */
function signOfLife(process: number): string {
  return process === 0 ? '' : `; select pg_advisory_lock_shared(${SIGN_OF_LIFE}, ${process})`;
}

/**
 * A commit that lets go of its locks before it is on stable storage, and then a transaction of a few bytes
 * that waits until they are, with everything before them in the write-ahead log.
 */
const COMMIT_EARLY = `set local synchronous_commit = off; commit; select pg_logical_emit_message(true, 'millrace', '')`;

/** The id of what the database holds: it stays the same for as long as its tables do. */
const INSTALLATION = `select value as id from installation where name = 'id'`;

/** The database holds another installation than the one that this process has opened. */
export class ReplacedError extends StorageError {
  constructor() {
    super(
      'the database was made anew, or another one stands in its place, while this node was running: what the node knows is of the one before, so it ends. ' +
        'Start it again if that is meant; else bring the database back first',
    );
  }
}

/** A lease that guards writes. */
interface Lease {
  readonly process: number;
  readonly onLost: () => void;
}

/** The connections of one process to the database. */
export class Database {
  readonly #pool: pg.Pool;
  readonly #clients = new Set<pg.Client>();
  /** The servers of the address, and the one of them that new connections go to. */
  readonly #hosts: readonly Host[];
  #at = 0;
  /** For messages: where the database is. */
  readonly #place: string;
  /** Connections whose settings are made, and the process that they are a sign of. */
  readonly #ready = new WeakMap<pg.ClientBase, number>();
  #lease: Lease | undefined;
  #installation: string | undefined;
  #ended: Promise<void> | undefined;
  #isAbandoned = false;
  readonly #working = new Set<Promise<unknown>>();
  readonly #onBroken: (error: InvariantError) => void;

  constructor({
    url,
    connections = CONNECTIONS,
    onBroken = endWith,
    logger,
    Client = pg.Client,
  }: DatabaseOptions) {
    this.#onBroken = onBroken;
    this.#hosts = hostsOf(url);
    this.#place = shownPlace(url);
    const hostNow = () => this.#hosts[this.#at]!;
    this.#pool = new pg.Pool({
      ...connectionOptions(url),
      Client: class extends Client {
        constructor(options?: pg.ClientConfig) {
          // A copy by the spread alone would have no password: the pool hides it from whoever prints its
          // options.
          super({ ...options, password: options?.password, ...hostNow() } as pg.ClientConfig);
        }
      },
      max: connections,
      connectionTimeoutMillis: CONNECT_WITHIN,
      pipeline: true,
      types: { getTypeParser },
    });
    this.#pool.on('connect', (client) => {
      const whole = client as unknown as pg.Client;
      this.#clients.add(whole);
      if (this.#isAbandoned) destroy(whole);
      client.once('end', () => this.#clients.delete(whole));
      // The work on it rejects as well. Without a listener the error would end the process.
      client.on('error', () => undefined);
    });
    // An idle connection that breaks is replaced by the next work.
    this.#pool.on('error', (error) => logger?.warn({ reason: error.message }, 'database.connection_lost'));
  }

  /**
   * From now on every write is guarded by the lease of this process. `onLost` is called when a write finds it
   * gone.
   */
  guardBy(process: number, onLost: () => void): void {
    this.#lease = { process, onLost };
  }

  /**
   * From now on connections are made to this installation alone: in another one, the number of this process
   * may be that of somebody else.
   */
  belongTo(installation: string): void {
    this.#installation = installation;
  }

  /** The process whose lease guards what is written from now on; 0 before it has one. */
  get process(): number {
    return this.#lease?.process ?? 0;
  }

  /**
   * Runs work in one transaction, in which each statement sees what was committed before it began. The first
   * statement is the fence: it keeps the lease of this process from being taken until the commit. The whole
   * work is done again after a deadlock, so it must not change anything outside of the transaction before it
   * resolves.
   *
   * When it resolves, the commit is on stable storage. If `isAwaited` says that others wait for the locks of
   * this transaction, they get them earlier, after the commit and before its sync. What they then write
   * stands behind this commit in the write-ahead log, so it cannot survive a crash without it.
   *
   * Rejects with a `StorageError` when nothing was written, with an `UnknownCommitError` when nobody knows.
   */
  async write<Answer>(
    work: (transaction: Transaction) => Promise<Answer>,
    isAwaited: () => boolean = () => false,
  ): Promise<Answer> {
    for (let repeat = 0; ; repeat++) {
      try {
        return await this.#transaction(work, isAwaited);
      } catch (error) {
        if (error instanceof InvariantError) this.#onBroken(error);
        rethrowInvariant(error);
        if (repeat >= MOST_REPEATS || !isRepeatable(error)) throw this.#asStorageError(error);
      }
    }
  }

  /**
   * Runs statements outside of any transaction: each sees what was committed when it began. Rejects with a
   * `StorageError`.
   */
  async read<Answer>(work: (transaction: Transaction) => Promise<Answer>): Promise<Answer> {
    try {
      return await this.#withClient((client) => work(new SentStatements(client, this.process)));
    } catch (error) {
      throw this.#asStorageError(error);
    }
  }

  /**
   * Runs statements that all see what was committed when the first of them began. Rejects with a
   * `StorageError`.
   */
  async snapshot<Answer>(work: (transaction: Transaction) => Promise<Answer>): Promise<Answer> {
    try {
      return await this.#withClient((client) => this.#snapshot(client, work));
    } catch (error) {
      throw this.#asStorageError(error);
    }
  }

  /**
   * Runs statements given as text on one connection. `limit`: milliseconds after which they count as stuck.
   */
  async session<Answer>(work: (session: Session) => Promise<Answer>, limit = STUCK_AFTER): Promise<Answer> {
    try {
      return await this.#withClient((client) => work(sessionOf(client)), limit);
    } catch (error) {
      throw this.#asStorageError(error);
    }
  }

  /**
   * Rejects with a `StorageError` when a pooler between here and the server gives a connection's statements
   * to whichever connection of its own is free. Settings, prepared statements and locks of a session are lost
   * then.
   */
  async refuseSharedSessions(): Promise<void> {
    const backend = 'select pg_backend_pid() as pid';
    const pidOf = async ({ query }: Session) => (await query<{ pid: number }>(backend))[0]!.pid;
    await this.session((one) =>
      this.session(async (other) => {
        // Such a pooler hands out first what was given back last: two connections get the same one by turns.
        for (let turn = 0; turn < SESSION_LOOKS; turn++)
          if ((await pidOf(one)) === (await pidOf(other))) throw new StorageError(SHARED_SESSIONS);
      }),
    );
  }

  /** Waits for the work under way, then closes all connections. */
  async stop(): Promise<void> {
    while (this.#working.size > 0) await Promise.allSettled(this.#working);
    this.#ended ??= this.#pool.end();
    await this.#ended;
  }

  /** Cuts all connections at once, as the end of the process would. */
  async abandon(): Promise<void> {
    this.#isAbandoned = true;
    // The pool says goodbye on connections that are cut, and would wait for answers.
    this.#ended ??= this.#pool.end();
    this.#ended.catch(() => undefined);
    for (const client of this.#clients) destroy(client);
  }

  #asStorageError(error: unknown): StorageError {
    return asStorageError(error, this.#place);
  }

  async #snapshot<Answer>(
    client: pg.PoolClient,
    work: (transaction: Transaction) => Promise<Answer>,
  ): Promise<Answer> {
    const sent = new SentStatements(client, this.process);
    try {
      sent.beginSnapshot();
      const answer = await work(sent);
      await client.query('commit');
      return answer;
    } catch (error) {
      const first = await sent.firstError(error);
      if (!isBroken(first)) await client.query('rollback');
      throw first;
    }
  }

  async #transaction<Answer>(
    work: (transaction: Transaction) => Promise<Answer>,
    isAwaited: () => boolean,
  ): Promise<Answer> {
    // The process may have another lease when the database says that this one is lost.
    const lease = this.#lease;
    if (lease === undefined) throw new StorageError('this node has not joined the database yet');
    return await this.#withClient(async (client) => {
      const sent = new SentStatements(client, lease.process);
      try {
        sent.begin();
        const answer = await work(sent);
        sent.balance.check();
        await sent.commit(isAwaited());
        return answer;
      } catch (error) {
        const first = await sent.firstError(error);
        if (!isBroken(first)) await client.query('rollback');
        if (stateOf(first) !== LEASE_LOST) throw first;
        lease.onLost();
        throw new LostLeaseError();
      }
    });
  }

  /** Gives work a connection, and destroys the connection when it is broken or stuck. */
  async #withClient<Answer>(
    work: (client: pg.PoolClient) => Promise<Answer>,
    limit = STUCK_AFTER,
  ): Promise<Answer> {
    if (this.#ended !== undefined) throw new StorageError('the store is stopped');
    const working = this.#workWithClient(work, limit);
    this.#working.add(working);
    try {
      return await working;
    } finally {
      this.#working.delete(working);
    }
  }

  async #workWithClient<Answer>(
    work: (client: pg.PoolClient) => Promise<Answer>,
    limit: number,
  ): Promise<Answer> {
    const client = await this.#connect();
    let broken: boolean | undefined;
    const stuck = setTimeout(() => destroy(client as unknown as pg.Client), limit);
    try {
      return await work(client);
    } catch (error) {
      broken = isBroken(error) || isHandedOver(error);
      throw error;
    } finally {
      clearTimeout(stuck);
      client.release(broken);
    }
  }

  /**
   * Resolves to a connection of the primary that is ready for work. Of several servers, each is asked once.
   */
  async #connect(): Promise<pg.PoolClient> {
    for (let tries = 1; ; tries++) {
      const at = this.#at;
      try {
        return await this.#connectOnce();
      } catch (error) {
        const isLast = tries === this.#hosts.length || this.#ended !== undefined;
        if (stateOf(error) !== undefined && !isBroken(error) && !isHandedOver(error)) throw error;
        // Another connection may have found out already.
        if (this.#at === at) this.#at = (at + 1) % this.#hosts.length;
        if (isLast) throw error;
      }
    }
  }

  async #connectOnce(): Promise<pg.PoolClient> {
    const client = await this.#pool.connect();
    const stuck = setTimeout(() => destroy(client as unknown as pg.Client), STUCK_AFTER);
    try {
      const process = this.process;
      const before = this.#ready.get(client);
      if (before === undefined && this.#hosts.length > 1) {
        const { rows } = await client.query<{ standby: boolean }>(IS_STANDBY);
        if (rows[0]!.standby)
          throw Object.assign(new Error('a standby takes no writes'), { code: READ_ONLY });
      }
      if (before === undefined && this.#installation !== undefined) {
        const { rows } = await client.query<{ id: string }>(INSTALLATION);
        if (rows[0]?.id !== this.#installation) throw new ReplacedError();
      }
      if (before !== process) {
        await client.query(SESSION_SETTINGS + signOfLife(process));
        this.#ready.set(client, process);
      }
      return client;
    } catch (error) {
      client.release(true);
      throw error;
    } finally {
      clearTimeout(stuck);
    }
  }
}

/** SQLSTATE of a server that takes no writes. */
const READ_ONLY = '25006';

/** Whether a server takes no writes. */
const IS_STANDBY = 'select pg_is_in_recovery() as standby';

/** SQLSTATE that the function `fence` of the schema raises. */
export const LEASE_LOST = 'MR001';

/**
 * The statements of one piece of work. `pg` sends each at once and the server answers in order, so that
 * statements which do not wait for each other share a round trip. After a failure the server refuses the rest
 * of the transaction: the first error is the one that tells what happened.
 */
class SentStatements implements Transaction {
  readonly process: number;
  readonly balance = new LedgerBalance();
  readonly #client: pg.PoolClient;
  readonly #sent: Promise<unknown>[] = [];
  #firstError: unknown;

  constructor(client: pg.PoolClient, process: number) {
    this.#client = client;
    this.process = process;
  }

  async rows<Row>({ name, text }: Statement, values: readonly unknown[] = []): Promise<Row[]> {
    const { rows } = await this.#send(() => this.#client.query({ name, text, values: values as unknown[] }));
    return rows as Row[];
  }

  async text(statements: string): Promise<void> {
    await this.#send(() => this.#client.query(statements));
  }

  later(statement: Statement, values: readonly unknown[] = []): void {
    this.rows(statement, values).catch(() => undefined);
  }

  /** Begins a transaction that the lease of the process guards: without one, everything in it fails. */
  begin(): void {
    this.#send(() => this.#client.query(`begin; select fence(${this.process})`)).catch(() => undefined);
  }

  /** Begins a transaction whose statements all see the same. */
  beginSnapshot(): void {
    this.#send(() => this.#client.query('begin isolation level repeatable read read only')).catch(
      () => undefined,
    );
  }

  #send<Answer>(query: () => Promise<Answer>): Promise<Answer> {
    const answer = query();
    this.#sent.push(
      answer.catch((error: unknown) => {
        this.#firstError ??= error;
      }),
    );
    return answer;
  }

  /** Waits for everything sent. The error that came first; `otherwise` when no statement failed. */
  async firstError(otherwise: unknown): Promise<unknown> {
    await Promise.all(this.#sent);
    return this.#firstError ?? otherwise;
  }

  /** Resolves when the commit is on stable storage. `isAwaited`: lets go of its locks before that. */
  async commit(isAwaited: boolean): Promise<void> {
    const notices: string[] = [];
    const note = ({ message }: { message?: string | undefined }) => notices.push(message ?? '');
    this.#client.on('notice', note);
    try {
      const answer: Promise<unknown> = this.#client.query(isAwaited ? COMMIT_EARLY : 'commit');
      const [sent] = await Promise.allSettled([answer, this.firstError(undefined)]);
      if (sent.status === 'rejected') {
        // Where no statement had failed before, it may be the sync behind the commit that did.
        const isInDoubt = isBroken(sent.reason) || (isAwaited && this.#firstError === undefined);
        if (!isInDoubt) throw sent.reason;
        throw new UnknownCommitError(
          'the connection to the database broke during a commit: the next try finds out what happened',
          { cause: sent.reason },
        );
      }
      const results = [sent.value as pg.QueryResult | pg.QueryResult[]].flat();
      if (!results.some(({ command }) => command === 'COMMIT'))
        throw this.#firstError ?? new StorageError('the database rolled a transaction back at its commit');
    } finally {
      this.#client.off('notice', note);
    }
    // With a synchronous standby, a cancelled wait answers success with a warning: the commit is on one
    // machine only.
    if (notices.some((text) => text.includes('synchronous replication')))
      throw new UnknownCommitError(
        'the standby did not confirm a commit: look after synchronous_standby_names and the standby',
      );
  }
}

function sessionOf(client: pg.PoolClient): Session {
  return {
    query: async <Row>(text: string) => {
      const answer = (await client.query(text)) as unknown as pg.QueryResult | pg.QueryResult[];
      const results = Array.isArray(answer) ? answer : [answer];
      return (results.findLast(({ fields }) => fields.length > 0)?.rows ?? []) as Row[];
    },
  };
}

/**
 * Cuts a connection without asking the server for anything: a statement that is cancelled may look as if it
 * had succeeded.
 */
function destroy(client: pg.Client): void {
  (client as unknown as { connection: { stream: { destroy(): void } } }).connection.stream.destroy();
}

const INT8 = 20;
const NUMERIC = 1700;
const INT8_ARRAY = 1016;

/** Numbers stay below 2^53: positions, times and ids. */
function getTypeParser(oid: number, format?: 'text' | 'binary'): (value: string) => unknown {
  if (oid === INT8 || oid === NUMERIC) return Number;
  const parse = pg.types.getTypeParser(oid, format as 'text') as (value: string) => unknown;
  if (oid === INT8_ARRAY) return (value) => (parse(value) as (string | null)[]).map(Number);
  return parse;
}

/** Deadlocks, and transactions that cannot be serialized: done again, they succeed. */
function isRepeatable(error: unknown): boolean {
  return ['40P01', '40001'].includes(stateOf(error) ?? '');
}

/** Whether work failed because a row with the same key exists. */
export function isSameKey(error: unknown): boolean {
  const state = stateOf(error) ?? (error instanceof StorageError ? stateOf(error.cause ?? {}) : undefined);
  return state === '23505';
}

/**
 * The server is gone, or ended the connection: 08xxx, 57P01–03, the timeout of idle transactions, or no
 * SQLSTATE at all.
 */
function isBroken(error: unknown): boolean {
  if (error instanceof StorageError) return error instanceof UnknownCommitError;
  const state = stateOf(error);
  if (state !== undefined) return state.startsWith('08') || /^57P0[1-5]$|^25P03$/.test(state);
  return error instanceof Error && /connection|terminated|ECONN|EPIPE|socket|timeout/i.test(error.message);
}

/** The server is a standby now: another one is the primary, and only a new connection finds it. */
function isHandedOver(error: unknown): boolean {
  return stateOf(error) === READ_ONLY;
}
