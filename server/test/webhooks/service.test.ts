/**
 * The tables of spec/specification.md, "Outcomes", "Limits" and "Documented format", row by row. The rows
 * that speak of client libraries are tested with the libraries.
 */
import { createHmac } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createHttpClient } from '../../src/adapters/http-client/client.ts';
import { egressRules } from '../../src/adapters/http-client/egress.ts';
import { HOUR } from '../../src/model/time.ts';
import { send, track } from '../support/calls.ts';
import { makePlace, ROOT, runProgram } from '../support/program.ts';
import { http, startRawServer } from '../support/raw-server.ts';
import { startReceiver, type TestReceiver } from '../support/receiver.ts';
import { sharedServer } from '../support/shared-server.ts';
import { passUntil, steadyTime } from '../support/steady-time.ts';
import { type Course, courseOf } from './course.ts';

const tlsFile = (name: string) => readFileSync(join(ROOT, 'server/test/support/tls', name));

/**
 * Everything stops at the end of the file: its tests run side by side, because they wait for the time limits
 * of the program.
 */
const stops: (() => unknown)[] = [];
afterAll(async () => {
  for (const stop of stops.splice(0).reverse()) await stop();
});

async function receiver(options: Parameters<typeof startReceiver>[0] = {}): Promise<TestReceiver> {
  const started = await startReceiver(options);
  stops.push(() => started.stop());
  return started;
}

/** A file with one destination for these endpoints. */
const fileOf = (endpoints: string) => `
egress: { allow: [127.0.0.0/8] }
sources: [{ name: website, writeKeys: [wk] }]
destinations:
  - { name: crm, type: webhooks, sources: [], settings: { endpoints: [${endpoints}] } }
`;
const endpoint = (headers: number) =>
  `{ url: "http://127.0.0.1:9/", headers: { ${Array.from({ length: headers }, (_, i) => `X-H${i}: v`).join(', ')} } }`;
/** The file has as much as the limits allow: five endpoints, and five headers at each. */
const server = sharedServer(() => fileOf(Array.from({ length: 5 }, () => endpoint(5)).join(', ')));

/** One event at an endpoint that answers the nth request after so many milliseconds. */
async function courseAt(answer: (nth: number) => { after?: number; status: string }): Promise<Course> {
  let nth = 0;
  const server = await startRawServer((socket) => {
    const { after = 0, status } = answer(nth++);
    setTimeout(() => socket.destroyed || socket.write(http(status)), after);
  });
  stops.push(() => server.stop());
  const transport = createHttpClient({ egress: egressRules(['127.0.0.1/32']) });
  stops.push(() => transport.stop());
  return courseOf(transport, `http://127.0.0.1:${server.port}/`);
}

describe.concurrent('Errors', () => {
  it('Webhook endpoint does not answer within 5 seconds: a timeout is logged, the event is retried later', async () => {
    const slow = await receiver({
      answer: (response, _arrival, nth) => {
        if (nth > 0) response.end();
      },
    });
    await server.connect('slow', [slow.url]);
    const begun = Date.now();
    await send(server.url, '/v1/track', track('m1'), { writeKey: 'slow' });
    const [line] = await server.program.saw(/.*"timeout".*/);
    expect(JSON.parse(line)).toMatchObject({
      ...{ event: 'destination.failing', destination: 'slow', reason: 'timeout' },
    });
    await slow.count(2);
    expect(slow.arrivals[1]!.at - begun).toBeGreaterThan(5000);
    expect(slow.arrivals.map(({ headers }) => headers['webhook-id'])).toEqual(['m1', 'm1']);
  });

  it.each(['500 Oops', '503 Busy', '505 No'])(
    'Webhook endpoint answers with a 5xx status (%s): retried several times, for at most 4 hours',
    async (status) => {
      const { attempts, sentAt, end } = await courseAt(() => ({ status }));
      expect(attempts.length).toBeGreaterThan(10);
      expect(sentAt.at(-1)).toBeLessThanOrEqual(4 * HOUR);
      expect(end).toEqual({ kind: 'dead', reason: 'retry_window_over' });
    },
  );

  it('https endpoint with a self-signed certificate: an error is raised and no request is sent', async () => {
    const tls = { key: tlsFile('self-signed.key'), cert: tlsFile('self-signed.pem') };
    const unsafe = await receiver({ tls });
    await server.connect('unsafe', [unsafe.url]);
    await send(server.url, '/v1/track', track('m1'), { writeKey: 'unsafe' });
    const [line] = await server.program.saw(/.*certificate_untrusted.*/);
    expect(JSON.parse(line)).toMatchObject({ destination: 'unsafe' });
    expect(unsafe.arrivals).toHaveLength(0);
  });

  it('One of several succeeds: the message counts as processed, the others are not retried', async () => {
    const { promise: failed, resolve } = Promise.withResolvers<void>();
    const down = await receiver({
      answer: (response) => {
        response.writeHead(500).end();
        resolve();
      },
    });
    const up = await receiver({ answer: (response) => void failed.then(() => response.end()) });
    await server.connect('several', [down.url, up.url]);
    await send(server.url, '/v1/track', track('m1'), { writeKey: 'several' });
    await up.count(1);
    // Whatever failed would be tried again after at most 1.2 s; a later event shows that this time has
    // passed.
    await sleep(1500);
    await send(server.url, '/v1/track', track('m2'), { writeKey: 'several' });
    await down.until(() => down.arrivals.some(({ headers }) => headers['webhook-id'] === 'm2'));
    expect(down.arrivals.filter(({ headers }) => headers['webhook-id'] === 'm1')).toHaveLength(1);
  });

  it('Page, Track, Identify or Group call without userId and without anonymousId: invalid', async () => {
    for (const [path, call] of [
      ['/v1/page', { name: 'Home' }],
      ['/v1/track', { event: 'Order Placed' }],
      ['/v1/identify', { traits: {} }],
      ['/v1/group', { groupId: 'g1' }],
    ] as const) {
      const { status, answer } = await send(server.url, path, call);
      expect([path, status, answer]).toEqual([
        path,
        400,
        expect.objectContaining({ code: 'no_user_anon_id' }),
      ]);
      for (const id of [{ userId: 'u1' }, { anonymousId: 'a1' }]) {
        expect(await send(server.url, path, { ...call, ...id })).toMatchObject({ status: 200 });
      }
    }
    // "The Track call also requires an event name."
    expect(await send(server.url, '/v1/track', { userId: 'u1' })).toMatchObject({
      status: 400,
      answer: { code: 'event_not_defined' },
    });
  });
});

interface Shown {
  readonly settings: { readonly endpoints: readonly { readonly headers: object }[] };
}

describe.concurrent('Limits', () => {
  async function refusalOf(config: string): Promise<string> {
    const place = makePlace(config);
    stops.push(() => place.remove());
    const { code, stderr } = await runProgram({
      args: ['start', '--config', place.config, '--data', place.data, '--port', '0'],
    });
    expect(code).toBe(2);
    return stderr;
  }

  it('Webhook URLs per destination: 5', async () => {
    const taken = await server.api.read<Shown>('destinations/crm');
    expect(taken.settings.endpoints).toHaveLength(5);
    const six = Array.from({ length: 6 }, () => '{ url: "http://127.0.0.1:9/" }').join(', ');
    expect(await refusalOf(fileOf(six))).toContain(
      'destinations[0].settings.endpoints  must be a list of 1 to 5 endpoints',
    );
  });

  it('Static headers: limited to 5', async () => {
    const taken = await server.api.read<Shown>('destinations/crm');
    expect(Object.keys(taken.settings.endpoints[0]!.headers)).toHaveLength(5);
    expect(await refusalOf(fileOf(endpoint(6)))).toContain(
      'destinations[0].settings.endpoints[0].headers  must have at most 5 headers',
    );
  });

  it('Retry window for 5xx answers: at most 4 hours', async () => {
    const { sentAt, end } = await courseAt(() => ({ status: '502 Bad Gateway' }));
    expect(sentAt.at(-1)).toBeGreaterThan(3.5 * HOUR);
    expect(sentAt.at(-1)).toBeLessThanOrEqual(4 * HOUR);
    expect(end).toEqual({ kind: 'dead', reason: 'retry_window_over' });
  });

  /** JSON of exactly so many bytes. */
  function padded(value: (padding: string) => unknown, bytes: number): string {
    const empty = Buffer.byteLength(JSON.stringify(value('')));
    return JSON.stringify(value('x'.repeat(bytes - empty)));
  }

  it('Batch size: 500 KB per batch request', async () => {
    const batch = (padding: string) => ({ batch: [track('batch')], padding });
    const most = 500 * 1024 + 12_288;
    expect(most).toBe(524_288);
    expect(await send(server.url, '/v1/batch', padded(batch, most))).toMatchObject({ status: 200 });
    expect(await send(server.url, '/v1/batch', padded(batch, most + 1))).toMatchObject({
      status: 400,
      answer: { code: 'batch_too_large' },
    });
  });

  it('Size of one call: 32 KB', async () => {
    const call = (padding: string) => track('call', { properties: { padding } });
    expect(await send(server.url, '/v1/track', padded(call, 32 * 1024))).toMatchObject({ status: 200 });
    expect(await send(server.url, '/v1/track', padded(call, 32 * 1024 + 1))).toMatchObject({
      status: 400,
      answer: { code: 'message_too_large' },
    });
  });
});

describe('Limits of time', () => {
  steadyTime();

  it('Response time of a webhook endpoint: 5 seconds', async () => {
    let isOver = false;
    const course = courseAt((nth) => ({ after: nth === 0 ? 5100 : 4900, status: '200 OK' })).finally(() => {
      isOver = true;
    });
    await passUntil('the event is delivered', () => isOver);
    const { attempts } = await course;
    expect(attempts.map(({ outcome }) => outcome.reason)).toEqual(['timeout', 'status_200']);
    expect(attempts[1]!.latencyMs).toBeGreaterThan(4800);
  });
});

describe('Events', () => {
  let endpoint: TestReceiver;

  beforeAll(async () => {
    endpoint = await receiver();
    await server.connect('emitting', [endpoint.url], { sharedSecret: 'secret' });
  });

  const ALWAYS = { version: 1, timestamp: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/) };

  it.each<[string, object, object]>([
    [
      'page',
      { userId: 'u1', properties: { path: '/', referrer: '', title: 'Home', url: 'https://x.example/' } },
      {
        type: 'page',
        userId: 'u1',
        properties: { path: '/', referrer: '', title: 'Home', url: 'https://x.example/' },
      },
    ],
    [
      'screen',
      { userId: 'u1', name: 'Start', context: { device: { model: 'A1', type: 'ios' } } },
      { type: 'screen', userId: 'u1', name: 'Start', context: { device: { model: 'A1', type: 'ios' } } },
    ],
    [
      'identify',
      { userId: 'u1', traits: { plan: 'pro', logins: 5 } },
      { type: 'identify', userId: 'u1', traits: { plan: 'pro', logins: 5 } },
    ],
    [
      'track',
      { userId: 'u1', event: 'Order Placed', properties: { total: '9.90' } },
      { type: 'track', userId: 'u1', event: 'Order Placed', properties: { total: '9.90' } },
    ],
    [
      'alias',
      { userId: 'new', previousId: 'old' },
      { type: 'alias', 'Previous ID': 'old', 'User ID': 'new' },
    ],
    [
      'group',
      { userId: 'u1', groupId: 'g1', traits: { name: 'Initech', employees: 329 } },
      { type: 'group', userId: 'u1', groupId: 'g1', traits: { name: 'Initech', employees: 329 } },
    ],
  ])('%s: emitted when such a call is received', async (type, call, wanted) => {
    const before = endpoint.arrivals.length;
    await send(server.url, `/v1/${type}`, call, { writeKey: 'emitting' });
    await endpoint.count(before + 1);
    const { headers, body } = endpoint.arrivals[before]!;
    expect(JSON.parse(body.toString())).toMatchObject({ ...ALWAYS, ...wanted });
    expect('userId' in JSON.parse(body.toString())).toBe(type !== 'alias');
    expect(headers).toMatchObject({
      'content-type': 'application/json',
      'user-agent': 'Millrace/1.0',
      'x-signature': createHmac('sha1', 'secret').update(body).digest('hex'),
    });
    expect(endpoint.arrivals).toHaveLength(before + 1);
  });
});
