import { createHmac, createPublicKey, verify } from 'node:crypto';
import { request } from 'node:http';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runVerb } from '../../../cli/test/program.ts';
import type { PublicKey } from '../../src/model/signing-key.ts';
import { send, track } from '../support/calls.ts';
import { ControlApi } from '../support/control-api.ts';
import { adminTokenOf, makePlace, type Place, type Program, startServer } from '../support/program.ts';
import { startReceiver, type TestReceiver } from '../support/receiver.ts';

const yaml = (receiver: TestReceiver) => `
egress: { allow: [127.0.0.0/8] }
secrets: { key: ${'ab'.repeat(32)} }
sources: [{ name: website, writeKeys: [wk] }]
destinations:
  - name: crm
    type: webhooks
    sources: [website]
    settings:
      endpoints: [{ url: "${receiver.url}/in" }]
      sharedSecret: secret-of-crm-today
      nextSharedSecret: secret-of-crm-tomorrow
      signingSecrets: [whsec_bWlsbHJhY2UtYWxlcnRzLWV4YW1wbGUtMTIzNDU2]
      publicSignature: true
`;

type Shown = PublicKey & { readonly path: string };

/** A receiver that has nothing but the public key, against the whole program. */
describe('public signatures', () => {
  let receiver: TestReceiver;
  let place: Place;
  let server: Program;
  let sent = 0;
  const control = new ControlApi(() => ({ url: server.url, token: adminTokenOf(place) }));
  const keyOf = async () => (await control.read<{ publicKey?: Shown }>('destinations/crm/status')).publicKey;
  const answerTo = (path: string) => fetch(`${server.url}${path}`);

  /** The headers and the body of the request for a new event. */
  const received = async () => {
    const messageId = `m-${++sent}`;
    expect((await send(server.url, '/v1/track', track(messageId))).status).toBe(200);
    const isOf = ({ headers }: { headers: object }) => Object(headers)['webhook-id'] === messageId;
    await receiver.until(() => receiver.arrivals.some(isOf));
    return receiver.arrivals.find(isOf)!;
  };
  const isGenuine = ({ headers, body }: Awaited<ReturnType<typeof received>>, pem: string) => {
    const { 'webhook-id': id, 'webhook-timestamp': at, 'webhook-signature': signatures } = headers;
    const signed = String(signatures)
      .split(' ')
      .find((one) => one.startsWith('v1a,'))!;
    const text = Buffer.concat([Buffer.from(`${id}.${at}.`), body]);
    return verify(null, text, createPublicKey(pem), Buffer.from(signed.slice(4), 'base64'));
  };

  beforeAll(async () => {
    receiver = await startReceiver();
    place = makePlace(yaml(receiver));
    server = await startServer(place);
  });
  afterAll(async () => {
    await server?.kill();
    await receiver?.stop();
    place?.remove();
  });

  it('are verified with the key that everybody gets, beside the other signatures', async () => {
    const { path, ...shown } = (await keyOf())!;
    expect(path).toMatch(/^\/\.well-known\/millrace\/[\w-]{22}$/);
    const answer = await answerTo(path);
    expect(answer.status).toBe(200);
    expect(answer.headers.get('content-type')).toMatch(/^application\/json/);
    expect(answer.headers.get('cache-control')).toBe('public, max-age=3600');
    const key = (await answer.json()) as PublicKey;
    expect(key).toEqual(shown);
    const arrival = await received();
    expect(isGenuine(arrival, key.pem)).toBe(true);
    const longer = Buffer.concat([arrival.body, Buffer.from(' ')]);
    expect(isGenuine({ ...arrival, body: longer }, key.pem)).toBe(false);
    expect(arrival.headers['webhook-signature']).toMatch(/^v1,\S+ v1a,\S+$/);
    const hmac = (secret: string) => createHmac('sha1', secret).update(arrival.body).digest('hex');
    expect(arrival.headers['x-signature']).toBe(hmac('secret-of-crm-today'));
    expect(arrival.headers['x-signature-next']).toBe(hmac('secret-of-crm-tomorrow'));
  });

  it('have a key that is found by its id alone, by any name of the server', async () => {
    const { path } = (await keyOf())!;
    const byName = await new Promise<number | undefined>((resolve, reject) => {
      const asked = request(
        `${server.url}${path}`,
        { headers: { host: 'collect.example.com' } },
        (answer) => {
          answer.resume();
          resolve(answer.statusCode);
        },
      );
      asked.on('error', reject).end();
    });
    expect(byName).toBe(200);
    for (const wrong of ['crm', '1', '__proto__', path.slice(0, -1).slice(-21), `${'x'.repeat(22)}`])
      expect([wrong, (await answerTo(`/.well-known/millrace/${wrong}`)).status]).toEqual([wrong, 404]);
    expect((await fetch(`${server.url}${path}`, { method: 'POST' })).status).toBe(405);
  });

  it('keep their key over a restart and a change, and lose it with the setting', async () => {
    const before = (await keyOf())!;
    await server.stop();
    server = await startServer(place);
    expect(await keyOf()).toEqual(before);
    await control.ask('PATCH', 'destinations/crm', { settings: { rateLimit: 500 } });
    expect(await keyOf()).toEqual(before);
    await control.ask('PATCH', 'destinations/crm', { settings: { publicSignature: false } });
    expect(await keyOf()).toBeUndefined();
    expect((await answerTo(before.path)).status).toBe(404);
    expect((await received()).headers['webhook-signature']).toMatch(/^v1,\S+$/);
    await control.ask('PATCH', 'destinations/crm', { settings: { publicSignature: true } });
    const after = (await keyOf())!;
    expect(after.id).not.toBe(before.id);
    const arrival = await received();
    expect(isGenuine(arrival, after.pem)).toBe(true);
    expect(isGenuine(arrival, before.pem)).toBe(false);
  });

  it('are in the exported file as a setting, and their private key is shown nowhere', async () => {
    const exported = await runVerb(['export', '--url', server.url, '--token', adminTokenOf(place)]);
    expect(exported.out).toContain('publicSignature: true');
    expect(exported.out).toMatch(/nextSharedSecret: \$\{CRM_NEXT_SECRET\}/);
    const seen = await Promise.all(
      ['config', 'destinations', 'destinations/crm', 'destinations/crm/status', 'audit', 'status'].map(
        (path) => control.read<unknown>(path),
      ),
    );
    const all = JSON.stringify(seen) + exported.out + server.out.stderr;
    for (const word of ['privateKey', 'signingKey', 'secret-of-crm', 'sealed'])
      expect(all.includes(word)).toBe(false);
    // Written back as it is shown, nothing changes.
    const before = await keyOf();
    const { status } = await control.ask('PATCH', 'destinations/crm', await control.read('destinations/crm'));
    expect(status).toBe(200);
    expect(await keyOf()).toEqual(before);
    const tested = await control.ask<{ data: readonly { request: { headers: object } }[] }>(
      ...(['POST', 'destinations/crm/test', { type: 'track' }] as const),
    );
    expect(JSON.stringify(tested.answer)).not.toContain('secret-of-crm');
  });

  it('take no key from a request', async () => {
    const { status } = await control.ask('PATCH', 'destinations/crm', { signingKey: { id: 'mine' } });
    expect(status).toBe(422);
  });
});
