import { createHmac } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { send, track } from '../support/calls.ts';
import { makePlace, ROOT, startServer } from '../support/program.ts';
import { startReceiver, type TestReceiver, type TestReceiverOptions } from '../support/receiver.ts';
import { sharedServer } from '../support/shared-server.ts';
import { startConnectProxy } from './connect-proxy.ts';

const stops: (() => unknown)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0).reverse()) await stop();
});

async function receiver(answer?: TestReceiverOptions['answer']): Promise<TestReceiver> {
  const started = await startReceiver(answer === undefined ? {} : { answer });
  stops.push(() => started.stop());
  return started;
}

interface Counts {
  readonly owed: number;
  readonly delivered: number;
  readonly dead: object;
  readonly pending: number;
  readonly skipped: object;
  readonly balance: number;
}

const idsOf = ({ arrivals }: TestReceiver) => arrivals.map(({ headers }) => String(headers['webhook-id']));
const EVENTS = Array.from({ length: 10 }, (_, nth) => `m${nth}`);

type Five = [TestReceiver, TestReceiver, TestReceiver, TestReceiver, TestReceiver];

/** Accepts; fails each event once; refuses; fails for ever; accepts slowly. */
async function five(): Promise<Five> {
  const seen = new Set<unknown>();
  return [
    await receiver(),
    await receiver((response, { headers }) => {
      const isNew = !seen.has(headers['webhook-id']);
      seen.add(headers['webhook-id']);
      response.writeHead(isNew ? 503 : 200).end();
    }),
    await receiver((response) => void response.writeHead(410).end()),
    await receiver((response) => void response.writeHead(500).end()),
    await receiver((response) => void setTimeout(() => response.end(), 300)),
  ];
}

/** A destination of a file, and its source of the same name. */
const recordsOf = (name: string, endpoints: readonly TestReceiver[], success: string) => ({
  source: { name, writeKeys: [name] },
  destination: {
    ...{ name, type: 'webhooks', sources: [name] },
    settings: { endpoints: endpoints.map(({ url }) => ({ url: `${url}/hook` })), success },
  },
});

/** JSON is YAML. */
const fileOf = (records: readonly ReturnType<typeof recordsOf>[], egress: object) =>
  JSON.stringify({
    egress,
    sources: records.map(({ source }) => source),
    destinations: records.map(({ destination }) => destination),
  });

/** Of the file of the server that most tests share. */
let any: Five;
let each: Five;
let up: TestReceiver;
let down: TestReceiver;
let isUp = false;

beforeAll(async () => {
  [any, each] = [await five(), await five()];
  up = await receiver();
  down = await receiver((response) => void response.writeHead(isUp ? 200 : 503).end());
  // They stay to the end of the file.
  const stopsOfFile = stops.splice(0);
  return async () => {
    for (const stop of stopsOfFile) await stop();
  };
});

const server = sharedServer(() =>
  fileOf(
    [
      recordsOf('any', any, 'any'),
      recordsOf('each', each, 'each'),
      recordsOf('crashing', [up, down], 'each'),
    ],
    { allow: ['127.0.0.0/8'] },
  ),
);

const call = (messageId: string, writeKey: string, more: object = {}) =>
  send(server.url, '/v1/track', track(messageId, more), { writeKey });

/** The destinations of the ledger, once `holds` is true of them: deliveries take a while. */
async function untilLedger(holds: (ledger: Record<string, Counts>) => boolean) {
  const isReached = (ledger: { destinations: Record<string, Counts> }) => holds(ledger.destinations);
  return (await server.api.until('ledger', isReached)).destinations;
}

describe('a destination with five endpoints', () => {
  it('with any: has delivered what one of them accepted, and asks none of them again', async () => {
    for (const id of EVENTS) await call(id, 'any');
    const ledger = await untilLedger(({ any }) => any!.delivered === EVENTS.length);
    expect(ledger['any']).toMatchObject({ owed: 10, delivered: 10, dead: {}, pending: 0, balance: 0 });
    for (const endpoint of any) {
      await endpoint.count(EVENTS.length);
      expect(idsOf(endpoint).sort()).toEqual([...EVENTS].sort());
    }
    // The same bytes at every endpoint.
    const bodies = (id: string) =>
      any.map(({ arrivals }) =>
        arrivals.find(({ headers }) => headers['webhook-id'] === id)!.body.toString(),
      );
    for (const id of EVENTS) expect(new Set(bodies(id)).size).toBe(1);
  });

  it('with each: every endpoint gets what it is owed, whatever the others say', async () => {
    const [accepting, stumbling, refusing, failing, slow] = each;
    expect(server.program.out.stderr).not.toContain('has no effect');
    for (const id of EVENTS) await call(id, 'each');
    const ledger = await untilLedger(({ each }) => each!.delivered === 30);
    expect(ledger['each']).toMatchObject({
      ...{ owed: 50, delivered: 30, dead: { status_410: 10 }, pending: 10, balance: 0 },
    });
    expect(idsOf(accepting).sort()).toEqual([...EVENTS].sort());
    expect(idsOf(slow).sort()).toEqual([...EVENTS].sort());
    expect(idsOf(refusing).sort()).toEqual([...EVENTS].sort());
    expect(idsOf(stumbling).sort()).toEqual([...EVENTS, ...EVENTS].sort());
    await failing.count(2 * EVENTS.length);
    expect(new Set(idsOf(failing))).toEqual(new Set(EVENTS));
  });

  it('with each: owes after a crash only what is still owed', async () => {
    for (const id of EVENTS) await call(id, 'crashing');
    await untilLedger(({ crashing }) => crashing!.delivered === 10);
    await server.program.kill();
    isUp = true;
    await server.start();
    const { crashing } = await untilLedger(({ crashing }) => crashing!.pending === 0);
    expect(crashing).toMatchObject({ owed: 20, delivered: 20, dead: {}, balance: 0 });
    expect(idsOf(up).sort()).toEqual([...EVENTS].sort());
  });
});

describe('sources and destinations', () => {
  it('can have several of each other, and the integrations object chooses by type name and by own name', async () => {
    const [crm, lake, mail] = [await receiver(), await receiver(), await receiver()];
    for (const name of ['website', 'app']) await server.add('sources', { name, writeKeys: [name] });
    for (const [name, sources, { url }] of [
      ['crm', ['website', 'app'], crm],
      ['lake', ['website'], lake],
      ['mail', ['app'], mail],
    ] as const)
      await server.add('destinations', {
        ...{ name, type: 'webhooks', sources, settings: { endpoints: [{ url }] } },
      });
    const calls: [id: string, writeKey: string, integrations: object][] = [
      ['web', 'website', {}],
      ['app', 'app', {}],
      ['none', 'website', { All: false }],
      ['type off', 'website', { Webhooks: false }],
      ['type on', 'website', { All: false, Webhooks: true }],
      ['only lake', 'website', { Webhooks: false, lake: true }],
      ['not lake', 'website', { lake: false }],
      ['other case', 'website', { All: false, webhooks: true }],
    ];
    for (const [id, writeKey, integrations] of calls) {
      await call(id, writeKey, { integrations });
    }
    const ledger = await untilLedger((all) =>
      ['crm', 'lake', 'mail'].every((name) => all[name]!.owed === all[name]!.delivered),
    );
    const decoded = (endpoint: TestReceiver) => idsOf(endpoint).map(decodeURIComponent).sort();
    expect(decoded(crm)).toEqual(['app', 'not lake', 'type on', 'web']);
    expect(decoded(lake)).toEqual(['only lake', 'type on', 'web']);
    expect(decoded(mail)).toEqual(['app']);
    expect(ledger['crm']!.skipped).toEqual({ integrations: 4 });
    expect(ledger['lake']!.skipped).toEqual({ integrations: 4 });
  });

  it('skip, with the reason, what a disabled destination or a filter does not want', async () => {
    const [picky, off] = [await receiver(), await receiver()];
    await server.add('sources', { name: 'shop', writeKeys: ['shop'] });
    const ofShop = { type: 'webhooks', sources: ['shop'] };
    const filter = { types: ['track'], events: ['Order *'] };
    await server.add('destinations', {
      ...{ name: 'picky', ...ofShop, settings: { endpoints: [{ url: picky.url }], filter } },
    });
    await server.add('destinations', {
      ...{ name: 'off', ...ofShop, enabled: false, settings: { endpoints: [{ url: off.url }] } },
    });
    await call('wanted', 'shop');
    await call('other name', 'shop', { event: 'Signed Up' });
    const identify = { userId: 'u1', messageId: 'other type' };
    await send(server.url, '/v1/identify', identify, { writeKey: 'shop' });
    const ledger = await untilLedger((all) => all['picky']!.delivered === 1);
    expect(idsOf(picky)).toEqual(['wanted']);
    expect(off.arrivals).toHaveLength(0);
    expect(ledger['picky']).toMatchObject({ owed: 1, skipped: { filtered: 2 } });
    expect(ledger['off']).toMatchObject({ owed: 0, pending: 0, skipped: { destination_disabled: 3 } });
  });
});

describe('Standard Webhooks secrets', () => {
  it('sign every request, both while one replaces the other, beside the shared secret', async () => {
    const [older, newer] = [Buffer.alloc(24, 1), Buffer.alloc(32, 2)];
    const endpoint = await receiver(
      (response, _arrival, nth) => void response.writeHead(nth === 0 ? 503 : 200).end(),
    );
    const secrets = [newer, older].map((bytes) => `whsec_${bytes.toString('base64')}`);
    await server.connect('signed', [endpoint.url], { sharedSecret: 's', signingSecrets: secrets });
    const before = Date.now();
    await call('größe', 'signed');
    await endpoint.count(2);
    for (const { headers, body } of endpoint.arrivals) {
      const { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': signatures } = headers;
      // In whole seconds, by the clock of another process.
      expect(Number(timestamp)).toBeGreaterThan(before / 1000 - 2);
      expect(Number(timestamp)).toBeLessThan(Date.now() / 1000 + 1);
      const signed = (key: Buffer) =>
        `v1,${createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')}`;
      expect(String(signatures).split(' ')).toEqual([signed(newer), signed(older)]);
      expect(headers['x-signature']).toBe(createHmac('sha1', 's').update(body).digest('hex'));
    }
    expect(endpoint.arrivals[1]!.body).toEqual(endpoint.arrivals[0]!.body);
  });
});

describe('the settings of outbound requests', () => {
  it('are a proxy and a private authority, both used as the file says', async () => {
    const pem = (name: string) => readFileSync(join(ROOT, 'server/test/support/tls', name));
    const endpoint = await startReceiver({ tls: { key: pem('server.key'), cert: pem('server.pem') } });
    stops.push(() => endpoint.stop());
    const proxy = await startConnectProxy();
    stops.push(() => proxy.stop());
    const egress = {
      allow: ['127.0.0.1/32'],
      proxy: `http://u:p@127.0.0.1:${proxy.port}`,
      ca: join(ROOT, 'server/test/support/tls/ca.pem'),
    };
    const place = makePlace(fileOf([recordsOf('crm', [endpoint], 'any')], egress));
    stops.push(() => place.remove());
    const program = await startServer(place);
    stops.push(() => program.kill());
    expect(program.out.stderr).not.toContain('has no effect');
    await send(program.url, '/v1/track', track('m1'), { writeKey: 'crm' });
    await endpoint.count(1);
    expect(proxy.asked).toEqual([
      {
        target: `127.0.0.1:${endpoint.port}`,
        authorization: `Basic ${Buffer.from('u:p').toString('base64')}`,
      },
    ]);
  });

  it('name a private authority by a file, and a missing one keeps the server from starting', async () => {
    const place = makePlace('egress: { ca: /nowhere/ca.pem }\n');
    stops.push(() => place.remove());
    await expect(startServer(place)).rejects.toThrow('egress.ca: /nowhere/ca.pem cannot be read (ENOENT)');
  });
});

describe('the endpoints of a server', () => {
  const looking = sharedServer(
    () => `
sources: [{ name: website, writeKeys: [wk] }]
destinations:
  - { name: crm, type: webhooks, sources: [website], settings: { endpoints: [{ url: "http://localhost:9/?t=S3CRET" }] } }
`,
  );

  it('are looked at when it starts: one that no request would reach is in the log', async () => {
    const [line] = await looking.program.saw(/.*endpoint\.unreachable.*/);
    expect(JSON.parse(line)).toMatchObject({
      destination: 'crm',
      place: 0,
      verdict: 'refused',
      message: expect.stringMatching(/^localhost resolves to .*refused as loopback; add .* to egress\.allow/),
    });
  });

  it('are looked at too when the file says nothing of them any more', async () => {
    await looking.program.saw(/endpoint\.unreachable/);
    await looking.program.stop();
    writeFileSync(looking.place.config, 'sources: []\n');
    await looking.start();
    const { program } = looking;
    const [line] = await program.saw(/.*endpoint\.unreachable.*/);
    expect(JSON.parse(line)).toMatchObject({ destination: 'crm', place: 0, verdict: 'refused' });
    expect(program.out.stdout + program.out.stderr).not.toContain('S3CRET');
  });
});
