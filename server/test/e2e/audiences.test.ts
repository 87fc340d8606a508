import { createHmac } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Json, JsonObject } from '../../src/model/json.ts';
import { send } from '../support/calls.ts';
import {
  adminTokenOf,
  makePlace,
  oneDestination,
  type Place,
  type Program,
  runProgram,
  startServer,
} from '../support/program.ts';
import { type Arrival, startReceiver, type TestReceiver } from '../support/receiver.ts';
import { until } from '../support/until.ts';

/**
 * Sentences in quotation marks are those of spec/specification.md, from "Identities" to "Computation events".
 */

const SECRET = 's3cret-of-the-tests';

const COMPUTATIONS = `
audiences:
  - name: Big Spenders
    definition: event('Order Completed').count() >= 2
    destinations: [crm]
  - name: Active now
    definition: event('Visited').within(4 seconds).count() >= 1
    destinations: [crm]
  # For a machine that sees a visit too late for the other window.
  - name: Active lately
    definition: event('Visited').within(90 seconds).count() >= 1
    destinations: [crm]
  - name: Watchers
    definition: event('Watched').count() >= 2
    includeAnonymous: true
    destinations: [crm]
  - name: Known Watchers
    definition: event('Watched').count() >= 2
    destinations: [crm]
  - name: Activated
    definition: event('Viewed').count() >= 2 and trait('plan') = 'pro' and group('acme')
    destinations: [crm]
  - name: Content
    definition: event('Weighed').count() >= 1 and event('Refunded').count() = 0 and not event('Refunded').sum(property('kg')) < 9
    destinations: [crm]
traits:
  - name: Total spent
    definition: event('Paid').sum(property('total'))
    destinations: [crm]
  - name: Last plan
    definition: event('Chose').last(property('plan'))
    destinations: [crm]
  - name: Kilos
    definition: event('Weighed').where(property('kg') >= 0.1 and trait('tier') = 'gold').sum(property('kg'))
    destinations: [crm]
`;

/** The parts of an audience's identify that these tests look at. */
interface Notice {
  readonly type: string;
  readonly messageId: string;
  readonly userId?: string;
  readonly anonymousId?: string;
  readonly traits: JsonObject;
  readonly context: { readonly personas?: JsonObject };
}

let crm: TestReceiver;
let place: Place;
let program: Program;

beforeAll(async () => {
  crm = await startReceiver();
  place = makePlace(configuration(''));
  program = await startServer(place);
});

afterAll(async () => {
  await program?.kill();
  await crm.stop();
  place?.remove();
});

/** The destination is connected to no source: all that it gets is of audiences and computed traits. */
function configuration(computations: string): string {
  // Only calls of our own programs join two users.
  const yaml = oneDestination([`${crm.url}/in`], SECRET)
    .replace('sources: [website]', 'sources: []')
    .replace('writeKeys: [wk]', 'writeKeys: [wk]\n    trust: server');
  return `${yaml}${computations}`;
}

async function restart(): Promise<void> {
  await program.kill();
  program = await startServer(place);
}

async function call(...calls: JsonObject[]): Promise<void> {
  const response = await send(program.url, '/v1/batch', { batch: calls });
  expect(response.status).toBe(200);
}

const order = (userId: string): JsonObject => ({ type: 'track', userId, event: 'Order Completed' });

function noticeOf({ body }: Arrival): Notice {
  return JSON.parse(body.toString()) as Notice;
}

type Heard = readonly [id: string, key: string, value: Json];

/** Events received for these users: recipient, key and value. A repeated delivery counts once. */
function heard(...ids: readonly string[]): Heard[] {
  const byMessage = new Map<string, Heard>();
  for (const { messageId, userId, anonymousId, traits } of crm.arrivals.map(noticeOf)) {
    const id = userId ?? anonymousId!;
    const [[key, value]] = Object.entries(traits) as [[string, Json]];
    if (ids.includes(id)) byMessage.set(messageId, [id, key, value]);
  }
  return [...byMessage.values()];
}

async function untilHeard(...expected: readonly Heard[]): Promise<void> {
  await crm.until(() => expected.every((one) => heard(one[0]).some((other) => `${other}` === `${one}`)));
}

let markers = 0;

/** Waits until the changes of earlier calls are delivered: a user who came later has been heard of. */
async function settle(): Promise<void> {
  const marker = `marker-${++markers}`;
  await call(order(marker), order(marker));
  await untilHeard([marker, 'big_spenders', true]);
}

describe('a new audience', () => {
  it('"The first sync sends every member. Later syncs send only changes."', async () => {
    await call(order('ann'), order('ann'), order('bob'), order('cleo'), order('cleo'), order('cleo'));
    writeFileSync(place.config, configuration(COMPUTATIONS));
    await restart();
    await untilHeard(['ann', 'big_spenders', true], ['cleo', 'big_spenders', true]);
    await call(order('bob'), order('ann'));
    await untilHeard(['bob', 'big_spenders', true]);
    await settle();
    expect(heard('ann', 'bob', 'cleo').sort()).toEqual([
      ['ann', 'big_spenders', true],
      ['bob', 'big_spenders', true],
      ['cleo', 'big_spenders', true],
    ]);
  });
});

describe('an audience', () => {
  it('"A change is delivered as an identify for the user", signed and with `context.personas`', async () => {
    await call(order('dora'), order('dora'));
    await untilHeard(['dora', 'big_spenders', true]);
    const arrival = crm.arrivals.find((one) => noticeOf(one).userId === 'dora')!;
    const { headers, body } = arrival;
    expect(headers['x-signature']).toBe(createHmac('sha1', SECRET).update(body).digest('hex'));
    expect(JSON.parse(body.toString())).toEqual({
      version: 1,
      type: 'identify',
      userId: 'dora',
      messageId: headers['webhook-id'],
      traits: { big_spenders: true },
      context: {
        personas: {
          computation_class: 'audience',
          computation_id: expect.stringMatching(/^aud_\d+$/),
          computation_key: 'big_spenders',
          sequence: expect.any(Number),
        },
      },
      timestamp: expect.any(String),
    });
  });

  it('is left by itself when its window has passed', async () => {
    await call({ type: 'track', userId: 'eve', event: 'Visited' });
    await untilHeard(['eve', 'active_lately', true]);
    await settle();
    const of = (key: string) => heard('eve').filter((one) => one[1] === key);
    const key = of('active_now').length > 0 ? 'active_now' : 'active_lately';
    await untilHeard(['eve', key, false]);
    expect(of(key).sort()).toEqual([
      ['eve', key, false],
      ['eve', key, true],
    ]);
  });

  it('"A profile that has anonymous ids alone is a member only with `includeAnonymous: true`."', async () => {
    const watched = { type: 'track', anonymousId: 'a1', event: 'Watched' };
    await call(watched, watched);
    await untilHeard(['a1', 'watchers', true]);
    await call({ type: 'identify', anonymousId: 'a1', userId: 'fay', traits: { name: 'Fay' } });
    await untilHeard(['a1', 'watchers', false], ['fay', 'known_watchers', true], ['fay', 'watchers', true]);
    await settle();
    expect(heard('a1', 'fay')).toHaveLength(4);
  });

  it('"The former id hears `false` for each membership that it was told `true`."', async () => {
    await call(order('old'), order('old'));
    await untilHeard(['old', 'big_spenders', true]);
    await call({ type: 'alias', previousId: 'old', userId: 'new' });
    await untilHeard(['old', 'big_spenders', false], ['new', 'big_spenders', true]);
    await settle();
    expect(heard('old', 'new')).toHaveLength(3);
  });

  it('"No change is told twice" although the server is killed again and again', async () => {
    const users = Array.from({ length: 40 }, (_, n) => `u${n}`);
    for (const [nth, userId] of users.entries()) {
      await call(order(userId), order(userId));
      if (nth % 15 === 14) await restart();
    }
    await untilHeard(...users.map((userId): Heard => [userId, 'big_spenders', true]));
    await settle();
    expect(heard(...users)).toHaveLength(users.length);
  });
});

describe('a computed trait', () => {
  it('"Several changes of one user in one audience or trait within a second are one event."', async () => {
    const paid = (total: number): JsonObject => ({
      ...{ type: 'track', userId: 'gus', event: 'Paid', properties: { total } },
    });
    await call(paid(10), paid(20), paid(12.5));
    await untilHeard(['gus', 'total_spent', 42.5]);
    await call(paid(7.5));
    await untilHeard(['gus', 'total_spent', 50]);
    expect(heard('gus')).toHaveLength(2);
  });
});

describe('values of events', () => {
  it('"late events count at their `timestamp`, and where times are equal the `messageId` decides"', async () => {
    const ago = (hours: number) => new Date(Date.now() - hours * 3_600_000).toISOString();
    const [before, then] = [ago(2), ago(1)];
    const chose = (plan: string, more: JsonObject): JsonObject => ({
      ...{ type: 'track', userId: 'lea', event: 'Chose', properties: { plan }, ...more },
    });
    await call(chose('b', { timestamp: then, messageId: 'lea-5' }));
    await untilHeard(['lea', 'last_plan', 'b']);
    await call(chose('late', { timestamp: before, messageId: 'lea-9' }));
    await call(chose('lower', { timestamp: then, messageId: 'lea-1' }));
    await settle();
    await call(chose('higher', { timestamp: then, messageId: 'lea-7' }));
    await untilHeard(['lea', 'last_plan', 'higher']);
    // "An event from the future counts as of its arrival."
    await call(chose('future', { timestamp: ago(-24) }));
    await untilHeard(['lea', 'last_plan', 'future']);
    await call(chose('now', {}));
    await untilHeard(['lea', 'last_plan', 'now']);
    expect(heard('lea')).toHaveLength(4);
  });

  it('"Sums are exact decimals", and "while the latter is false no event counts"', async () => {
    const weighed = (kg: Json): JsonObject => ({
      ...{ type: 'track', userId: 'mia', event: 'Weighed', properties: { kg } },
    });
    await call(weighed(0.1), weighed(0.2), weighed(0.01), weighed('many'));
    // "`count` and `unique_count` of no event are 0; any other value is absent." "Every comparison with a
    // value that is absent is false."
    await untilHeard(['mia', 'content', true]);
    await call({ type: 'identify', userId: 'mia', traits: { tier: 'gold' } });
    await untilHeard(['mia', 'kilos', 0.3]);
    await settle();
    expect(heard('mia')).toHaveLength(2);
  });
});

describe('the specified order of calls', () => {
  it('anonymous actions, alias, identify, actions under the known id: one profile, one member', async () => {
    await call({ type: 'track', anonymousId: 'a7', event: 'Viewed' });
    await call({ type: 'alias', previousId: 'a7', userId: 'hal' });
    await call({ type: 'identify', userId: 'hal', traits: { plan: 'pro' } });
    await call({ type: 'group', userId: 'hal', groupId: 'acme' });
    await call({ type: 'track', userId: 'hal', event: 'Viewed' });
    await untilHeard(['hal', 'activated', true]);
    expect(heard('hal', 'a7')).toEqual([['hal', 'activated', true]]);
  });
});

describe('a changed audience', () => {
  let erp: TestReceiver;

  beforeAll(async () => {
    erp = await startReceiver();
    const settings = { endpoints: [{ url: `${erp.url}/in` }] };
    await ask('POST', 'destinations', { name: 'erp', type: 'webhooks', sources: [], settings });
  });

  afterAll(() => erp.stop());

  async function ask<Answer = never>(method: string, path: string, body?: object): Promise<Answer> {
    const response = await fetch(`${program.url}/api/v1/${path}`, {
      ...{ method, headers: { authorization: `Bearer ${adminTokenOf(place)}` } },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    expect(response.ok).toBe(true);
    const text = await response.text();
    return (text === '' ? undefined : JSON.parse(text)) as Answer;
  }

  it('"A computed trait that becomes absent is `null`." "Disabled and removed audiences and traits send nothing."', async () => {
    const paid = { type: 'track', userId: 'lou', event: 'Tipped', properties: { total: 5 } };
    await call(paid);
    const tips = (event: string) => `event('${event}').sum(property('total'))`;
    await ask('POST', 'traits', { name: 'Tips', definition: tips('Tipped'), destinations: ['crm'] });
    await untilHeard(['lou', 'tips', 5]);
    await ask('PATCH', 'traits/Tips', { definition: tips('Never Done') });
    await untilHeard(['lou', 'tips', null]);
    await ask('PATCH', 'traits/Tips', { enabled: false });
    await ask('PATCH', 'traits/Tips', { definition: tips('Tipped') });
    await settle();
    await ask('DELETE', 'traits/Tips');
    await call(paid);
    await settle();
    expect(heard('lou')).toHaveLength(2);
    // "The events belong to the source `audiences`, which no client can send to."
    expect(await ask('GET', 'sources/audiences')).toMatchObject({ writeKeys: [] });
    const { sources } = await ask<{ sources: Record<string, { accepted: number }> }>('GET', 'ledger');
    expect(sources['audiences']!.accepted).toBeGreaterThan(0);
  });

  const toldTo = (receiver: TestReceiver) =>
    receiver.arrivals
      .map(noticeOf)
      .filter(({ traits }) => 'loyal' in traits)
      .map(({ userId, traits }) => [userId, traits['loyal']]);

  it('"One for which a sync is asked gets every member again.", and no other destination', async () => {
    await ask('POST', 'audiences', {
      ...{ name: 'Asked For', definition: "event('Asked').count() >= 1", destinations: ['crm', 'erp'] },
    });
    await call(
      { type: 'track', userId: 'ada', event: 'Asked' },
      { type: 'track', userId: 'eve', event: 'Asked' },
    );
    const toldOf = (receiver: TestReceiver) =>
      receiver.arrivals
        .map(noticeOf)
        .filter(({ traits }) => 'asked_for' in traits)
        .map(({ userId }) => userId)
        .sort();
    await Promise.all([crm, erp].map((receiver) => receiver.until(() => toldOf(receiver).length === 2)));
    const path = 'audiences/Asked%20For/sync';
    expect(await ask('POST', path, { destination: 'erp', dryRun: true })).toEqual({
      destination: 'erp',
      members: 2,
    });
    const asked = await runProgram({
      args: ['audience', 'sync', 'Asked For', '--destination', 'erp', '--url', program.url],
      env: { MILLRACE_ADMIN_TOKEN: adminTokenOf(place) },
    });
    expect([asked.code, asked.stdout]).toEqual([0, expect.stringContaining('erp is told 2 members again')]);
    await erp.until(() => toldOf(erp).length === 4);
    await settle();
    expect([toldOf(erp), toldOf(crm)]).toEqual([
      ['ada', 'ada', 'eve', 'eve'],
      ['ada', 'eve'],
    ]);
    const refused = async (destination: string) => {
      const response = await fetch(`${program.url}/api/v1/${path}`, {
        ...{ method: 'POST', headers: { authorization: `Bearer ${adminTokenOf(place)}` } },
        body: JSON.stringify({ destination }),
      });
      return [response.status, JSON.stringify(await response.json())];
    };
    expect(await refused('crn')).toEqual([404, expect.stringContaining('crm')]);
    await ask('PATCH', 'destinations/erp', { enabled: false });
    expect(await refused('erp')).toEqual([422, expect.stringContaining('is disabled')]);
    await ask('PATCH', 'destinations/erp', { enabled: true });
    await ask('PATCH', 'audiences/Asked%20For', { destinations: ['crm'] });
    expect(await refused('erp')).toEqual([422, expect.stringContaining('is not connected')]);
    await ask('DELETE', 'audiences/Asked%20For');
  });

  it('a destination "whose filter let these events not through, gets what differs from what it was told"', async () => {
    const condition = "event('Filtered').count() = 1";
    await ask('POST', 'audiences', { name: 'Filtered', definition: condition, destinations: ['crm', 'erp'] });
    const filtered = (userId: string) => ({ type: 'track', userId, event: 'Filtered' });
    const toldOf = (receiver: TestReceiver) =>
      receiver.arrivals
        .map(noticeOf)
        .filter(({ traits }) => 'filtered' in traits)
        .map(({ userId, traits }) => [userId, traits['filtered']]);
    const everybody = (count: number, ...receivers: TestReceiver[]) =>
      Promise.all(receivers.map((one) => one.until(() => toldOf(one).length === count)));
    await call(filtered('leo'), filtered('mia'));
    await everybody(2, crm, erp);
    const { settings } = (await ask('GET', 'destinations/erp')) as { readonly settings: JsonObject };
    const filter = (value: JsonObject) =>
      ask('PATCH', 'destinations/erp', { settings: { ...settings, filter: value } });
    // A name of track calls holds no identify back.
    await filter({ events: ['Other'] });
    await call(filtered('nia'));
    await everybody(3, crm, erp);
    await filter({ types: ['track'] });
    await call(filtered('leo'), filtered('oli'), filtered('pia'));
    await everybody(6, crm);
    await call(filtered('pia'));
    await everybody(7, crm);
    expect(toldOf(erp).length).toBe(3);
    await filter({ types: ['identify', 'track'] });
    await everybody(5, erp);
    await settle();
    expect(toldOf(erp).slice(3).sort()).toEqual([
      ['leo', false],
      ['oli', true],
    ]);
    await ask('PATCH', 'destinations/erp', { settings });
    await ask('DELETE', 'audiences/Filtered');
  });

  it('"One that is added again hears `false` for those it was told who left meanwhile.", also over a restart', async () => {
    const definition = "event('Added').count() = 1";
    await ask('POST', 'audiences', { name: 'Added', definition, destinations: ['crm', 'erp'] });
    const added = (userId: string) => ({ type: 'track', userId, event: 'Added' });
    // What was under way when the server was killed may come twice.
    const toldOf = (receiver: TestReceiver) => {
      const notices = receiver.arrivals.map(noticeOf).filter(({ traits }) => 'added' in traits);
      const byMessage = new Map(notices.map((one) => [one.messageId, one]));
      return [...byMessage.values()].map(({ userId, traits }) => [userId, traits['added']]);
    };
    await call(added('quin'), added('rob'));
    await Promise.all([crm, erp].map((one) => one.until(() => toldOf(one).length === 2)));
    await ask('PATCH', 'audiences/Added', { destinations: ['crm'] });
    await call(added('quin'), added('sue'));
    await crm.until(() => toldOf(crm).length === 4);
    await restart();
    await ask('PATCH', 'audiences/Added', { destinations: ['crm', 'erp'] });
    await erp.until(() => toldOf(erp).length === 5);
    await settle();
    expect(toldOf(erp).slice(2).sort()).toEqual([
      ['quin', false],
      ['rob', true],
      ['sue', true],
    ]);
    expect(toldOf(crm).length).toBe(4);
    await ask('DELETE', 'audiences/Added');
  });

  it('says of each audience by itself how many of its events a destination is still owed', async () => {
    interface Shown {
      readonly sync: readonly { destination: string; pending: number }[];
    }
    await ask('POST', 'destinations/erp/pause');
    const define = (name: string, least: number) =>
      ask('POST', 'audiences', {
        ...{ name, definition: `event('Waited').count() >= ${least}`, destinations: ['erp'] },
      });
    await define('Once Waited', 1);
    await define('Twice Waited', 2);
    const users = Array.from({ length: 30 }, (_, nth) => `wait-${nth}`);
    await call(...users.map((userId) => ({ type: 'track', userId, event: 'Waited' })));
    await call(...users.slice(20).map((userId) => ({ type: 'track', userId, event: 'Waited' })));
    const pending = async (name: string) => (await ask<Shown>('GET', `audiences/${name}`)).sync[0]!.pending;
    await until('all their events wait', async () => {
      await settle();
      return (await pending('Once%20Waited')) >= 30 && (await pending('Twice%20Waited')) >= 10;
    });
    const { data } = await ask<{ data: (Shown & { name: string })[] }>('GET', 'audiences');
    const waiting = data.filter(({ name }) => name.endsWith('Waited')).map(({ sync }) => sync);
    expect(waiting).toEqual([[{ destination: 'erp', pending: 30 }], [{ destination: 'erp', pending: 10 }]]);
    await ask('POST', 'destinations/erp/resume');
    const told = () => erp.arrivals.filter(({ body }) => body.includes('_waited"'));
    await erp.until(() => told().length >= 40);
    await until('none of their events waits', async () => {
      return (await pending('Once%20Waited')) + (await pending('Twice%20Waited')) === 0;
    });
    // They are no replay.
    for (const { headers } of told()) expect(headers).not.toHaveProperty('x-replay-id');
  });

  it('"A changed definition sends those who enter and leave. A new destination … gets every member."', async () => {
    const bought = (userId: string) => ({ type: 'track', userId, event: 'Bought' });
    await call(...['ida', 'ida', 'jim', 'kai', 'kai', 'kai'].map(bought));
    const atLeast = (n: number) => `event('Bought').count() >= ${n}`;
    await until('the preview has both members', async () =>
      expect(await ask('POST', 'audiences/preview', { definition: atLeast(2) })).toMatchObject({
        members: 2,
      }),
    );
    await ask('POST', 'audiences', { name: 'Loyal', definition: atLeast(2), destinations: ['crm'] });
    await crm.until(() => toldTo(crm).length === 2);
    await ask('PATCH', 'audiences/Loyal', { destinations: ['crm', 'erp'] });
    await erp.until(() => toldTo(erp).length === 2);
    await ask('PATCH', 'audiences/Loyal', { definition: atLeast(3) });
    await erp.until(() => toldTo(erp).length === 3);
    await ask('PATCH', 'audiences/Loyal', { enabled: false });
    await call(...['jim', 'jim', 'ida'].map(bought));
    await settle();
    await ask('PATCH', 'audiences/Loyal', { enabled: true });
    await erp.until(() => toldTo(erp).length === 6);
    await crm.until(() => toldTo(crm).length === 6);
    expect(toldTo(erp).slice(0, 3)).toEqual(
      expect.arrayContaining([
        ['ida', true],
        ['kai', true],
        ['ida', false],
      ]),
    );
    expect(toldTo(erp).slice(3).sort()).toEqual([
      ['ida', true],
      ['jim', true],
      ['kai', true],
    ]);
    expect(await ask('GET', 'ledger')).toMatchObject({ balanced: true });
  });
});
