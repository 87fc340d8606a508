import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, existsSync, mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { openPostgresStore } from '../../src/adapters/postgres/store.ts';
import { openSqliteStore } from '../../src/adapters/sqlite/store.ts';
import type { Overview } from '../../src/app.ts';
import type { Store } from '../../src/ports/store.ts';
import { batch, events, owedBatch } from '../conformance/batches.ts';
import { claim, dead, delivered, heldFrom, retried, settle } from '../conformance/holdings.ts';
import { HAS_SMALL_DISK, makeSmallDisk } from '../faults/small-disk.ts';
import { chanceOf } from '../support/disk-faults/random.ts';
import { connectTo, findPostgres, type Postgres, startPostgres } from '../support/postgres.ts';
import {
  MILLRACE,
  makePlace,
  oneDestination,
  type Place,
  type Program,
  runProgram,
  startServer,
} from '../support/program.ts';
import { startReceiver, type TestReceiver } from '../support/receiver.ts';

const bin = findPostgres();
const TOKEN = 'token-of-the-tests';
const WITHIN = { timeout: 30_000 };

if (bin === undefined)
  console.log('left out: moves of the whole program, because no PostgreSQL 15 or newer is installed');

describe.runIf(bin !== undefined)('millrace migrate', () => {
  let server: Postgres;
  let database: string;
  let place: Place;

  beforeAll(async () => {
    server = await startPostgres(bin!, { fsync: 'off' });
  });
  afterAll(() => server.stop());
  beforeEach(async () => {
    database = await server.makeDatabase();
  });

  const migrate = (from: string, to: string, ...more: readonly string[]) =>
    runProgram({ args: ['migrate', '--from', from, '--to', to, ...more] });

  describe('of a server that has delivered, failed and deleted', () => {
    let receiver: TestReceiver;
    let status: number;
    const running: Program[] = [];

    beforeEach(async () => {
      status = 200;
      receiver = await startReceiver({
        answer: (response) => {
          response.statusCode = status;
          response.end();
        },
      });
      place = makePlace(`profiles: on\n${oneDestination([receiver.url])}`);
    });
    afterEach(async () => {
      for (const one of running.splice(0)) await one.kill();
      await receiver.stop();
      place.remove();
    });

    const start = async (data: string, url?: string) => {
      const more = url === undefined ? {} : { MILLRACE_DATABASE: url };
      const env = { MILLRACE_ADMIN_TOKEN: TOKEN, ...more };
      const program = await startServer({ ...place, data }, { env });
      running.push(program);
      return program;
    };

    const ask = async <Answer>({ url }: Program, path: string, body?: object): Promise<Answer> => {
      const answer = await fetch(`${url}/api/v1/${path}`, {
        method: body === undefined ? 'GET' : 'POST',
        headers: { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json' },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
      return (await answer.json()) as Answer;
    };

    const send = async ({ url }: Program, calls: readonly object[]) => {
      const answer = await fetch(`${url}/v1/batch`, {
        method: 'POST',
        headers: { authorization: `Basic ${btoa('wk:')}`, 'content-type': 'application/json' },
        body: JSON.stringify({ batch: calls }),
      });
      expect(answer.status).toBe(200);
    };
    const tracks = (name: string, n: number, userId = 'u') =>
      Array.from({ length: n }, (_, nth) => ({
        type: 'track',
        userId,
        event: 'E',
        messageId: `${name}-${nth}`,
      }));

    const crm = async (program: Program) => (await ask<Overview>(program, 'status')).destinations['crm']!;
    const arrivedOf = (name: string) =>
      receiver.arrivals
        .map(({ body }) => (JSON.parse(body.toString()) as { messageId: string }).messageId)
        .filter((id) => id.startsWith(name));

    async function live(program: Program): Promise<void> {
      await send(program, tracks('good', 10));
      await send(program, [
        { type: 'identify', userId: 'ada', traits: { city: 'London' }, messageId: 'ada-0' },
      ]);
      await receiver.count(11);
      status = 400;
      await send(program, tracks('dead', 3));
      await vi.waitFor(async () => expect((await crm(program)).dead).toEqual({ status_400: 3 }), WITHIN);
      status = 503;
      await send(program, tracks('late', 5));
      await vi.waitFor(async () => expect(await crm(program)).toMatchObject({ pending: 5 }), WITHIN);
      await ask(program, 'regulations', { type: 'SUPPRESS_ONLY', subjectIds: ['hushed'] });
      await vi.waitFor(
        async () => expect(await ask(program, 'profiles/ada')).toMatchObject({ traits: { city: 'London' } }),
        WITHIN,
      );
    }

    /** What every later place must show. `resent`: how often the first events came again. */
    async function expectTheSame(program: Program, resent: number): Promise<void> {
      await send(program, tracks('good', 10));
      await send(program, tracks('quiet', 2, 'hushed'));
      await vi.waitFor(async () => {
        const overview = await ask<Overview>(program, 'status');
        expect(overview.balanced).toBe(true);
        expect(overview.destinations['crm']).toMatchObject({ owed: 19, delivered: 16, pending: 0 });
        expect(overview.sources['website']).toMatchObject({ accepted: 19, duplicates: 10 * resent });
      }, WITHIN);
      expect(arrivedOf('good')).toHaveLength(10);
      expect(arrivedOf('quiet')).toEqual([]);
      const trace = await ask<{ data: { verdict: string; deliveries: { state: string }[] }[] }>(
        program,
        'events/good-3',
      );
      expect(trace.data).toMatchObject([
        { verdict: 'accepted', deliveries: [{ state: 'delivered', attempts: [{ status: 200 }] }] },
      ]);
      const failed = await ask<{ data: object[] }>(program, 'events/dead-1');
      expect(failed.data).toMatchObject([{ deliveries: [{ state: 'dead', attempts: [{ status: 400 }] }] }]);
      expect(await ask(program, 'profiles/ada')).toMatchObject({ traits: { city: 'London' } });
      expect(await ask<{ data: object[] }>(program, 'suppressions')).toMatchObject({
        data: [{ userId: 'hushed' }],
      });
    }

    it('goes to PostgreSQL and back, and what waits is delivered once', async () => {
      const first = await start(place.data);
      await live(first);
      const before = new Set(arrivedOf('late')).size;
      expect(before).toBeGreaterThan(0);
      expect((await migrate(place.data, database)).stderr).toContain('in use');
      await first.stop();

      const preview = await migrate(place.data, database, '--dry-run', '--json');
      expect(JSON.parse(preview.stdout)).toMatchObject({ events: 19, waiting: 5, dead: 3, profiles: 2 });
      const moved = await migrate(place.data, database);
      expect(moved).toMatchObject({ code: 0 });
      expect(moved.stdout).toMatch(/19 events, 5 deliveries that wait and 2 profiles are in postgres:/);
      expect(moved.stdout).toContain('The ledger balances.');
      expect(moved.stderr).toContain('Not moved:');

      const mistaken = await runProgram({
        args: ['start', '--config', place.config, '--data', place.data, '--port', '0'],
      });
      expect(mistaken).toMatchObject({ code: 1 });
      expect(mistaken.stderr).toContain('was moved to postgres://');
      const restored = await runProgram({ args: ['restore', place.data, '--data', `${place.data}-3`] });
      expect(restored.stderr).toContain('that was moved to postgres://');

      status = 200;
      const madeBefore = receiver.arrivals.length;
      const node = await start(place.data, database);
      await vi.waitFor(async () => expect(await crm(node)).toMatchObject({ pending: 0 }), WITHIN);
      expect(receiver.arrivals.length - madeBefore).toBe(5);
      await expectTheSame(node, 1);
      expect((await migrate(database, `${place.data}-2`)).stderr).toMatch(/has a lease/);
      await node.stop();

      const back = await migrate(database, `${place.data}-2`);
      expect(back).toMatchObject({ code: 0 });
      for (const name of ['.', 'millrace.db', 'users.db'])
        expect(statSync(join(`${place.data}-2`, name)).mode & 0o077, name).toBe(0);
      const refused = await runProgram({
        args: ['start', '--config', place.config, '--data', place.data, '--port', '0'],
        env: { MILLRACE_DATABASE: database },
      });
      expect(refused).toMatchObject({ code: 1 });
      expect(refused.stderr).toContain('was moved to');
      const again = await start(`${place.data}-2`);
      await expectTheSame(again, 2);
      expect(receiver.arrivals.length - madeBefore).toBe(5);
      const revived = await runProgram({
        args: ['redeliver', 'crm', '--url', again.url, '--token', TOKEN],
      });
      expect(revived).toMatchObject({ code: 0 });
      await vi.waitFor(
        async () => expect(await crm(again)).toMatchObject({ dead: {}, delivered: 19 }),
        WITHIN,
      );
      expect(arrivedOf('dead')).toHaveLength(6);
      await again.stop();
    });
  });

  describe('that is killed', () => {
    const KILLS = 20;
    const BATCHES = 120;
    const seed = Number(process.env['MILLRACE_SEED'] ?? Date.now() % 1_000_000);

    beforeEach(() => {
      place = makePlace('');
    });
    afterEach(() => place.remove());

    /** A quarter of a million events, some settled in each way and some waiting. */
    async function fill(batches = BATCHES): Promise<void> {
      const store = await openSqliteStore({ folder: place.data });
      for (let nth = 0; nth < batches; nth++) {
        const made = owedBatch(events(2000, `b${nth}-`), 'held');
        const held = heldFrom(made, await store.log.append(made));
        await settle(store, [
          ...held.slice(0, 1000).map(delivered),
          ...held.slice(1000, 1010).map((one) => dead(one)),
          ...held.slice(1010, 1020).map((one) => retried(one, 4e12)),
        ]);
      }
      await store.stop();
    }

    /** Begins a migration in a process of its own; resolves to it after so many milliseconds, or at its end. */
    async function launch(from: string, to: string, wait: number) {
      const child = spawn(process.execPath, [MILLRACE, 'migrate', '--from', from, '--to', to], {
        stdio: ['ignore', 'ignore', 'pipe'],
      });
      let said = '';
      child.stderr.setEncoding('utf8').on('data', (text: string) => {
        said += text;
      });
      const exited = once(child, 'exit') as Promise<[number | null]>;
      await Promise.race([exited, sleep(wait)]);
      const ended = async () => ({ code: (await exited)[0], said });
      return { kill: (signal: NodeJS.Signals) => child.kill(signal), ended };
    }

    /** Kills a migration at this moment of it, if it has not ended before. Resolves to its exit code, null after a kill. */
    async function run(from: string, to: string, killAfter: number): Promise<number | null> {
      const { kill, ended } = await launch(from, to, killAfter);
      kill('SIGKILL');
      return (await ended()).code;
    }

    /** The moments lie around the one at which a run begins to write, so that many fall into the copy, however fast the machine is. */
    async function killTwentyTimes(from: string, to: string): Promise<void> {
      const startedAt = performance.now();
      expect(await migrate(from, to, '--dry-run')).toMatchObject({ code: 0 });
      const start = Math.round(performance.now() - startedAt);
      const chance = chanceOf(seed);
      let killed = 0;
      for (let nth = 0; nth < KILLS; nth++)
        if ((await run(from, to, start - 100 + chance.between(0, 300))) === null) killed++;
      console.log(`seed ${seed}: killed ${killed} times`);
      const last = await migrate(from, to, '--json');
      expect(last, last.stderr).toMatchObject({ code: 0 });
    }

    async function booksOf(store: Store) {
      const { sources, destinations } = await store.queue.ledger();
      return { sources: [...sources], destinations: [...destinations] };
    }

    it(`comes to its end all the same, ${KILLS} times and back`, async () => {
      await fill();
      const source = await openSqliteStore({ folder: place.data });
      const books = await booksOf(source);
      await source.stop();
      await killTwentyTimes(place.data, database);
      const store = await openPostgresStore({ url: database, node: 'a' });
      expect(await booksOf(store)).toEqual(books);
      await expectUnharmed(store);
      await store.stop();

      const back = join(place.folder, 'back');
      await killTwentyTimes(database, back);
      expect(existsSync(join(back, 'migration.unfinished'))).toBe(false);
      const last = await openSqliteStore({ folder: back });
      await expectUnharmed(last);
      await last.stop();
    });

    /** Begins a migration that stands still, with more than so many events written. */
    async function launchStopped(from: string, to: string, moreThan: number) {
      const migration = await launch(from, to, 0);
      await vi.waitFor(async () => expect(await eventsIn(to)).toBeGreaterThan(moreThan), WITHIN);
      migration.kill('SIGSTOP');
      expect(await eventsIn(to)).toBeLessThan(BATCHES * 2000);
      return migration;
    }

    /** Events that a migration has written to a database, as it says itself. */
    async function eventsIn(to: string): Promise<number> {
      const client = await connectTo(to);
      try {
        const { rows } = await client.query(`select value from installation where name = 'migration'`);
        return JSON.parse(rows[0].value).progress.rows.events ?? 0;
      } catch {
        return 0;
      } finally {
        await client.end();
      }
    }

    it('goes on after a signal, after a crash of the database, and lets no second one in', async () => {
      await fill();
      const first = await launchStopped(place.data, database, 0);
      expect((await migrate(place.data, database)).stderr).toContain('in use');
      const copy = `${place.data}-copy`;
      cpSync(place.data, copy, { recursive: true });
      expect((await migrate(copy, database)).stderr).toContain('another millrace migrate is at work');
      first.kill('SIGTERM');
      first.kill('SIGCONT');
      expect(await first.ended()).toMatchObject({
        code: 1,
        said: expect.stringContaining('stopped before its end: run it again'),
      });
      const second = await launchStopped(place.data, database, await eventsIn(database));
      await server.crash();
      second.kill('SIGCONT');
      expect(await second.ended()).toMatchObject({
        code: 1,
        said: expect.stringContaining('and it goes on where this one ended'),
      });
      await server.restart();
      expect(await migrate(place.data, database)).toMatchObject({ code: 0 });
      const store = await openPostgresStore({ url: database, node: 'a' });
      await expectUnharmed(store);
      await store.stop();
    });

    it.runIf(HAS_SMALL_DISK)('goes on when a disk that was full has space again', async () => {
      await fill(20);
      expect(await migrate(place.data, database)).toMatchObject({ code: 0 });
      const { data, env, fill: fillUp, free, remove } = makeSmallDisk(place.folder);
      try {
        const args = ['migrate', '--from', database, '--to', data];
        fillUp();
        const full = await runProgram({ args, env });
        expect(full).toMatchObject({ code: 1 });
        expect(full.stderr).toContain('free some space');
        free();
        expect(await runProgram({ args, env })).toMatchObject({ code: 0 });
      } finally {
        remove();
      }
    });

    /** Samples: events by their ids, and that none comes twice. */
    async function expectUnharmed(store: Store): Promise<void> {
      for (let nth = 0; nth < BATCHES; nth += 17) {
        const { positions } = await store.log.find({ messageId: `b${nth}-${nth * 7}` });
        expect(positions).toHaveLength(1);
        const [known] = (await store.log.append(batch(events(1, `b${nth}-`)))).positions;
        expect(known).toBeUndefined();
      }
      const { destinations } = await store.queue.ledger();
      const [counts] = [...destinations.values()];
      expect(counts).toMatchObject({ owed: BATCHES * 2000, delivered: BATCHES * 1000 });
      await store.queue.recoverOrphans();
      const taken = await claim(store, 5e12);
      const places = taken.map(({ delivery }) => delivery.position);
      expect(places).toHaveLength(counts!.pending);
      expect(new Set(places).size).toBe(places.length);
      await settle(
        store,
        taken.map((one) => ({
          ...delivered(one),
          attempts: [],
          decision: { kind: 'retry', at: 4e12, next: one.delivery },
        })),
      );
    }
  });

  describe('with mistakes', () => {
    beforeEach(() => {
      place = makePlace('');
    });
    afterEach(() => place.remove());

    it('says what to do about each', async () => {
      const store = await openSqliteStore({ folder: place.data });
      await store.log.append(batch(events(3)));
      await store.stop();
      const other = await server.makeDatabase();
      await (await openPostgresStore({ url: other, node: 'a' })).stop();
      const said = async (from: string, to: string) => {
        const { code, stderr } = await migrate(from, to);
        return `${code}: ${stderr}`;
      };
      expect(await said(place.data, `${place.data}-2`)).toMatch(
        /^2: .*millrace backup and millrace restore/s,
      );
      expect(await said(database, database)).toMatch(/^2: .*pg_dump/s);
      expect(await said(`${place.data}-none`, database)).toMatch(
        /^1: .*holds no installation: name the data folder/s,
      );
      expect(await said(database, place.data)).toMatch(/^1: .*holds no installation: name the database/s);
      expect(await said(place.data, 'postgres:///none?host=/nowhere')).toMatch(
        /^1: .*is the server running/s,
      );
      const crowded = join(place.folder, 'crowded');
      mkdirSync(crowded, { mode: 0o755 });
      writeFileSync(join(crowded, 'letter.txt'), '');
      expect(await said(other, crowded)).toMatch(/^1: .*is not empty \(letter.txt\)/s);
      expect(readdirSync(crowded)).toEqual(['letter.txt']);
      expect(statSync(crowded).mode & 0o777).toBe(0o755);
      const client = await connectTo(database);
      await client.query('create table chunk(name text)');
      await client.end();
      expect(await said(place.data, database)).toMatch(/^1: .*make a database for Millrace alone/s);
      // The folder is as it was.
      const again = await openSqliteStore({ folder: place.data });
      await again.stop();
    });
  });
});
