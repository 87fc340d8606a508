import { createHmac } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { ReceivedResponse } from '../control-api/document.ts';
import { ADMIN, bearer, type RequestPlan, World } from '../control-api/world.ts';

/** The records of a real server, written over its control API. spec/contract.md, "Control API". */
let world: World;

beforeAll(async () => {
  world = await World.start();
});

afterAll(() => world.stop());

function ask(
  method: string,
  path: string,
  { headers, ...plan }: RequestPlan = {},
): Promise<ReceivedResponse> {
  return world.send(
    { method, path: `/api/v1/${path}` },
    { ...plan, headers: { ...bearer(ADMIN), ...headers } },
  );
}

const json = ({ body }: ReceivedResponse) => JSON.parse(body);
const codeOf = (got: ReceivedResponse): [number, string] => [got.status, json(got).code];

describe('two editors at once', () => {
  test('the second is told what the first has changed, who that was, and changes nothing', async () => {
    const path = `destinations/${await world.destination()}`;
    const etag = (await ask('GET', path)).headers.etag ?? '';
    const first = { settings: { format: 'canonical', sharedSecret: 'another' }, sources: ['website'] };
    const changed = await ask('PATCH', path, { body: first, headers: { 'if-match': etag } });
    expect(changed.status).toBe(200);
    for (const [method, body] of [
      ['PATCH', { enabled: false }],
      ['DELETE', undefined],
    ] as const) {
      const refused = await ask(method, path, { body, headers: { 'if-match': etag } });
      expect(codeOf(refused)).toEqual([412, 'changed_meanwhile']);
      expect(
        json(refused)
          .errors.map((one: { path: string }) => one.path)
          .sort(),
      ).toEqual(['settings.format', 'settings.sharedSecret', 'sources[0]']);
      expect(json(refused).errors[0].message).toMatch(/^was changed by admin at \d{4}-/);
    }
    expect(json(await ask('GET', path)).enabled).toBe(true);
    const now = changed.headers.etag ?? '';
    for (const weak of [`W/${now}`, `"other", W/${now}`]) {
      const refused = await ask('PATCH', path, { body: { enabled: false }, headers: { 'if-match': weak } });
      expect(refused.status).toBe(412);
    }
    for (const matching of ['*', now, `"other" , ${now}`]) {
      const headers = { 'if-match': matching };
      expect((await ask('PATCH', path, { body: {}, headers })).status).toBe(200);
    }
  });

  test('a secret that looks like the one before has another tag all the same', async () => {
    const path = `destinations/${await world.destination()}`;
    const tags = new Set<string | undefined>();
    for (const sharedSecret of ['one', 'two']) {
      const { headers } = await ask('PATCH', path, { body: { settings: { sharedSecret } } });
      tags.add(headers.etag);
    }
    expect(tags.size).toBe(2);
  });

  test('changes at the same time are all made, one after the other', async () => {
    const path = `sources/${await world.source()}`;
    const keys = Array.from({ length: 10 }, (_, n) => ({ rateLimit: n + 1 }));
    const all = [...keys, { mode: 'strict' }, { whenDisabled: 'discard' }];
    const got = await Promise.all(all.map((body) => ask('PATCH', path, { body })));
    expect(got.map(({ status }) => status)).toEqual(all.map(() => 200));
    expect(json(await ask('GET', path))).toMatchObject({ mode: 'strict', whenDisabled: 'discard' });
    const name = path.replace('sources/', '');
    const { data } = json(await ask('GET', 'audit', { query: { kind: 'source', name } }));
    expect(data.map(({ action }: { action: string }) => action)).toEqual([
      ...all.map(() => 'changed'),
      'created',
    ]);
  });

  test('of two records of one name, or sources with one write key, at the same time one is made', async () => {
    const twice = async (bodies: readonly object[]) => {
      const got = await Promise.all(bodies.map((body) => ask('POST', 'sources', { body })));
      return got.map((one) => (one.status === 201 ? 201 : codeOf(one)[1])).sort();
    };
    const name = world.fresh('source');
    expect(await twice([{ name }, { name }])).toEqual([201, 'name_taken']);
    const writeKeys = [world.fresh('wk')];
    const both = [world.fresh('source'), world.fresh('source')].map((name) => ({ name, writeKeys }));
    expect(await twice(both)).toEqual([201, 'invalid_parameters']);
    const doubled = await ask('PATCH', `sources/${name}`, { body: { writeKeys: ['wk_strict'] } });
    expect(json(doubled).errors).toEqual([
      {
        path: 'body.writeKeys[0]',
        message: 'is also a write key of the source "strict"',
      },
    ]);
    expect(doubled.body).not.toContain('wk_strict');
  });
});

describe('names', () => {
  const ODD = ['a b', 'ü/ö', 'x?y#z', '100%', '%41', '\'"<>', '🔑', '...', 'a+b&c=d', 'ü'.repeat(100)];

  test('of any characters can be made, listed page by page, read, changed and removed', async () => {
    for (const name of ODD)
      expect([name, (await ask('POST', 'sources', { body: { name } })).status]).toEqual([name, 201]);
    const listed: string[] = [];
    let cursor: string | undefined;
    do {
      const query = { limit: '3', ...(cursor === undefined ? {} : { cursor }) };
      // The cursor goes in as it is: it needs no escaping.
      expect(encodeURIComponent(cursor ?? '')).toBe(cursor ?? '');
      const { data, next } = json(await ask('GET', 'sources', { query }));
      listed.push(...data.map(({ name }: { name: string }) => name));
      cursor = next ?? undefined;
    } while (cursor !== undefined);
    expect(listed).toEqual([...new Set(listed)]);
    expect(listed).toEqual(expect.arrayContaining(ODD));
    for (const name of ODD) {
      const at = (method: string, body?: object) =>
        world.send(
          { method, path: '/api/v1/sources/{name}' },
          { names: { name }, body, headers: bearer(ADMIN) },
        );
      expect(json(await at('GET')).name).toBe(name);
      expect(json(await at('PATCH', { mode: 'strict' })).mode).toBe('strict');
      expect((await at('DELETE')).status).toBe(204);
      expect(codeOf(await at('GET'))).toEqual([404, 'unknown_name']);
    }
  });

  test.each(['.', '..', '\ud800', '', ' a', 'x'.repeat(101)])('%j is refused', async (name) => {
    const got = await ask('POST', 'sources', { body: JSON.stringify({ name }) });
    expect([...codeOf(got), json(got).errors[0].path]).toEqual([422, 'invalid_parameters', 'body.name']);
  });

  test('stay what they are', async () => {
    const got = await ask('PATCH', 'sources/website', { body: { name: 'other' } });
    expect([got.status, json(got).errors[0].path]).toEqual([422, 'body.name']);
  });
});

describe('secrets', () => {
  test('stay what they are when a record is sent back as it was read, and are read nowhere', async () => {
    const name = world.fresh('destination');
    const headers = { Authorization: 'Bearer 0123456789abcdef', 'X-Team': 'growth' };
    const settings = { endpoints: [{ url: world.receiver.url, headers }], sharedSecret: 'a-long-secret' };
    const made = await ask('POST', 'destinations', {
      body: { name, type: 'webhooks', sources: [], settings },
    });
    const shown = json(made);
    expect(shown.settings).toMatchObject({
      endpoints: [{ headers: { Authorization: { set: true, hint: 'cdef' }, 'X-Team': 'growth' } }],
      sharedSecret: { set: true, hint: 'cret' },
    });
    expect((await ask('PATCH', `destinations/${name}`, { body: shown })).status).toBe(200);
    const config = json(await ask('GET', 'config'));
    const applied = json(await ask('PUT', 'config', { body: config }));
    expect(applied).toMatchObject({ applied: true, changes: [], kept: [] });

    const before = world.receiver.arrivals.length;
    const trial = await ask('POST', `destinations/${name}/test`, { body: { type: 'track' } });
    await world.receiver.count(before + 1);
    const { headers: got, body } = world.receiver.arrivals.at(-1)!;
    expect(got['authorization']).toBe(headers.Authorization);
    expect(got['x-signature']).toBe(createHmac('sha1', 'a-long-secret').update(body).digest('hex'));
    const audit = await ask('GET', 'audit');
    for (const answer of [made, trial, audit, await ask('GET', 'config')])
      expect(answer.body).not.toMatch(/0123456789abcdef|a-long-secret/);
  });

  test('are sent neither to another host nor to another path because a URL was changed', async () => {
    const name = world.fresh('destination');
    const endpoint = { url: `${world.receiver.url}/a`, headers: { 'X-Api-Key': '0123456789abcdef' } };
    const settings = { endpoints: [endpoint] };
    await ask('POST', 'destinations', { body: { name, type: 'webhooks', sources: [], settings } });
    const patched = (url: string) =>
      ask('PATCH', `destinations/${name}`, {
        body: { settings: { endpoints: [{ url, headers: { 'X-Api-Key': { set: true } } }] } },
      });
    expect((await patched(`${world.receiver.url}/a?x=1`)).status).toBe(200);
    for (const url of ['https://elsewhere.example/a', `${world.receiver.url}/b`]) {
      const elsewhere = await patched(url);
      expect([elsewhere.status, json(elsewhere).errors]).toEqual([
        422,
        [
          {
            path: 'body.settings.endpoints[0].headers.X-Api-Key',
            message: expect.stringMatching(
              /^must be typed again: .* neither to another host nor to another path/,
            ),
          },
        ],
      ]);
    }
  });
});

describe('tokens', () => {
  test('allow what their role does, until they are revoked, and that is at once', async () => {
    const made = async (role: string) => {
      const name = world.fresh('token');
      const got = await ask('POST', 'tokens', { body: { name, role } });
      expect(got.headers['cache-control']).toBe('no-store');
      return { name, token: json(got).token as string };
    };
    const statuses = (token: string) =>
      Promise.all(
        [
          ask('GET', 'sources', { headers: bearer(token) }),
          ask('PATCH', 'sources/website', { body: {}, headers: bearer(token) }),
          ask('GET', 'tokens', { headers: bearer(token) }),
        ].map(async (one) => (await one).status),
      );
    const viewer = await made('viewer');
    const editor = await made('editor');
    const admin = await made('admin');
    expect(await statuses(viewer.token)).toEqual([200, 403, 403]);
    expect(await statuses(editor.token)).toEqual([200, 200, 403]);
    expect(await statuses(admin.token)).toEqual([200, 200, 200]);
    for (const { name, token } of [viewer, editor, admin]) {
      expect((await ask('DELETE', `tokens/${name}`)).status).toBe(204);
      expect(await statuses(token)).toEqual([401, 401, 401]);
    }
    const again = await ask('POST', 'tokens', { body: { name: viewer.name, role: 'editor' } });
    expect(json(again)).toMatchObject({ name: viewer.name, role: 'editor' });
    expect(await statuses(viewer.token)).toEqual([401, 401, 401]);
    expect(await statuses(json(again).token)).toEqual([200, 200, 403]);
  });

  test('of the role metrics read the page for Prometheus, and nothing else', async () => {
    const name = world.fresh('token');
    const headers = bearer(json(await ask('POST', 'tokens', { body: { name, role: 'metrics' } })).token);
    const page = await world.send({ method: 'GET', path: '/metrics' }, { headers });
    expect([page.status, page.body]).toEqual([200, expect.stringContaining('millrace_')]);
    for (const path of ['status', 'sources', 'ledger', 'session'])
      expect([path, ...codeOf(await ask('GET', path, { headers }))]).toEqual([path, 403, 'role_too_low']);
  });

  test('may have an end, which lies ahead and is shown', async () => {
    const wish = { name: world.fresh('token'), role: 'viewer' };
    const past = await ask('POST', 'tokens', { body: { ...wish, expiresAt: '2020-01-01T00:00:00Z' } });
    expect([past.status, json(past).errors[0].path]).toEqual([422, 'body.expiresAt']);
    const expiresAt = new Date(Date.now() + 3_600_000).toISOString();
    expect(json(await ask('POST', 'tokens', { body: { ...wish, expiresAt } }))).toMatchObject({ expiresAt });
    const { data } = json(await ask('GET', 'tokens', { query: { limit: '500' } }));
    expect(data.find(({ name }: { name: string }) => name === wish.name)).toMatchObject({ expiresAt });
    const [{ after }] = json(await ask('GET', 'audit', { query: { limit: '1' } })).data;
    expect(after).toMatchObject({ name: wish.name, expiresAt });
  });

  test('are shown once, and neither they nor their digests are in the audit trail', async () => {
    const name = world.fresh('token');
    const { token } = json(await ask('POST', 'tokens', { body: { name, role: 'editor' } }));
    await ask('PATCH', 'sources/strict', { body: { rateLimit: 7 }, headers: bearer(token) });
    const { data } = json(await ask('GET', 'audit', { query: { limit: '2' } }));
    expect(data).toMatchObject([
      { by: name, action: 'changed', kind: 'source', name: 'strict', after: { rateLimit: 7 } },
      {
        by: 'admin',
        action: 'created',
        kind: 'token',
        name,
        after: { role: 'editor', hint: token.slice(-4) },
      },
    ]);
    expect(Object.keys(data[1].after).sort()).toEqual(['createdAt', 'hint', 'name', 'role']);
    expect((await ask('GET', 'tokens')).body).not.toContain(token);
  });

  test.each(['admin', 'Admin', 'file', '..', 'a b', ''])('cannot be called %j', async (name) => {
    const got = await ask('POST', 'tokens', { body: { name, role: 'viewer' } });
    expect([got.status, json(got).errors[0].path]).toEqual([422, 'body.name']);
  });
});

describe('a request with an Idempotency-Key', () => {
  test('is done once, however often and at whatever time it is sent', async () => {
    const headers = { 'idempotency-key': world.fresh('key') };
    const body = { name: world.fresh('source') };
    const got = await Promise.all(Array.from({ length: 5 }, () => ask('POST', 'sources', { body, headers })));
    const later = await ask('POST', 'sources', { body, headers });
    for (const one of [...got, later]) {
      expect([one.status, one.body, one.headers.etag]).toEqual([201, got[0]!.body, got[0]!.headers.etag]);
    }
    expect(codeOf(await ask('POST', 'sources', { body }))).toEqual([409, 'name_taken']);
    const other = await ask('POST', 'sources', { body: { name: world.fresh('source') }, headers });
    expect(codeOf(other)).toEqual([422, 'idempotency_key_reused']);
  });

  test('may be mended with the same key when it was refused', async () => {
    const headers = { 'idempotency-key': world.fresh('key') };
    expect((await ask('POST', 'sources', { body: { name: '' }, headers })).status).toBe(422);
    const mended = await ask('POST', 'sources', { body: { name: world.fresh('source') }, headers });
    expect(mended.status).toBe(201);
  });

  test('never brings back a token, nor what a revoked one of the same name was answered', async () => {
    const headers = { 'idempotency-key': world.fresh('key') };
    const body = { name: world.fresh('token'), role: 'editor' };
    const first = await ask('POST', 'tokens', { body, headers });
    expect(codeOf(await ask('POST', 'tokens', { body, headers }))).toEqual([409, 'name_taken']);
    const source = { name: world.fresh('source') };
    const made = { body: source, headers: { ...headers, ...bearer(json(first).token) } };
    expect((await ask('POST', 'sources', made)).status).toBe(201);
    expect((await ask('DELETE', `tokens/${body.name}`)).status).toBe(204);
    const second = await ask('POST', 'tokens', { body, headers });
    expect(second.status).toBe(201);
    expect(json(second).token).not.toBe(json(first).token);
    const theirs = { ...made, headers: { ...headers, ...bearer(json(second).token) } };
    expect(codeOf(await ask('POST', 'sources', theirs))).toEqual([409, 'name_taken']);
  });

  test('is another one when somebody else sends it, or without a key', async () => {
    const headers = { 'idempotency-key': world.fresh('key') };
    const { token } = json(
      await ask('POST', 'tokens', { body: { name: world.fresh('token'), role: 'editor' } }),
    );
    const body = { name: world.fresh('source') };
    expect((await ask('POST', 'sources', { body, headers })).status).toBe(201);
    const theirs = await ask('POST', 'sources', { body, headers: { ...headers, ...bearer(token) } });
    expect(theirs.status).toBe(409);
    for (const name of [world.fresh('source'), world.fresh('source')]) {
      const got = await ask('POST', 'sources', { body: { name }, headers: { 'idempotency-key': '' } });
      expect(json(got).name).toBe(name);
    }
  });
});
