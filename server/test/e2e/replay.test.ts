import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { runVerb } from '../../../cli/test/program.ts';
import type { Overview, Trace } from '../../src/app.ts';
import { blocksOf } from '../docs/pages.ts';
import { send, track } from '../support/calls.ts';
import { ControlApi } from '../support/control-api.ts';
import {
  adminTokenOf,
  makePlace,
  oneDestination,
  type Place,
  type Program,
  startServer,
} from '../support/program.ts';
import { type Arrival, startReceiver, type TestReceiver } from '../support/receiver.ts';

const EVENTS = 500;
/** Calls of one request. */
const BATCH = 100;
const FROM = '2020-01-01T00:00:00Z';
const TO = '2100-01-01T00:00:00Z';

interface Shown {
  readonly id: string;
  readonly state: string;
  readonly count: number;
  readonly replayed: number;
  readonly pending: number;
}

describe('a replay', () => {
  let crm: TestReceiver;
  /** Of the destination of this test, which takes no event before there is one to replay. */
  let lake: TestReceiver;
  let name: string;
  let destinations = 0;
  let place: Place;
  let program: Program;

  const start = () => startServer(place);

  beforeAll(async () => {
    crm = await startReceiver();
    place = makePlace(oneDestination([`${crm.url}/in`]));
    program = await start();
    for (let from = 0; from < EVENTS; from += BATCH) {
      const type = (n: number) => (n % 5 === 0 ? { type: 'page', name: 'Home' } : {});
      const calls = Array.from({ length: BATCH }, (_, n) => track(`m${from + n}`, type(n)));
      expect((await send(program.url, '/v1/batch', { batch: calls })).status).toBe(200);
    }
    await crm.count(EVENTS);
  });

  beforeEach(async () => {
    lake = await startReceiver();
    name = `lake${++destinations}`;
    // The destination is connected afterwards: no earlier event is owed to it.
    const settings = { endpoints: [{ url: `${lake.url}/in` }], sharedSecret: 'l4ke' };
    const added = { name, type: 'webhooks', sources: ['website'], settings };
    expect((await ask('POST', 'destinations', added)).status).toBe(201);
  });

  afterEach(() => lake.stop());

  afterAll(async () => {
    await program.kill();
    await crm.stop();
    place.remove();
  });

  const api = new ControlApi(() => ({ url: program.url, token: adminTokenOf(place) }));
  const ask = (method: string, path: string, body?: object) => api.ask(method, path, body);

  const run = (...args: string[]) => runVerb([...args, '--url', program.url, '--data', place.data]);
  const create = (more: object = {}) =>
    ask('POST', 'replays', { destination: name, from: FROM, to: TO, ...more });
  const show = async (id: string): Promise<Shown> => (await ask('GET', `replays/${id}`)).answer;

  const showWhen = (id: string, isReached: (shown: Shown) => boolean) =>
    api.until<Shown>(`replays/${id}`, isReached);

  async function countsOf(destination: string, isReached: (counts: Counts) => boolean): Promise<Counts> {
    const reached = ({ destinations }: Overview) => isReached(destinations[destination]!);
    return (await api.until('ledger', reached)).destinations[destination]!;
  }

  const messageIds = (arrivals: readonly Arrival[]) =>
    new Set(arrivals.map(({ headers }) => headers['webhook-id']));
  const replayIds = (arrivals: readonly Arrival[]) =>
    new Set(arrivals.map(({ headers }) => headers['x-replay-id']));
  const ALL = new Set(Array.from({ length: EVENTS }, (_, n) => `m${n}`));

  it('sends every stored event of its range to a destination that was connected afterwards', async () => {
    const dry = await create({ dryRun: true });
    expect(dry).toMatchObject({ status: 200, answer: { count: EVENTS, exact: true, expectedSeconds: 1 } });
    expect(dry.answer).not.toHaveProperty('id');
    const { status, answer } = await create({ rate: 10_000 });
    const { id } = answer as Shown;
    expect({ status, answer }).toMatchObject({
      status: 201,
      answer: { destination: name, state: 'running', count: EVENTS, by: 'admin' },
    });
    await lake.count(EVENTS);
    expect(await showWhen(id, ({ state, pending }) => state === 'done' && pending === 0)).toMatchObject({
      ...{ count: EVENTS, replayed: EVENTS },
    });
    expect(messageIds(lake.arrivals)).toEqual(ALL);
    expect(replayIds(lake.arrivals)).toEqual(new Set([id]));
    expect(replayIds(crm.arrivals)).toEqual(new Set([undefined]));
    const [arrival] = lake.arrivals;
    const first = crm.arrivals.find(
      ({ headers }) => headers['webhook-id'] === arrival!.headers['webhook-id'],
    );
    expect(arrival!.body).toEqual(first!.body);
    expect(await countsOf(name, ({ delivered }) => delivered === EVENTS)).toMatchObject({
      ...{ owed: EVENTS, pending: 0, balance: 0 },
    });
    expect(await countsOf('crm', () => true)).toMatchObject({ owed: EVENTS, balance: 0 });
    const trace = (await ask('GET', 'events/m7')).answer as Trace;
    const [call] = trace.data as Extract<Trace['data'][number], { verdict: 'accepted' }>[];
    expect(call!.deliveries).toMatchObject([
      { destination: 'crm', state: 'delivered' },
      { destination: name, state: 'delivered', attempts: [{ status: 200 }] },
    ]);
  });

  it('goes on after a kill in the middle of it, and leaves no event out', async () => {
    const { id } = (await create({ rate: 300 })).answer as Shown;
    await lake.count(60);
    await program.kill();
    const before = lake.arrivals.length;
    expect(before).toBeLessThan(EVENTS);
    program = await start();
    const shown = await showWhen(id, ({ state, pending }) => state === 'done' && pending === 0);
    expect(shown).toMatchObject({ count: EVENTS, replayed: EVENTS });
    expect(messageIds(lake.arrivals)).toEqual(ALL);
    expect(replayIds(lake.arrivals)).toEqual(new Set([id]));
    // Each event is owed once; only requests under way at the kill are sent twice.
    const counts = await countsOf(name, ({ pending }) => pending === 0);
    expect(counts).toMatchObject({ owed: EVENTS, delivered: EVENTS, balance: 0 });
  });

  it('is started, followed, listed and cancelled on the command line, as its page says', async () => {
    const [dryRun, whole, list, status, cancel] = documented();
    expect(await run(...dryRun!)).toMatchObject({
      ...{ code: 0, out: expect.stringMatching(/^400 events, [\d.]+ KB, 1 s to lake\d\.$/m) },
    });
    const done = await run(...whole!);
    const [, id] = /^(\S+) {2}done: 400 events to lake/.exec(done.out)!;
    expect(done).toMatchObject({ code: 0, err: expect.stringContaining(`replay ${id}: 400 events`) });
    expect((await run(...status!, id!)).out).toMatch(/done: 400 events to lake\d/);
    const range = ['replay', name, '--from', FROM, '--to', TO];
    const [, slow] = /^(\S+) {2}500 events/.exec((await run(...range, '--rate', '5', '--detach')).out)!;
    expect((await run(...status!, slow!)).out).toMatch(/running: \d+ of 500 events to lake\d/);
    expect(await run(...cancel!, slow!, '--json')).toMatchObject({
      ...{ code: 0, out: expect.stringContaining('"state":"cancelled"') },
    });
    const [first, second] = (await run(...list!)).out.split('\n').map((line) => line.split(':')[0]);
    expect([first, second]).toEqual([`${slow}  cancelled`, `${id}  done`]);
    expect(replayIds(lake.arrivals)).toContain(id);
    expect((await run('replay', name)).err).toMatch(/--from/);
    expect(await run(...range, '--source', 'nobody')).toMatchObject({
      ...{ code: 1, err: expect.stringMatching(/"nobody" is no source/) },
    });
  });

  /**
   * The commands of docs/reference/replay.md with this test's names and times in place of the page's, without
   * its ids.
   */
  function documented(): string[][] {
    const block = blocksOf('docs/reference/replay.md').find(({ language }) => language === 'sh')!;
    const here = (line: string) =>
      line
        .replace(/^npx millrace /, '')
        .replace(/--from \S+ --to \S+/, `--from ${FROM} --to ${TO}`)
        .replace(' lake ', ` ${name} `)
        .replace(/ [\da-f-]{36}$/, '');
    return block.text
      .trim()
      .split('\n')
      .map((line) => here(line).split(' '));
  }

  it('takes only what it is asked for, waits for a paused destination, and ends when it is cancelled', async () => {
    const pages = await create({ types: ['page'], source: 'website', dryRun: true });
    expect(pages.answer).toMatchObject({ count: EVENTS / 5 });
    const { id } = (await create({ rate: 20 })).answer as Shown;
    await lake.count(1);
    expect((await run('pause', name)).code).toBe(0);
    expect(await showWhen(id, (one) => 'waiting' in one)).toMatchObject({ waiting: 'destination_paused' });
    expect((await ask('DELETE', `replays/${id}`)).status).toBe(204);
    const cancelled = await show(id);
    expect(cancelled).toMatchObject({ state: 'cancelled' });
    expect(cancelled.replayed).toBeLessThan(EVENTS);
    expect((await run('resume', name)).code).toBe(0);
    await showWhen(id, ({ pending }) => pending === 0);
    expect((await show(id)).replayed).toBe(cancelled.replayed);
    expect(await countsOf(name, () => true)).toMatchObject({ owed: cancelled.replayed, balance: 0 });
    const trail = (await ask('GET', `audit?kind=replay&name=${id}`)).answer as { data: object[] };
    expect(trail.data).toMatchObject([
      { by: 'admin', action: 'changed', before: { state: 'running' }, after: { state: 'cancelled' } },
      { by: 'admin', action: 'created', after: { destination: name, rate: 20 } },
    ]);
  });
});

type Counts = Overview['destinations'][string];
