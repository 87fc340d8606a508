import { readFileSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runVerb } from '../../../cli/test/program.ts';
import { quoted } from '../../../clients/e2e/sentences/quoted.ts';
import type { Trace } from '../../src/app.ts';
import type { JsonObject } from '../../src/model/json.ts';
import { send, track } from '../support/calls.ts';
import { ControlApi } from '../support/control-api.ts';
import {
  adminTokenOf,
  logOf,
  makePlace,
  type Place,
  type Program,
  ROOT,
  startServer,
} from '../support/program.ts';
import { startReceiver, type TestReceiver } from '../support/receiver.ts';

type Accepted = Extract<Trace['data'][number], { verdict: 'accepted' }>;

interface Names {
  readonly destinations: Readonly<
    Record<string, { readonly name: string; readonly names: readonly string[] }>
  >;
  readonly cases: readonly {
    readonly id: string;
    readonly integrations: JsonObject;
    readonly expect: Readonly<Record<string, boolean>>;
  }[];
}

function fixture<Of>(name: string): Of {
  return JSON.parse(readFileSync(join(ROOT, `spec/fixtures/routing/${name}.json`), 'utf8')) as Of;
}

const NAMES = fixture<Names>('integrations');

interface Consent {
  readonly cases: readonly {
    readonly id: string;
    readonly categories: Readonly<Record<string, readonly string[]>>;
    readonly destinations: readonly string[];
    readonly context: JsonObject;
    readonly integrations?: JsonObject;
    readonly expect: Readonly<Record<string, string>>;
  }[];
}

const CONSENT = fixture<Consent>('consent');

const yaml = (receiver: TestReceiver) => `
egress: { allow: [127.0.0.0/8] }
sources:
  - { name: website, writeKeys: [wk] }
destinations:
${Object.values(NAMES.destinations)
  .map(({ name, names }) => destination({ name, receiver, settings: { integrationNames: names } }))
  .join('\n')}
  - { name: Webhook, type: webhooks, sources: [], settings: { endpoints: [{ url: "${receiver.url}/other" }] } }
`;

function destination({
  name,
  receiver,
  settings,
}: {
  name: string;
  receiver: TestReceiver;
  settings: object;
}) {
  const all = { endpoints: [{ url: `${receiver.url}/${name}` }], ...settings };
  return `  - { name: ${name}, type: webhooks, sources: [website], settings: ${JSON.stringify(all)} }`;
}

/** A running program that is stopped behind the tests of its group. */
function running(yamlOf: (receiver: TestReceiver) => string, answer?: (response: ServerResponse) => void) {
  let receiver: TestReceiver;
  let place: Place;
  let program: Program;
  const control = new ControlApi(() => ({ url: program.url, token: adminTokenOf(place) }));

  beforeAll(async () => {
    receiver = await startReceiver(answer === undefined ? {} : { answer });
    place = makePlace(yamlOf(receiver));
    program = await startServer(place);
  });

  afterAll(async () => {
    await program.kill();
    await receiver.stop();
    place.remove();
  });

  /** Where an event has gone, once everything that is owed of it has come to an end. */
  async function fate(id: string): Promise<Record<string, string>> {
    const isOver = (state: string) => state !== 'pending' && state !== 'retrying';
    const { data } = await control.until<Trace>(`events/${id}`, ({ data }) => {
      const call = data[0] as Accepted | undefined;
      return call?.deliveries.every(({ state }) => isOver(state)) === true;
    });
    const { deliveries, skipped } = data[0] as Accepted;
    return {
      ...Object.fromEntries(
        deliveries.map(({ destination, state }) => [destination, state === 'delivered' ? 'deliver' : state]),
      ),
      ...Object.fromEntries(skipped.map((one) => [one.destination, one.reason])),
    };
  }

  return {
    control,
    fate,
    url: () => program.url,
    data: () => place.data,
    log: () => logOf(program.out.stderr),
    receiver: () => receiver,
  };
}

describe('the integrations object', () => {
  const { control, fate, url, log, receiver } = running(yaml);

  it('is spoken of where a destination is called as calls call others', async () => {
    const warned = log().filter(({ event }) => event === 'destination.doubtful');
    expect(warned).toMatchObject([
      { level: 'warn', destination: 'bi', setting: 'settings.integrationNames[1]' },
      { level: 'warn', destination: 'Webhook', setting: 'name' },
    ]);
    const plan = (body: object) => control.ask<{ warnings: unknown }>('PUT', 'config?dryRun', body);
    const kept = await plan(await control.read<object>('config'));
    const settings = { endpoints: [{ url: `${receiver().url}/in` }] };
    const called = { type: 'webhooks', sources: [], settings };
    const ofName = {
      path: 'body.destinations[0].name',
      message:
        'is also a name by which calls switch other destinations: in an integrations object it switches this one alone',
    };
    const listed =
      'is the name of another destination, and in an integrations object switches that one alone';
    expect(kept.answer.warnings).toEqual([
      ofName,
      { path: 'body.destinations[2].settings.integrationNames[1]', message: listed },
    ]);
    // A change says what is new, and nothing again.
    const renamed = await control.ask('POST', 'destinations', { ...called, name: 'Extensible Webhook' });
    expect(renamed).toMatchObject({ status: 201, answer: { warnings: [{ ...ofName, path: 'body.name' }] } });
    const patch = { settings: { integrationNames: ['crm', 'Former'] } };
    const patched = await control.ask('PATCH', 'destinations/Extensible%20Webhook', patch);
    expect(patched.answer).toMatchObject({
      warnings: [{ path: 'body.settings.integrationNames[0]', message: listed }],
    });
    const again = await control.ask('PATCH', 'destinations/Webhook', { settings: { rateLimit: 9 } });
    expect(again.answer).not.toHaveProperty('warnings');
    for (const name of ['Webhook', 'Extensible%20Webhook'])
      expect(await control.ask('DELETE', `destinations/${name}`)).toMatchObject({ status: 204 });
    const { answer } = await control.ask('POST', 'destinations', { ...called, name: 'Webhooks' });
    expect(JSON.stringify(answer)).toContain('must not be Webhooks, All or all');
  });

  it('knows destinations by the names they had elsewhere', async () => {
    const batch = NAMES.cases.map(({ id, integrations }) => track(id, { integrations }));
    expect(await send(url(), '/v1/batch', { batch })).toMatchObject({ status: 200 });
    for (const { id, expect: wanted } of NAMES.cases) {
      const told = Object.entries(wanted).map(([name, gets]) => [name, gets ? 'deliver' : 'integrations']);
      expect([id, await fate(id)]).toEqual([id, Object.fromEntries(told)]);
    }
    const arrived = receiver()
      .arrivals.map(({ path, headers }) => `${headers['webhook-id']} ${path}`)
      .sort();
    const wanted = NAMES.cases.flatMap(({ id, expect: gets }) =>
      Object.entries(gets).flatMap(([name, isOn]) => (isOn ? [`${id} /${name}`] : [])),
    );
    expect(arrived).toEqual(wanted.sort());
  });

  it('is asked by a replay as by a call, also where names are those of other destinations', async () => {
    const settings = { endpoints: [{ url: `${receiver().url}/late` }] };
    await control.ask('POST', 'destinations', {
      ...{ name: 'Extensible Webhook', type: 'webhooks', sources: [], settings },
    });
    await control.ask('POST', 'destinations', { name: 'late', type: 'webhooks', sources: [], settings });
    const body = {
      destination: 'late',
      source: 'website',
      from: '2000-01-01T00:00:00Z',
      to: '2100-01-01T00:00:00Z',
      dryRun: true,
    };
    const { answer } = await control.ask<{ count: number }>('POST', 'replays', body);
    // It answers to the other three names; i11 has the name that is a destination's own by now.
    const isOn = ({ id }: (typeof NAMES.cases)[number]) =>
      ['i1', 'i5', 'i8', 'i7', 'i9', 'i11', 'i12', 'i14', 'i15'].includes(id);
    expect(answer.count).toBe(NAMES.cases.filter(isOn).length);
  });
});

const CATEGORIES = CONSENT.cases[0]!.categories;

const consentYaml = (receiver: TestReceiver) => `
egress: { allow: [127.0.0.0/8] }
sources:
  - { name: website, writeKeys: [wk] }
  - { name: strict, writeKeys: [wk_strict], consent: required }
  - { name: free, writeKeys: [wk_free] }
destinations:
${CONSENT.cases[0]!.destinations.map((name) => {
  const asked = Object.entries(CATEGORIES).flatMap(([id, names]) => (names.includes(name) ? [id] : []));
  return destination({ name, receiver, settings: asked.length === 0 ? {} : { consent: asked } });
}).join('\n')}
  - { name: strictly, type: webhooks, sources: [strict], settings: { endpoints: [{ url: "${receiver.url}/s" }], consent: [Ads] } }
`;

describe('consent', () => {
  let status = 200;
  const { control, fate, url, receiver } = running(consentYaml, (response) => {
    response.writeHead(status).end();
  });
  const settingsOf = async (key: string) =>
    (await (await fetch(`${url()}/v1/projects/${key}/settings`)).json()) as { consentSettings?: object };

  it.each(CONSENT.cases)(
    'decides who gets an event: $id',
    async ({ id, categories, context, integrations = {}, expect: wanted }) => {
      const isMapped = Object.keys(categories).length > 0;
      const asking = Object.values(CATEGORIES).flat();
      const patch = (name: string, consent: unknown) =>
        control.ask('PATCH', `destinations/${name}`, { settings: { consent } });
      const before = await control.read<{
        destinations: { name: string; settings: { consent?: string[] } }[];
      }>('config');
      if (!isMapped) for (const name of asking) await patch(name, null);
      await send(url(), '/v1/track', track(id, { context, integrations }));
      expect(await fate(id)).toEqual(wanted);
      if (isMapped) return;
      for (const { name, settings } of before.destinations)
        if (asking.includes(name)) await patch(name, settings.consent);
    },
  );

  it('is counted by destination, and nothing that is withheld was sent', async () => {
    const { destinations } = await control.read<{
      destinations: Record<string, { skipped: Record<string, number> }>;
    }>('ledger');
    for (const name of CONSENT.cases[0]!.destinations) {
      const fates = CONSENT.cases.map(({ expect: wanted }) => wanted[name]);
      const counted = Object.groupBy(
        fates.filter((one) => one !== 'deliver'),
        (one) => one!,
      );
      expect([name, destinations[name]!.skipped]).toEqual([
        name,
        Object.fromEntries(Object.entries(counted).map(([reason, all]) => [reason, all!.length])),
      ]);
      expect(receiver().arrivals.filter(({ path }) => path === `/${name}`)).toHaveLength(
        fates.filter((one) => one === 'deliver').length,
      );
    }
  });

  it('is nothing where a source requires it and a call says nothing, and the call is stored all the same', async () => {
    const sent = async (id: string, context: object) => {
      const answer = await send(url(), '/v1/track', track(id, { context }), { writeKey: 'wk_strict' });
      expect(answer.status).toBe(200);
      return await fate(id);
    };
    expect(await sent('silent', {})).toEqual({ strictly: 'consent' });
    expect(await sent('empty', { consent: {} })).toEqual({ strictly: 'consent' });
    const given = { consent: { categoryPreferences: { Ads: true } } };
    expect(await sent('given', given)).toEqual({ strictly: 'deliver' });
  });

  it('has its categories in the settings of a source that asks for it, and in no other answer', async () => {
    expect((await settingsOf('wk')).consentSettings).toEqual({
      allCategories: ['Ads', 'Stats'],
      hasUnmappedDestinations: true,
    });
    expect((await settingsOf('wk_strict')).consentSettings).toEqual({
      allCategories: ['Ads'],
      hasUnmappedDestinations: false,
    });
    for (const key of ['wk_free', 'unknown', '__proto__'])
      expect(await settingsOf(key)).not.toHaveProperty('consentSettings');
    await control.ask('PATCH', 'destinations/ops', { enabled: false });
    expect((await settingsOf('wk')).consentSettings).toMatchObject({ hasUnmappedDestinations: false });
    await control.ask('PATCH', 'destinations/ops', { enabled: true });
  });

  it('has plans warn of destinations that do not ask for it beside others that do', async () => {
    const config = await control.read<{ destinations: { name: string }[] }>('config');
    const { answer } = await control.ask<{ warnings: object[] }>('PUT', 'config?dryRun', config);
    const place = config.destinations.findIndex(({ name }) => name === 'ops');
    const message =
      'asks for no consent, as others of the source "website" do: it gets events of visitors who have refused, and their browsers keep cookies';
    expect(answer.warnings).toEqual([{ path: `body.destinations[${place}].settings`, message }]);
  });

  it('is asked again by replays and redeliveries, by the categories of then', async () => {
    status = 410;
    const ads = { context: { consent: { categoryPreferences: { Ads: true } } } };
    for (const id of ['r1', 'r2', 'r3']) await send(url(), '/v1/track', track(id, id === 'r3' ? {} : ads));
    for (const id of ['r1', 'r2', 'r3']) expect(await fate(id)).toMatchObject({ adpost: 'dead' });
    await control.ask('PATCH', 'destinations/adpost', { settings: { consent: ['Ads', 'Mail'] } });
    status = 200;
    const redeliver = async (body: object) => {
      const { answer } = await control.ask<object>('POST', 'redeliveries', {
        destination: 'adpost',
        ...body,
      });
      return answer;
    };
    expect(await redeliver({ messageIds: ['r1', 'r3', 'c6'], dryRun: true })).toMatchObject({
      count: 1,
      withheld: 2,
    });
    expect(await redeliver({ messageIds: ['r1', 'c6'] })).toMatchObject({ count: 0, withheld: 2 });
    expect(await redeliver({ dryRun: true })).toMatchObject({ count: 1, estimated: false });
    expect(await redeliver({})).toMatchObject({ count: 1, state: 'done' });
    expect(await fate('r1')).toMatchObject({ adpost: 'dead' });
    expect(await fate('r3')).toMatchObject({ adpost: 'deliver' });
    const replay = {
      destination: 'strictly',
      source: 'strict',
      from: '2000-01-01T00:00:00Z',
      to: '2100-01-01T00:00:00Z',
      dryRun: true,
    };
    expect((await control.ask<object>('POST', 'replays', replay)).answer).toMatchObject({ count: 1 });
  });

  it('withholds no delete notification', async () => {
    const wish = { type: 'DELETE_ONLY', subjectIds: ['u1'], confirm: true };
    expect(await control.ask('POST', 'regulations', wish)).toMatchObject({ status: 201 });
    const isDelete = ({ body }: { readonly body: Buffer }) => body.includes('"type":"delete"');
    await receiver().until(() => receiver().arrivals.filter(isDelete).length >= 5);
    const told = receiver().arrivals.filter(isDelete);
    expect(told.map(({ path }) => path).sort()).toEqual(['/adpost', '/lake', '/mailer', '/ops', '/s']);
  });
});

const usersYaml = (receiver: TestReceiver) => `
egress: { allow: [127.0.0.0/8] }
sources:
  - { name: website, writeKeys: [wk], trust: server }
  - { name: strict, writeKeys: [wk_strict], trust: server, consent: required }
destinations:
  - { name: ads, type: webhooks, sources: [], settings: { endpoints: [{ url: "${receiver.url}/ads" }], consent: [Ads] } }
  - { name: ops, type: webhooks, sources: [], settings: { endpoints: [{ url: "${receiver.url}/ops" }] } }
audiences:
  - { name: Pros, definition: "trait('plan') = 'pro'", destinations: [ads, ops] }
`;

describe('consent of users', () => {
  const { control, url, data, receiver } = running(usersYaml);
  let calls = 0;

  const identify = async (userId: string, plan: string, context: object, writeKey = 'wk') => {
    const call = { userId, traits: { plan }, context, messageId: `call-${++calls}` };
    expect((await send(url(), '/v1/identify', call, { writeKey })).status).toBe(200);
  };
  const preferring = (categoryPreferences: object) => ({ consent: { categoryPreferences } });

  /** Waits until a destination was told these values of a user, in this order, and no other. */
  const told = async (path: string, userId: string, values: readonly boolean[]) => {
    const ofUser = () =>
      receiver()
        .arrivals.filter((one) => one.path === path && one.body.includes(`"${userId}"`))
        .map(({ body }) => (JSON.parse(String(body)) as { traits: { pros: boolean } }).traits.pros);
    await receiver().until(() => ofUser().length >= values.length);
    expect(ofUser()).toEqual(values);
  };

  it('decides who hears of an audience: told when it comes, and taken back also when it has gone', async () => {
    await identify('u1', 'pro', preferring({}));
    await told('/ops', 'u1', [true]);
    const { data: events } = await control.read<Trace>('events?source=audiences');
    expect(events).toMatchObject([{ skipped: [{ destination: 'ads', reason: 'consent' }] }]);
    await identify('u1', 'pro', preferring({ Ads: true }));
    await told('/ads', 'u1', [true]);
    await identify('u1', 'free', preferring({ Ads: false }));
    await told('/ads', 'u1', [true, false]);
    await told('/ops', 'u1', [true, false]);
    const ledger = await control.read<{ destinations: Record<string, { skipped: object }> }>('ledger');
    expect(ledger.destinations['ads']!.skipped).toEqual({ consent: 1 });
  });

  const newest = quoted(
    'A destination that asks for consent hears of users who have consented to it, by the newest `categoryPreferences` (time, then `messageId`) of all events of the profile.',
  );
  it(newest, async () => {
    const late = {
      timestamp: '2026-01-01T00:00:00Z',
      ...track('late', { userId: 'u2', context: preferring({}) }),
    };
    await identify('u2', 'pro', preferring({ Ads: true }));
    await send(url(), '/v1/track', late);
    await told('/ads', 'u2', [true]);
    const ofProfile = async (userId: string) =>
      (await control.read<{ consent?: { categories: string[] } }>(`profiles/${userId}`)).consent?.categories;
    expect(await ofProfile('u2')).toEqual(['Ads']);
    const said = await runVerb(['profile', 'u2', '--url', url(), '--data', data()]);
    expect(said.out).toMatch(/consent +to Ads, at /);
    await identify('u3', 'pro', {}, 'wk_strict');
    await told('/ops', 'u3', [true]);
    await told('/ads', 'u3', []);
    expect(await ofProfile('u3')).toBeUndefined();
  });

  it('is asked again by what a destination asks for then: whoever is allowed by now is told', async () => {
    await control.ask('PATCH', 'destinations/ads', { settings: { consent: null } });
    await told('/ads', 'u3', [true]);
    await told('/ads', 'u2', [true]);
  });
});
