import pg from 'pg';
import { StorageError } from '../../ports/event-log.ts';
import type { Logger } from '../../ports/logger.ts';
import { connectionOptions } from './connection.ts';
import { SharedSync } from './shared-sync.ts';

/** A statement that is prepared once per connection, under its name. */
export interface Statement {
  readonly name: string;
  readonly text: string;
}

/** Work inside one transaction, or a read outside of any. */
export interface Transaction {
  /** The number of the process whose lease guards the transaction; see member.ts. */
  readonly process: number;
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
  readonly logger?: Pick<Logger, 'info' | 'warn' | 'error'>;
}

/** The most connections of one process, if the caller says nothing. */
const CONNECTIONS = 8;

/** Milliseconds after which work counts as stuck, and its connection is destroyed. */
const STUCK_AFTER = 30_000;

/** Milliseconds to wait for a new connection. */
const CONNECT_WITHIN = 10_000;

/** How often two connections are compared. Between two looks, another client of the same pooler may have taken its connection. */
const SESSION_LOOKS = 3;

const SHARED_SESSIONS =
  'the pooler in front of the database gives each transaction another connection, which loses prepared statements and locks: ' +
  'set its pool_mode to session (pgbouncer), or name the address of the server itself in "database"';

/** How often a transaction is done again after a deadlock. */
const MOST_REPEATS = 20;

/**
 * Of every connection. Index scans whatever the statistics say, and one plan for all values: a claim planned while its table was
 * empty stalls when it has filled. A transaction that its process forgets ends by itself, because adoption waits for it.
 */
const SESSION_SETTINGS = `
  set enable_seqscan = off; set enable_bitmapscan = off; set enable_hashjoin = off; set enable_mergejoin = off;
  set enable_material = off; set jit = off; set plan_cache_mode = force_generic_plan; set client_min_messages = warning;
  set idle_in_transaction_session_timeout = '5s'; set synchronous_commit = on`;

/** The first key of the advisory locks that connections hold for as long as they last. The second is the number of the process. */
export const SIGN_OF_LIFE = 6;

/** A process lives as long as one of its connections does: the system closes those of a dead one, whatever its lease says. */
function signOfLife(process: number): string {
  return process === 0 ? '' : `; select pg_advisory_lock_shared(${SIGN_OF_LIFE}, ${process})`;
}

/** Tells servers apart, and a server from the one that took its place after a crash. */
const SERVER_START = 'select pg_postmaster_start_time()::text as started';

/** Writes a few bytes to the write-ahead log. Its commit waits for them, and for everything before them. */
const SYNC = `select pg_logical_emit_message(true, 'millrace', '')`;

/** The connections of one process to the database. */
export class Database {
  readonly #pool: pg.Pool;
  /** One connection that syncs for the others, and waits for none of them. */
  readonly #syncPool: pg.Pool;
  readonly #sync = new SharedSync(() => this.#syncNow());
  /** The connection of the last sync, while it is open. */
  #syncClient: pg.ClientBase | undefined;
  /** Transactions that write and have not committed yet. */
  #writing = 0;
  readonly #clients = new Set<pg.Client>();
  /** Connections whose settings are made. */
  readonly #ready = new WeakMap<pg.ClientBase, ReadyConnection>();
  #process: number | undefined;
  #onLost: (() => void) | undefined;
  #ended: Promise<unknown> | undefined;
  #isAbandoned = false;
  readonly #working = new Set<Promise<unknown>>();

  constructor(options: DatabaseOptions) {
    this.#pool = this.#openPool(options, options.connections ?? CONNECTIONS);
    this.#syncPool = this.#openPool(options, 1);
    this.#syncPool.on('remove', () => {
      this.#syncClient = undefined;
    });
  }

  #openPool({ url, logger }: DatabaseOptions, connections: number): pg.Pool {
    const pool = new pg.Pool({
      ...connectionOptions(url),
      max: connections,
      connectionTimeoutMillis: CONNECT_WITHIN,
      pipeline: true,
      types: { getTypeParser },
    });
    pool.on('connect', (client) => {
      const whole = client as unknown as pg.Client;
      this.#clients.add(whole);
      if (this.#isAbandoned) destroy(whole);
      client.once('end', () => this.#clients.delete(whole));
      // The work on it rejects as well. Without a listener the error would end the process.
      client.on('error', () => undefined);
    });
    // An idle connection that breaks is replaced by the next work.
    pool.on('error', (error) => logger?.warn({ reason: error.message }, 'database.connection_lost'));
    return pool;
  }

  /** From now on every write is guarded by the lease of this process. `onLost` is called when a write finds it gone. */
  guardBy(process: number, onLost: () => void): void {
    this.#process = process;
    this.#onLost = onLost;
  }

  /**
   * Runs work in one transaction, in which each statement sees what was committed before it began. The first statement is the fence:
   * it keeps the lease of this process from being taken until the commit. The whole work is done again after a deadlock, so it must
   * not change anything outside of the transaction before it resolves.
   *
   * When it resolves, the commit is on stable storage. One that comes alone is synced by itself. Where others are under way it lets go
   * of its locks at once, and shares a sync with them.
   *
   * Rejects with a `StorageError` when nothing was written, with an `UnknownCommitError` when nobody knows.
   */
  async write<Answer>(work: (transaction: Transaction) => Promise<Answer>): Promise<Answer> {
    for (let repeat = 0; ; repeat++) {
      try {
        return await this.#transaction(work);
      } catch (error) {
        if (repeat >= MOST_REPEATS || !isRepeatable(error)) throw asStorageError(error);
      }
    }
  }

  /** Runs statements outside of any transaction: each sees what was committed when it began. Rejects with a `StorageError`. */
  async read<Answer>(work: (transaction: Transaction) => Promise<Answer>): Promise<Answer> {
    try {
      return await this.#withClient((client) => work(new SentStatements(client, this.#process ?? 0)));
    } catch (error) {
      throw asStorageError(error);
    }
  }

  /** Runs statements that all see what was committed when the first of them began. Rejects with a `StorageError`. */
  async snapshot<Answer>(work: (transaction: Transaction) => Promise<Answer>): Promise<Answer> {
    try {
      return await this.#withClient((client) => this.#snapshot(client, work));
    } catch (error) {
      throw asStorageError(error);
    }
  }

  /** Runs statements given as text on one connection. `limit`: milliseconds after which they count as stuck. */
  async session<Answer>(work: (session: Session) => Promise<Answer>, limit = STUCK_AFTER): Promise<Answer> {
    try {
      return await this.#withClient((client) => work(sessionOf(client)), { limit });
    } catch (error) {
      throw asStorageError(error);
    }
  }

  /**
   * Rejects with a `StorageError` when a pooler between here and the server gives a connection's statements to whichever connection of
   * its own is free. Settings, prepared statements and locks of a session are lost then.
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
    await this.#end();
  }

  /** Cuts all connections at once, as the end of the process would. */
  async abandon(): Promise<void> {
    this.#isAbandoned = true;
    // The pool says goodbye on connections that are cut, and would wait for answers.
    this.#end().catch(() => undefined);
    for (const client of this.#clients) destroy(client);
  }

  #end(): Promise<unknown> {
    this.#ended ??= Promise.all([this.#pool.end(), this.#syncPool.end()]);
    return this.#ended;
  }

  async #snapshot<Answer>(
    client: pg.PoolClient,
    work: (transaction: Transaction) => Promise<Answer>,
  ): Promise<Answer> {
    const sent = new SentStatements(client, this.#process ?? 0);
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

  async #transaction<Answer>(work: (transaction: Transaction) => Promise<Answer>): Promise<Answer> {
    const process = this.#process;
    if (process === undefined) throw new StorageError('this node has not joined the database yet');
    this.#writing++;
    let syncClient: pg.ClientBase | undefined;
    let answer: Answer;
    try {
      answer = await this.#withClient(async (client) => {
        const sent = new SentStatements(client, process);
        try {
          sent.begin();
          const done = await work(sent);
          syncClient = this.#syncerFor(client);
          await sent.commit(syncClient === undefined);
          return done;
        } catch (error) {
          const first = await sent.firstError(error);
          if (!isBroken(first)) await client.query('rollback');
          if (stateOf(first) !== LEASE_LOST) throw first;
          this.#onLost?.();
          throw new LostLeaseError();
        }
      });
    } finally {
      this.#writing--;
    }
    if (syncClient === undefined || (await this.#sync.wait()) === syncClient) return answer;
    throw new UnknownCommitError(BROKEN_COMMIT);
  }

  /**
   * The connection that syncs a commit on `client`; undefined when the commit must sync itself. A sync counts only on a connection to
   * the same server that was open before the commit: a crash between the two, which loses the commit, would have closed it.
   */
  #syncerFor(client: pg.ClientBase): pg.ClientBase | undefined {
    if (this.#writing === 1) return undefined;
    const syncer = this.#syncClient;
    // The first sync opens the connection, for later commits.
    if (syncer === undefined) this.#sync.wait().catch(() => undefined);
    return syncer && this.#ready.get(syncer)?.server === this.#ready.get(client)?.server ? syncer : undefined;
  }

  /** Resolves when everything that was committed before is on stable storage, and with the standbys that commits wait for. */
  async #syncNow(): Promise<pg.ClientBase> {
    const sync = async (client: pg.ClientBase) => {
      await watchingStandbys(client, () => client.query(SYNC));
      this.#syncClient = client;
      return client;
    };
    try {
      return await this.#withClient(sync, { pool: this.#syncPool });
    } catch (error) {
      if (error instanceof UnknownCommitError) throw error;
      throw new UnknownCommitError(BROKEN_COMMIT, { cause: error });
    }
  }

  /** Gives work a connection, and destroys the connection when it is broken or stuck. */
  async #withClient<Answer>(
    work: (client: pg.PoolClient) => Promise<Answer>,
    { limit = STUCK_AFTER, pool = this.#pool }: { readonly limit?: number; readonly pool?: pg.Pool } = {},
  ): Promise<Answer> {
    if (this.#ended !== undefined) throw new StorageError('the store is stopped');
    const working = this.#workWithClient(work, { limit, pool });
    this.#working.add(working);
    try {
      return await working;
    } finally {
      this.#working.delete(working);
    }
  }

  async #workWithClient<Answer>(
    work: (client: pg.PoolClient) => Promise<Answer>,
    { limit, pool }: { readonly limit: number; readonly pool: pg.Pool },
  ): Promise<Answer> {
    const client = await pool.connect();
    let broken: boolean | undefined;
    const stuck = setTimeout(() => destroy(client as unknown as pg.Client), limit);
    try {
      const process = this.#process ?? 0;
      if (this.#ready.get(client)?.process !== process) {
        const text = `${SESSION_SETTINGS}${signOfLife(process)}; ${SERVER_START}`;
        const answers = (await client.query(text)) as unknown as readonly pg.QueryResult<{
          started: string;
        }>[];
        this.#ready.set(client, { process, server: answers.at(-1)!.rows[0]!.started });
      }
      return await work(client);
    } catch (error) {
      broken = isBroken(error) || isHandedOver(error);
      throw error;
    } finally {
      clearTimeout(stuck);
      client.release(broken);
    }
  }
}

interface ReadyConnection {
  /** The process that it is a sign of. */
  readonly process: number;
  /** When its server was started. */
  readonly server: string;
}

/** SQLSTATE that the function `fence` of the schema raises. */
export const LEASE_LOST = 'MR001';

/**
 * The statements of one piece of work. `pg` sends each at once and the server answers in order, so that statements which do not
 * wait for each other share a round trip. After a failure the server refuses the rest of the transaction: the first error is the
 * one that tells what happened.
 */
class SentStatements implements Transaction {
  readonly process: number;
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

  /** `isSynced`: resolves when the commit is on stable storage; otherwise a sync after it must say so. */
  async commit(isSynced: boolean): Promise<void> {
    await watchingStandbys(this.#client, async () => {
      const text = isSynced ? 'commit' : 'set local synchronous_commit = off; commit';
      const committed = this.#client.query(text) as Promise<unknown> as Promise<Committed | Committed[]>;
      const [failed] = await Promise.allSettled([committed, this.firstError(undefined)]);
      if (failed.status === 'rejected') {
        if (!isBroken(failed.reason)) throw failed.reason;
        throw new UnknownCommitError(BROKEN_COMMIT, { cause: failed.reason });
      }
      if ([failed.value].flat().at(-1)!.command !== 'COMMIT')
        throw this.#firstError ?? new StorageError('the database rolled a transaction back at its commit');
    });
  }
}

type Committed = Pick<pg.QueryResult, 'command'>;

const BROKEN_COMMIT =
  'the connection to the database broke during a commit: the next try finds out what happened';

/** With a synchronous standby, a cancelled wait answers success with a warning: the commit is on one machine only. */
async function watchingStandbys(client: pg.ClientBase, commit: () => Promise<unknown>): Promise<void> {
  const notices: string[] = [];
  const note = ({ message }: { message?: string | undefined }) => notices.push(message ?? '');
  client.on('notice', note);
  try {
    await commit();
  } finally {
    client.off('notice', note);
  }
  if (notices.some((text) => text.includes('synchronous replication')))
    throw new UnknownCommitError(
      'the standby did not confirm a commit: look after synchronous_standby_names and the standby',
    );
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

/** Cuts a connection without asking the server for anything: a statement that is cancelled may look as if it had succeeded. */
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

/** SQLSTATE, where the server has one to give. */
function stateOf(error: unknown): string | undefined {
  const { code } = error as { code?: unknown };
  return typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code) ? code : undefined;
}

/** Deadlocks, and transactions that cannot be serialized: done again, they succeed. */
function isRepeatable(error: unknown): boolean {
  return ['40P01', '40001'].includes(stateOf(error) ?? '');
}

/** Whether work failed because a row with the same key exists. */
export function isSameKey(error: unknown): boolean {
  return (
    stateOf(error) === '23505' || (error instanceof StorageError && stateOf(error.cause ?? {}) === '23505')
  );
}

/** The server is gone, or ended the connection: 08xxx, 57P01–03, the timeout of idle transactions, or no SQLSTATE at all. */
function isBroken(error: unknown): boolean {
  if (error instanceof StorageError) return error instanceof UnknownCommitError;
  const state = stateOf(error);
  if (state !== undefined) return state.startsWith('08') || /^57P0[1-5]$|^25P03$/.test(state);
  return error instanceof Error && /connection|terminated|ECONN|EPIPE|socket|timeout/i.test(error.message);
}

/** The server is a standby now: another one is the primary, and only a new connection finds it. */
function isHandedOver(error: unknown): boolean {
  return stateOf(error) === '25006';
}

const ADVICE: readonly (readonly [RegExp, string])[] = [
  [/^25006$/, 'it is a standby now: name the address of the primary in "database"'],
  [/^53100$/, 'its disk is full: free some space on it'],
  [/^53300$/, 'it has no connection left: raise its max_connections'],
  [/^28/, 'it refuses the user or the password in "database"'],
  [/^3D000$/, 'the database named in "database" does not exist: create it'],
  [/^42501$/, 'the user named in "database" may not do this: make it the owner of the database'],
  [/^(26000|42P05)$/, SHARED_SESSIONS],
  [/^42P07$/, 'it holds tables that Millrace did not write: make a database for Millrace alone'],
  [/^(08|57P)/, 'it is stopping or starting: wait, or look after the server'],
  [/^(XX|58)/, 'the server reports damage or a failing disk: see its log'],
];

/** An error of `pg` as a `StorageError`, whose reason is one line that says what to do. */
function asStorageError(error: unknown): StorageError {
  if (error instanceof StorageError) return error;
  const state = stateOf(error);
  const { message } = error as Error;
  const said = `${state === undefined ? '' : `${state} `}${message || String((error as { code?: string }).code)}`;
  const advice =
    ADVICE.find(([pattern]) => pattern.test(state ?? ''))?.[1] ??
    (state === undefined
      ? 'is the server running, and can this machine reach it?'
      : 'see the log of the server');
  return new StorageError(`cannot use the database (${said}): ${advice}`, { cause: error });
}
