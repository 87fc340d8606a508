import { describe, expect, it } from 'vitest';
import { send } from '../support/calls.ts';
import { adminTokenOf } from '../support/program.ts';
import { startReceiver } from '../support/receiver.ts';
import { sharedServer } from '../support/shared-server.ts';
import { until } from '../support/until.ts';

const server = sharedServer(() => 'profiles: on\negress: { allow: [127.0.0.0/8] }');

interface Answer {
  readonly there: string;
  readonly here: string;
  readonly equal: number;
  readonly different: number;
  readonly missing: { readonly there: number; readonly here: number };
  readonly waiting: number;
  readonly apart: Readonly<Record<string, number>>;
  readonly differences: readonly {
    readonly event: string;
    readonly field: string;
    readonly count: number;
    readonly examples: readonly {
      readonly messageId: string;
      readonly there: unknown;
      readonly here: unknown;
    }[];
  }[];
  readonly absences: readonly {
    readonly event: string;
    readonly missing: string;
    readonly count: number;
    readonly messageIds: readonly string[];
  }[];
  readonly rules: readonly { readonly name: string; readonly on: boolean }[];
}

let scenes = 0;

/** A source of our own, and a shadow that has what another service got. */
async function scene() {
  const own = `own${++scenes}`;
  const shadow = `shadow${scenes}`;
  await server.add('sources', { name: own, writeKeys: [own], trust: 'server' });
  await server.add('sources', { name: shadow, writeKeys: [shadow], trust: 'server', shadow: true });
  const put = async (source: string, batch: readonly object[]) => {
    for (let at = 0; at < batch.length; at += 500) {
      const { status } = await send(
        server.url,
        '/v1/batch',
        { batch: batch.slice(at, at + 500) },
        { writeKey: source },
      );
      expect(status).toBe(200);
    }
  };
  const compare = async (more = '', without = 'waiting') => {
    const from = new Date(Date.now() - 3_600_000).toISOString();
    const asked = `compare?a=${own}&b=${shadow}&from=${from}&without=${without}${more}`;
    return await server.api.ask<Answer>('GET', asked);
  };
  return { own, shadow, put, compare };
}

const call = (nth: number, part: object = {}) => ({
  type: 'track',
  messageId: `m-${nth}`,
  userId: `u-${nth % 100}`,
  event: `Event ${nth % 7}`,
  properties: { n: nth, price: 10, tags: ['x', 'y'], nested: { a: 1 } },
  context: { ip: '192.0.2.4', library: { name: 'analytics.js', version: '1' } },
  timestamp: '2026-03-01T10:00:00.100Z',
  ...part,
});

describe('the comparison of a source with a shadow', () => {
  it('finds exactly the 37 differences that are planted among 10,000 calls, by event and field', async () => {
    const { own, shadow, put, compare } = await scene();
    const [there, here]: object[][] = [[], []];
    const planted: [event: string, field: string][] = [];
    for (let nth = 0; nth < 10_000; nth++) {
      const [one, other] = [call(nth), call(nth, plantedIn(nth, planted))];
      // Fields that each service has in its own way: no difference.
      there!.push({ ...one, channel: 'client', version: 2, projectId: 'p', _metadata: {}, extra: null });
      if (nth !== 9990) here!.push(other);
      if (nth === 9991) there!.pop();
    }
    // In another order, and so apart that pages of both sides do not meet.
    await put(shadow, there!);
    await put(own, here!.reverse());
    const { answer } = await compare();
    expect(answer).toMatchObject({ there: shadow, here: own, missing: { there: 1, here: 1 }, waiting: 0 });
    expect(answer.equal + answer.different).toBe(9998);
    const found = answer.differences.flatMap(({ event, field, count }) =>
      Array.from({ length: count }, () => `${event} ${field}`),
    );
    expect(found.sort()).toEqual(planted.map(([event, field]) => `${event} ${field}`).sort());
    expect(planted.length + answer.missing.there + answer.missing.here).toBe(37);
    expect(answer.absences).toEqual([
      { event: 'track Event 1', missing: 'here', count: 1, messageIds: ['m-9990'] },
      { event: 'track Event 2', missing: 'there', count: 1, messageIds: ['m-9991'] },
    ]);
  });

  it('shows examples with both values', async () => {
    const { own, shadow, put, compare } = await scene();
    await put(shadow, [call(1)]);
    await put(own, [call(1, { properties: { n: 1, price: '10', tags: ['x', 'y'], nested: { a: 1 } } })]);
    const { answer } = await compare();
    expect(answer.differences).toEqual([
      {
        ...{ event: 'track Event 1', field: 'properties.price', count: 1 },
        examples: [{ messageId: 'm-1', there: 10, here: '10' }],
      },
    ]);
  });

  it('takes a call for missing only when the retries of both are over, unless that rule is off', async () => {
    const { own, put, compare } = await scene();
    await put(own, [call(1)]);
    const { answer } = await compare('', '');
    expect(answer).toMatchObject({ waiting: 1, missing: { there: 0, here: 0 } });
    expect((await compare('', 'waiting')).answer).toMatchObject({
      waiting: 0,
      missing: { there: 1, here: 0 },
    });
  });

  it('recognises a call whose client sent no messageId, and says so where that rule is off', async () => {
    const { own, shadow, put, compare } = await scene();
    await put(shadow, [call(1, { messageId: 'theirs' })]);
    await put(own, [call(1, { messageId: undefined })]);
    expect((await compare()).answer).toMatchObject({ equal: 1, missing: { there: 0, here: 0 } });
    const { answer } = await compare('', 'waiting,messageIds');
    expect(answer).toMatchObject({ equal: 0, missing: { there: 1, here: 1 } });
    expect(answer.rules.filter(({ on }) => !on).map(({ name }) => name)).toEqual(['messageIds', 'waiting']);
  });

  it('counts apart what the other service has of its own audiences', async () => {
    const { shadow, put, compare } = await scene();
    await put(shadow, [
      call(1, { messageId: 'personas_1', context: { personas: { computation_key: 'vip' } } }),
    ]);
    expect((await compare()).answer).toMatchObject({ apart: { computed: 1 }, missing: { here: 0 } });
    expect((await compare('', 'waiting,kinds')).answer).toMatchObject({ missing: { here: 1 } });
  });

  it('matches calls that a source has twice, because its dedupe window was over in between', async () => {
    const { own, shadow, put, compare } = await scene();
    for (const source of [own, shadow]) {
      await server.api.ask('PATCH', `sources/${source}`, { dedupeWindow: '1ms' });
      for (const _ of [1, 2]) {
        await put(source, [call(1)]);
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
    }
    expect((await compare()).answer).toMatchObject({ equal: 2, missing: { there: 0, here: 0 } });
  });

  it('says that a range is too long to be compared at once, where most calls have no partner', async () => {
    const { own, put, compare } = await scene();
    const large = (nth: number) => call(nth, { properties: { text: 'x'.repeat(31_000) } });
    for (let nth = 0; nth < 2250; nth += 15)
      await put(
        own,
        Array.from({ length: 15 }, (_, more) => large(nth + more)),
      );
    const { status, answer } = await compare();
    expect([status, JSON.stringify(answer)]).toEqual([422, expect.stringContaining('must be nearer')]);
  });

  it('ends when nobody waits for it, and lets the next one begin', async () => {
    const { own, shadow, put, compare } = await scene();
    await put(
      own,
      Array.from({ length: 2000 }, (_, nth) => call(nth)),
    );
    const gone = new AbortController();
    const asked = fetch(`${server.url}/api/v1/compare?a=${own}&b=${shadow}&from=2026-01-01T00:00:00Z`, {
      headers: { Authorization: `Bearer ${adminTokenOf(server.place)}` },
      signal: gone.signal,
    });
    gone.abort();
    await expect(asked).rejects.toThrow();
    expect((await compare()).answer).toMatchObject({ missing: { there: 2000 } });
  });

  it('refuses what it cannot see, and a range that ends before it begins', async () => {
    const { own } = await scene();
    const same = await server.api.ask<object>('GET', `compare?a=${own}&b=${own}&from=2026-01-01T00:00:00Z`);
    expect([same.status, JSON.stringify(same.answer)]).toEqual([422, expect.stringContaining('duplicate')]);
    const { compare } = await scene();
    expect((await compare('&to=2020-01-01T00:00:00Z')).status).toBe(422);
    expect((await compare('', 'wait')).status).toBe(422);
    const unknown = await server.api.ask<object>('GET', 'compare?a=nobody&b=else&from=2026-01-01T00:00:00Z');
    expect(unknown.status).toBe(404);
  });
});

/** The part of the nth call that is otherwise here; most have none. */
function plantedIn(nth: number, planted: [string, string][]): object {
  if (nth % 290 !== 3) return {};
  const kinds: [string, object][] = [
    ['properties.price', { properties: { n: nth, tags: ['x', 'y'], nested: { a: 1 } } }],
    ['properties.tags', { properties: { n: nth, price: 10, tags: ['y', 'x'], nested: { a: 1 } } }],
    ['properties.nested.a', { properties: { n: nth, price: 10, tags: ['x', 'y'], nested: { a: 2 } } }],
    ['context.ip', { context: { ip: '10.0.0.1', library: { name: 'analytics.js', version: '1' } } }],
    ['userId', { userId: 'another' }],
  ];
  const [field, part] = kinds[((nth / 290) % 5) | 0]!;
  planted.push([`track Event ${nth % 7}`, field]);
  return part;
}

describe('a shadow', () => {
  it('is stored and found, and neither delivered nor part of a profile', async () => {
    const receiver = await startReceiver();
    try {
      await server.add('sources', { name: 'plain', writeKeys: ['plain'], trust: 'server' });
      await server.add('sources', { name: 'dim', writeKeys: ['dim'], trust: 'server', shadow: true });
      await server.add('destinations', {
        ...{
          name: 'bright',
          type: 'webhooks',
          sources: ['plain'],
          settings: { endpoints: [{ url: receiver.url }] },
        },
      });
      const identify = (userId: string) => ({ userId, traits: { plan: 'pro' }, messageId: `i-${userId}` });
      await send(server.url, '/v1/identify', identify('in-the-dark'), { writeKey: 'dim' });
      await send(server.url, '/v1/identify', identify('in-the-light'), { writeKey: 'plain' });
      await receiver.count(1);
      const profile = (id: string) => server.api.ask<object>('GET', `profiles/${id}`);
      await until('the profile is there', async () => (await profile('in-the-light')).status === 200);
      expect((await profile('in-the-dark')).status).toBe(404);
      const { answer } = await server.api.ask<{ data: object[] }>('GET', 'events?userId=in-the-dark');
      expect(answer.data).toHaveLength(1);
      expect(receiver.arrivals).toHaveLength(1);
    } finally {
      await server.api.ask('DELETE', 'destinations/bright?confirm=true');
      await receiver.stop();
    }
  });

  it('cannot feed a destination, and is one from its beginning', async () => {
    await server.add('sources', { name: 'shade', writeKeys: ['shade'], shadow: true });
    const fed = await server.api.ask<object>('POST', 'destinations', {
      ...{
        name: 'fed',
        type: 'webhooks',
        sources: ['shade'],
        settings: { endpoints: [{ url: 'http://127.0.0.1:9' }] },
      },
    });
    expect([fed.status, JSON.stringify(fed.answer)]).toEqual([
      422,
      expect.stringContaining('never delivered'),
    ]);
    const lit = await server.api.ask<object>('PATCH', 'sources/shade', { shadow: null });
    expect([lit.status, JSON.stringify(lit.answer)]).toEqual([
      422,
      expect.stringContaining('is decided when'),
    ]);
    const { status } = await server.api.ask<object>('PATCH', 'sources/shade', { mode: 'strict' });
    expect(status).toBe(200);
  });
});
