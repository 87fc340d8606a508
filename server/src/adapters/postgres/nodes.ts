import type { Position } from '../../model/event.ts';
import type { DatabaseStatus, GoneNode, NodeRole, NodeStatus, SingleJob } from '../../model/node.ts';
import type { Duration, Monotonic } from '../../model/time.ts';
import type { Clock, ClockMark, ClockStep } from '../../ports/clock.ts';
import type { Logger } from '../../ports/logger.ts';
import type { Acknowledged, LeaseFollower, Nodes, NodeToWaitFor, SharedChanges } from '../../ports/nodes.ts';
import { acknowledge, processesToWaitFor } from './acknowledgements.ts';
import { type Database, ReplacedError, type Statement } from './database.ts';
import { inspectDatabase } from './inspection.ts';
import { Member } from './member.ts';
import { refuseMoved } from './migration/moved.ts';

/** Pause before the next try to join again. */
const REJOIN_AFTER: Duration = 1000;

/**
 * `$1` job, `$2` process. A job is free when the process that had it is gone; its lease alone being over is
 * not enough.
 */
const TAKE_JOB: Statement = {
  name: 'job.take',
  text: `insert into job(name, process) values ($1, $2) on conflict (name) do update set process = excluded.process
    where job.process = excluded.process or not exists (select from process p where p.id = job.process) returning name`,
};

/** `$1` job, `$2` process. */
const GIVE_BACK_JOB: Statement = {
  name: 'job.give_back',
  text: 'delete from job where name = $1 and process = $2',
};

/**
 * The lease of a node that was stopped is over since ever, a time that PostgreSQL subtracts nothing from
 * before version 17.
 */
const LIST: Statement = {
  name: 'node.list',
  text: `select id, node, roles, version, floor(extract(epoch from since) * 1000)::bigint as since,
      case when expires = '-infinity' then -1e9
        else greatest(extract(epoch from expires - clock_timestamp()) * 1000, -1e9) end::float8 as left,
      array(select name from job where process = p.id order by name) as jobs
    from process p order by node`,
};

/** The row of a node that is back stays, and is not shown, until the node is stopped or dies again. */
const GONE_NODES: Statement = {
  name: 'node.gone',
  text: `select node as name, roles, version, floor(extract(epoch from seen) * 1000)::bigint as "lastSeen",
      floor(extract(epoch from adopted) * 1000)::bigint as "takenOverAt", adopted_by as "takenOverBy"
    from gone_node g where adopted > clock_timestamp() - interval '1 hour'
      and not exists (select from process p where p.node = g.node) order by node`,
};

/** `$1` process. */
const CHANGES: Statement = {
  name: 'node.changes',
  text: `select (select version from settings_version) as settings, (select version from suppression_version) as suppressions,
    coalesce((select max(id) from erasure), 0) as erasures, a.suppressions as suppressions_done, a.erasures as erasures_done
    from (select) one left join acknowledgement a on a.process = $1`,
};

interface ChangesRow extends Omit<SharedChanges, 'acknowledged'> {
  readonly suppressions_done: number | null;
  readonly erasures_done: number | null;
}

/** `$1` number of the last erasure that is known, `$2` process. */
const ERASED_AFTER: Statement = {
  name: 'node.erased_after',
  text: 'select positions from erasure where id > $1 and process <> $2 order by id',
};

/** For how long a turn is kept that its process does not give back: longer than any request. */
const TURN_SECONDS = 30;

/**
 * The longest time after which a process asks again: another may have given its turn back long before it was
 * over.
 */
const ASK_AGAIN: Duration = 2000;

/** `$1` lane, `$2` process. A process that is gone has no turn. */
const TAKE_PROBE: Statement = {
  name: 'probe.take',
  text: `with taken as (insert into probe as p (lane, process, next)
      values ($1, $2, clock_timestamp() + interval '${TURN_SECONDS} seconds')
      on conflict (lane) do update set process = excluded.process, next = excluded.next
      where p.next <= clock_timestamp() or not exists (select from process o where o.id = p.process) returning lane)
    select exists (select from taken) as taken,
      coalesce((select extract(epoch from next - clock_timestamp()) * 1000 from probe where lane = $1), 0)::float8 as left`,
};

/** `$1` lane, `$2` pause in milliseconds. */
const GIVE_BACK_PROBE: Statement = {
  name: 'probe.give_back',
  text: `update probe set next = clock_timestamp() + $2::float8 * interval '1 ms' where lane = $1`,
};

const CLOCK: Statement = {
  name: 'node.clock',
  text: `select floor(extract(epoch from clock_timestamp()) * 1000)::bigint as now,
    (select value from installation where name = 'clock_shift') as shift`,
};

interface ClockRow {
  readonly now: Monotonic;
  readonly shift: string | null;
}

interface NodeRow {
  readonly id: number;
  readonly node: string;
  readonly roles: readonly NodeRole[];
  readonly version: string;
  readonly since: number;
  readonly left: number;
  readonly jobs: readonly SingleJob[];
}

export interface NodeOptions {
  /** The name of this node; see `Member`. */
  readonly node: string;
  readonly roles?: readonly NodeRole[];
  /** Of the program. */
  readonly version?: string;
  /** Digest of what its configuration file declares (`fileDigest`); absent where it declares nothing. */
  readonly file?: string | undefined;
  /** Clock of this machine. */
  readonly clock: Pick<Clock, 'elapsed' | 'after' | 'now'>;
  readonly logger?: Pick<Logger, 'info' | 'warn' | 'error'>;
}

/** The membership of this process, over one lease after the other. */
export class PostgresNodes implements Nodes {
  readonly #database: Database;
  readonly #options: NodeOptions;
  #member: Member | undefined;
  #follower: LeaseFollower | undefined;
  #rejoining: Promise<void> | undefined;
  #hasAdopted = false;
  #isStopped = false;
  /** Why it could not join again at the last try. */
  #reason: string | undefined;
  readonly #failed = Promise.withResolvers<string>();

  private constructor(database: Database, options: NodeOptions) {
    this.#database = database;
    this.#options = options;
  }

  /** Takes a lease. Rejects with a `StorageError`. */
  static async join(database: Database, options: NodeOptions): Promise<PostgresNodes> {
    const nodes = new PostgresNodes(database, options);
    await nodes.#join();
    return nodes;
  }

  /** Resolves to why this process has to end: the database holds something else now. Most never do. */
  get failed(): Promise<string> {
    return this.#failed.promise;
  }

  /** The number of this process in the database; another one after a loss of the lease. */
  get process(): number {
    return this.#member!.id;
  }

  readonly maySend = (): boolean =>
    !this.#isStopped && this.#rejoining === undefined && !this.#member!.isLost;

  readonly problems = (): readonly string[] => {
    if (this.maySend()) return this.#member!.doubt === undefined ? [] : [this.#member!.doubt];
    const reason = this.#reason ?? 'look after the database and the way to it';
    return [`this node lost its lease in the database and joins again: ${reason}`];
  };

  follow(follower: LeaseFollower): void {
    this.#follower = follower;
  }

  async list(): Promise<readonly NodeStatus[]> {
    const rows = await this.#database.read((read) => read.rows<NodeRow>(LIST));
    return rows.map(({ id, node, left, ...row }) => ({
      name: node,
      isSelf: id === this.process,
      ...row,
      leaseLeft: Math.round(left),
    }));
  }

  gone(): Promise<readonly GoneNode[]> {
    return this.#database.read((read) => read.rows<GoneNode>(GONE_NODES));
  }

  database(): Promise<DatabaseStatus> {
    return inspectDatabase(this.#database, this.#options.clock.now);
  }

  async take(job: SingleJob): Promise<boolean> {
    const rows = await this.#database.write((write) => write.rows(TAKE_JOB, [job, write.process]));
    return rows.length > 0;
  }

  async giveBack(job: SingleJob): Promise<void> {
    await this.#database.write((write) => write.rows(GIVE_BACK_JOB, [job, write.process]));
  }

  async takeProbe(lane: number): Promise<Duration> {
    const [row] = await this.#database.write((write) =>
      write.rows<{ taken: boolean; left: number }>(TAKE_PROBE, [lane, write.process]),
    );
    return row!.taken ? 0 : Math.ceil(Math.min(Math.max(row!.left, 1), ASK_AGAIN));
  }

  async giveBackProbe(lane: number, pause: Duration): Promise<void> {
    await this.#database.write((write) => write.rows(GIVE_BACK_PROBE, [lane, pause]));
  }

  async changes(): Promise<SharedChanges> {
    const [row] = await this.#database.read((read) => read.rows<ChangesRow>(CHANGES, [this.process]));
    const { suppressions_done: suppressions, erasures_done: erasures, ...changes } = row!;
    return { ...changes, acknowledged: { suppressions: suppressions ?? 0, erasures: erasures ?? 0 } };
  }

  async erasedAfter(erasures: number): Promise<readonly Position[]> {
    const rows = await this.#database.read((read) =>
      read.rows<{ positions: readonly Position[] }>(ERASED_AFTER, [erasures, this.process]),
    );
    return rows.flatMap(({ positions }) => positions);
  }

  acknowledge(done: Partial<Acknowledged>): Promise<void> {
    return acknowledge(this.#database, done);
  }

  async toWaitFor(asked: Partial<Acknowledged>): Promise<readonly NodeToWaitFor[]> {
    this.#follower?.awaited();
    return await processesToWaitFor(this.#database, asked);
  }

  /**
   * Parks what processes held that are gone. Resolves to the number of deliveries. The first time it looks at
   * every set, because this process may have taken the place of an earlier one of this node.
   */
  async adopt(): Promise<number> {
    if (this.#hasAdopted) return await this.#member!.adoptExpired();
    const parked = await this.#member!.adopt();
    this.#hasAdopted = true;
    return parked;
  }

  /** Renews the lease no more. `giveBack`: others may adopt at once. */
  async stop(giveBack: boolean): Promise<void> {
    this.#isStopped = true;
    await this.#rejoining;
    await this.#member!.stop(giveBack);
  }

  /**
   * Takes a lease, unless the installation was moved away. Looks again afterwards: whoever moves it away in
   * between sees this process, or is seen by it.
   */
  async #join(): Promise<void> {
    this.#hasAdopted = false;
    await refuseMoved(this.#database);
    const options = { ...this.#options, onLost: () => this.#lost() };
    const member = await Member.join(this.#database, options, this.#member?.id);
    try {
      await refuseMoved(this.#database);
    } catch (error) {
      await member.stop(true);
      throw error;
    }
    this.#member = member;
  }

  #lost(): void {
    if (this.#isStopped) return;
    this.#rejoining ??= this.#rejoin().finally(() => {
      this.#rejoining = undefined;
      if (!this.#isStopped) this.#follower?.joined();
    });
  }

  async #rejoin(): Promise<void> {
    const { logger, node, clock } = this.#options;
    await this.#follower?.lost();
    this.#reason = undefined;
    while (!this.#isStopped) {
      try {
        await this.#member!.stop(false);
        await this.#join();
        await this.adopt();
        await this.#follower?.catchUp();
        // On a slow database the new lease may be over before the adoption is.
        if (this.#member!.isLost) continue;
        logger?.info({ node, process: this.process }, 'database.joined_again');
        return;
      } catch (error) {
        const reason = (error as Error).message;
        if (reason !== this.#reason) logger?.warn({ reason }, 'database.not_joined');
        this.#reason = reason;
        if (error instanceof ReplacedError) {
          this.#isStopped = true;
          this.#failed.resolve(reason);
          return;
        }
        await new Promise<void>((resolve) => clock.after(REJOIN_AFTER, resolve));
      }
    }
  }
}

/** The clock of an installation that was moved into the database, beside that of the database. */
export interface ClockShift {
  /** By how much it is ahead. */
  readonly by: Duration;
  /** The steps of its wall clock until then. */
  readonly steps: readonly ClockStep[];
}

/** The time by the clock of the database. */
export async function databaseNow(database: Database): Promise<Monotonic> {
  const [row] = await database.read((read) => read.rows<ClockRow>(CLOCK));
  return row!.now;
}

/**
 * The clock of the database beside that of this machine: what a process of several goes by. All times that
 * nodes compare are then those of one clock, whatever the clocks of their machines show.
 */
export async function databaseClockMark(database: Database, clock: Pick<Clock, 'now'>): Promise<ClockMark> {
  const [row] = await database.read((read) => read.rows<ClockRow>(CLOCK));
  const now = clock.now();
  const { by, steps }: ClockShift = row!.shift === null ? { by: 0, steps: [] } : JSON.parse(row!.shift);
  const monotonic = row!.now + by;
  return { now, monotonic, steps: [...steps, { at: monotonic, ahead: now - monotonic }] };
}
