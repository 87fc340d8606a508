import { writeFileSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { runVerb } from '../../../cli/test/program.ts';
import type { Overview } from '../../src/app.ts';
import { findPostgres, type Postgres, startPostgres } from '../support/postgres.ts';
import { makePlace, oneDestination, type Place, type Program, startProgram } from '../support/program.ts';
import { startReceiver, type TestReceiver, type TestReceiverOptions } from '../support/receiver.ts';

const bin = findPostgres();
const TOKEN = 'token-of-the-tests';

/** Milliseconds within which a node knows what another one has erased: it asks every second, and shows nothing of it. */
const KNOWN_WITHIN = 10_000;

/** Ends a wait for what never comes, in milliseconds. The lease of a dead node takes ten seconds to run out. */
const LONGEST = 120_000;

describe.skipIf(bin === undefined)('two processes on one database', () => {
  let server: Postgres;
  let database: string;
  let receiver: TestReceiver;
  /** What the receiver does with a request. */
  let answer: NonNullable<TestReceiverOptions['answer']>;
  let place: Place;
  const running: Program[] = [];

  beforeAll(async () => {
    server = await startPostgres(bin!, { fsync: 'off' });
  });
  afterAll(() => server.stop());
  beforeEach(async () => {
    database = await server.makeDatabase();
    answer = (response) => response.end();
    receiver = await startReceiver({ answer: (...request) => answer(...request) });
    place = makePlace(oneDestination([receiver.url]));
  });
  afterEach(async () => {
    for (const one of running.splice(0)) await one.kill();
    await receiver.stop();
    place.remove();
  });

  async function start(node: string): Promise<Program> {
    const args = ['start', '--config', place.config, '--data', `${place.data}-${node}`, '--port', '0'];
    const env = { MILLRACE_DATABASE: database, MILLRACE_NODE: node, MILLRACE_ADMIN_TOKEN: TOKEN };
    const program = await startProgram({ args: [...args, '--host', '127.0.0.1'], env });
    running.push(program);
    return program;
  }

  /** Resolves to the messageIds that were answered 200. */
  async function send({ url }: Program, name: string, n: number): Promise<string[]> {
    const ids = Array.from({ length: n }, (_, nth) => `${name}-${nth}`);
    const batch = ids.map((messageId) => ({ type: 'track', userId: 'u', event: 'E', messageId }));
    const answer = await fetch(`${url}/v1/batch`, {
      method: 'POST',
      headers: { authorization: `Basic ${btoa('wk:')}`, 'content-type': 'application/json' },
      body: JSON.stringify({ batch }),
    }).catch(() => undefined);
    return answer?.status === 200 ? ids : [];
  }

  async function overview({ url }: Program): Promise<Overview> {
    const answer = await fetch(`${url}/api/v1/status`, { headers: { authorization: `Bearer ${TOKEN}` } });
    return (await answer.json()) as Overview;
  }

  const arrived = () =>
    receiver.arrivals.map(({ body }) => (JSON.parse(body.toString()) as { messageId: string }).messageId);

  async function expectAllDelivered(program: Program, ids: readonly string[]): Promise<void> {
    await vi.waitFor(() => expect(new Set(arrived())).toEqual(new Set(ids)), LONGEST);
    await vi.waitFor(async () => {
      const { destinations, balanced } = await overview(program);
      expect(destinations['crm']).toMatchObject({ owed: ids.length, delivered: ids.length, pending: 0 });
      expect(balanced).toBe(true);
    }, LONGEST);
  }

  it('take calls, deliver each event once, and show each other', async () => {
    const [a, b] = [await start('a'), await start('b')];
    const sent = (await Promise.all([a, b].map((one, nth) => send(one, `n${nth}`, 200)))).flat();
    expect(sent).toHaveLength(400);
    // The same events again, to the other one.
    expect(await send(b, 'n0', 200)).toHaveLength(200);
    await expectAllDelivered(a, sent);
    expect(arrived()).toHaveLength(400);
    await vi.waitFor(async () => {
      const { nodes = [] } = await overview(b);
      expect(nodes.map(({ name, isSelf }) => [name, isSelf])).toEqual([
        ['a', undefined],
        ['b', true],
      ]);
      expect(nodes.flatMap(({ jobs }) => jobs).sort()).toEqual(['alerts', 'maintenance', 'replays', 'users']);
      for (const { leaseLeftMs } of nodes) expect(leaseLeftMs).toBeGreaterThan(0);
    }, LONGEST);
  });

  it('are one cell: they say the same id of their store, and the command line takes them for no two', async () => {
    const nodes = [await start('a'), await start('b')];
    const ids = await Promise.all(nodes.map(async (one) => (await overview(one)).storeId));
    expect(ids[0]).toMatch(/^[0-9a-f]{32}$/);
    expect(ids[1]).toBe(ids[0]);
    const file = join(place.folder, 'cells.yaml');
    const cells = nodes.map(({ url }, nth) => `  - { name: n${nth}, url: "${url}", token: ${TOKEN} }\n`);
    const write = (text: string) => writeFileSync(file, text, { mode: 0o600 });
    write(`cells:\n${cells.join('')}`);
    for (const verb of [['status'], ['events'], ['trace', 'x'], ['suppress', 'u'], ['regulation', 'x']]) {
      const { code, out, err } = await runVerb(['cells', ...verb, '--cells', file]);
      expect([verb, code, out]).toEqual([verb, 2, '']);
      expect(err).toContain('cells[1].url  leads to the same store as cells[0]');
    }
    write(`cells:\n${cells[1]!}`);
    const { code, out } = await runVerb(['cells', 'status', '--json', '--cells', file]);
    expect(code).toBe(0);
    expect(JSON.parse(out)).toMatchObject({ cells: [{ name: 'n1', nodes: 2, balanced: true }] });
  });

  it('lose nothing when one is killed under load, and repeat at most a second of its traffic', async () => {
    const [a, b] = [await start('a'), await start('b')];
    const acknowledged: string[] = [];
    let isKilled = false;
    const load = async (program: Program, name: string) => {
      for (let nth = 0; nth < 40; nth++) {
        acknowledged.push(...(await send(program, `${name}${nth}`, 10)));
        if (nth === 20 && program === a) {
          isKilled = true;
          await a.kill();
        }
        if (isKilled && program === a) return;
      }
    };
    await Promise.all([load(a, 'a'), load(b, 'b')]);
    expect(acknowledged.length).toBeGreaterThanOrEqual(600);
    await vi.waitFor(() => expect(acknowledged.filter((id) => !arrived().includes(id))).toEqual([]), {
      timeout: LONGEST,
    });
    await expectAllDelivered(b, [...new Set(arrived())]);
    const all = arrived();
    // What was sent and not yet written down: 20 ms of results, and the requests in flight.
    expect(all.length - new Set(all).size).toBeLessThanOrEqual(210);
    await vi.waitFor(async () => {
      const { nodes = [] } = await overview(b);
      expect(nodes.map(({ name }) => name)).toEqual(['b']);
      expect(nodes[0]!.jobs).toEqual(['alerts', 'maintenance', 'replays', 'users']);
    }, LONGEST);
  });

  it('send nothing after their lease is over: a process that stood still finds its deliveries gone', async () => {
    const held: ServerResponse[] = [];
    answer = (response) => held.push(response);
    const a = await start('a');
    const ids = await send(a, 'frozen', 100);
    expect(ids).toHaveLength(100);
    await receiver.count(1);
    const b = await start('b');
    process.kill(a.pid, 'SIGSTOP');
    const before = arrived().length;
    for (const response of held.splice(0)) response.end();
    // `b` delivers everything whose result `a` has not stored.
    await vi.waitFor(
      () => {
        for (const response of held.splice(0)) response.end();
        expect(arrived().length - before).toBeGreaterThanOrEqual(100 - before);
        expect(new Set(arrived()).size).toBe(100);
      },
      { timeout: LONGEST, interval: 50 },
    );
    const answering = setInterval(() => {
      for (const response of held.splice(0)) response.end();
    }, 10);
    await expectAllDelivered(b, ids);
    const settled = arrived().length;
    process.kill(a.pid, 'SIGCONT');
    await a.saw(/joined_again/);
    await expectAllDelivered(a, ids);
    expect(arrived().length).toBe(settled);
    clearInterval(answering);
  });

  it('probe a failing endpoint by turns, and both deliver when it is back', async () => {
    let [isHanging, isBack] = [false, false];
    let [hanging, mostHanging] = [0, 0];
    answer = (response) => {
      response.statusCode = isBack ? 200 : 503;
      if (!isHanging) {
        response.end();
        return;
      }
      hanging++;
      mostHanging = Math.max(mostHanging, hanging);
      // The node has given the request up.
      response.once('close', () => hanging--);
    };
    const both = [await start('a'), await start('b')];
    const sent = (await Promise.all(both.map((one, nth) => send(one, `n${nth}`, 200)))).flat();
    const isOpen = async (one: Program) => (await overview(one)).lanes['crm']!.nextProbeAt !== undefined;
    await vi.waitFor(async () => expect(await Promise.all(both.map(isOpen))).toEqual([true, true]), LONGEST);
    isHanging = true;
    const before = receiver.arrivals.length;
    // Each gives a request up after five seconds, and the other one must not probe meanwhile.
    await receiver.count(before + 3);
    expect(mostHanging).toBe(1);
    [isHanging, isBack] = [false, true];
    await expectAllDelivered(both[0]!, sent);
  });

  it('know soon what was changed on the other one: settings and suppressions', async () => {
    const [a, b] = [await start('a'), await start('b')];
    const headers = { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json' };
    const body = JSON.stringify({ name: 'app', writeKeys: ['wk_app'] });
    const made = await fetch(`${a.url}/api/v1/sources`, { method: 'POST', headers, body });
    expect(made.status).toBe(201);
    await vi.waitFor(
      async () => {
        const answer = await fetch(`${b.url}/v1/track`, {
          method: 'POST',
          headers: { authorization: `Basic ${btoa('wk_app:')}` },
          body: '{"userId":"u","event":"E"}',
        });
        expect(answer.status).toBe(200);
      },
      { timeout: LONGEST, interval: 50 },
    );
    const suppressed = await fetch(`${b.url}/api/v1/regulations`, {
      method: 'POST',
      headers,
      body: JSON.stringify({ type: 'SUPPRESS_ONLY', subjectIds: ['gone'] }),
    });
    expect(suppressed.status).toBeLessThan(300);
    await vi.waitFor(
      async () => {
        await send(a, `suppressed-${performance.now()}`, 1);
        const { sources } = await overview(a);
        expect(sources['website']).toBeDefined();
        const answer = await fetch(`${a.url}/v1/track`, {
          method: 'POST',
          headers: { authorization: `Basic ${btoa('wk:')}` },
          body: '{"userId":"gone","event":"E"}',
        });
        expect(answer.status).toBe(200);
        const { sources: after } = await overview(a);
        expect(after['website']!.discarded).toHaveProperty('suppressed');
      },
      { timeout: LONGEST, interval: 100 },
    );
  });

  it('send nothing of a user any more whom the other one has erased', async () => {
    const held: ServerResponse[] = [];
    answer = (response) => held.push(response);
    const [a, b] = [await start('a'), await start('b')];
    // All in the memory of `b`, which sends a few and waits for their answers.
    expect(await send(b, 'held', 300)).toHaveLength(300);
    await receiver.count(1);
    const asked = await fetch(`${a.url}/api/v1/regulations`, {
      method: 'POST',
      headers: { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json' },
      body: JSON.stringify({ type: 'DELETE_ONLY', subjectIds: ['u'] }),
    });
    const { id } = (await asked.json()) as { id: string };
    const receipt = async () => {
      const headers = { authorization: `Bearer ${TOKEN}` };
      const answer = await fetch(`${a.url}/api/v1/regulations/${id}`, { headers });
      return (await answer.json()) as { erased: { events: number }; finishedAt?: string };
    };
    await vi.waitFor(async () => expect((await receipt()).erased.events).toBe(300), {
      timeout: LONGEST,
      interval: 50,
    });
    await sleep(KNOWN_WITHIN);
    const before = receiver.arrivals.length;
    expect(before).toBeLessThan(300);
    const answering = setInterval(() => {
      for (const response of held.splice(0)) response.end();
    }, 20);
    await vi.waitFor(async () => expect(await receipt()).toHaveProperty('finishedAt'), LONGEST);
    clearInterval(answering);
    const after = receiver.arrivals.slice(before).map(({ body }) => body.toString());
    expect(after.filter((body) => !body.includes('"type":"delete"'))).toEqual([]);
  });

  it('show the one that was killed until it is back: who took over, and when it was last seen', async () => {
    const [a, b] = [await start('a'), await start('b')];
    const killedAt = Date.now();
    await b.kill();
    await vi.waitFor(async () => {
      const { nodes = [], goneNodes = [] } = await overview(a);
      expect(nodes.map(({ name }) => name)).toEqual(['a']);
      expect(goneNodes).toMatchObject([{ name: 'b', takenOverBy: 'a' }]);
      const [{ lastSeenAt, takenOverAt }] = goneNodes as [NonNullable<Overview['goneNodes']>[number]];
      expect(Math.abs(Date.parse(lastSeenAt) - killedAt)).toBeLessThan(5000);
      expect(Date.parse(takenOverAt) - Date.parse(lastSeenAt)).toBeGreaterThanOrEqual(10_000);
    }, LONGEST);
    const shown = await runVerb(['status', '--url', a.url, '--token', TOKEN]);
    expect(shown.out).toMatch(/^b +gone +last seen \d\d:\d\d:\d\d .* nothing: a took over$/m);
    const metrics = async () => {
      const headers = { authorization: `Bearer ${TOKEN}` };
      return await (await fetch(`${a.url}/metrics`, { headers })).text();
    };
    // The page is kept for a moment.
    await expect.poll(metrics, { timeout: LONGEST }).toContain('millrace_node_gone{node="b"} 1');
    await start('b');
    expect((await overview(a)).goneNodes).toEqual([]);
    await expect.poll(metrics, { timeout: LONGEST }).not.toContain('millrace_node_gone{');
  });

  it('hand back at once what they hold when they are stopped', async () => {
    const [a, b] = [await start('a'), await start('b')];
    expect(await a.stop()).toBe(0);
    running.splice(running.indexOf(a), 1);
    await vi.waitFor(
      async () => {
        const { nodes = [], goneNodes } = await overview(b);
        expect(goneNodes).toEqual([]);
        expect(nodes.map(({ name, jobs }) => [name, jobs])).toEqual([
          ['b', ['alerts', 'maintenance', 'replays', 'users']],
        ]);
      },
      { timeout: 8000, interval: 100 },
    );
  });
});
