import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { keyHash } from '../../src/adapters/encoding/hashes.ts';
import { openPostgresStore, type PostgresStore } from '../../src/adapters/postgres/store.ts';
import { DAY, HOUR } from '../../src/model/time.ts';
import { batch, duplicatesOf, event, events, idsAt, positionsOf, SITE } from '../conformance/batches.ts';
import { START } from '../conformance/harness.ts';
import { FOR_EVER, keepUp } from '../conformance/upkeep.ts';
import { findPostgres, type Postgres, startPostgres } from '../support/postgres.ts';

const bin = findPostgres();

/** What the log on PostgreSQL owes beyond the port. */
describe.skipIf(bin === undefined)('the log in the tables of PostgreSQL', () => {
  let server: Postgres;
  let url: string;
  let store: PostgresStore;

  beforeAll(async () => {
    server = await startPostgres(bin!);
  });
  afterAll(() => server.stop());
  beforeEach(async () => {
    url = await server.makeDatabase();
    store = await openPostgresStore({ url, node: 'a' });
  });
  afterEach(async () => {
    await store.stop();
    await server.dropDatabase(url);
  });

  const ask = (sql: string) =>
    store.database.session((session) => session.query<Record<string, unknown>>(sql));
  const again = async (id: string, receivedAt = START) =>
    duplicatesOf(await store.log.append(batch([event(id)], { receivedAt })));

  function hashOf(messageId: string): bigint {
    const words = new Uint32Array(2);
    keyHash(store.identity.keySecret)(SITE, messageId, words, 0);
    return BigInt.asIntN(64, (BigInt(words[0]!) << 32n) | BigInt(words[1]!));
  }

  it('stores an event whose hash is that of another one, and knows both afterwards', async () => {
    const [position] = positionsOf(await store.log.append(batch([event('one')])));
    await ask(`update key set hash = ${hashOf('two')} where position = ${position}`);
    expect(await again('two')).toEqual([]);
    expect(await again('two')).toEqual([0]);
    const keys = await ask(`select nth from key where hash = ${hashOf('two')} order by nth`);
    expect(keys.map(({ nth }) => nth)).toEqual([0, 1]);
  });

  it('asks closed slots as far back as the window reaches', async () => {
    for (let hour = 0; hour <= 30; hour += 7) {
      await again(`at ${hour}`, START + hour * HOUR);
      await keepUp(store, START + hour * HOUR, FOR_EVER);
    }
    const [{ n }] = (await ask('select count(*)::int as n from slot')) as [{ n: number }];
    expect(n).toBeGreaterThan(2);
    expect(await again('at 0', START + DAY - 1)).toEqual([0]);
    expect(await again('at 0', START + DAY)).toEqual([]);
    expect(await again('at 7', START + 30 * HOUR)).toEqual([0]);
  });

  it('drops the tables of a slot whose events and windows are over, and reads on behind them', async () => {
    const [old] = positionsOf(await store.log.append(batch(events(5, 'old'))));
    for (let day = 0; day < 3; day++) {
      const receivedAt = START + day * DAY;
      await store.log.append(batch(events(5, `d${day}-`), { receivedAt }));
      await keepUp(store, receivedAt, FOR_EVER);
    }
    const now = START + 20 * DAY;
    const kept = positionsOf(await store.log.append(batch(events(5, 'kept'), { receivedAt: now })));
    await keepUp(store, now, { events: DAY, deadLetters: DAY });
    const tables = await ask(
      `select relname from pg_class where relname ~ '^(chunk|key)_[0-9]+$' order by relname`,
    );
    expect(tables.map(({ relname }) => relname)).not.toContain('chunk_1');
    expect(tables.map(({ relname }) => relname)).not.toContain('key_1');
    expect(await idsAt(store, [old!, ...kept])).toEqual([
      undefined,
      ...events(5, 'kept').map((one) => one.messageId),
    ]);
    const reader = store.openLogReader();
    expect((await reader.page(0, 100)).first).toBe(kept[0]);
    await reader.stop();
  });

  it('leaves no byte of an erased event in the files of the tables', async () => {
    const gone = 'nobody-must-find-this';
    await store.log.append(batch([event('a', SITE, { userId: gone }), event('b')]));
    expect(await store.log.erase({ userIds: [gone] })).toMatchObject({ events: 1 });
    expect(await filesWith(gone)).not.toEqual([]);
    await store.regulations.scrub();
    expect(await filesWith(gone)).toEqual([]);
    expect(await again('b')).toEqual([0]);
  });

  /** Names of the files of this database that hold a text, when the server has written everything out. */
  async function filesWith(text: string): Promise<string[]> {
    await ask('checkpoint');
    const [row] = await ask('select oid::text as oid from pg_database where datname = current_database()');
    const folder = join(server.folder, 'data/base', String(row!['oid']));
    return readdirSync(folder).filter((name) => readFileSync(join(folder, name)).includes(text));
  }

  it('finds chunks and keys by their indexes, however many there are', async () => {
    await store.log.append(batch(events(3)));
    const plan = await ask(`explain select position from key where slot >= 1 and hash = any('{1,2}')`);
    expect(JSON.stringify(plan)).not.toContain('Seq Scan on key_1');
    const [chunks] = await ask(`explain (format json) select first from chunk
      where slot >= (select max(id) from slot where from_position <= 5) and first >= 5 order by slot, first limit 8`);
    expect(JSON.stringify(chunks)).toContain('Index');
    expect(JSON.stringify(chunks)).not.toContain('"Seq Scan"');
  });
});
