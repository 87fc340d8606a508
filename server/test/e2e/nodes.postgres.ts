import type { ServerResponse } from 'node:http';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { runVerb } from '../../../cli/test/program.ts';
import type { Overview } from '../../src/app.ts';
import { connectTo } from '../support/postgres.ts';
import { HAS_POSTGRES, usePostgres } from '../support/postgres-fixture.ts';
import { makePlace, oneDestination, type Place, type Program, startProgram } from '../support/program.ts';
import { startReceiver, type TestReceiver, type TestReceiverOptions } from '../support/receiver.ts';
import { until, within } from '../support/until.ts';

const TOKEN = 'token-of-the-tests';

/** For how long a lease is valid from the moment it was renewed, in milliseconds. */
const LEASE = 10_000;

describe.skipIf(!HAS_POSTGRES)('two processes on one database', () => {
  const postgres = usePostgres();
  let database: string;
  let receiver: TestReceiver;
  /** Answer of the receiver to a request. */
  let answer: NonNullable<TestReceiverOptions['answer']>;
  let place: Place;
  const running: Program[] = [];

  beforeEach(async () => {
    database = await postgres.makeDatabaseWithTables();
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

  async function ask<Row extends object>(sql: string): Promise<Row[]> {
    const client = await connectTo(database);
    try {
      return (await client.query<Row>(sql)).rows;
    } finally {
      await client.end();
    }
  }

  it('does a request with an Idempotency-Key once, whichever nodes it comes to', async () => {
    const programs = [await start('a'), await start('b')];
    const post = async (nth: number, path: string, body: object, key: string) => {
      const headers = { authorization: `Bearer ${TOKEN}`, 'idempotency-key': key };
      const url = `${programs[nth]!.url}/api/v1/${path}`;
      const answer = await fetch(url, { method: 'POST', headers, body: JSON.stringify(body) });
      return { status: answer.status, tag: answer.headers.get('etag'), text: await answer.text() };
    };
    const made = await Promise.all([0, 1, 0, 1].map((nth) => post(nth, 'sources', { name: 'app' }, 'k1')));
    expect(made[0]).toMatchObject({ status: 201, tag: expect.stringMatching(/"/) });
    for (const one of made) expect(one).toEqual(made[0]);
    expect(await post(1, 'sources', { name: 'other' }, 'k1')).toMatchObject({ status: 422 });
    // A redelivery takes what is known to be delivered when it is asked for.
    await expectAllDelivered(programs[0]!, await send(programs[0]!, 'e', 20));
    const again = { destination: 'crm', state: 'delivered' };
    const replays = await Promise.all([1, 0].map((nth) => post(nth, 'redeliveries', again, 'k2')));
    expect(replays[0]!.status).toBe(200);
    expect(replays[1]).toEqual(replays[0]);
    await until('everything is delivered again', async () => arrived().length >= 40);
    const id = (JSON.parse(replays[0]!.text) as { id: string }).id;
    const all = await fetch(`${programs[0]!.url}/api/v1/replays`, {
      headers: { authorization: `Bearer ${TOKEN}` },
    });
    expect(((await all.json()) as { data: { id: string }[] }).data.map((one) => one.id)).toEqual([id]);
  });

  const arrived = () =>
    receiver.arrivals.map(({ body }) => (JSON.parse(body.toString()) as { messageId: string }).messageId);

  async function expectAllDelivered(program: Program, ids: readonly string[]): Promise<void> {
    await until('all have arrived', () => expect(new Set(arrived())).toEqual(new Set(ids)));
    await until('the books balance', async () => {
      const { destinations, balanced } = await overview(program);
      expect(destinations['crm']).toMatchObject({ owed: ids.length, delivered: ids.length, pending: 0 });
      expect(balanced).toBe(true);
    });
  }

  it('take an event for 800 destinations, and calls of others beside it', async () => {
    const names = Array.from({ length: 800 }, (_, nth) => `destination-${nth}`);
    const destination = (name: string) =>
      `  - { name: ${name}, type: webhooks, sources: [many], settings: { endpoints: [{ url: '${receiver.url}/${name}' }] } }`;
    place.remove();
    place = makePlace(`egress: { allow: [127.0.0.0/8] }
sources: [{ name: website, writeKeys: [wk] }, { name: many, writeKeys: [wk_many] }]
destinations:
${names.map(destination).join('\n')}
`);
    const [a, b] = [await start('a'), await start('b')];
    const toMany = async (node: Program, messageId: string) => {
      const answer = await fetch(`${node.url}/v1/track`, {
        method: 'POST',
        headers: { authorization: `Basic ${btoa('wk_many:')}`, 'content-type': 'application/json' },
        body: JSON.stringify({ userId: 'u', event: 'E', messageId }),
      });
      return answer.status === 200;
    };
    // As clients do: a node whose database is late on a busy machine answers 503 and is asked again.
    await Promise.all(
      [a, b].flatMap((node, nth) => [
        until('the event for many is taken', () => toMany(node, `many-${nth}`)),
        until('the calls beside it are', async () => (await send(node, `beside-${nth}`, 5)).length === 5),
      ]),
    );
    await until('every destination has both events', () => receiver.arrivals.length >= 2 * names.length);
    expect(new Set(receiver.arrivals.map(({ path }) => path)).size).toBe(names.length);
  });

  it('take calls, deliver each event once, and show each other', async () => {
    const [a, b] = [await start('a'), await start('b')];
    const sent = (await Promise.all([a, b].map((one, nth) => send(one, `n${nth}`, 200)))).flat();
    expect(sent).toHaveLength(400);
    // The same events again, to the other one.
    expect(await send(b, 'n0', 200)).toHaveLength(200);
    await expectAllDelivered(a, sent);
    expect(arrived()).toHaveLength(400);
    await until('both are shown with all jobs', async () => {
      const { nodes = [] } = await overview(b);
      expect(nodes.map(({ name, isSelf }) => [name, isSelf])).toEqual([
        ['a', undefined],
        ['b', true],
      ]);
      expect(nodes.flatMap(({ jobs }) => jobs).sort()).toEqual(['alerts', 'maintenance', 'replays', 'users']);
      for (const { leaseLeftMs } of nodes) expect(leaseLeftMs).toBeGreaterThan(0);
    });
  });

  it('say the same id of their store', async () => {
    const nodes = [await start('a'), await start('b')];
    const ids = await Promise.all(nodes.map(async (one) => (await overview(one)).storeId));
    expect(ids[0]).toMatch(/^[0-9a-f]{32}$/);
    expect(ids[1]).toBe(ids[0]);
  });

  it('lose nothing when one is killed under load, and repeat at most what that one had', async () => {
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
    // By itself it ends ten seconds later.
    await ask(`update process set expires = clock_timestamp() where node = 'a'`);
    await until('all have arrived', () =>
      expect(acknowledged.filter((id) => !arrived().includes(id))).toEqual([]),
    );
    await expectAllDelivered(b, [...new Set(arrived())]);
    const all = arrived();
    // What it had taken.
    expect(all.length - new Set(all).size).toBeLessThanOrEqual(210);
    await until('the other one has all jobs', async () => {
      const { nodes = [] } = await overview(b);
      expect(nodes.map(({ name }) => name)).toEqual(['b']);
      expect(nodes[0]!.jobs).toEqual(['alerts', 'maintenance', 'replays', 'users']);
    });
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
    answer = (response) => response.end();
    // `b` delivers everything whose result `a` has not stored.
    await expectAllDelivered(b, ids);
    const settled = arrived().length;
    expect(settled - before).toBeGreaterThanOrEqual(100 - before);
    process.kill(a.pid, 'SIGCONT');
    await within('the one that stood still joins again', a.saw(/joined_again/));
    await expectAllDelivered(a, ids);
    expect(arrived().length).toBe(settled);
  });

  it('probe a failing endpoint by turns, and both deliver when it is back', async () => {
    let [isHanging, isBack] = [false, false];
    let [hanging, mostHanging] = [0, 0];
    const held: ServerResponse[] = [];
    const hang = async (response: ServerResponse) => {
      held.push(response);
      hanging++;
      // The node has given the request up.
      response.once('close', () => hanging--);
      // One that was given up before this one came is closed by then.
      await nextTurn();
      mostHanging = Math.max(mostHanging, hanging);
    };
    answer = (response) => {
      response.statusCode = isBack ? 200 : 503;
      if (isHanging) void hang(response);
      else response.end();
    };
    const both = [await start('a'), await start('b')];
    const sent = (await Promise.all(both.map((one, nth) => send(one, `n${nth}`, 200)))).flat();
    const isOpen = async (one: Program) => (await overview(one)).lanes['crm']!.nextProbeAt !== undefined;
    await until('both have found that it fails', async () =>
      expect(await Promise.all(both.map(isOpen))).toEqual([true, true]),
    );
    isHanging = true;
    const before = receiver.arrivals.length;
    // Each gives a request up after five seconds, and the other one must not probe meanwhile.
    await within('a probe is given up and another one comes', receiver.count(before + 2));
    await nextTurn();
    expect(mostHanging).toBe(1);
    [isHanging, isBack] = [false, true];
    for (const response of held) {
      response.statusCode = 200;
      response.end();
    }
    await expectAllDelivered(both[0]!, sent);
  });

  it('know soon what was changed on the other one: settings and suppressions', async () => {
    const [a, b] = [await start('a'), await start('b')];
    const headers = { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json' };
    const body = JSON.stringify({ name: 'app', writeKeys: ['wk_app'] });
    const made = await fetch(`${a.url}/api/v1/sources`, { method: 'POST', headers, body });
    expect(made.status).toBe(201);
    await until('the other one takes calls of the new source', async () => {
      const answer = await fetch(`${b.url}/v1/track`, {
        method: 'POST',
        headers: { authorization: `Basic ${btoa('wk_app:')}` },
        body: '{"userId":"u","event":"E"}',
      });
      expect(answer.status).toBe(200);
    });
    const suppressed = await fetch(`${b.url}/api/v1/regulations`, {
      method: 'POST',
      headers,
      body: JSON.stringify({ type: 'SUPPRESS_ONLY', subjectIds: ['gone'] }),
    });
    expect(suppressed.status).toBeLessThan(300);
    await until('the other one discards calls of the user', async () => {
      const answer = await fetch(`${a.url}/v1/track`, {
        method: 'POST',
        headers: { authorization: `Basic ${btoa('wk:')}` },
        body: '{"userId":"gone","event":"E"}',
      });
      expect(answer.status).toBe(200);
      const { sources } = await overview(a);
      expect(sources['website']!.discarded).toHaveProperty('suppressed');
    });
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
    await until('all events are erased', async () => expect((await receipt()).erased.events).toBe(300));
    // The one that holds them gives its requests up after five seconds, and says then that it knows nothing
    // of them any more.
    await until('both have said that they know of it', async () => {
      const [behind] = await ask<{ n: string }>(`select count(*) as n from acknowledgement
        where erasures < (select max(id) from erasure)`);
      return behind!.n === '0';
    });
    const before = receiver.arrivals.length;
    expect(before).toBeLessThan(300);
    for (const response of held.splice(0)) response.end();
    answer = (response) => response.end();
    await until('the deletion has ended', async () => expect(await receipt()).toHaveProperty('finishedAt'));
    expect(await receipt()).toMatchObject({ erasedFrom: 'tables' });
    const after = receiver.arrivals.slice(before).map(({ body }) => body.toString());
    expect(after.filter((body) => !body.includes('"type":"delete"'))).toEqual([]);
  });

  it('show the one that was killed until it is back: who took over, and when it was last seen', async () => {
    const [a, b] = [await start('a'), await start('b')];
    await b.kill();
    let lastSeen = 0;
    const hasLease = async () => {
      const [row] = await ask<{
        seen: number;
      }>(`select floor(extract(epoch from expires) * 1000)::float8 - ${LEASE} as seen
        from process where node = 'b'`);
      lastSeen = row?.seen ?? lastSeen;
      return row !== undefined;
    };
    await until('the lease of the dead one is over', async () => !(await hasLease()), { pause: 200 });
    const { nodes = [], goneNodes = [] } = await overview(a);
    expect(nodes.map(({ name }) => name)).toEqual(['a']);
    expect(goneNodes).toMatchObject([{ name: 'b', takenOverBy: 'a' }]);
    const [{ lastSeenAt, takenOverAt }] = goneNodes as [NonNullable<Overview['goneNodes']>[number]];
    expect(Date.parse(lastSeenAt)).toBe(lastSeen);
    expect(Date.parse(takenOverAt) - lastSeen).toBeGreaterThanOrEqual(LEASE);
    const shown = await runVerb(['status', '--url', a.url, '--token', TOKEN]);
    expect(shown.out).toMatch(/^b +gone +last seen \d\d:\d\d:\d\d .* nothing: a took over$/m);
    const metrics = async () => {
      const headers = { authorization: `Bearer ${TOKEN}` };
      return await (await fetch(`${a.url}/metrics`, { headers })).text();
    };
    // The page is kept for a moment.
    await until('the metrics show it', async () =>
      expect(await metrics()).toContain('millrace_node_gone{node="b"} 1'),
    );
    await start('b');
    expect((await overview(a)).goneNodes).toEqual([]);
    await until('the metrics show it no more', async () =>
      expect(await metrics()).not.toContain('millrace_node_gone{'),
    );
  });

  it('hand back at once what they hold when they are stopped', async () => {
    const [a, b] = [await start('a'), await start('b')];
    // Whoever waited for its lease would wait for an hour.
    await ask(`create function far() returns trigger language plpgsql as $$ begin
        if new.expires > clock_timestamp() then new.expires := clock_timestamp() + interval '1 hour'; end if; return new; end $$;
      create trigger far before update on process for each row when (new.node = 'a') execute function far();
      update process set expires = expires`);
    expect(await a.stop()).toBe(0);
    running.splice(running.indexOf(a), 1);
    await until('the other one has all jobs', async () => {
      const { nodes = [], goneNodes } = await overview(b);
      expect(goneNodes).toEqual([]);
      expect(nodes.map(({ name, jobs }) => [name, jobs])).toEqual([
        ['b', ['alerts', 'maintenance', 'replays', 'users']],
      ]);
    });
  });
});
