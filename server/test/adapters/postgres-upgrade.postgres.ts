import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Database, type Session, type Statement } from '../../src/adapters/postgres/database.ts';
import { findInPages } from '../../src/adapters/postgres/log/key-pages.ts';
import { FORMAT, migrate } from '../../src/adapters/postgres/schema.ts';
import { openPostgresStore } from '../../src/adapters/postgres/store.ts';
import { connectTo, type Databases, filesWith } from '../support/postgres.ts';
import { HAS_POSTGRES, usePostgres } from '../support/postgres-fixture.ts';
import { until } from '../support/until.ts';

/** As nodes of format 7 store a batch. */
const PLACE: Statement = { name: 'append.begin', text: 'select * from place_batch($1, $2, $3)' };

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

  /** The keys as they were before: rows of a table, and the function by which nodes of the first format stored them. */
  const KEYS_OF_BEFORE = `
    drop function begin_batch; drop function add_keys(bigint, bigint[], bigint, int, bigint, bigint, bigint[]),
      add_keys(bigint, bigint[], bigint, int, bigint, bigint, bigint[], bytea); drop table key_log, key_page; drop table key_run; drop sequence key_seq;
    drop function begin_append(text, bigint[], bigint), begin_append(text, bigint[], bigint, boolean), place_batch, refuse_earlier_version;
    create table key(hash bigint not null, position bigint not null, nth int not null, slot int not null, primary key (hash, nth, slot))
      partition by list (slot);
    create table key_1 (like key including all);
    alter table key attach partition key_1 for values in (1);
    create function begin_append(of_batch text, hashes bigint[], since bigint) returns void language sql as 'select'`;

  /** A database of the first format with 301 keys. */
  async function first(): Promise<Database> {
    const database = open();
    await database.session((session) => migrate(session));
    await ask(
      database,
      `${KEYS_OF_BEFORE};
        drop table skip_set, erasure, probe, acknowledgement, gone_node, session;
        alter table profile rename column body to state;
        insert into profile(id, state) values (1, '\\x01');
        insert into key select 1000 - n, n, 0, 1 from generate_series(0, 299) n;
        insert into key values (1000, 300, 1, 1);
        select setval('position', 300);
        delete from installation where name = 'bounded';
        update installation set value = '1' where name = 'format'`,
    );
    return database;
  }

  /** A migration that waits in the middle, because somebody reads the keys. `change`: what it says to the server instead. */
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
    expect(
      await ask(database, 'select id, slot, from_position, is_converted, keys from key_run order by id'),
    ).toEqual([
      { id: 1, slot: 1, from_position: 0, is_converted: true, keys: 301 },
      { id: 2, slot: 1, from_position: 300, is_converted: false, keys: 0 },
    ]);
    expect(await ask(database, 'select bytes from volume')).toEqual([{ bytes: -76 * 301 }]);
    // By the name of before, a node of the version before finds no states that it could not read.
    expect(await ask(database, 'select id, body from profile')).toEqual([{ id: 1, body: Buffer.from([1]) }]);
    const [pages] = await ask(
      database,
      'select count(*)::int as n, sum(cardinality(hashes))::int as keys from key_page',
    );
    expect(pages).toEqual({ n: 3, keys: 301 });
    const found = await database.read((read) => findInPages(read, ['701', '850', '1000', '1001'], [1, 2]));
    expect(found.toSorted((one, other) => one.position - other.position)).toEqual([
      { hash: '1000', position: 0 },
      { hash: '850', position: 150 },
      { hash: '701', position: 299 },
      { hash: '1000', position: 300 },
    ]);
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
    expect(await ask(database, 'select sum(keys)::int as n from key_run')).toEqual([{ n: 301 }]);
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
    expect(await ask(again, 'select sum(keys)::int as n from key_run')).toEqual([{ n: 301 }]);
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

  it('tells nodes that still run what to do, also those that were waiting meanwhile', async () => {
    const database = await first();
    await database.session((session) => migrate(session));
    const place = (batch: string) => database.read((read) => read.rows(PLACE, [batch, 1, 0]));
    await expect(place('x')).rejects.toThrow(/newer Millrace.*format 8.*start the newer version/);
    const before = `select begin_append('x', '{1}', 0)`;
    await expect(ask(database, before)).rejects.toThrow(/start the newer version/);
  });

  it('is said to be brought forward, before and after', async () => {
    await first();
    const lines: [string, object][] = [];
    const info = (facts: object, line: string) => lines.push([line, facts]);
    const logger = { info, warn: () => undefined, error: () => undefined };
    const store = await openPostgresStore({ url, node: 'a', logger });
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
      await (await openPostgresStore({ url: address, node: 'a', logger })).stop();
      return lines.filter(([line]) => line === 'database.not_encrypted');
    };
    expect(await warned(url)).toEqual([]);
    expect(await warned(url.replace('&user=', ',standby.invalid&user='))).toEqual([
      ['database.not_encrypted', { hosts: ['standby.invalid'], setting: 'sslmode' }],
    ]);
  });
});
