import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Database, type Statement, UnknownCommitError } from '../../src/adapters/postgres/database.ts';
import { Member, type MemberOptions } from '../../src/adapters/postgres/member.ts';
import { count } from '../../src/adapters/postgres/queue/ledger.ts';
import { PendingSets } from '../../src/adapters/postgres/queue/pending.ts';
import { migrate } from '../../src/adapters/postgres/schema.ts';
import { systemClock } from '../../src/adapters/system/clock.ts';
import type { InvariantError } from '../../src/model/invariant.ts';
import { StorageError } from '../../src/ports/event-log.ts';
import { type Databases, nameOf } from '../support/postgres.ts';
import { HAS_POSTGRES, usePostgres } from '../support/postgres-fixture.ts';
import { until } from '../support/until.ts';

/** Debian installs it beside the programs of an administrator. */
const pgbouncer = [...(process.env['PATH'] ?? '').split(':'), '/usr/sbin']
  .map((folder) => path.join(folder, 'pgbouncer'))
  .find((file) => existsSync(file));

const PUT: Statement = { name: 'put', text: 'insert into producer(name, sequence) values ($1, $2)' };
const ADD: Statement = { name: 'add', text: 'update producer set sequence = sequence + 1 where name = $1' };
const ALL: Statement = { name: 'all', text: 'select name, sequence from producer order by name' };

describe.skipIf(!HAS_POSTGRES)('the database of several processes', () => {
  const postgres = usePostgres();
  let server: Databases;
  let url: string;
  const opened: Database[] = [];

  beforeEach(async () => {
    server = postgres;
    url = await postgres.makeDatabase();
  });
  afterEach(async () => {
    for (const database of opened.splice(0)) await database.stop();
  });

  /** A server for one test, which changes its settings. */
  async function startOwn(): Promise<void> {
    server = await postgres.startServer();
    url = await server.makeDatabase();
  }

  async function open(): Promise<Database> {
    const database = new Database({ url });
    opened.push(database);
    await database.session(migrate);
    return database;
  }

  async function join(node: string, onLost?: () => void, clock: MemberOptions['clock'] = systemClock) {
    const database = await open();
    const member = await Member.join(database, {
      clock,
      node,
      ...(onLost === undefined ? {} : { onLost }),
    });
    return { database, member };
  }

  /** The lease of a node ends so many seconds from now. */
  const lapse = (database: Database, node: string, seconds = 0) =>
    database.session((session) =>
      session.query(
        `update process set expires = clock_timestamp() + interval '${seconds} s' where node = '${node}'`,
      ),
    );

  it('rolls a transaction back in which a delivery would be lost, tells nobody that it failed, and does no other harm', async () => {
    const broken: InvariantError[] = [];
    const database = new Database({ url, onBroken: (error) => broken.push(error) });
    opened.push(database);
    await database.session(migrate);
    await Member.join(database, { clock: systemClock, node: 'a' });
    const writing = database.write(async (write) => {
      count(write, [{ scope: 'destination', id: 1, name: 'owed', n: 2 }]);
      new PendingSets().requeue(write, [{ destination: 1, positions: [1] }], 0);
    });
    const breach = 'what a lane is owed is delivered, pending, dead, dropped or erased';
    await expect(writing).rejects.toMatchObject({ name: 'InvariantError', message: breach });
    expect(broken.map(({ message }) => message)).toEqual([breach]);
    const [left] = await database.session((session) =>
      session.query<{ n: string }>(
        'select (select count(*) from pending) + (select count(*) from ledger) as n',
      ),
    );
    expect(Number(left!.n)).toBe(0);
    await database.write(async (write) => {
      count(write, [{ scope: 'destination', id: 1, name: 'owed', n: 1 }]);
      new PendingSets().requeue(write, [{ destination: 1, positions: [1] }], 0);
    });
    expect(broken).toHaveLength(1);
  });

  it('is made once by processes that start at the same time, and has one secret', async () => {
    const databases = [new Database({ url }), new Database({ url })];
    opened.push(...databases);
    const made = await Promise.all(databases.map((database) => database.session(migrate)));
    expect(made[0]!.keySecret).toHaveLength(8);
    expect(made[1]).toEqual(made[0]);
  });

  it('refuses a database of a newer version, and one with tables of somebody else', async () => {
    const database = await open();
    await database.session((session) =>
      session.query(`update installation set value = '999' where name = 'format'`),
    );
    await expect(database.session(migrate)).rejects.toThrow(/newer Millrace \(format 999/);
    await database.session((session) => session.query('drop table installation'));
    await expect(database.session(migrate)).rejects.toThrow(/tables that Millrace did not write/);
  });

  it('refuses a database that cannot hold every text', async () => {
    const name = `latin_${process.pid}`;
    await server.administrate(`create database ${name} encoding 'LATIN1' locale 'C' template template0`);
    const latin = new Database({ url: url.replace(nameOf(url), name) });
    await expect(latin.session(migrate)).rejects.toThrow(/encoding LATIN1.*encoding 'UTF8'/);
    await latin.stop();
    await server.administrate(`drop database ${name}`);
  });

  it('says what to do when no server answers, and when the database does not exist', async () => {
    const nowhere = new Database({ url: 'postgres:///x?host=/nonexistent&user=x' });
    await expect(nowhere.session(migrate)).rejects.toThrow(/is the server running/);
    const missing = new Database({ url: url.replace(nameOf(url), 'none') });
    await expect(missing.session(migrate)).rejects.toThrow(/does not exist.*create it/);
    await Promise.all([nowhere.stop(), missing.stop()]);
  });

  it('reads the password again for each connection, so that it can be changed while nodes run', async () => {
    await startOwn();
    const file = path.join(server.folder, 'password');
    vi.stubEnv('MILLRACE_DATABASE_PASSWORD_FILE', file);
    const rules = path.join(server.folder, 'data/pg_hba.conf');
    writeFileSync(rules, `local all rotating scram-sha-256\n${readFileSync(rules, 'utf8')}`);
    const owner = await open();
    const setPassword = (password: string) =>
      owner.session((session) => session.query(`alter role rotating password '${password}'`));
    await owner.session((session) =>
      session.query(`create role rotating login superuser; select pg_reload_conf()`),
    );
    await setPassword('first');
    writeFileSync(file, 'wrong');
    const rotating = new Database({ url: url.replace('user=millrace', 'user=rotating') });
    opened.push(rotating);
    const user = () =>
      rotating.session((session) => session.query<{ name: string }>('select current_user as name'));
    await expect(user()).rejects.toThrow(/28P01.*or the password where it is given/);
    writeFileSync(file, 'first\n');
    expect(await user()).toEqual([{ name: 'rotating' }]);
    await setPassword('second');
    writeFileSync(file, 'second\n');
    await owner.session((session) =>
      session.query(`select pg_terminate_backend(pid) from pg_stat_activity where usename = 'rotating'`),
    );
    await until('the new password is used', async () => expect(await user()).toEqual([{ name: 'rotating' }]));
  });

  it.skipIf(pgbouncer === undefined)(
    'is reached through pgbouncer in session mode, and refuses it in transaction mode',
    async () => {
      await startOwn();
      for (const mode of ['session', 'transaction']) {
        const pooler = await startPooler(mode);
        const pooled = new Database({ url: `${url}&port=6543` });
        try {
          const looking = pooled.refuseSharedSessions();
          if (mode === 'session') await looking;
          else await expect(looking).rejects.toThrow(/set its pool_mode to session/);
        } finally {
          await pooled.stop();
          pooler.kill('SIGINT');
          await once(pooler, 'exit');
        }
      }
    },
  );

  /** A pgbouncer on a socket beside that of the server, for one database. */
  async function startPooler(mode: string) {
    const name = nameOf(url);
    const file = path.join(server.folder, 'pgbouncer.ini');
    writeFileSync(
      file,
      `[databases]\n${name} = host=${server.folder} user=millrace\n[pgbouncer]\nlisten_addr =\nlisten_port = 6543
unix_socket_dir = ${server.folder}\nauth_type = any\npool_mode = ${mode}\n`,
    );
    const { uid, gid } = statSync(server.folder);
    const pooler = spawn(pgbouncer!, [file], { uid, gid, stdio: ['ignore', 'ignore', 'pipe'] });
    await new Promise<void>((ready, fail) => {
      let said = '';
      pooler.stderr.setEncoding('utf8').on('data', (text: string) => {
        said += text;
        if (said.includes('process up')) ready();
      });
      pooler.once('exit', () => fail(new Error(`pgbouncer did not start: ${said}`)));
    });
    return pooler;
  }

  it('keeps all of a transaction or nothing', async () => {
    const { database } = await join('a');
    const failing = database.write(async (write) => {
      write.later(PUT, ['one', 1]);
      await write.rows(PUT, ['one', 2]);
    });
    await expect(failing).rejects.toThrow(StorageError);
    await expect(database.write(async (write) => write.later(PUT, [null, 2]))).rejects.toThrow(/23502/);
    expect(await database.read((read) => read.rows(ALL))).toEqual([]);
    await database.write(async (write) => write.later(PUT, ['one', 2 ** 40]));
    expect(await database.read((read) => read.rows(ALL))).toEqual([{ name: 'one', sequence: 2 ** 40 }]);
  });

  it('does a transaction again that a deadlock has ended', async () => {
    const { database } = await join('a');
    await database.write(async (write) => {
      write.later(PUT, ['x', 0]);
      await write.rows(PUT, ['y', 0]);
    });
    const both = { x: Promise.withResolvers<void>(), y: Promise.withResolvers<void>() };
    const add = (first: 'x' | 'y', second: 'x' | 'y') =>
      database.write(async (write) => {
        await write.rows(ADD, [first]);
        both[first].resolve();
        await both[second].promise;
        await write.rows(ADD, [second]);
      });
    await Promise.all([add('x', 'y'), add('y', 'x')]);
    expect(await database.read((read) => read.rows(ALL))).toEqual([
      { name: 'x', sequence: 2 },
      { name: 'y', sequence: 2 },
    ]);
  });

  it('says that a commit is in doubt when the connection broke at it, and goes on with another one', async () => {
    const { database } = await join('a');
    // The commit itself takes long: nobody can tell from outside how far it has come.
    await database.session((session) =>
      session.query(`
        create function linger() returns trigger language plpgsql as $$
        begin perform pg_advisory_lock(77); perform pg_advisory_unlock(77); return null; end $$;
        create constraint trigger linger after insert on producer deferrable initially deferred
          for each row execute function linger()`),
    );
    const other = await open();
    const doubted = other.session(async (session) => {
      await session.query('select pg_advisory_lock(77)');
      const writing = database.write(async (write) => write.later(PUT, ['doubted', 1]));
      const failed = expect(writing).rejects.toThrow(UnknownCommitError);
      await server.isBlocked(url);
      await session.query(`select pg_terminate_backend(pid) from pg_stat_activity
        where wait_event_type = 'Lock' and datname = current_database()`);
      await failed;
      await session.query('select pg_advisory_unlock(77)');
    });
    await doubted;
    await database.write(async (write) => write.later(PUT, ['after', 1]));
  });

  it('resolves when a commit outlives the server, also one that let go of its locks before', async () => {
    // Nothing else writes out what was committed: a crash takes everything that no commit has waited for.
    const own = await postgres.startServer({ settings: { wal_writer_delay: '10s' } });
    const ownUrl = await own.makeDatabase();
    const database = new Database({ url: ownUrl });
    opened.push(database);
    await database.session(migrate);
    const member = await Member.join(database, { clock: systemClock, node: 'a' });
    const resolved: string[] = [];
    let isCrashed = false;
    const writer = async (nth: number) => {
      for (let turn = 0; !isCrashed; turn++) {
        const name = `${nth}/${turn}`;
        await database.write(
          async (write) => write.later(PUT, [name, turn]),
          () => true,
        );
        // Told before the crash: what is answered later was not promised to anybody.
        if (!isCrashed) resolved.push(name);
      }
    };
    const writers = Array.from({ length: 6 }, (_, nth) => writer(nth).catch(() => undefined));
    await until('some hundred commits are told', () => resolved.length > 300, { pause: 1 });
    isCrashed = true;
    await own.crash();
    await Promise.all(writers);
    await member.stop(false);
    await own.restart();
    const there = new Set(
      (await database.read((read) => read.rows<{ name: string }>(ALL))).map(({ name }) => name),
    );
    expect(resolved.filter((name) => !there.has(name))).toEqual([]);
  });

  it('takes a commit for one in doubt when the connection broke between it and its sync', async () => {
    await startOwn();
    const { database } = await join('a');
    const setStandbys = async (sql: string) => {
      await server.administrate(sql);
      await server.administrate('select pg_reload_conf()');
    };
    const put = (name: string) =>
      database.write(
        async (write) => write.later(PUT, [name, 1]),
        () => true,
      );
    const isWaiting = `select pid from pg_stat_activity where wait_event = 'SyncRep' and query like '%emit%'`;
    const stored = async () => (await database.read((read) => read.rows(ALL))).length;
    // The lease is renewed by a commit, too.
    await lapse(database, 'a', 600);
    await setStandbys(`alter system set synchronous_standby_names = 'nobody'`);
    // Until the server has taken the setting, commits end as before.
    let puts = 0;
    let last: Promise<unknown> = Promise.resolve();
    let hasEnded = true;
    await until('a commit waits for the standby', async () => {
      if (hasEnded) {
        hasEnded = false;
        last = put(`${++puts}`).finally(() => {
          hasEnded = true;
        });
        last.catch(() => undefined);
      }
      return (await server.administrate(isWaiting)).length > 0;
    });
    // It has let go of its locks, and others see it; only the sync waits.
    expect(await stored()).toBe(puts);
    await server.administrate(`select pg_terminate_backend(pid) from (${isWaiting}) as waiting`);
    await expect(last).rejects.toThrow(UnknownCommitError);
    await setStandbys('alter system reset synchronous_standby_names');
    await put('after');
    expect(await stored()).toBe(puts + 1);
  });

  it('finds the primary among several servers, at the start and when a standby has taken over', async () => {
    const primary = await postgres.startServer();
    const name = nameOf(await primary.makeDatabase());
    const standby = await primary.makeStandby();
    const hosts = ['/nonexistent', standby.folder, primary.folder].map(encodeURIComponent).join(',');
    const database = new Database({ url: `postgres:///${name}?host=${hosts}&user=millrace` });
    opened.push(database);
    await database.session(migrate);
    const member = await Member.join(database, { clock: systemClock, node: 'a' });
    const put = (name: string) => database.write(async (write) => write.later(PUT, [name, 1]));
    await put('before');
    await primary.crash();
    await expect(put('meanwhile')).rejects.toThrow(StorageError);
    await standby.promote();
    await until('the standby takes writes', () => put('after'));
    expect(await database.read((read) => read.rows(ALL))).toHaveLength(2);
    await member.stop(false);
  });

  it('has lost its lease for good when it stood still too long, although a renewal succeeds after that', async () => {
    let told = 0;
    const { member } = await join('a', () => told++);
    const now = performance.now.bind(performance);
    const clock = vi.spyOn(performance, 'now').mockImplementation(() => now() + 9000);
    try {
      expect(member.isLost).toBe(true);
      await member.renew();
      expect([member.isLost, told]).toEqual([true, 1]);
      await member.stop(false);
    } finally {
      clock.mockRestore();
    }
  });

  it('has given its lease back, also when a renewal arrives after that', async () => {
    let told = 0;
    const { database, member } = await join('a', () => told++);
    await member.stop(true);
    expect(await member.renew()).toBe(false);
    const left = { name: 'left', text: `select expires::text from process where node = 'a'` };
    expect(await database.read((read) => read.rows(left))).toEqual([{ expires: '-infinity' }]);
    expect(told).toBe(0);
  });

  it('is in doubt when two renewals of the lease have failed, or one has no answer for two seconds', async () => {
    // No time passes, however long this takes.
    let now = 0;
    const { member } = await join('a', undefined, { ...systemClock, elapsed: () => now });
    const keeper = await open();
    const inDatabase = `datname = '${nameOf(url)}'`;
    /** Resolves to the connection on which a renewal waits, another one than before. */
    const waiting = (before?: unknown) =>
      until('a renewal waits', async () => {
        const sql = `select pid from pg_stat_activity where wait_event_type = 'Lock' and ${inDatabase}`;
        return (await server.administrate(sql)).find(({ pid }) => pid !== before)?.['pid'] ?? false;
      });
    const cutOff = (pid: unknown) => server.administrate(`select pg_terminate_backend(${pid})`);
    const isInDoubt = () => member.doubt !== undefined;
    await keeper.session(async (session) => {
      await session.query('begin; select from process for update');
      const first = await waiting();
      await cutOff(first);
      const second = await waiting(first);
      expect(isInDoubt()).toBe(false);
      await cutOff(second);
      await until('the second failure is known', isInDoubt);
      await session.query('rollback');
    });
    await until('the lease is renewed', () => !isInDoubt());
    await keeper.session(async (session) => {
      await session.query('begin; select from process for update');
      await waiting();
      now = 2000;
      expect(isInDoubt()).toBe(false);
      now = 2001;
      await until('two seconds have passed', isInDoubt);
      await session.query('rollback');
    });
    await until('the lease is renewed', () => !isInDoubt());
    await member.stop(true);
  });
});
