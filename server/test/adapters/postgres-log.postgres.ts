import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Database } from '../../src/adapters/postgres/database.ts';
import { openPostgresStore, type PostgresStore } from '../../src/adapters/postgres/store.ts';
import { systemClock } from '../../src/adapters/system/clock.ts';
import { DAY, HOUR } from '../../src/model/time.ts';
import {
  batch,
  duplicatesOf,
  event,
  events,
  idsAt,
  owedBatch,
  positionsOf,
  SITE,
} from '../conformance/batches.ts';
import { START } from '../conformance/harness.ts';
import { FOR_EVER, keepUp } from '../conformance/upkeep.ts';
import { connectTo, filesWith } from '../support/postgres.ts';
import { HAS_POSTGRES, usePostgres } from '../support/postgres-fixture.ts';
import { until } from '../support/until.ts';

/** Promises of the log on PostgreSQL beyond the port. */
describe.skipIf(!HAS_POSTGRES)('the log in the tables of PostgreSQL', () => {
  const postgres = usePostgres();
  let url: string;
  let store: PostgresStore;

  beforeEach(async () => {
    url = await postgres.makeDatabaseWithTables();
    store = await openPostgresStore({ clock: systemClock, url, node: 'a' });
  });
  afterEach(() => store.stop());

  const ask = (sql: string) =>
    store.database.session((session) => session.query<Record<string, unknown>>(sql));
  const again = async (id: string, receivedAt = START) =>
    duplicatesOf(await store.log.append(batch([event(id)], { receivedAt })));

  /** The open slot of keys is as old as one that is closed. */
  const hourPasses = () => ask(`update key_slot set opened = opened - interval '1 hour'`);

  it('names a damaged record of a regulation, which stops no other', async () => {
    const { regulations } = store;
    for (const id of ['first', 'second', 'third', 'fourth'])
      await regulations.create({ id, type: 'DELETE_ONLY', createdAt: START, by: 'admin', userIds: ['gone'] });
    await ask(`update regulation set document = left(document, 20) where id = 'second'`);
    await ask(`update regulation_subject set subjects = '[{"user'
      where number = (select number from regulation where id = 'third')`);
    const idsOf = (found: readonly { readonly id: string }[]) => found.map(({ id }) => id);
    expect(idsOf(await regulations.open())).toEqual(['first', 'third', 'fourth']);
    expect(idsOf(await regulations.list(3))).toEqual(['fourth', 'third', 'first']);
    const third = (await regulations.get('third'))!;
    expect(idsOf(await regulations.list(2, third.number))).toEqual(['first']);
    await expect(regulations.get('second')).rejects.toThrow(/the record of regulation \d+ is damaged/);
    expect(await regulations.subjects('third')).toEqual([]);
    await regulations.advance('third', { step: 'clean', reason: 'damaged' });
    const { damage } = await store.log.size();
    expect(damage?.others).toEqual([
      `the record of regulation ${third.number - 1}`,
      'the user ids of regulation third',
    ]);
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
      `select relname from pg_class where relname ~ '^chunk_[0-9]+$' order by relname`,
    );
    expect(tables.map(({ relname }) => relname)).not.toContain('chunk_1');
    expect(await idsAt(store, [old!, ...kept])).toEqual([
      undefined,
      ...events(5, 'kept').map((one) => one.messageId),
    ]);
    const reader = store.openLogReader();
    expect((await reader.page(0, 100)).first).toBe(kept[0]);
    await reader.stop();
  });

  it('counts the bytes of a slot that is gone no more, those of its keys included', async () => {
    const measured = async () => (await store.log.size()).bytes;
    const at = (day: number) => ({ receivedAt: START + day * DAY });
    await store.log.append(batch(events(200, 'one'), at(0)));
    const ofOne = await measured();
    for (let day = 1; day <= 3; day++) {
      await hourPasses();
      await store.log.append(batch(events(200, `d${day}`), at(day)));
      await keepUp(store, START + day * DAY, FOR_EVER);
    }
    expect(await measured()).toBeGreaterThan(1.5 * ofOne);
    await hourPasses();
    await store.log.append(batch(events(200, 'new'), at(20)));
    await keepUp(store, START + 20 * DAY, { events: DAY, deadLetters: DAY });
    // The open slot may be that of day 3, whose keys go with it.
    expect(await measured()).toBeLessThan(1.3 * ofOne);
  });

  it('leaves no byte of an erased event in the files of the tables, nor in what the server knows of them', async () => {
    const gone = 'nobody-must-find-this';
    await store.log.append(batch([event('a', SITE, { userId: gone }), event('b')]));
    for (const id of ['c', 'd']) await again(id);
    // As the server does by itself, now and then: it keeps some values of each column.
    await ask('analyze');
    expect(await store.log.erase({ userIds: [gone] })).toMatchObject({ events: 1 });
    expect(await filesWith(url, gone)).not.toEqual([]);
    await store.regulations.scrub();
    expect(await filesWith(url, gone)).toEqual([]);
    expect(await again('b')).toEqual([0]);
  });

  it('leaves none either while a transaction is open that still sees the event', async () => {
    const gone = 'nobody-must-find-this';
    await store.log.append(batch([event('a', SITE, { userId: gone }), event('b')]));
    const reader = await connectTo(url);
    await reader.query('begin isolation level repeatable read; select count(*) from chunk');
    await store.log.erase({ userIds: [gone] });
    let isOpen = true;
    const scrubbed = store.regulations.scrub().then(() => isOpen);
    // It looks for old transactions again and again.
    const watcher = await connectTo(url);
    const looks = `select from pg_stat_activity where query like '%pg_stat_activity%xact_start%' and pid <> pg_backend_pid()
      and datname = current_database() and query_start > $1`;
    for (let nth = 0; nth < 3; nth++) {
      const { rows } = await watcher.query<{ now: Date }>('select clock_timestamp() as now');
      const isLookedFor = async () => (await watcher.query(looks, [rows[0]!.now])).rows.length > 0;
      await until('old transactions are looked for', isLookedFor);
    }
    await watcher.end();
    isOpen = false;
    await reader.query('commit');
    expect(await scrubbed).toBe(false);
    expect(await filesWith(url, gone)).toEqual([]);
    await reader.end();
  });

  it('finds chunks and keys by their indexes, however many there are', async () => {
    await store.log.append(batch(events(3)));
    const plan = await ask(
      `explain select hashes from key_page where slot = 1 and low < 5 order by low desc, page desc limit 1`,
    );
    expect(JSON.stringify(plan)).not.toContain('Seq Scan');
    const [chunks] = await ask(`explain (format json) select first from chunk
      where slot >= (select max(id) from slot where from_position <= 5) and first >= 5 order by slot, first limit 8`);
    expect(JSON.stringify(chunks)).toContain('Index');
    expect(JSON.stringify(chunks)).not.toContain('"Seq Scan"');
  });

  describe('with several batches under way', () => {
    const parked = (id: string, at = START) => owedBatch([event(id)], 'parked', { receivedAt: at });

    /** Holds up all commits of this process in their last statements while `work` runs. */
    async function whileCommitsWait(work: (release: () => Promise<void>) => Promise<void>): Promise<void> {
      await again('makes the row of its counts');
      const holder = new Database({ url });
      await holder.session(async (session) => {
        await session.query('begin; select from volume for update');
        await work(async () => void (await session.query('commit')));
      });
      await holder.stop();
    }

    it('begins the next one while the one before commits, and keeps their order', async () => {
      await whileCommitsWait(async (release) => {
        const appending = ['a', 'b', 'c'].map((id) => store.log.append(batch([event(id)])));
        await postgres.isBlocked(url, 3);
        await release();
        const [a, b, c] = (await Promise.all(appending)).map((appended) => positionsOf(appended)[0]!);
        expect([a! < b!, b! < c!]).toEqual([true, true]);
      });
    });

    it('finds a duplicate in a batch that has not committed yet', async () => {
      await whileCommitsWait(async (release) => {
        const first = store.log.append(batch([event('a'), event('b')]));
        const second = store.log.append(batch([event('b'), event('c')]));
        // The second one waits for the first, unseen by the server.
        await postgres.isBlocked(url);
        await release();
        expect(duplicatesOf(await first)).toEqual([]);
        expect(duplicatesOf(await second)).toEqual([0]);
      });
    });

    /** Ends the connections on which a batch waits for a lock, or only for one of this kind. */
    const cutWaiting = (kind = '%') =>
      ask(`select pg_terminate_backend(pid) from pg_stat_activity where wait_event_type = 'Lock'
        and wait_event like '${kind}' and datname = current_database() and backend_type = 'client backend'`);

    it('stores a batch whose connection broke at its commit once, and those behind it', async () => {
      // The commit itself takes long: nobody can tell from outside how far it has come.
      await ask(`create function linger() returns trigger language plpgsql as $$
        begin perform pg_advisory_lock_shared(77); perform pg_advisory_unlock_shared(77); return null; end $$;
        create constraint trigger linger after insert on batch deferrable initially deferred
          for each row execute function linger()`);
      const ids = ['a', 'b', 'c', 'd'];
      // Parked deliveries wait here for the batch before them, and a duplicate of it waits for it in the
      // server.
      const batches = [batch([event('a')]), parked('b'), parked('a'), batch(ids.map((id) => event(id)))];
      const holder = new Database({ url });
      const answers = await holder.session(async (session) => {
        await session.query('select pg_advisory_lock(77)');
        const appending = batches.map((one) => store.log.append(one));
        await postgres.isBlocked(url);
        // Only the commit: a batch cut off while it waits for a key of the first would rightly fail.
        await cutWaiting('advisory');
        await session.query('select pg_advisory_unlock(77)');
        return await Promise.all(appending);
      });
      await holder.stop();
      const stored = answers.flatMap(({ positions }) => positions).filter((one) => one !== undefined);
      expect((await idsAt(store, stored)).sort()).toEqual(ids);
      const { sources } = await store.queue.ledger();
      expect(sources.get(SITE)).toMatchObject({ accepted: ids.length, duplicates: 3 });
      for (const [nth, one] of batches.entries()) expect(await store.log.append(one)).toEqual(answers[nth]);
    });

    it('stores nothing of a batch whose connection broke before its commit, and all of that behind it', async () => {
      await whileCommitsWait(async (release) => {
        const broken = store.log.append(batch([event('a')]));
        const failed = expect(broken).rejects.toThrow(/57P01/);
        const second = store.log.append(parked('b'));
        await postgres.isBlocked(url);
        await cutWaiting();
        await failed;
        await release();
        expect(duplicatesOf(await second)).toEqual([]);
        expect(await again('a')).toEqual([]);
      });
    });

    it('stores each id once when two nodes send batches that share ids, each several at a time', async () => {
      const other = await openPostgresStore({ clock: systemClock, url, node: 'b' });
      // Every id comes in three batches, in another order each; every seventh batch has parked deliveries.
      const ids = Array.from({ length: 600 }, (_, nth) => `id${nth}`);
      const batchAt = (nth: number) => {
        const some = ids.filter((_, at) => (at * (nth % 3 === 0 ? 7 : 11) + nth) % 20 < 3);
        const all = (nth % 2 === 0 ? some : some.reverse()).map((id) => event(id));
        return nth % 7 === 0 ? owedBatch(all, 'parked', { receivedAt: START }) : batch(all);
      };
      const batches = Array.from({ length: 40 }, (_, nth) => batchAt(nth));
      const answers = await Promise.all(
        batches.map((one, nth) => (nth % 4 < 2 ? store : other).log.append(one)),
      );
      const sent = batches.flatMap(({ events }) => events.map(({ messageId }) => messageId));
      const stored = answers.flatMap(({ positions }) => positions).filter((one) => one !== undefined);
      expect((await idsAt(store, stored)).sort()).toEqual([...new Set(sent)].sort());
      const { sources } = await store.queue.ledger();
      expect(sources.get(SITE)).toMatchObject({
        accepted: stored.length,
        duplicates: sent.length - stored.length,
      });
      await other.stop();
    });

    it('lets parked deliveries of one second share a row', async () => {
      await Promise.all(Array.from({ length: 20 }, (_, nth) => store.log.append(parked(`p${nth}`))));
      expect(await ask('select n from pending')).toEqual([{ n: 20 }]);
    });
  });

  it('leaves profiles their part of the bytes allowed, and has half of them at least', async () => {
    for (let nth = 0; nth < 20; nth++)
      await store.log.append(batch(events(100, `${nth}-`), { receivedAt: START + nth }));
    // The keys are past their window, and in pages.
    await hourPasses();
    await keepUp(store, START + HOUR, { ...FOR_EVER, messageIds: 1 });
    const { bytes } = await store.log.size();
    const disk = Math.round(bytes * 1.5);
    const kept = async () => {
      await keepUp(store, START + HOUR, { ...FOR_EVER, disk, messageIds: 1 });
      return (await store.log.size()).bytes;
    };
    expect(await kept()).toBeGreaterThan(disk / 2);
    const whole = await kept();
    await ask(
      `insert into profile(id, body) select n, decode(repeat(md5(n::text), 16), 'hex') from generate_series(1, 2000) n`,
    );
    await ask('update profile_cursor set profiles = 2000');
    const left = await kept();
    expect(left).toBeLessThan(whole);
    expect(left).toBeLessThanOrEqual(disk / 2);
    expect(left).toBeGreaterThan(disk / 4);
  });

  it('stores a batch in which ids come twice, and one of known and new ids, when no duplicates are expected', async () => {
    for (let nth = 0; nth < 10; nth++) await store.log.append(batch(events(3, `new${nth}-`)));
    const twice = await store.log.append(batch([event('x'), event('y'), event('x')]));
    expect(duplicatesOf(twice)).toEqual([2]);
    for (let nth = 0; nth < 10; nth++) await store.log.append(batch(events(3, `newer${nth}-`)));
    expect(duplicatesOf(await store.log.append(batch([event('z'), event('y')])))).toEqual([1]);
    const [{ n }] = (await ask('select count(*)::int as n from key_1')) as [{ n: number }];
    expect(n).toBe(63);
  });
});
