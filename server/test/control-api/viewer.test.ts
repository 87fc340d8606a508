import { afterAll, beforeAll, expect, test } from 'vitest';
import described from '../../../spec/openapi.json' with { type: 'json' };
import { type DescribedOperation, Document } from './document.ts';
import { grantedBy } from './recipes.ts';
import { ADMIN, basic, bearer, World } from './world.ts';

/**
 * A viewer changes nothing: every operation of the OpenAPI document with a method that changes something is
 * tried with a viewer's token and with a viewer's session, in the form in which an admin may do it.
 */
const CHANGING = new Document(described).operations.filter(
  ({ isControl, method }) => isControl && method !== 'GET',
);

/**
 * These change nothing but the session of the viewer: sign-in and sign-out, and a definition that is only
 * computed.
 */
const ALLOWED = ['postSession', 'deleteSession', 'postAudiencesPreview', 'postTraitsPreview'];

const isRefused = ({ id }: DescribedOperation) => !ALLOWED.includes(id);

let world: World;
let session: Awaited<ReturnType<World['signIn']>>;

beforeAll(async () => {
  world = await World.start();
  session = await world.signIn(world.viewer);
});

afterAll(() => world.stop());

/** Everything that a change would show in. */
async function records() {
  const { data: audit } = await world.api<{ data: unknown[] }>('GET', 'audit');
  return { audit, config: await world.api('GET', 'config'), tokens: await world.api('GET', 'tokens') };
}

test('the document has the operations that the list names', () => {
  const ids = CHANGING.map(({ id }) => id);
  expect(ALLOWED.filter((id) => !ids.includes(id))).toEqual([]);
  expect(ids.length).toBeGreaterThan(20);
});

test.each(CHANGING.filter(isRefused).map((operation) => [operation.id, operation] as const))(
  '%s is refused to the token and to the session of a viewer, and changes nothing',
  async (_, operation) => {
    const good = await grantedBy(operation, world);
    const before = await records();
    for (const headers of [bearer(world.viewer), { ...session, 'sec-fetch-site': 'same-origin' }]) {
      const { status, body } = await world.send(operation, { ...good, headers });
      expect([status, JSON.parse(body).code]).toEqual([403, 'role_too_low']);
    }
    expect(await records()).toEqual(before);
  },
);

test('a session reads what its token reads, and nothing once it is over', async () => {
  const read = (path: string, headers = session) => world.send({ method: 'GET', path }, { headers });
  expect(JSON.parse((await read('/api/v1/session')).body)).toMatchObject({ role: 'viewer' });
  expect((await read('/api/v1/status')).status).toBe(200);
  expect((await read('/metrics')).status).toBe(200);
  expect((await read('/api/v1/tokens')).status).toBe(403);
  const own = await world.signIn(world.viewer);
  const { status, headers: answered } = await world.send(
    { method: 'DELETE', path: '/api/v1/session' },
    { headers: own },
  );
  expect([status, answered['set-cookie']]).toEqual([
    204,
    [expect.stringMatching(/^millrace_[0-9a-f]{8}=; .*Max-Age=0/)],
  ]);
  expect((await read('/api/v1/status', own)).status).toBe(401);
  expect((await read('/api/v1/status')).status).toBe(200);
});

test('a cookie alone is of no use to a program on another port of the host, and one of another sign-in neither', async () => {
  const other = await world.signIn(world.viewer);
  const { cookie } = session;
  // Alone it only says whose session it is of.
  const own = await world.send({ method: 'GET', path: '/api/v1/session' }, { headers: { cookie } });
  expect([own.status, JSON.parse(own.body).role]).toEqual([200, 'viewer']);
  expect((await world.send({ method: 'GET', path: '/metrics' }, { headers: { cookie } })).status).toBe(401);
  for (const headers of [
    { cookie },
    { cookie, 'x-millrace-console': '1' },
    { cookie, 'x-millrace-console': other['x-millrace-console'] },
  ])
    for (const [method, path] of [
      ['GET', 'session'],
      ['GET', 'status'],
      ['DELETE', 'session'],
    ] as const) {
      if (path === 'session' && method === 'GET' && !('x-millrace-console' in headers)) continue;
      const { status, body } = await world.send({ method, path: `/api/v1/${path}` }, { headers });
      expect([path, status, JSON.parse(body).code]).toEqual([path, 401, 'session_over']);
    }
  const whole = await world.send({ method: 'GET', path: '/api/v1/session' }, { headers: session });
  expect(whole.status).toBe(200);
});

test('a viewer gets a mask in the place of each write key, in every answer that has them', async () => {
  await world.api('POST', 'sources', { name: 'kiosk', writeKeys: ['wk_of_the_kiosk'] });
  const { token: editor } = await world.api<{ token: string }>('POST', 'tokens', {
    ...{ name: 'an-editor', role: 'editor' },
  });
  const paths = ['sources?limit=500', 'sources/kiosk', 'config', 'audit?kind=source&name=kiosk'];
  for (const path of paths) {
    const read = async (token: string) =>
      (await world.send({ method: 'GET', path: `/api/v1/${path}` }, { headers: bearer(token) })).body;
    const seen = await read(world.viewer);
    expect(seen).toContain('"…iosk"');
    expect(seen).not.toContain('wk_of_the_kiosk');
    expect(await read(editor)).toContain('wk_of_the_kiosk');
  }
});

/** Status and code of an answer to a token. */
async function answered(token: string, [method, path]: readonly [string, string], body?: unknown) {
  const got = await world.send({ method, path: `/api/v1/${path}` }, { headers: bearer(token), body });
  const value = got.body === '' ? {} : JSON.parse(got.body);
  return { status: got.status, code: value.code as string | undefined, value };
}

test('a token of some sources and destinations sees and changes these, and nothing else', async () => {
  const messageId = await world.event();
  const token = await world.tokenOf('editor', { sources: ['website'], destinations: ['crm'] });
  const names = async (list: string) =>
    (await answered(token, ['GET', list])).value.data.map(({ name }: { name: string }) => name);
  expect([await names('sources'), await names('destinations')]).toEqual([['website'], ['crm']]);
  const granted: [string, string, unknown?][] = [
    ['GET', 'sources/website'],
    ['PATCH', 'sources/website', { mode: 'standard' }],
    ['GET', 'destinations/crm'],
    ['PATCH', 'destinations/crm', { sources: ['website'], settings: { format: 'documented' } }],
    ['GET', 'destinations/crm/status'],
    ['GET', 'destinations/crm/failures'],
    ['POST', 'destinations/crm/pause'],
    ['POST', 'destinations/crm/resume'],
    ['GET', 'deliveries?destination=crm'],
    ['GET', 'timeline?destination=crm'],
    ['POST', 'redeliveries', { destination: 'crm', dryRun: true }],
    ['GET', 'session'],
  ];
  for (const [method, path, body] of granted)
    expect([path, (await answered(token, [method, path], body)).status]).toEqual([path, 200]);
  const refused: [string, string, unknown?][] = [
    ['GET', 'sources/strict'],
    ['GET', 'sources/nobody'],
    ['PATCH', 'sources/website', { trust: 'server' }],
    ['DELETE', 'sources/website'],
    ['POST', 'sources', { name: 'another' }],
    ['PATCH', 'destinations/crm', { sources: ['website', 'strict'] }],
    ['PATCH', 'destinations/crm', { sources: null }],
    ['GET', 'destinations/down/status'],
    ['DELETE', 'destinations/crm'],
    ['GET', 'events'],
    ['GET', 'events?source=strict'],
    ['GET', `events/${messageId}`],
    ['GET', 'deliveries'],
    ['POST', 'redeliveries', { destination: 'crm', messageIds: [messageId] }],
    ['GET', 'tail'],
    ['GET', 'status'],
    ['GET', 'config'],
    ['GET', 'audit'],
    ['GET', 'profiles/u1'],
  ];
  for (const [method, path, body] of refused)
    expect([path, (await answered(token, [method, path], body)).code]).toEqual([path, 'outside_token']);
  for (const path of [`events/${messageId}?source=website`, 'events?source=website']) {
    const { data } = (await answered(token, ['GET', path])).value;
    expect(data[0].deliveries.map(({ destination }: { destination: string }) => destination)).toEqual([
      'crm',
    ]);
    expect(data[0].event.messageId).toBe(messageId);
  }
  const metrics = await world.send({ method: 'GET', path: '/metrics' }, { headers: bearer(token) });
  expect(metrics.status).toBe(403);
});

test('a token of records that there are none of is refused, and one of none', async () => {
  const faults = async (wish: object) => {
    const body = { name: world.fresh('token'), role: 'viewer', ...wish };
    const { status, value } = await answered(ADMIN, ['POST', 'tokens'], body);
    return [status, ...(value.errors ?? []).map(({ path }: { path: string }) => path)];
  };
  expect(await faults({ sources: ['website', 'web'], destinations: ['cmr'] })).toEqual([
    ...[422, 'body.sources[1]', 'body.destinations[0]'],
  ]);
  expect(await faults({ sources: [] })).toEqual([422, 'body.sources']);
  expect(await faults({ role: 'admin', sources: ['website'] })).toEqual([422, 'body.role']);
  expect(await faults({ role: 'metrics', destinations: ['crm'] })).toEqual([422, 'body.role']);
  expect(await faults({ role: 'editor', bodies: false })).toEqual([422, 'body.bodies']);
});

test('a viewer without bodies sees which events there are, and nothing of what they hold', async () => {
  const messageId = world.fresh('message');
  const call = {
    ...{ userId: 'u1', event: 'Order Placed', messageId, properties: { total: 'p-secret' } },
    ...{ context: { traits: { a: 'c-secret' } }, traits: { b: 't-secret' }, custom: 'x-secret' },
  };
  const sent = { headers: { authorization: basic('wk') }, body: call };
  expect((await world.send({ method: 'POST', path: '/v1/track' }, sent)).status).toBe(200);
  const token = await world.withoutBodies();
  for (const path of [`events/${messageId}`, `events?messageId=${messageId}`]) {
    const shown = (await answered(token, ['GET', path])).value;
    expect(shown.data[0].event).toEqual({
      ...{ messageId, type: 'track', channel: 'server', userId: 'u1', event: 'Order Placed' },
      ...{ timestamp: expect.any(String), receivedAt: expect.any(String) },
    });
    expect(JSON.stringify(shown)).not.toContain('-secret');
  }
  const all = [
    ...['discards', 'profiles/u1', 'profiles?userId=u1', 'traits/orders/members', 'tail?body=true'],
    `deliveries/${await world.delivery()}/requests`,
  ];
  for (const path of all)
    expect([path, (await answered(token, ['GET', path])).code]).toEqual([path, 'bodies_not_shown']);
  const asked = { definition: "event('Order Placed').where(property('total') = 'p-secret')" };
  const preview = await answered(token, ['POST', 'audiences/preview'], asked);
  expect(preview.code).toBe('role_too_low');
  for (const path of ['status', 'sources', 'ledger', 'audiences', 'deliveries?destination=crm'])
    expect([path, (await answered(token, ['GET', path])).status]).toEqual([path, 200]);
});
