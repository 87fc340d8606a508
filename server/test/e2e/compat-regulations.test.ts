import { readFileSync } from 'node:fs';
import { afterEach, describe, expect, it } from 'vitest';
import { send, track } from '../support/calls.ts';
import { adminTokenOf } from '../support/program.ts';
import { startReceiver, type TestReceiver } from '../support/receiver.ts';
import { sharedServer } from '../support/shared-server.ts';
import { until } from '../support/until.ts';

/** A request in the shape of another API, its answer, and the regulation that it makes. */
interface Case {
  readonly id: string;
  readonly name: string;
  readonly request: { readonly method: string; readonly path: string; readonly body?: object };
  readonly expect: {
    readonly status: number;
    readonly body: object;
    readonly meaning?: {
      readonly type: string;
      readonly subjectIds: readonly string[];
      readonly notifyDestinations?: false;
    };
  };
}

const { cases } = JSON.parse(
  readFileSync(new URL('../../../spec/fixtures/compat/regulations.json', import.meta.url), 'utf8'),
) as { readonly cases: readonly Case[] };

const server = sharedServer(() => 'profiles: on\negress: { allow: [127.0.0.0/8] }');

const ended: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of ended.splice(0).reverse()) await end();
});

interface Answer {
  readonly status: number;
  readonly type: string | null;
  // biome-ignore lint/suspicious/noExplicitAny: the shape is what is tested
  readonly body: any;
}

async function ask(method: string, path: string, body?: object, headers: object = {}): Promise<Answer> {
  const response = await fetch(`${server.url}/compat${path}`, {
    method,
    headers: {
      Authorization: `Bearer ${adminTokenOf(server.place)}`,
      'Content-Type': 'application/vnd.segment.v1+json',
      ...headers,
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  return { status: response.status, type: response.headers.get('content-type'), body: JSON.parse(text) };
}

async function finished(id: string) {
  return until(`the regulation ${id} has ended`, async () => {
    const { body } = await ask('GET', `/regulations/${id}`);
    return body.data.regulation.finishedAt !== undefined && body.data.regulation;
  });
}

/** Whether an answer is as a case says: `<time>`, `<id>` and so on stand for any value of that kind. */
function matches(expected: unknown, found: unknown): unknown {
  if (typeof expected === 'string' && /^<\w+>$/.test(expected))
    return expected === '<number>' ? typeof found === 'number' : typeof found === 'string';
  if (Array.isArray(expected))
    return Array.isArray(found) && expected.every((one, nth) => matches(one, found[nth]));
  if (typeof expected === 'object' && expected !== null)
    return (
      typeof found === 'object' &&
      found !== null &&
      Object.entries(expected).every(([key, one]) => matches(one, (found as Record<string, unknown>)[key]))
    );
  return expected === found;
}

describe('the regulations of other APIs', () => {
  let made: string;

  async function scene(name: string): Promise<TestReceiver> {
    const receiver = await startReceiver();
    ended.push(() => receiver.stop());
    await server.add('sources', { name, writeKeys: [name], trust: 'server' });
    await server.add('destinations', {
      ...{ name, type: 'webhooks', sources: [name], settings: { endpoints: [{ url: receiver.url }] } },
    });
    ended.push(() => server.api.ask('DELETE', `destinations/${name}?confirm=true`));
    return receiver;
  }

  it.each(cases.filter(({ request }) => request.method === 'POST').map((one) => [one.name, one] as const))(
    '%s: answers as that API does, and means what it says',
    async (_, { request, expect: expected }) => {
      const { status, body } = await ask(request.method, request.path, request.body);
      expect([status, matches(expected.body, body), body]).toEqual([expected.status, true, body]);
      const id = body.data?.regulateId ?? body.regulate_id;
      if (expected.meaning === undefined) return expect(id).toBeUndefined();
      const { answer } = await server.api.ask<object>('GET', `regulations/${id}`);
      const { type, subjectIds, notifyDestinations = true } = expected.meaning;
      const silent = notifyDestinations ? {} : { silent: true };
      expect(answer).toMatchObject({ type, subjects: subjectIds.length, ...silent });
      expect('silent' in answer).toBe(!notifyDestinations);
      made = id;
    },
  );

  it('shows what became of it, by source and destination', async () => {
    const receiver = await scene('shown');
    await send(server.url, '/v1/track', track('c1', { userId: 'shown-1' }), { writeKey: 'shown' });
    await receiver.count(1);
    const { body } = await ask('POST', '/regulations', {
      regulationType: 'SUPPRESS_WITH_DELETE',
      subjectType: 'USER_ID',
      subjectIds: ['shown-1'],
    });
    const id = body.data.regulateId;
    await finished(id);
    const [wanted] = cases.filter(({ request }) => request.path === '/regulations/<id>');
    const { status, body: shown } = await ask('GET', `/regulations/${id}`);
    expect([status, matches(wanted!.expect.body, shown), shown]).toEqual([200, true, shown]);
    expect(shown.data.regulation.streamStatus).toMatchObject([
      { id: 'shown', destinationStatus: [{ name: 'shown', id: 'shown', status: 'FINISHED', errString: '' }] },
    ]);
    const older = await ask('GET', `/v1beta/workspaces/shop/regulations/${id}`);
    expect(older.body).toMatchObject({
      ...{ id, overall_status: 'FINISHED', created_at: shown.data.regulation.createdAt },
      stream_status: [
        { id: 'shown', destination_status: [{ err_string: '', finished_at: expect.any(String) }] },
      ],
    });
    const list = await ask('GET', '/regulations?pagination.count=1');
    expect(list.body.data).toMatchObject({
      regulations: [{ id, regulationType: 'SUPPRESS_WITH_DELETE', status: 'FINISHED', subjects: [] }],
      pagination: { current: '', next: expect.any(String) },
    });
    expect(JSON.stringify(list.body)).not.toContain('shown-1');
    const { next } = list.body.data.pagination;
    const second = await ask('GET', `/regulations?pagination.count=1&pagination.cursor=${next}`);
    expect(second.body.data.pagination.current).toBe(next);
    expect(second.body.data.regulations[0].id).not.toBe(id);
  });

  it('erases without telling a destination where the type is internal', async () => {
    const receiver = await scene('inner');
    await send(server.url, '/v1/track', track('c2', { userId: 'inner-1' }), { writeKey: 'inner' });
    await receiver.count(1);
    const { body } = await ask('POST', '/regulations', {
      regulationType: 'DELETE_INTERNAL',
      subjectType: 'USER_ID',
      subjectIds: ['inner-1'],
    });
    const done = await finished(body.data.regulateId);
    expect(done).toMatchObject({
      overallStatus: 'FINISHED',
      regulationType: 'DELETE_INTERNAL',
      streamStatus: [],
    });
    const { answer } = await server.api.ask<{ erased: object }>('GET', `regulations/${body.data.regulateId}`);
    expect(answer.erased).toMatchObject({ events: 1 });
    expect(receiver.arrivals.filter(({ body }) => body.includes('"delete"'))).toEqual([]);
    const { answer: foreseen } = await server.api.ask<{ destinations: string[] }>('POST', 'regulations', {
      ...{ type: 'DELETE_ONLY', subjectIds: ['inner-1'], silent: true, dryRun: true },
    });
    expect(foreseen.destinations).toEqual([]);
  });

  it('takes ids that server sources have joined, and leaves and counts those of client sources', async () => {
    await server.add('sources', { name: 'own', writeKeys: ['own'], trust: 'server' });
    for (const user of ['left-1', 'left-2', 'took-1', 'took-2'])
      await send(server.url, '/v1/track', track(`of-${user}`, { userId: user }), { writeKey: 'own' });
    for (const name of ['left', 'took']) {
      const alias = { previousId: `${name}-2`, userId: `${name}-1`, messageId: `joins-${name}` };
      await send(server.url, '/v1/alias', alias, { writeKey: 'own' });
    }
    const remove = async (userId: string) => {
      await until('the join is known', async () => {
        const { answer } = await server.api.ask<{ found: { formerUserIds: []; leftOut: [] }[] }>(
          'POST',
          'regulations',
          { type: 'DELETE_ONLY', subjectIds: [userId], dryRun: true },
        );
        const [{ formerUserIds, leftOut } = { formerUserIds: [], leftOut: [] }] = answer.found;
        return formerUserIds.length + leftOut.length === 1;
      });
      const { body } = await ask('POST', '/regulations', {
        ...{ regulationType: 'DELETE_ONLY', subjectType: 'USER_ID', subjectIds: [userId] },
      });
      return finished(body.data.regulateId);
    };
    expect(await remove('took-1')).not.toHaveProperty('leftOut');
    await server.api.ask('PATCH', 'sources/own', { trust: 'client' });
    expect(await remove('left-1')).toMatchObject({ leftOut: 1 });
    const { answer } = await server.api.ask<{ data: object[] }>('GET', 'events?userId=left-2');
    expect(answer.data).toHaveLength(1);
    const { answer: gone } = await server.api.ask<{ data: object[] }>('GET', 'events?userId=took-2');
    expect(gone.data).toHaveLength(0);
  });

  it('lists the suppressed whose ids are kept, page by page', async () => {
    const subjectIds = ['kept-1', 'kept-2', 'kept-3'];
    await ask('POST', '/regulations', {
      regulationType: 'SUPPRESS_ONLY',
      subjectType: 'USER_ID',
      subjectIds,
    });
    const [wanted] = cases.filter(({ request }) => request.path.startsWith('/suppressions'));
    const found: string[] = [];
    let cursor = '';
    do {
      const { status, body } = await ask('GET', `${wanted!.request.path}&pagination.cursor=${cursor}`);
      expect(status).toBe(200);
      const { suppressed, pagination } = body.data;
      expect(matches([{ subjectType: 'USER_ID', subjectIds: ['<id>'] }], suppressed)).toBe(true);
      expect(pagination.current).toBe(cursor);
      found.push(...suppressed.flatMap((one: { subjectIds: string[] }) => one.subjectIds));
      cursor = pagination.next ?? '';
    } while (cursor !== '');
    expect(found).toEqual(expect.arrayContaining(subjectIds));
    expect(new Set(found).size).toBe(found.length);
  });

  it('refuses a regulation for one source: it would delete more than was asked for', async () => {
    const body = { regulationType: 'DELETE_ONLY', subjectType: 'USER_ID', subjectIds: ['u-1'] };
    for (const path of ['/regulations/sources/s1', '/regulations/cloudsources/s1']) {
      const { status, body: answer } = await ask('POST', path, body);
      expect([status, answer.errors]).toEqual([
        422,
        [expect.objectContaining({ message: expect.any(String) })],
      ]);
    }
    const narrowed = await ask('POST', '/regulations', { ...body, sourceId: 's1' });
    expect([narrowed.status, narrowed.body.errors[0].message]).toEqual([
      422,
      expect.stringContaining('sourceId'),
    ]);
  });

  it('has the errors of that API, with and without a token', async () => {
    const unknown = await ask('GET', '/regulations/none');
    expect(unknown).toMatchObject({ status: 404, body: { errors: [{ type: 'unknown_name' }] } });
    const nobody = await ask('GET', `/regulations/${made}`, undefined, { Authorization: 'Bearer wrong' });
    expect(nobody).toMatchObject({ status: 401, type: 'application/json', body: { errors: [{}] } });
    const many = await ask('POST', '/regulations', {
      regulationType: 'DELETE_ONLY',
      subjectType: 'USER_ID',
      subjectIds: Array.from({ length: 5001 }, (_, nth) => `u${nth}`),
    });
    expect([many.status, many.body.errors.length > 0]).toEqual([422, true]);
    const page = await ask('GET', '/suppressions?pagination.count=1000');
    expect([page.status, page.body.errors[0].field]).toEqual([422, 'query.pagination.count']);
  });
});
