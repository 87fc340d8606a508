import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Trace } from '../../src/app.ts';
import { send, track } from '../support/calls.ts';
import { makePlace, type Place, type Program, startServer } from '../support/program.ts';
import { startReceiver, type TestReceiver } from '../support/receiver.ts';

const yaml = (receiver: TestReceiver) => `
egress: { allow: [127.0.0.0/8] }
sources: [{ name: website, writeKeys: [wk] }]
destinations:
  - name: crm
    type: webhooks
    sources: [website]
    settings:
      endpoints:
        - { url: "${receiver.url}/in?key=t0ken", headers: { Authorization: Bearer 0123456789abcdef, X-Team: growth } }
      sharedSecret: secret-of-crm
      signingSecrets: [whsec_bWlsbHJhY2UtYWxlcnRzLWV4YW1wbGUtMTIzNDU2]
  - name: both
    type: webhooks
    sources: [website]
    settings: { endpoints: [{ url: "${receiver.url}/a" }, { url: "${receiver.url}/b" }], success: each }
`;

interface Shown {
  readonly data: readonly {
    readonly url: string;
    readonly headers: Readonly<Record<string, unknown>>;
    readonly body: string;
  }[];
  readonly settingsChangedAt?: string;
}

describe('the requests of a delivery', () => {
  let receiver: TestReceiver;
  let place: Place;
  let program: Program;

  beforeEach(async () => {
    receiver = await startReceiver();
    place = makePlace(yaml(receiver));
    program = await startServer(place);
    token = readFileSync(join(place.data, 'admin-token'), 'utf8').trim();
  });

  afterEach(async () => {
    await program.kill();
    await receiver.stop();
    place.remove();
  });

  /** Of the token of the next requests. */
  let token: string;

  async function api<Answer>(method: string, path: string, body?: object): Promise<Answer> {
    const response = await fetch(`${program.url}/api/v1/${path}`, {
      method,
      headers: { authorization: `Bearer ${token}` },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(text);
    return JSON.parse(text) as Answer;
  }

  async function deliveries() {
    const { data } = await api<Trace>('GET', 'events/order-1');
    const [call] = data;
    if (call?.verdict !== 'accepted') throw new Error('the event was not accepted');
    return call.deliveries;
  }

  /** Waits until every request was made and recorded. */
  async function settled() {
    for (;;) {
      const all = await deliveries();
      if (all.every(({ state }) => state === 'delivered')) return all;
    }
  }

  it('are shown as they were sent, byte for byte, without the secrets', async () => {
    await send(program.url, '/v1/track', track('order-1'));
    const all = await settled();
    const crm = all.find(({ destination }) => destination === 'crm')!;
    const arrival = receiver.arrivals.find(({ path }) => path.startsWith('/in'))!;
    const at = new Date(Number(arrival.headers['webhook-timestamp']) * 1000).toISOString();
    const { data, settingsChangedAt } = await api<Shown>('GET', `deliveries/${crm.id}/requests?at=${at}`);
    expect(data).toEqual([
      {
        method: 'POST',
        url: `${receiver.url}/in?key=…`,
        headers: {
          'User-Agent': 'Millrace/1.0',
          'Content-Type': 'application/json',
          'X-Team': 'growth',
          'Webhook-Id': 'order-1',
          'Webhook-Timestamp': arrival.headers['webhook-timestamp'],
          'Webhook-Signature': arrival.headers['webhook-signature'],
          'X-Signature': arrival.headers['x-signature'],
          Authorization: { set: true, hint: expect.stringContaining('cdef') },
        },
        body: arrival.body.toString(),
      },
    ]);
    expect(Date.parse(settingsChangedAt!)).toBeLessThan(Date.parse(crm.attempts[0]!.startedAt));
  });

  it('show no signature to whoever only reads: it would be good for sending the event once more', async () => {
    await send(program.url, '/v1/track', track('order-1'));
    const crm = (await settled()).find(({ destination }) => destination === 'crm')!;
    const made = await api<{ token: string }>('POST', 'tokens', { name: 'reader', role: 'viewer' });
    token = made.token;
    const { data } = await api<Shown>('GET', `deliveries/${crm.id}/requests`);
    expect(data[0]!.headers).toMatchObject({
      'Webhook-Id': 'order-1',
      'Webhook-Signature': { set: true },
      'X-Signature': { set: true },
    });
    expect(JSON.stringify(data)).not.toContain(receiver.arrivals[0]!.headers['x-signature']);
  });

  it('are those of one endpoint where each endpoint is a delivery of its own', async () => {
    await send(program.url, '/v1/track', track('order-1'));
    const lanes = (await settled()).filter(({ destination }) => destination === 'both');
    const urls = await Promise.all(
      lanes.map(async ({ id }) => {
        const { data } = await api<Shown>('GET', `deliveries/${id}/requests`);
        return data.map(({ url }) => url);
      }),
    );
    expect(urls.toSorted()).toEqual([[`${receiver.url}/a`], [`${receiver.url}/b`]]);
  });

  it('say when the settings were changed after they were sent', async () => {
    await send(program.url, '/v1/track', track('order-1'));
    const crm = (await settled()).find(({ destination }) => destination === 'crm')!;
    await api('PATCH', 'destinations/crm', { settings: { format: 'canonical' } });
    const { data, settingsChangedAt } = await api<Shown>('GET', `deliveries/${crm.id}/requests`);
    expect(Date.parse(settingsChangedAt!)).toBeGreaterThan(Date.parse(crm.attempts[0]!.startedAt));
    expect(JSON.parse(data[0]!.body)).toHaveProperty('receivedAt');
  });

  it.each(['nonsense', '1-1', '999999999999999-1', '0-99999999'])('are unknown for %s', async (id) => {
    await expect(api('GET', `deliveries/${id}/requests`)).rejects.toThrow('unknown_delivery');
  });
});
