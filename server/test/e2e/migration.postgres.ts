import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, existsSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openPostgresStore } from '../../src/adapters/postgres/store.ts';
import { openSqliteStore } from '../../src/adapters/sqlite/store.ts';
import { systemClock } from '../../src/adapters/system/clock.ts';
import type { Overview } from '../../src/app.ts';
import type { Store } from '../../src/ports/store.ts';
import { batch, events, owedBatch } from '../conformance/batches.ts';
import { claim, dead, delivered, heldFrom, retried, settle } from '../conformance/holdings.ts';
import { chanceOf } from '../support/disk-faults/random.ts';
import { connectTo } from '../support/postgres.ts';
import { HAS_POSTGRES, usePostgres } from '../support/postgres-fixture.ts';
import { type PostgresLine, startPostgresLine } from '../support/postgres-line.ts';
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
import { amountOf, replayOf, SEED } from '../support/runs.ts';
import { until, within } from '../support/until.ts';

const TOKEN = 'token-of-the-tests';

/** A migration in a process of its own. */
interface Migration {
  readonly kill: (signal: NodeJS.Signals) => boolean;
  readonly ended: () => Promise<{ readonly code: number | null; readonly said: string }>;
  readonly isOver: () => boolean;
}

describe.runIf(HAS_POSTGRES)('millrace migrate', () => {
  const postgres = usePostgres();
  let database: string;
  let place: Place;

  beforeEach(async () => {
    database = await postgres.makeDatabase();
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
      await until('three are given up', async () =>
        expect((await crm(program)).dead).toEqual({ status_400: 3 }),
      );
      status = 503;
      await send(program, tracks('late', 5));
      await until('five wait', async () => expect(await crm(program)).toMatchObject({ pending: 5 }));
      await ask(program, 'regulations', { type: 'SUPPRESS_ONLY', subjectIds: ['hushed'] });
      await until('the profile is there', async () =>
        expect(await ask(program, 'profiles/ada')).toMatchObject({ traits: { city: 'London' } }),
      );
    }

    /**
     * Expects every later place to show the same. `resent`: number of times that the first events came again.
     */
    async function expectTheSame(program: Program, resent: number): Promise<void> {
      await send(program, tracks('good', 10));
      await send(program, tracks('quiet', 2, 'hushed'));
      await until('the books are as they were', async () => {
        const overview = await ask<Overview>(program, 'status');
        expect(overview.balanced).toBe(true);
        expect(overview.destinations['crm']).toMatchObject({ owed: 19, delivered: 16, pending: 0 });
        expect(overview.sources['website']).toMatchObject({ accepted: 19, duplicates: 10 * resent });
      });
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

    it('goes to PostgreSQL, and what waits is delivered once', async () => {
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
      await until('nothing waits', async () => expect(await crm(node)).toMatchObject({ pending: 0 }));
      expect(receiver.arrivals.length - madeBefore).toBe(5);
      await expectTheSame(node, 1);
      const revived = await runProgram({
        args: ['redeliver', 'crm', '--url', node.url, '--token', TOKEN],
      });
      expect(revived).toMatchObject({ code: 0 });
      await until('those are delivered too', async () =>
        expect(await crm(node)).toMatchObject({ dead: {}, delivered: 19 }),
      );
      expect(arrivedOf('dead')).toHaveLength(6);
      const back = await migrate(database, `${place.data}-2`);
      expect([back.code, back.stdout]).toEqual([2, '']);
      expect(back.stderr).toMatch(
        /not out of it any more: .*from-one-machine-to-three\.md says what repeats then\.\n$/,
      );
      expect(existsSync(`${place.data}-2`)).toBe(false);
    });

    it('goes back as the guide says: to the old folder before a start, and event by event afterwards', async () => {
      const first = await start(place.data);
      await send(first, tracks('good', 10));
      await receiver.count(10);
      await first.stop();
      expect(await migrate(place.data, database)).toMatchObject({ code: 0 });
      rmSync(join(place.data, 'moved.json'));
      const old = await start(place.data);
      expect(await crm(old)).toMatchObject({ owed: 10, delivered: 10 });
      await old.kill();

      const node = await start(`${place.data}-node`, database);
      await send(node, tracks('later', 5));
      await receiver.count(15);
      const target = await start(`${place.data}-2`);
      const paused = await fetch(`${target.url}/api/v1/destinations/crm`, {
        method: 'PATCH',
        headers: { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json' },
        body: JSON.stringify({ enabled: false }),
      });
      expect(paused.status).toBe(200);
      const events = await runProgram({
        args: ['events', '--json', '--limit', '1000', '--url', node.url, '--token', TOKEN],
      });
      const lines = events.stdout.trim().split('\n').reverse();
      const calls = lines.map((line) => JSON.stringify((JSON.parse(line) as { event: object }).event));
      const file = join(place.folder, 'events.ndjson');
      writeFileSync(file, `${calls.join('\n')}\n`);
      const args = ['send', '--file', file, '--write-key', 'wk', '--endpoint', target.url];
      expect(await runProgram({ args })).toMatchObject({ code: 0 });
      const found = await ask<{ data: { event: { messageId: string } }[] }>(target, 'events?limit=100');
      expect(found.data.map(({ event }) => event.messageId).sort()).toEqual(
        [...tracks('good', 10), ...tracks('later', 5)].map(({ messageId }) => messageId).sort(),
      );
      // Nothing is delivered a second time: the copied events are owed to nobody.
      expect(await crm(target)).toMatchObject({ owed: 0 });
      await send(target, tracks('later', 5));
      expect((await ask<Overview>(target, 'status')).sources['website']).toMatchObject({ duplicates: 5 });
      expect(receiver.arrivals).toHaveLength(15);
    });
  });

  describe('that is killed', () => {
    const KILLS = amountOf({ gate: 2, long: 20 });
    const BATCHES = amountOf({ gate: 16, long: 120 });
    const running: Migration[] = [];
    let line: PostgresLine | undefined;

    beforeEach(() => {
      place = makePlace('');
    });
    afterEach(async () => {
      for (const one of running.splice(0)) {
        one.kill('SIGKILL');
        await one.ended();
      }
      line?.close();
      line = undefined;
      place.remove();
    });

    /** Tens of thousands of events, some settled in each way and some waiting. */
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

    /** Begins a migration in a process of its own. */
    function launch(from: string, to: string): Migration {
      const child = spawn(process.execPath, [MILLRACE, 'migrate', '--from', from, '--to', to], {
        stdio: ['ignore', 'ignore', 'pipe'],
      });
      let said = '';
      child.stderr.setEncoding('utf8').on('data', (text: string) => {
        said += text;
      });
      const closed = once(child, 'close').then(([code]) => ({ code: code as number | null, said }));
      const migration: Migration = {
        kill: (signal) => child.kill(signal),
        ended: () => within('the migration ends', closed),
        isOver: () => child.exitCode !== null || child.signalCode !== null,
      };
      running.push(migration);
      return migration;
    }

    /**
     * Kills a migration at moments that lie in all parts of it, and brings it to its end. `share`: how much
     * of it is written.
     */
    async function killOften(from: string, to: string, share: () => number | Promise<number>): Promise<void> {
      const chance = chanceOf(SEED);
      let killed = 0;
      for (let nth = 0; nth < KILLS; nth++) {
        const moment = (nth + chance.next()) / KILLS;
        const { kill, ended, isOver } = launch(from, to);
        await until('so much is written', async () => isOver() || (await share()) >= moment, { pause: 2 });
        kill('SIGKILL');
        if ((await ended()).code === null) killed++;
      }
      console.log(`killed ${killed} times of ${KILLS}, ${replayOf(SEED)}`);
      const last = await migrate(from, to, '--json');
      expect(last, last.stderr).toMatchObject({ code: 0 });
    }

    async function booksOf(store: Store) {
      const { sources, destinations } = await store.queue.ledger();
      return { sources: [...sources], destinations: [...destinations] };
    }

    it(`comes to its end all the same, ${KILLS} times`, async () => {
      await fill();
      const source = await openSqliteStore({ folder: place.data });
      const books = await booksOf(source);
      await source.stop();
      await killOften(place.data, database, async () => (await eventsIn(database)) / (BATCHES * 2000));
      const store = await openPostgresStore({ clock: systemClock, url: database, node: 'a' });
      expect(await booksOf(store)).toEqual(books);
      await expectUnharmed(store);
      await store.stop();
    });

    /**
     * Begins a migration over the line, which carries no more when more than so many events are written, and
     * not all.
     */
    async function launchStopped(moreThan: number) {
      const migration = launch(place.data, line!.through(database));
      await until('so many events are written', async () => {
        await line!.carryOnly(STEP);
        const written = await eventsIn(database);
        expect(written).toBeLessThan(BATCHES * 2000);
        return written > moreThan;
      });
      return migration;
    }

    /**
     * Bytes that a migration sends between two looks at how far it has come: less than some hundred events
     * are.
     */
    const STEP = 20_000;

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
      const own = await postgres.startServer();
      database = await own.makeDatabase();
      line = await startPostgresLine(own.folder);
      line.swallow();
      await fill();
      const first = await launchStopped(0);
      expect((await migrate(place.data, database)).stderr).toContain('in use');
      const copy = `${place.data}-copy`;
      cpSync(place.data, copy, { recursive: true });
      expect((await migrate(copy, database)).stderr).toContain('another millrace migrate is at work');
      first.kill('SIGTERM');
      line.carry();
      expect(await first.ended()).toMatchObject({
        code: 1,
        said: expect.stringContaining('stopped before its end: run it again'),
      });
      line.swallow();
      const second = await launchStopped(await eventsIn(database));
      await own.crash();
      line.carry();
      expect(await second.ended()).toMatchObject({
        code: 1,
        said: expect.stringContaining('and it goes on where this one ended'),
      });
      await own.restart();
      expect(await migrate(place.data, database)).toMatchObject({ code: 0 });
      const store = await openPostgresStore({ clock: systemClock, url: database, node: 'a' });
      await expectUnharmed(store);
      await store.stop();
    });

    /** Samples: events by their ids, and that none comes twice. */
    async function expectUnharmed(store: Store): Promise<void> {
      for (let nth = 0; nth < BATCHES; nth += 7) {
        const { positions } = await store.log.find({ messageId: `b${nth}-${nth * 11}` });
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
      expect(await said(database, place.data)).toMatch(/^2: .*moves into a database and not out of it/s);
      expect(await said(place.data, 'postgres:///none?host=/nowhere')).toMatch(
        /^1: .*is the server running/s,
      );
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
