import { createHmac } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { send, track } from '../support/calls.ts';
import { ControlApi } from '../support/control-api.ts';
import { makePlace, type Program, ROOT, startServer } from '../support/program.ts';
import { startReceiver, type TestReceiver, type TestReceiverOptions } from '../support/receiver.ts';
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

async function serving(yaml: string): Promise<Program> {
  const place = makePlace(`egress: { allow: [127.0.0.0/8] }\nadmin: { token: t }\n${yaml}`);
  stops.push(() => place.remove());
  const program = await startServer(place);
  stops.push(() => program.stop());
  return program;
}

interface Counts {
  readonly owed: number;
  readonly delivered: number;
  readonly dead: object;
  readonly pending: number;
  readonly skipped: object;
  readonly balance: number;
}

/** The destinations of the ledger, once `holds` is true of them: deliveries take a while. */
async function untilLedger({ url }: Program, holds: (ledger: Record<string, Counts>) => boolean) {
  const api = new ControlApi(() => ({ url, token: 't' }));
  const isReached = (ledger: { destinations: Record<string, Counts> }) => holds(ledger.destinations);
  return (await api.until('ledger', isReached)).destinations;
}

const idsOf = ({ arrivals }: TestReceiver) => arrivals.map(({ headers }) => String(headers['webhook-id']));
const EVENTS = Array.from({ length: 10 }, (_, nth) => `m${nth}`);

/** Accepts; fails each event once; refuses; fails for ever; accepts slowly. */
async function five(): Promise<[TestReceiver, TestReceiver, TestReceiver, TestReceiver, TestReceiver]> {
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

const destinationOf = (endpoints: readonly TestReceiver[], settings: string) => `
sources: [{ name: website, writeKeys: [wk] }]
destinations:
  - name: crm
    type: webhooks
    sources: [website]
    settings:
      endpoints:
${endpoints.map(({ url }) => `        - { url: "${url}/hook" }`).join('\n')}
      ${settings}
`;

describe('a destination with five endpoints', () => {
  it('with any: has delivered what one of them accepted, and asks none of them again', async () => {
    const endpoints = await five();
    const program = await serving(destinationOf(endpoints, 'success: any'));
    for (const id of EVENTS) await send(program.url, '/v1/track', track(id));
    const { crm } = await untilLedger(program, ({ crm }) => crm!.delivered === EVENTS.length);
    expect(crm).toMatchObject({ owed: 10, delivered: 10, dead: {}, pending: 0, balance: 0 });
    for (const endpoint of endpoints) {
      await endpoint.count(EVENTS.length);
      expect(idsOf(endpoint).sort()).toEqual([...EVENTS].sort());
    }
    // The same bytes at every endpoint.
    const bodies = (id: string) =>
      endpoints.map(({ arrivals }) =>
        arrivals.find(({ headers }) => headers['webhook-id'] === id)!.body.toString(),
      );
    for (const id of EVENTS) expect(new Set(bodies(id)).size).toBe(1);
  });

  it('with each: every endpoint gets what it is owed, whatever the others say', async () => {
    const endpoints = await five();
    const [accepting, stumbling, refusing, failing, slow] = endpoints;
    const program = await serving(destinationOf(endpoints, 'success: each'));
    expect(program.out.stderr).not.toContain('has no effect');
    for (const id of EVENTS) await send(program.url, '/v1/track', track(id));
    const { crm } = await untilLedger(program, ({ crm }) => crm!.delivered === 30);
    expect(crm).toMatchObject({ owed: 50, delivered: 30, dead: { status_410: 10 }, pending: 10, balance: 0 });
    expect(idsOf(accepting).sort()).toEqual([...EVENTS].sort());
    expect(idsOf(slow).sort()).toEqual([...EVENTS].sort());
    expect(idsOf(refusing).sort()).toEqual([...EVENTS].sort());
    expect(idsOf(stumbling).sort()).toEqual([...EVENTS, ...EVENTS].sort());
    await failing.count(2 * EVENTS.length);
    expect(new Set(idsOf(failing))).toEqual(new Set(EVENTS));
  });

  it('with each: owes after a crash only what is still owed', async () => {
    const up = await receiver();
    let isUp = false;
    const down = await receiver((response) => void response.writeHead(isUp ? 200 : 503).end());
    const place = makePlace(`egress: { allow: [127.0.0.0/8] }\nadmin: { token: t }
${destinationOf([up, down], 'success: each')}`);
    stops.push(() => place.remove());
    const before = await startServer(place);
    for (const id of EVENTS) await send(before.url, '/v1/track', track(id));
    await untilLedger(before, ({ crm }) => crm!.delivered === 10);
    await before.kill();
    isUp = true;
    const after = await startServer(place);
    stops.push(() => after.stop());
    const { crm } = await untilLedger(after, ({ crm }) => crm!.pending === 0);
    expect(crm).toMatchObject({ owed: 20, delivered: 20, dead: {}, balance: 0 });
    expect(idsOf(up).sort()).toEqual([...EVENTS].sort());
  });
});

describe('sources and destinations', () => {
  it('can have several of each other, and the integrations object chooses by type name and by own name', async () => {
    const [crm, lake, mail] = [await receiver(), await receiver(), await receiver()];
    const program = await serving(`
sources:
  - { name: website, writeKeys: [web] }
  - { name: app, writeKeys: [app] }
destinations:
  - { name: crm, type: webhooks, sources: [website, app], settings: { endpoints: [{ url: "${crm.url}" }] } }
  - { name: lake, type: webhooks, sources: [website], settings: { endpoints: [{ url: "${lake.url}" }] } }
  - { name: mail, type: webhooks, sources: [app], settings: { endpoints: [{ url: "${mail.url}" }] } }
`);
    const calls: [id: string, writeKey: string, integrations: object][] = [
      ['web', 'web', {}],
      ['app', 'app', {}],
      ['none', 'web', { All: false }],
      ['type off', 'web', { Webhooks: false }],
      ['type on', 'web', { All: false, Webhooks: true }],
      ['only lake', 'web', { Webhooks: false, lake: true }],
      ['not lake', 'web', { lake: false }],
      ['other case', 'web', { All: false, webhooks: true }],
    ];
    for (const [id, writeKey, integrations] of calls) {
      await send(program.url, '/v1/track', track(id, { integrations }), { writeKey });
    }
    const ledger = await untilLedger(program, (all) =>
      Object.values(all).every(({ owed, delivered }) => owed === delivered),
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
    const program = await serving(`
sources: [{ name: website, writeKeys: [wk] }]
destinations:
  - name: picky
    type: webhooks
    sources: [website]
    settings:
      endpoints: [{ url: "${picky.url}" }]
      filter: { types: [track], events: ["Order *"] }
  - name: "off"
    type: webhooks
    sources: [website]
    enabled: false
    settings: { endpoints: [{ url: "${off.url}" }] }
`);
    await send(program.url, '/v1/track', track('wanted'));
    await send(program.url, '/v1/track', track('other name', { event: 'Signed Up' }));
    await send(program.url, '/v1/identify', { userId: 'u1', messageId: 'other type' });
    const ledger = await untilLedger(program, (all) => all['picky']!.delivered === 1);
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
    const program = await serving(
      destinationOf([endpoint], `sharedSecret: s\n      signingSecrets: [${secrets.join(', ')}]`),
    );
    const before = Date.now();
    await send(program.url, '/v1/track', track('größe'));
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
    const place = makePlace(`
egress:
  allow: [127.0.0.1/32]
  proxy: http://u:p@127.0.0.1:${proxy.port}
  ca: ${join(ROOT, 'server/test/support/tls/ca.pem')}
${destinationOf([endpoint], 'success: any')}`);
    stops.push(() => place.remove());
    const program = await startServer(place);
    stops.push(() => program.stop());
    expect(program.out.stderr).not.toContain('has no effect');
    await send(program.url, '/v1/track', track('m1'));
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

  it('are looked at when the server starts: an endpoint no request would reach is in the log', async () => {
    const place = makePlace(`
sources: [{ name: website, writeKeys: [wk] }]
destinations:
  - { name: crm, type: webhooks, sources: [website], settings: { endpoints: [{ url: "http://localhost:9/" }] } }
`);
    stops.push(() => place.remove());
    const program = await startServer(place);
    stops.push(() => program.stop());
    const [line] = await program.saw(/.*endpoint\.unreachable.*/);
    expect(JSON.parse(line)).toMatchObject({
      destination: 'crm',
      place: 0,
      verdict: 'refused',
      message: expect.stringMatching(/^localhost resolves to .*refused as loopback; add .* to egress\.allow/),
    });
  });

  it('are looked at too when the file says nothing of them any more', async () => {
    const place = makePlace(`
sources: [{ name: website, writeKeys: [wk] }]
destinations:
  - { name: crm, type: webhooks, sources: [website], settings: { endpoints: [{ url: "http://localhost:9/?t=S3CRET" }] } }
`);
    stops.push(() => place.remove());
    const first = await startServer(place);
    await first.saw(/endpoint\.unreachable/);
    await first.stop();
    writeFileSync(place.config, 'sources: []\n');
    const second = await startServer(place);
    stops.push(() => second.stop());
    const [line] = await second.saw(/.*endpoint\.unreachable.*/);
    expect(JSON.parse(line)).toMatchObject({ destination: 'crm', place: 0, verdict: 'refused' });
    expect(second.out.stdout + second.out.stderr).not.toContain('S3CRET');
  });
});
