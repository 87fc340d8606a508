import { type Duration, SECOND } from '../../model/time.ts';
import type { Clock } from '../../ports/clock.ts';
import { StorageError } from '../../ports/event-log.ts';
import type { Logger } from '../../ports/logger.ts';
import { NOTE_GONE } from './acknowledgements.ts';
import { type Database, LOCKS, SIGN_OF_LIFE, type Statement, type Transaction } from './database.ts';

/** For how long a lease is valid from the moment it was renewed. */
const LEASE_SECONDS = 10;

/** The longest pause between two looks at the lease of an earlier process of the same name. */
const LOOK_AGAIN: Duration = 250;

/**
 * How often it is renewed. Each renewal is a commit, and so shows whether this process can store anything.
 */
const RENEW_EVERY: Duration = SECOND;

/**
 * Pause before a renewal that has failed is tried again. One alone is no reason to send calls elsewhere: a
 * connection may break while all is well with the database.
 */
const TRY_AGAIN_AFTER: Duration = 250;

/**
 * A database without an answer for so long counts as gone until it answers. A commit on a busy disk may well
 * take a second. Where the last answer took longer, twice that, up to `MOST_PATIENCE`: a far database would
 * seem gone and back with every renewal.
 */
const ANSWER_WITHIN: Duration = 2 * SECOND;
const MOST_PATIENCE: Duration = 6 * SECOND;

/**
 * Sending stops so long after the beginning of the last good renewal: before the database lets anybody adopt.
 */
const STOP_AFTER: Duration = 8000;

function noAnswer(patience: Duration): string {
  const seconds = Math.round(patience / 100) / 10;
  return `the database has not answered for more than ${seconds} s: its server stands still or is overloaded, or the way to it is cut`;
}

/**
 * `$1` node, `$2` its roles, `$3` version of the program, `$4` how long the program has been running, in
 * milliseconds, `$5` the number that the same program had before, or 0, `$6` the digest of its file. No row:
 * another process of this name has the lease and may be alive.
 */
const TAKE: Statement = {
  name: 'lease.take',
  text: `with taken as (insert into process(id, node, expires, roles, version, since, file)
    values (nextval('process_id'), $1, clock_timestamp() + interval '${LEASE_SECONDS} seconds', $2::text[], $3::text,
      clock_timestamp() - $4::float8 * interval '1 ms', $6::text)
    on conflict (node) do update set id = excluded.id, expires = excluded.expires, roles = excluded.roles,
      version = excluded.version, since = excluded.since, file = excluded.file
      where process.expires <= clock_timestamp() or process.id = $5::bigint
        or not exists (select from pg_locks l where l.locktype = 'advisory' and l.objsubid = 2 and l.classid = ${SIGN_OF_LIFE}
          and l.objid = process.id::int and l.database = (select oid from pg_database where datname = current_database()))
    returning id),
    noted as (insert into acknowledgement(process) select id from taken)
    select id, pg_advisory_lock_shared(${SIGN_OF_LIFE}, id::int) from taken`,
};

/** `$1` node. */
const OF_NODE: Statement = {
  name: 'lease.of_node',
  text: 'select id, extract(epoch from expires)::float8 as expires from process where node = $1',
};

/**
 * `$1` process. No row: the lease is lost, or was given back while this renewal was on its way. Does not
 * touch the key, so it waits for no fence.
 */
const RENEW: Statement = {
  name: 'lease.renew',
  text: `update process set expires = clock_timestamp() + interval '${LEASE_SECONDS} seconds'
    where id = $1 and expires > '-infinity' returning id`,
};

/**
 * `$1` process, `$2` node. The lease is over at once; whoever adopts next finds it so, as that of a dead
 * process. The process does nothing more, so no deletion waits for it, and nobody misses it, also where it
 * had died before and was back.
 */
const GIVE_BACK: Statement = {
  name: 'lease.give_back',
  text: `with done as (delete from acknowledgement where process = $1), back as (delete from gone_node where node = $2)
    update process set expires = '-infinity' where id = $1`,
};

const HAS_EXPIRED: Statement = {
  name: 'adopt.has_expired',
  text: 'select exists (select from process where expires <= clock_timestamp()) as expired',
};

/** Two adoptions at once could take a set from a process too new for them to see. */
const ALONE: Statement = { name: 'adopt.alone', text: `select pg_advisory_xact_lock(${LOCKS.adoption})` };

/**
 * `$1` process that adopts. Of those that died, and did not give their lease back, it is noted when they were
 * last seen.
 */
const GONE: Statement = {
  name: 'adopt.gone',
  text: `with late as materialized (select id from process where expires <= clock_timestamp() for update),
    gone as (delete from process p using late where p.id = late.id returning p.*)
    insert into gone_node(node, roles, version, seen, adopted, adopted_by)
      select node, roles, version, expires - interval '${LEASE_SECONDS} seconds', clock_timestamp(),
        (select p.node from process p where p.id = $1::bigint)
      from gone where expires > '-infinity'
    on conflict (node) do update set roles = excluded.roles, version = excluded.version, seen = excluded.seen,
      adopted = excluded.adopted, adopted_by = excluded.adopted_by`,
};

const FORGET_GONE: Statement = {
  name: 'adopt.forget_gone',
  text: `delete from gone_node where adopted < clock_timestamp() - interval '1 hour'`,
};

/** A statement of its own, to see what the dead process committed while `GONE` waited for it. */
const PARK: Statement = {
  name: 'adopt.park',
  text: `with parked as (update pending set owner = null where owner is not null
      and not exists (select from process p where p.id = pending.owner) returning n)
    select coalesce(sum(n), 0) as n from parked`,
};

/** The counters of the dead become those of process 0. */
const FOLD: Statement = {
  name: 'adopt.fold',
  text: `with gone as (delete from ledger l where process <> 0
      and not exists (select from process p where p.id = l.process) returning l.*)
    insert into ledger select 0, scope, id, name, sum(value) from gone group by scope, id, name
    on conflict (process, scope, id, name) do update set value = ledger.value + excluded.value`,
};

/** Parks what processes held that are gone, inside a transaction. Resolves to the number of deliveries. */
export async function parkOrphans(write: Transaction): Promise<number> {
  write.later(ALONE);
  const [parked] = await write.rows<{ n: number }>(PARK);
  return parked!.n;
}

/** Two living processes have one name. */
class NameTakenError extends StorageError {
  constructor(node: string) {
    super(
      `another process is the node ${JSON.stringify(node)} in this database: stop it, or give this one another name with "node" or MILLRACE_NODE`,
    );
  }
}

export interface MemberOptions {
  /** The name of the node, which no other living process has. */
  readonly node: string;
  readonly roles?: readonly string[];
  /** Of the program. */
  readonly version?: string;
  /** Digest of what its configuration file declares. */
  readonly file?: string | undefined;
  /** Clock of this machine: `elapsed` tells how old a renewal is. */
  readonly clock: Pick<Clock, 'elapsed' | 'after'>;
  readonly logger?: Pick<Logger, 'info' | 'warn' | 'error'>;
  /** Called once when the lease is gone: nothing may be sent any more. */
  readonly onLost?: () => void;
}

/**
 * This process among those of the database. It renews its lease until it stops. An expired lease may be taken
 * by anybody; a lease whose row is gone is taken, and then no write of its process succeeds (the fence of
 * `Database.write`). Only sending depends on clocks: `isLost` turns true before another process may adopt, by
 * the monotonic clock of this one.
 */
export class Member {
  /** Number of this process. Ids of its pending sets are above it × 2^32. */
  readonly id: number;
  readonly node: string;
  readonly #database: Database;
  readonly #options: MemberOptions;
  #renewedAt: number;
  /** When the first renewal began that has no good answer yet. */
  #askedAt: number | undefined;
  /** Renewals that failed since the last good one, and why the last of them did. */
  #failures = 0;
  #reason = '';
  #patience = ANSWER_WITHIN;
  #isGone = false;
  #isTold = false;
  #cancelRenewal: (() => void) | undefined;
  #cancelDeadline: (() => void) | undefined;

  private constructor(
    database: Database,
    { id, begun }: { id: number; begun: number },
    options: MemberOptions,
  ) {
    this.id = id;
    this.node = options.node;
    this.#database = database;
    this.#options = options;
    this.#renewedAt = begun;
    this.#renewed(begun);
    database.guardBy(id, () => this.#lose());
    this.#schedule();
  }

  /**
   * Takes a lease. An earlier process of this name is replaced when it has given its lease back, when its
   * connections are gone, or when its lease is over, which this waits for. Rejects with a `NameTakenError`
   * when that process renews its lease, with a `StorageError` otherwise. `previous`: the number of this
   * process before it lost its lease.
   */
  static async join(database: Database, options: MemberOptions, previous = 0): Promise<Member> {
    const { node, roles = [], version = '', file = null, clock } = options;
    let seen: { readonly id: number; readonly expires: number } | undefined;
    for (let turn = 0; ; turn++) {
      const begun = clock.elapsed();
      const values = [node, roles, version, begun, previous, file];
      const [lease] = await database.read((read) => read.rows<{ id: number }>(TAKE, values));
      if (lease !== undefined) return new Member(database, { id: lease.id, begun }, options);
      const [other] = await database.read((read) =>
        read.rows<{ id: number; expires: number }>(OF_NODE, [node]),
      );
      if (other !== undefined && other.id === seen?.id && other.expires > seen.expires)
        throw new NameTakenError(node);
      seen = other;
      // The connections of a process that has just died may last a moment longer than it.
      await new Promise<void>((resolve) => clock.after(Math.min(LOOK_AGAIN, 20 * 2 ** turn), resolve));
    }
  }

  /**
   * Whether this process must not send any more. A lease that is lost once stays so, also when a late renewal
   * still succeeds.
   */
  get isLost(): boolean {
    return this.#isTold || this.#options.clock.elapsed() - this.#renewedAt > STOP_AFTER;
  }

  /**
   * Why this process can store nothing now, although it has its lease; undefined while its renewals are
   * answered.
   */
  get doubt(): string | undefined {
    if (this.#failures > 1) return this.#reason;
    const isSilent =
      this.#askedAt !== undefined && this.#options.clock.elapsed() - this.#askedAt > this.#patience;
    return isSilent ? noAnswer(this.#patience) : undefined;
  }

  /** Renews the lease now. False when it is gone. Rejects when the database cannot be asked. */
  async renew(): Promise<boolean> {
    const begun = this.#options.clock.elapsed();
    this.#askedAt ??= begun;
    const rows = await this.#database.read((read) => read.rows(RENEW, [this.id]));
    if (rows.length === 0) this.#lose();
    // After a stand-still the answer may be heard before the deadline, when others have acted on the loss
    // already.
    else if (this.isLost) this.#tell();
    else this.#renewed(begun);
    return rows.length > 0;
  }

  /** Parks what processes held that are gone. Resolves to the number of deliveries. */
  async adopt(): Promise<number> {
    return await this.#database.write(async (write) => {
      write.later(ALONE);
      write.later(GONE, [write.process]);
      write.later(FORGET_GONE);
      const parked = write.rows<{ n: number }>(PARK);
      write.later(FOLD);
      write.later(NOTE_GONE);
      return (await parked)[0]!.n;
    });
  }

  /**
   * As `adopt`, where a lease is over. Otherwise it costs one small read, and not a look at every pending
   * set.
   */
  async adoptExpired(): Promise<number> {
    const [found] = await this.#database.read((read) => read.rows<{ expired: boolean }>(HAS_EXPIRED));
    return found!.expired ? await this.adopt() : 0;
  }

  /** Stops renewing. `giveBack`: others may adopt at once. */
  async stop(giveBack: boolean): Promise<void> {
    this.#cancelRenewal?.();
    this.#cancelDeadline?.();
    this.#cancelRenewal = undefined;
    const isOurs = !this.#isGone;
    this.#isGone = true;
    this.#isTold = true;
    if (giveBack && isOurs) await this.#database.read((read) => read.rows(GIVE_BACK, [this.id, this.node]));
  }

  #renewed(begun: number): void {
    this.#renewedAt = begun;
    const { clock } = this.#options;
    const ms = Math.round(clock.elapsed() - (this.#askedAt ?? begun));
    if (this.doubt !== undefined) this.#options.logger?.warn({ ms }, 'database.lease_renewed_late');
    this.#patience = Math.min(Math.max(ANSWER_WITHIN, 2 * ms), MOST_PATIENCE);
    this.#askedAt = undefined;
    this.#failures = 0;
    this.#reason = '';
    this.#cancelDeadline?.();
    this.#cancelDeadline = clock.after(begun + STOP_AFTER - clock.elapsed(), () => this.#tell());
  }

  #schedule(): void {
    const pause = this.#failures === 1 ? TRY_AGAIN_AFTER : RENEW_EVERY;
    this.#cancelRenewal = this.#options.clock.after(pause, () => void this.#renewSoon());
  }

  async #renewSoon(): Promise<void> {
    try {
      await this.renew();
    } catch (error) {
      const reason = (error as Error).message;
      if (reason !== this.#reason) this.#options.logger?.warn({ reason }, 'database.lease_not_renewed');
      this.#failures++;
      this.#reason = reason;
    }
    if (!this.#isGone && this.#cancelRenewal !== undefined) this.#schedule();
  }

  #lose(): void {
    this.#isGone = true;
    this.#tell();
  }

  #tell(): void {
    if (this.#isTold) return;
    this.#isTold = true;
    this.#options.logger?.error({ node: this.node }, 'database.lease_lost');
    this.#options.onLost?.();
  }
}
