import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { send, track } from '../support/calls.ts';
import { ControlApi } from '../support/control-api.ts';
import { adminTokenOf, makePlace, type Place, type Program, startServer } from '../support/program.ts';
import { startReceiver, type TestReceiver } from '../support/receiver.ts';
import { until } from '../support/until.ts';

/** A server that passes its calls on, and another one of the same protocol that gets them. */
interface Side {
  readonly place: Place;
  program: Program;
  readonly api: ControlApi;
}

async function side(yaml: string): Promise<Side> {
  const place = makePlace(yaml);
  const one = { place, program: await startServer(place) };
  const api = new ControlApi(() => ({ url: one.program.url, token: adminTokenOf(place) }));
  return Object.assign(one, { api });
}

interface Found {
  readonly data: readonly {
    readonly event: Record<string, unknown> & { context: Record<string, unknown>; timestamp: string };
  }[];
}

describe('calls that are passed on', () => {
  let there: Side;
  let here: Side;
  let receiver: TestReceiver;
  /** Answers of the service while it is down. */
  let isDown = false;
  let proxy: TestReceiver;

  beforeAll(async () => {
    there = await side('sources: [{ name: site, writeKeys: [wk_there], trust: server }]');
    proxy = await startReceiver({
      answer: async (response, { path, headers, body }) => {
        if (isDown) return void response.writeHead(503).end();
        const { authorization = '' } = headers;
        const answer = await fetch(`${there.program.url}${path}`, {
          method: 'POST',
          headers: { authorization: String(authorization) },
          body: String(body),
        });
        response.writeHead(answer.status).end(await answer.text());
      },
    });
    receiver = await startReceiver();
    here = await side(`
profiles: on
trustedProxies: [127.0.0.1/32]
egress: { allow: [127.0.0.0/8] }
sources:
  - { name: site, writeKeys: [wk_here], trust: server, ip: keep }
destinations:
  - { name: tee, type: segment, sources: [site], settings: { host: '${proxy.url}', writeKey: wk_there } }
  - { name: crm, type: webhooks, sources: [site], settings: { endpoints: [{ url: '${receiver.url}' }] } }
audiences:
  - { name: vips, definition: "trait('vip') = true", destinations: [crm] }
`);
  });

  afterAll(async () => {
    for (const one of [here, there]) {
      await one?.program.kill();
      one?.place.remove();
    }
    await receiver?.stop();
    await proxy?.stop();
  });

  const call = (type: string, body: object) =>
    send(here.program.url, `/v1/${type}`, body, {
      ...{ writeKey: 'wk_here', headers: { 'X-Forwarded-For': '203.0.113.9' } },
    });

  async function eventThere(messageId: string) {
    return until(`${messageId} is there`, async () => {
      const { answer } = await there.api.ask<Found>('GET', `events?messageId=${messageId}`);
      return answer.data[0]?.event ?? false;
    });
  }

  it('are the same there, with the time and the address that they have here', async () => {
    const late = new Date(Date.now() - 3_600_000).toISOString();
    const context = { library: { name: 'analytics.js' }, consent: { categoryPreferences: { ads: false } } };
    await call('track', {
      ...track('t1', { userId: 'u-1', context, integrations: { All: false, Mine: true } }),
      ...{ timestamp: late, sentAt: late, extra: [1, { a: null }] },
    });
    const found = await eventThere('t1');
    const { answer } = await here.api.ask<Found>('GET', 'events?messageId=t1');
    const [own] = answer.data.map(({ event }) => event);
    expect(found).toMatchObject({
      ...{ userId: 'u-1', event: own!['event'], extra: [1, { a: null }], originalTimestamp: late },
      ...{ integrations: { All: false, Mine: true }, context: own!.context },
    });
    expect(found.context['ip']).toBe('203.0.113.9');
    expect(Math.abs(Date.parse(found.timestamp) - Date.parse(own!.timestamp))).toBeLessThanOrEqual(1000);
    const { answer: trace } = await until('the result is written', async () => {
      const asked = await here.api.ask<object>('GET', 'events/t1');
      return JSON.stringify(asked.answer).includes('"delivered"') && asked;
    });
    expect(trace).toMatchObject({
      data: [
        {
          deliveries: [{ destination: 'tee', state: 'delivered' }],
          skipped: [{ destination: 'crm', reason: 'integrations' }],
        },
      ],
    });
  });

  it('arrive once each after the service was away and this server was killed, with their own times', async () => {
    isDown = true;
    const ids = Array.from({ length: 50 }, (_, nth) => `away-${nth}`);
    for (const id of ids) await call('track', track(id, { userId: 'u-2' }));
    await until('some were refused', () => proxy.arrivals.length > 3);
    await here.program.kill();
    here.program = await startServer(here.place);
    isDown = false;
    const found = await Promise.all(ids.map(eventThere));
    for (const [nth, { timestamp }] of found.entries()) {
      const { answer } = await here.api.ask<Found>('GET', `events?messageId=${ids[nth]}`);
      const own = answer.data[0]!.event.timestamp;
      expect(Math.abs(Date.parse(timestamp) - Date.parse(own))).toBeLessThanOrEqual(1000);
    }
    const { answer } = await there.api.ask<Found>('GET', 'events?userId=u-2&limit=100');
    expect(answer.data).toHaveLength(ids.length);
  });

  it('are calls of clients alone: no change of an audience, and no deletion, which the receipt says', async () => {
    await call('identify', { userId: 'u-3', traits: { vip: true }, messageId: 'vip-1' });
    await eventThere('vip-1');
    await until('the audience was told', () =>
      receiver.arrivals.some(({ body }) => body.includes('computation_key')),
    );
    const { answer } = await here.api.ask<{ id: string }>('POST', 'regulations', {
      ...{ type: 'DELETE_ONLY', subjectIds: ['u-3'] },
    });
    const receipt = await until('the deletion has ended', async () => {
      const found = await here.api.ask<{ finishedAt?: string; untold?: string[]; streamStatus: object[] }>(
        'GET',
        `regulations/${answer.id}`,
      );
      return found.answer.finishedAt !== undefined && found.answer;
    });
    expect(receipt).toMatchObject({ untold: ['tee'] });
    expect(receipt.streamStatus).toMatchObject([{ destination: 'crm' }, { destination: 'crm' }]);
    const passed = proxy.arrivals.map(({ body }) => body.toString());
    expect(passed.filter((body) => /computation_key|"type":"delete"/.test(body))).toEqual([]);
  });

  it('are not those that another service has forwarded here, and the trace says why', async () => {
    const { status } = await send(here.program.url, '/v1/forwarded', track('f1', { userId: 'u-4' }), {
      writeKey: 'wk_here',
    });
    expect(status).toBe(200);
    await call('track', track('f2', { userId: 'u-4' }));
    await eventThere('f2');
    const { answer } = await here.api.ask<{ data: { skipped: object[]; deliveries: object[] }[] }>(
      'GET',
      'events/f1',
    );
    expect(answer.data[0]).toMatchObject({
      skipped: [{ destination: 'tee', reason: 'forwarded' }],
      deliveries: [{ destination: 'crm' }],
    });
    expect((await there.api.ask<Found>('GET', 'events?messageId=f1')).answer.data).toEqual([]);
  });

  it('cannot be had by an audience', async () => {
    const { status, answer } = await here.api.ask<object>('POST', 'audiences', {
      ...{ name: 'others', definition: "trait('vip') = false", destinations: ['tee'] },
    });
    expect([status, JSON.stringify(answer)]).toEqual([422, expect.stringContaining('only passes calls on')]);
  });
});
