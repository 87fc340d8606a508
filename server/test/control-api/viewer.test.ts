import { afterAll, beforeAll, expect, test } from 'vitest';
import described from '../../../spec/openapi.json' with { type: 'json' };
import { type DescribedOperation, Document } from './document.ts';
import { grantedBy } from './recipes.ts';
import { bearer, World } from './world.ts';

/**
 * A viewer changes nothing: every operation of the OpenAPI document with a method that changes something is tried with a
 * viewer's token and with a viewer's session, in the form in which an admin may do it.
 */
const CHANGING = new Document(described).operations.filter(
  ({ isControl, method }) => isControl && method !== 'GET',
);

/** These change nothing but the session of the viewer: sign-in and sign-out, and a definition that is only computed. */
const ALLOWED = ['postSession', 'deleteSession', 'postAudiencesPreview', 'postTraitsPreview'];

const isRefused = ({ id }: DescribedOperation) => !ALLOWED.includes(id);

let world: World;
let cookie: string;

beforeAll(async () => {
  world = await World.start();
  cookie = await world.signIn(world.viewer);
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
    const session = { cookie, 'x-millrace-console': '1', 'sec-fetch-site': 'same-origin' };
    for (const headers of [bearer(world.viewer), session]) {
      const { status, body } = await world.send(operation, { ...good, headers });
      expect([status, JSON.parse(body).code]).toEqual([403, 'role_too_low']);
    }
    expect(await records()).toEqual(before);
  },
);

test('a session reads what its token reads, and nothing once it is over', async () => {
  const read = (path: string, from = cookie) =>
    world.send({ method: 'GET', path }, { headers: { cookie: from } });
  expect(JSON.parse((await read('/api/v1/session')).body)).toMatchObject({ role: 'viewer' });
  expect((await read('/api/v1/status')).status).toBe(200);
  expect((await read('/metrics')).status).toBe(200);
  expect((await read('/api/v1/tokens')).status).toBe(403);
  const own = await world.signIn(world.viewer);
  const headers = { cookie: own, 'x-millrace-console': '1' };
  const { status, headers: answered } = await world.send(
    { method: 'DELETE', path: '/api/v1/session' },
    { headers },
  );
  expect([status, answered['set-cookie']]).toEqual([
    204,
    [expect.stringMatching(/^millrace_session=; .*Max-Age=0/)],
  ]);
  expect((await read('/api/v1/status', own)).status).toBe(401);
  expect((await read('/api/v1/status')).status).toBe(200);
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
