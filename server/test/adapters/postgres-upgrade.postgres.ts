import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Database, type Session } from '../../src/adapters/postgres/database.ts';
import { MIGRATIONS } from '../../src/adapters/postgres/formats.ts';
import { FORMAT, migrate } from '../../src/adapters/postgres/schema.ts';
import { openPostgresStore } from '../../src/adapters/postgres/store.ts';
import { systemClock } from '../../src/adapters/system/clock.ts';
import { connectTo, type Databases, filesWith } from '../support/postgres.ts';
import { HAS_POSTGRES, usePostgres } from '../support/postgres-fixture.ts';
import { until } from '../support/until.ts';

/**
 * Statements of a node of format 13: to store a batch, to follow the others, in maintenance, in a search and
 * in an erasure.
 */
const STATEMENTS_OF_13: Readonly<Record<string, readonly [text: string, ...values: unknown[]]>> = {
  begin: ['select * from begin_batch($1, $2, $3)', 'x', 1, 0],
  add: ['select add_keys($1, $2::bigint[], $3, $4, $5, $6, $7::bigint[])', 0, '{}', 1, 1, 1, 0, '{5}'],
  addMarked: [
    'select add_keys($1, $2::bigint[], $3, $4, $5, $6, $7::bigint[], $8)',
    ...[0, '{}', 1, 1, 1, 0, '{5}', Buffer.alloc(8)],
  ],
  tail: [
    `select (select min(r.id) from key_run r where not r.is_converted) as unconverted, (select max(r.id) from key_run r) as open,
      k.seq, k.tag, k.run, k.process, k.first,
      case when not (k.process = $2 and k.first = any($3::bigint[])) then encode(array_send(k.hashes), 'base64') end as hashes
    from (select) one left join lateral (select * from key_log where seq >= $1 order by seq limit 256) k on true order by k.seq`,
    ...[0, 1, '{}'],
  ],
  run: [
    'select r.slot, p.last_value - r.from_position as n from position p, key_run r where r.id = (select max(id) from key_run)',
  ],
  next: [
    `select r.id from key_run r where not r.is_converted and exists
      (select from key_run n where n.id > r.id and n.opened < clock_timestamp() - interval '3 seconds') order by r.id limit 1`,
  ],
  search: [
    `select k.first + w.nr - 1 as position from key_log k, unnest(k.hashes) with ordinality w(hash, nr)
      where k.hashes && $1::bigint[] and w.hash = any($1::bigint[])`,
    '{5}',
  ],
  erase: [
    `update key_log k set hashes = array(select case when w.hash = any($2::bigint[]) then 0 else w.hash end
      from unnest(k.hashes) with ordinality w(hash, nr) order by w.nr) where k.run in (select id from key_run where slot = $1)`,
    ...[1, '{5}'],
  ],
  convert: [
    'with gone as (delete from key_log where run = $1::int returning first) select count(*) from gone',
    1,
  ],
  openRun: ['insert into key_run(id, slot, from_position) values ($1, 1, 0)', 99],
  plan: [
    'insert into plan(document) values ($1) on conflict (document) do update set document = excluded.document returning id',
    '{"owed":[7]}',
  ],
};

describe.skipIf(!HAS_POSTGRES)('a database of an earlier version', () => {
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

  function open(): Database {
    const database = new Database({ url });
    opened.push(database);
    return database;
  }

  const ask = (database: Database, text: string) =>
    database.session((session) => session.query<Record<string, unknown>>(text));

  /** A database as a version with so many steps has made it. */
  async function databaseOf(format: number): Promise<Database> {
    const database = open();
    await ask(
      database,
      `${MIGRATIONS.slice(0, format).join(';')};
        insert into installation values ('format', '${format}'), ('id', 'of before'), ('key_secret', '0011223344556677')`,
    );
    return database;
  }

  /** A database of the first format with 301 keys. */
  async function first(): Promise<Database> {
    const database = await databaseOf(1);
    await ask(
      database,
      `insert into profile(id, state) values (1, '\\x01');
        insert into key select 1000 - n, n, 0, 1 from generate_series(0, 299) n;
        insert into key values (1000, 300, 1, 1);
        select setval('position', 300)`,
    );
    return database;
  }

  const slotsOf = (database: Database) =>
    ask(database, 'select id, from_position as from, is_paged as paged, keys from key_slot order by id');

  /** The positions of keys in a slot, by the hash. */
  const positionsIn = async (database: Database, slot: number, ...hashes: number[]) =>
    (
      await ask(
        database,
        `select w.hash::int as hash, array_agg(f.position order by f.position) as positions
          from unnest('{${hashes.join(',')}}'::bigint[]) with ordinality w(hash, nr)
            join find_keys('{${hashes.map(() => slot).join(',')}}', '{${hashes.join(',')}}') f on f.nr = w.nr group by w.hash order by w.hash`,
      )
    ).map(({ hash, positions }) => [hash, positions]);

  /**
   * A migration that waits in the middle, because somebody reads the keys. `change`: what it says to the
   * server instead.
   */
  async function begun(change = (text: string) => text) {
    const reader = await connectTo(url);
    await reader.query('begin; select count(*) from key');
    const node = new Database({ url });
    const changed = ({ query }: Session): Session => ({ query: (text) => query(change(text)) });
    const migrating = node
      .session((session) => migrate(changed(session)))
      .then(
        () => 'done',
        (error: Error) => error.message,
      );
    await server.isBlocked(url);
    return { reader, node, migrating };
  }

  const formatOf = async (database: Database) =>
    (await ask(database, `select value from installation where name = 'format'`))[0]!['value'];

  it('brings a database of the first format forward, and its keys into pages', async () => {
    const database = await first();
    await ask(
      database,
      `alter table regulation_subject alter subjects set statistics -1;
        insert into regulation_subject select n, 'nobody-must-find-this ' || n from generate_series(1, 3) n;
        analyze regulation_subject; truncate regulation_subject`,
    );
    const { id } = await database.session(migrate);
    expect(await database.session(migrate)).toMatchObject({ id, isBounded: false });
    // What the server had sampled of columns that hold what people sent.
    expect(await filesWith(url, 'nobody-must-find-this')).toEqual([]);
    expect(await slotsOf(database)).toEqual([
      { id: 1, from: 0, paged: true, keys: 301 },
      { id: 2, from: 301, paged: false, keys: null },
    ]);
    expect(await ask(database, 'select bytes from volume')).toEqual([{ bytes: -76 * 301 }]);
    // By the name of before, a node of the version before finds no states that it could not read.
    expect(await ask(database, 'select id, body from profile')).toEqual([{ id: 1, body: Buffer.from([1]) }]);
    const [pages] = await ask(
      database,
      'select count(*)::int as n, sum(cardinality(hashes))::int as keys from key_page',
    );
    expect(pages).toEqual({ n: 3, keys: 301 });
    expect(await positionsIn(database, 1, 701, 850, 1000, 1001)).toEqual([
      [701, [299]],
      [850, [150]],
      [1000, [0, 300]],
    ]);
  });

  it('keeps the keys of pages and the last ones, which become pages, and goes on behind them', async () => {
    const database = await databaseOf(13);
    await ask(
      database,
      `insert into key_page values (2, 100, 0, '{100,200}', '{0,1}');
        update key_run set is_converted = true, keys = 2 where id = 2;
        insert into slot(id, from_position) values (2, 50);
        update slot set youngest = 4000 where id = 1;
        insert into key_run(id, slot, from_position) values (3, 2, 50);
        insert into key_log select n, n, 3, 1, 50 + n * 10, array(select n * 10 + m from generate_series(0, 9) m) from generate_series(0, 29) n;
        update key_log set hashes[3] = 0 where seq = 4;
        select setval('position', 349);
        insert into plan(document) values ('{"owed":[1]}'), ('{"owed":[2]}')`,
    );
    await database.session(migrate);
    expect(await slotsOf(database)).toEqual([
      { id: 2, from: 0, paged: true, keys: 2 },
      { id: 3, from: 50, paged: true, keys: 298 },
      { id: 4, from: 350, paged: false, keys: null },
    ]);
    expect(await ask(database, 'select youngest from key_slot order by id')).toEqual([
      { youngest: 4000 },
      { youngest: null },
      { youngest: null },
    ]);
    expect(await positionsIn(database, 2, 100, 150, 200)).toEqual([
      [100, [0]],
      [200, [1]],
    ]);
    // The hash of an event that was a duplicate is 0.
    expect(await positionsIn(database, 3, 7, 41, 42, 299, 300)).toEqual([
      [7, [57]],
      [41, [91]],
      [299, [349]],
    ]);
    const [plan] = await ask(
      database,
      `insert into delivery_plan(digest, document) values ('x', 'y') returning id`,
    );
    expect(plan).toEqual({ id: 3 });
    expect(await ask(database, 'select id, document from delivery_plan order by id limit 2')).toEqual(
      await ask(database, 'select id, document from plan order by id'),
    );
  });

  it('is as before when the node that brings it forward is killed, and the next one waits for no work of it', async () => {
    const database = await first();
    const { reader, node, migrating } = await begun();
    await node.abandon();
    expect(await migrating).toMatch(/cannot use the database/);
    // The reader is still there: the server ends the work of the node because nobody wants it any more.
    const others = `select pid from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
    await until('the server has ended that work', async () =>
      expect(await ask(database, others)).toEqual([]),
    );
    expect(await formatOf(database)).toBe('1');
    expect(await ask(database, 'select count(*)::int as n from key')).toEqual([{ n: 301 }]);
    await reader.end();
    await database.session((session) => migrate(session));
    expect(await ask(database, 'select sum(keys)::int as n from key_slot')).toEqual([{ n: 301 }]);
  });

  it('is as before when the server crashes in the middle', async () => {
    const own = await postgres.startServer();
    server = own;
    url = await own.makeDatabase();
    const database = await first();
    const { reader, node, migrating } = await begun();
    const ended = new Promise((end) => reader.once('end', end));
    await own.crash();
    await ended;
    expect(await migrating).toMatch(/cannot use the database/);
    await node.stop();
    await own.restart();
    const again = open();
    expect(await formatOf(again)).toBe('1');
    await again.session((session) => migrate(session));
    expect(await ask(again, 'select sum(keys)::int as n from key_slot')).toEqual([{ n: 301 }]);
    await database.abandon();
  });

  it('stays as it is while a dump is made of it: nodes of the version before must not wait for that', async () => {
    const database = await first();
    const limit = `set local lock_timeout = '10s'`;
    let limits = 0;
    const { reader, node, migrating } = await begun((text) => {
      if (text.includes(limit)) limits++;
      return text.replace(limit, `set local lock_timeout = '1s'`);
    });
    expect(await migrating).toMatch(/55P03.*another session, such as a dump/);
    expect(limits).toBe(1);
    await node.stop();
    expect(await formatOf(database)).toBe('1');
    await reader.end();
  });

  it.each([1, 7])('tells nodes of format %i that still run what to do', async (format) => {
    const database = await databaseOf(format);
    await database.session((session) => migrate(session));
    const before =
      format === 1 ? `select begin_append('x', '{1}', 0)` : `select * from place_batch('x', 1, 0)`;
    await expect(ask(database, before)).rejects.toThrow(/newer Millrace.*start the newer version/);
  });

  it('tells nodes of the version before, whatever they ask of keys and plans on connections that they had', async () => {
    const before = await databaseOf(13);
    const say = (name: string) =>
      before.read((read) => {
        const [text, ...values] = STATEMENTS_OF_13[name]!;
        return read.rows({ name, text }, values);
      });
    for (const name of Object.keys(STATEMENTS_OF_13)) await say(name);
    const node = open();
    await node.session(migrate);
    const refusal =
      /MR003 a newer Millrace has brought the database to format 14: stop this node, and start the newer version/;
    for (const name of Object.keys(STATEMENTS_OF_13)) await expect(say(name), name).rejects.toThrow(refusal);
    // What was planned before is read as before.
    expect(await ask(before, 'select document from plan')).toEqual([{ document: '{"owed":[7]}' }]);
  });

  it('waits for an append of the version before, and tells those that wait meanwhile', async () => {
    const before = await databaseOf(13);
    const under = await connectTo(url);
    await under.query(`begin; select * from begin_batch('under way', 1, 0)`);
    const node = open();
    const migrating = node.session(migrate);
    await server.isBlocked(url);
    const waiting = before.read((read) =>
      read.rows({ name: 'begin', text: 'select * from begin_batch($1, $2, $3)' }, ['waits', 1, 0]),
    );
    const refused = expect(waiting).rejects.toThrow(/MR003 a newer Millrace/);
    await server.isBlocked(url, 2);
    await under.query(`select add_keys(0, '{}', 1, 2, 1, 0, '{77}'); commit`);
    await under.end();
    await migrating;
    await refused;
    expect(await positionsIn(node, 2, 77)).toEqual([[77, [0]]]);
  });

  it('is said to be brought forward, before and after', async () => {
    await first();
    const lines: [string, object][] = [];
    const info = (facts: object, line: string) => lines.push([line, facts]);
    const logger = { info, warn: () => undefined, error: () => undefined };
    const store = await openPostgresStore({ clock: systemClock, url, node: 'a', logger });
    await store.stop();
    expect(lines.slice(0, 2)).toEqual([
      ['database.upgrading', { from: 1, to: FORMAT }],
      ['database.upgraded', { to: FORMAT, ms: expect.any(Number) }],
    ]);
  });

  it('is opened with a warning where a way to it leads over a network without TLS, and without one elsewhere', async () => {
    const warned = async (address: string) => {
      const lines: [string, object][] = [];
      const warn = (facts: object, line: string) => lines.push([line, facts]);
      const logger = { info: () => undefined, warn, error: () => undefined };
      await (await openPostgresStore({ clock: systemClock, url: address, node: 'a', logger })).stop();
      return lines.filter(([line]) => line === 'database.not_encrypted');
    };
    expect(await warned(url)).toEqual([]);
    expect(await warned(url.replace('&user=', ',standby.invalid&user='))).toEqual([
      ['database.not_encrypted', { hosts: ['standby.invalid'], setting: 'sslmode' }],
    ]);
  });
});
