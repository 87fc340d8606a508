import { spawnSync } from 'node:child_process';
import { closeSync, existsSync, openSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runVerb } from '../../../cli/test/program.ts';
import type { DeliverySummary, Overview, Trace } from '../../src/app.ts';
import { send } from '../support/calls.ts';
import {
  adminTokenOf,
  MILLRACE,
  makePlace,
  type Place,
  type Program,
  startServer,
} from '../support/program.ts';
import { freePort, startReceiver, type TestReceiver } from '../support/receiver.ts';
import { until } from '../support/until.ts';

type Accepted = Extract<Trace['data'][number], { verdict: 'accepted' }>;

interface Answer<Entry> {
  readonly data: readonly Entry[];
  readonly next: string | null;
}

/**
 * One destination accepts, one refuses, two are unreachable, and one is so slow that nearly everything waits.
 * Destinations that would go on changing are paused, except one that keeps failing with a single event.
 */
const yaml = (receiver: TestReceiver, down: number) => `
egress: { allow: [127.0.0.0/8] }
sources:
  - { name: website, writeKeys: [wk] }
  - { name: app, writeKeys: [wk_app] }
  - { name: shop, writeKeys: [wk_shop] }
destinations:
  - { name: crm, type: webhooks, sources: [website, app], settings: { endpoints: [{ url: "${receiver.url}/in" }] } }
  - { name: refuses, type: webhooks, sources: [website], settings: { endpoints: [{ url: "${receiver.url}/no" }] } }
  - { name: down, type: webhooks, sources: [app], settings: { endpoints: [{ url: "http://127.0.0.1:${down}/" }] } }
  - { name: broken, type: webhooks, sources: [shop], settings: { endpoints: [{ url: "http://127.0.0.1:${down}/" }] } }
  - { name: slow, type: webhooks, sources: [app], settings: { endpoints: [{ url: "${receiver.url}/in" }], rateLimit: 1 } }
`;

const TYPES = ['track', 'page', 'identify'] as const;

/** The n-th call: of three types, of three users and some without, under two names. */
const call = (n: number) => ({
  type: TYPES[n % 3],
  messageId: `m${n}`,
  ...(n % 4 === 3 ? { anonymousId: 'anon' } : { userId: `u${n % 4}` }),
  ...(n % 3 === 0 ? { event: n % 2 === 0 ? 'Order Placed' : 'Order Refunded' } : {}),
  ...(n % 3 === 1 ? { name: 'Home' } : {}),
});

describe('a search', () => {
  let receiver: TestReceiver;
  let place: Place;
  let program: Program;
  let token: string;
  /** All events, as the events list gives them. */
  let all: readonly Accepted[];

  beforeAll(async () => {
    receiver = await startReceiver({
      answer: (response, { path }) => void response.writeHead(path === '/no' ? 410 : 200).end(),
    });
    place = makePlace(yaml(receiver, await freePort()));
    program = await startServer(place);
    token = adminTokenOf(place);
    await send(
      program.url,
      '/v1/track',
      { messageId: 'm-', event: 'Lost', userId: 'u9' },
      { writeKey: 'wk_shop' },
    );
    for (let n = 0; n < 60; n += 5) {
      const batch = Array.from({ length: 5 }, (_, nth) => call(n + nth));
      const writeKey = n % 2 === 0 ? 'wk' : 'wk_app';
      await send(program.url, '/v1/batch', { batch }, { writeKey });
    }
    await statusWhen(({ lanes }) => ['down', 'broken'].every((name) => lanes[name]!.retrying > 0));
    for (const name of ['slow', 'down'])
      await ask(`destinations/${name}/pause`, { method: 'POST', body: '{}' });
    await statusWhen(
      ({ lanes, destinations }) =>
        ['slow', 'down'].every((name) => lanes[name]!.held === 0) &&
        ['crm', 'refuses'].every((name) => destinations[name]!.pending === 0),
    );
    all = await everything<Accepted>('events', {});
  });

  afterAll(async () => {
    await program.kill();
    await receiver.stop();
    place.remove();
  });

  function ask(path: string, init: RequestInit = {}): Promise<Response> {
    const headers = { authorization: `Bearer ${token}` };
    return fetch(`${program.url}/api/v1/${path}`, { ...init, headers });
  }

  async function statusWhen(isReached: (overview: Overview) => boolean): Promise<void> {
    await until('the status is as wanted', async () =>
      isReached((await (await ask('status')).json()) as Overview),
    );
  }

  async function page<Entry>(list: string, query: Record<string, string>): Promise<Answer<Entry>> {
    const response = await ask(`${list}?${new URLSearchParams(query)}`);
    expect(response.status).toBe(200);
    return (await response.json()) as Answer<Entry>;
  }

  /** Reads all pages, and calls `meanwhile` between them. */
  async function everything<Entry>(
    list: string,
    query: Record<string, string>,
    { limit = 7, meanwhile }: { limit?: number; meanwhile?: () => Promise<unknown> } = {},
  ): Promise<Entry[]> {
    const entries: Entry[] = [];
    let cursor: string | null = null;
    do {
      const more: Record<string, string> = cursor === null ? {} : { cursor };
      const found: Answer<Entry> = await page(list, { ...query, limit: String(limit), ...more });
      expect(found.data.length).toBeLessThanOrEqual(limit);
      entries.push(...found.data);
      cursor = found.next;
      await meanwhile?.();
    } while (cursor !== null);
    return entries;
  }

  const run = (...args: string[]) => runVerb([...args, '--url', program.url, '--data', place.data]);

  it('by a messageId finds its event, and none where another condition does not hold', async () => {
    const idsOf = async (query: Record<string, string>) =>
      (await page<Accepted>('events', query)).data.map(({ event }) => event.messageId);
    expect(await idsOf({ messageId: 'm7' })).toEqual(['m7']);
    expect(await idsOf({ messageId: 'm7', userId: 'nobody' })).toEqual([]);
  });

  it('through all events gives each once, the newest first, with its whole life', async () => {
    const expected = Array.from({ length: 60 }, (_, n) => `m${59 - n}`);
    expect(all.map(({ event }) => event.messageId)).toEqual([...expected, 'm-']);
    for (const found of all.slice(0, 3)) {
      const { data } = (await (await ask(`events/${found.event.messageId}`)).json()) as Trace;
      expect(data.map(({ receivedAt }) => receivedAt)).toEqual([found.receivedAt]);
      expect(found.deliveries.map(({ id }) => id)).toEqual(
        (data[0] as Accepted).deliveries.map(({ id }) => id),
      );
    }
  });

  it('for events finds those that are like every filter, and no other', async () => {
    const [middle, late] = [all[30]!.receivedAt, all[10]!.receivedAt];
    const filters: [Record<string, string>, (one: Accepted) => boolean][] = [
      [{ source: 'app' }, ({ source }) => source === 'app'],
      [{ type: 'page' }, ({ event }) => event.type === 'page'],
      [{ userId: 'u1' }, ({ event }) => event.userId === 'u1'],
      [{ anonymousId: 'anon' }, ({ event }) => event.anonymousId === 'anon'],
      [{ anonymousId: 'ano' }, () => false],
      [{ event: 'Order Placed' }, ({ event }) => event.event === 'Order Placed'],
      [{ event: 'Order*' }, ({ event }) => event.event?.startsWith('Order') ?? false],
      [{ event: 'Home' }, ({ event }) => event.name === 'Home'],
      [{ from: middle }, ({ receivedAt }) => receivedAt >= middle],
      [{ to: middle }, ({ receivedAt }) => receivedAt < middle],
      [
        { source: 'website', type: 'track', userId: 'u0', from: middle, to: late },
        ({ source, event, receivedAt }) =>
          source === 'website' &&
          event.type === 'track' &&
          event.userId === 'u0' &&
          receivedAt >= middle &&
          receivedAt < late,
      ],
      [{ userId: 'nobody' }, () => false],
    ];
    for (const [query, isLike] of filters) {
      const found = await everything<Accepted>('events', query);
      const ids = found.map(({ event }) => event.messageId);
      expect(ids, JSON.stringify(query)).toEqual(all.filter(isLike).map(({ event }) => event.messageId));
    }
  });

  it('for deliveries finds those that are like every filter, in each state', async () => {
    const of = (isLike: (one: Accepted['deliveries'][number], event: Accepted) => boolean) =>
      all.flatMap((event) => event.deliveries.filter((one) => isLike(one, event)).map(({ id }) => id));
    const found = async (query: Record<string, string>) =>
      (await everything<DeliverySummary>('deliveries', query)).map(({ id }) => id);
    expect(await found({})).toEqual(of(() => true));
    // With this limit the page ends between the deliveries of one event.
    expect((await everything<DeliverySummary>('deliveries', {}, { limit: 1 })).length).toBe(
      of(() => true).length,
    );
    expect(await found({ anonymousId: 'anon' })).toEqual(of((_, { event }) => event.anonymousId === 'anon'));
    for (const state of ['pending', 'retrying', 'delivered', 'dead'] as const) {
      const ofOne = of((one, { event }) => one.state === state && event.anonymousId === 'anon');
      expect(new Set(await found({ state, anonymousId: 'anon' })), state).toEqual(new Set(ofOne));
      expect(await found({ state, anonymousId: 'nobody' }), state).toEqual([]);
      const expected = of((one) => one.state === state);
      expect(expected.length, state).toBeGreaterThan(0);
      expect(new Set(await found({ state })), state).toEqual(new Set(expected));
      const ofUser = of((one, { event }) => one.state === state && event.userId === 'u0');
      expect(new Set(await found({ state, userId: 'u0' })), state).toEqual(new Set(ofUser));
    }
    expect(await found({ state: 'retrying' })).toEqual(of(({ state }) => state === 'retrying'));
    expect(await found({ destination: 'crm', type: 'page' })).toEqual(
      of((one, { event }) => one.destination === 'crm' && event.type === 'page'),
    );
    expect(await found({ destination: 'slow', state: 'pending', source: 'website' })).toEqual([]);
    expect(await found({ destination: 'down', state: 'retrying', reason: 'connection_refused' })).toEqual(
      of((one) => one.destination === 'down' && one.state === 'retrying'),
    );
    expect(await found({ state: 'dead', reason: 'status_500' })).toEqual([]);
  });

  it('shows a delivery with its event, its state and its requests', async () => {
    const [dead] = await everything<DeliverySummary>('deliveries', { state: 'dead', reason: 'status_410' });
    expect(dead).toMatchObject({
      ...{ destination: 'refuses', state: 'dead', reason: 'status_410', source: 'website' },
      ...{ messageId: expect.any(String), type: expect.any(String), receivedAt: expect.any(String) },
      ...{ diedAt: expect.any(String), attempts: [{ outcome: 'refused', status: 410 }] },
    });
    const [ofTrack] = await everything<DeliverySummary>('deliveries', { type: 'track', userId: 'u0' });
    expect(ofTrack).toMatchObject({ type: 'track', userId: 'u0', event: expect.any(String) });
    expect(ofTrack).not.toHaveProperty('properties');
    const [retrying] = await everything<DeliverySummary>('deliveries', { state: 'retrying' });
    expect(retrying!.attempts.length).toBeGreaterThan(0);
    const [pending] = await everything<DeliverySummary>('deliveries', {
      ...{ destination: 'slow', state: 'pending' },
    });
    expect(pending).toMatchObject({ destination: 'slow', attempts: [], nextAttemptAt: expect.any(String) });
  });

  it('says how far it has looked, and passes what cannot be meant without reading it', async () => {
    const whole = await page<Accepted>('events', { type: 'alias' });
    expect(whole).toMatchObject({ data: [], next: null });
    expect(whole).toHaveProperty(
      'searched',
      expect.toSatisfy((n: number) => n >= all.length),
    );
    expect(whole).not.toHaveProperty('searchedTo');
    const part = await page<Accepted>('events', { limit: '20' });
    expect(part).toMatchObject({ searched: 20, searchedTo: part.data.at(-1)!.receivedAt });
    const dead = await page<DeliverySummary>('deliveries', { state: 'dead', limit: '3' });
    expect(dead).toMatchObject({ searched: 3, searchedTo: dead.data.at(-1)!.diedAt });
  });

  it('refuses what it does not understand, and a cursor that is not its own', async () => {
    const { next } = await page('events', { type: 'track', limit: '2' });
    const wrong: [string, RegExp][] = [
      ['events?type=tracks', /query\.type/],
      ['events?limit=501', /query\.limit/],
      ['events?from=yesterday', /query\.from/],
      ['events?user=u1', /query\.user/],
      ['events?cursor=nonsense', /query\.cursor/],
      [`events?type=page&limit=2&cursor=${next}`, /query\.cursor/],
      [`deliveries?type=track&cursor=${next}`, /query\.cursor/],
      ['deliveries?state=gone', /query\.state/],
      ['deliveries?reason=status_410', /query\.reason/],
    ];
    for (const [path, fault] of wrong) {
      const response = await ask(path);
      expect(response.status, path).toBe(422);
      expect(JSON.stringify(await response.json())).toMatch(fault);
    }
    expect((await ask('events?source=webseite')).status).toBe(404);
    expect((await ask('deliveries?destination=crn')).status).toBe(404);
  });

  it.skipIf(!existsSync('/dev/full')).each(['events --json', 'deliveries --json', 'status --json', 'export'])(
    'whose output cannot be written is a failure: %s',
    (verb) => {
      const full = openSync('/dev/full', 'w');
      const env = { ...process.env, MILLRACE_URL: program.url, MILLRACE_ADMIN_TOKEN: token };
      const { status, stderr } = spawnSync(process.execPath, [MILLRACE, ...verb.split(' ')], {
        ...{ env, encoding: 'utf8', stdio: ['ignore', full, 'pipe'] },
      });
      closeSync(full);
      expect([status, stderr]).toEqual([1, expect.stringMatching(/output could not be written.*ENOSPC/)]);
    },
  );

  it('on the command line prints a table, a line for each as JSON, and ids for redeliver', async () => {
    const { code, out, err } = await run('events', '--user-id', 'u1', '--type', 'page', '--limit', '2');
    expect(code).toBe(0);
    expect(out).toMatch(
      /^received +source +type +event +user +messageId +deliveries\n(20\S+ +(website|app) +page +Home +u1 +m\d+ +crm .*\n){2}$/,
    );
    expect(err).toMatch(/these are 2, and there may be more/);
    const json = await run('events', '--source', 'app', '--limit', '600', '--json');
    expect(
      json.out
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line).event.messageId),
    ).toEqual(all.filter(({ source }) => source === 'app').map(({ event }) => event.messageId));
    expect(await run('events', '--user-id', 'nobody')).toEqual({
      code: 0,
      out: '',
      err: 'millrace: no event like this.\n',
    });
    expect((await run('events', '--type', 'tracks')).code).toBe(2);
    const anonymous = await run(
      'events',
      '--anonymous-id',
      'anon',
      '--since',
      '1h',
      '--limit',
      '600',
      '--json',
    );
    expect(anonymous.out.trim().split('\n')).toHaveLength(
      all.filter(({ event }) => event.anonymousId === 'anon').length,
    );
    const both = await run('deliveries', '--since', '1h', '--from', '2026-03-04T05:06:07Z');
    expect(both).toMatchObject({ code: 2, out: '' });
    expect(both.err).toMatch(/'--since <duration>' cannot be used with option '--from <time>'/);
    expect(await run('events', '--since', 'yesterday')).toMatchObject({ code: 2 });

    const dead = await run('deliveries', '--destination', 'refuses', '--state', 'dead', '--limit', '1');
    expect(dead.out).toMatch(
      /^id +destination +state +reason +attempts .*\n\d+-\d+ +refuses +dead +status_410 +1 /,
    );
    const id = /^\d+-\d+/m.exec(dead.out)![0];
    expect((await run('redeliver', 'refuses', '--id', id, '--dry-run')).out).toMatch(
      /^1 delivery of refuses would/,
    );
    const retrying = await run(
      'deliveries',
      '--state',
      'retrying',
      '--reason',
      'connection_refused',
      '--limit',
      '1',
    );
    expect(retrying.out).toMatch(/down +retrying +connection_refused/);
  });

  it('is not needed to see how a destination stands: how many are retried, how old the oldest is, since when', async () => {
    const status = await (await ask('destinations/broken/status')).json();
    expect(status).toMatchObject({
      ...{ state: 'failing', pending: 1, retrying: 1, failingSince: expect.any(String) },
      ...{ oldestPendingAt: all.at(-1)!.receivedAt, lastError: { reason: 'connection_refused' } },
    });
    expect(await (await ask('destinations/crm/status')).json()).toMatchObject({ pending: 0, retrying: 0 });
    expect((await run('status')).out).toMatch(
      /\nbroken +failing .* failing since \d\d:\d\d \(connection_refused at /,
    );
  });

  it('that takes several pages gives each event once though new ones arrive meanwhile', async () => {
    let n = 0;
    const meanwhile = async () => {
      const batch = [{ type: 'page', userId: 'u0', messageId: `new${n++}` }];
      await send(program.url, '/v1/batch', { batch });
    };
    const found = await everything<Accepted>('events', {}, { meanwhile });
    const ids = found.map(({ event }) => event.messageId).filter((id) => !id.startsWith('new'));
    expect(ids).toEqual(all.map(({ event }) => event.messageId));
    const pending = await everything<DeliverySummary>(
      'deliveries',
      { destination: 'slow', state: 'pending' },
      { meanwhile },
    );
    const expected = all.flatMap(({ deliveries }) =>
      deliveries.filter(({ destination, state }) => destination === 'slow' && state === 'pending'),
    );
    expect(pending.map(({ id }) => id)).toEqual(expected.map(({ id }) => id));
  });
});
