import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Trace } from '../../src/app.ts';
import { send, track } from '../support/calls.ts';
import { ControlApi } from '../support/control-api.ts';
import { adminTokenOf, makePlace, type Place, type Program, startServer } from '../support/program.ts';
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

type Accepted = Extract<Trace['data'][number], { verdict: 'accepted' }>;

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

  beforeAll(async () => {
    receiver = await startReceiver();
    place = makePlace(yaml(receiver));
    program = await startServer(place);
  });

  beforeEach(() => {
    token = adminTokenOf(place);
    order = `order-${++orders}`;
  });

  afterAll(async () => {
    await program.kill();
    await receiver.stop();
    place.remove();
  });

  /** Of the token of the next requests. */
  let token: string;
  /** The messageId of the event of this test. */
  let order: string;
  let orders = 0;

  const control = new ControlApi(() => ({ url: program.url, token }));
  const requestsOf = (delivery: string, query = '') =>
    control.read<Shown>(`deliveries/${delivery}/requests${query}`);

  const arrivalAtCrm = () =>
    receiver.arrivals.find(({ path, headers }) => path.startsWith('/in') && headers['webhook-id'] === order)!;

  /** The deliveries of the event, once every request was made and recorded. */
  async function settled() {
    const { data } = await control.until<Trace>(`events/${order}`, ({ data: [call] }) => {
      if (call?.verdict !== 'accepted') throw new Error('the event was not accepted');
      return call.deliveries.every(({ state }) => state === 'delivered');
    });
    return (data[0] as Accepted).deliveries;
  }

  it('are shown as they were sent, byte for byte, without the secrets', async () => {
    await send(program.url, '/v1/track', track(order));
    const all = await settled();
    const crm = all.find(({ destination }) => destination === 'crm')!;
    const arrival = arrivalAtCrm();
    const { data, settingsChangedAt } = await requestsOf(crm.id);
    expect(data).toEqual([
      {
        method: 'POST',
        url: `${receiver.url}/in?key=…`,
        headers: {
          Accept: '*/*',
          'User-Agent': 'Millrace/1.0',
          'Content-Type': 'application/json',
          'X-Team': 'growth',
          'Webhook-Id': order,
          'Webhook-Timestamp': expect.stringMatching(/^\d{10}$/),
          'Webhook-Signature': expect.stringMatching(/^v1,/),
          'X-Signature': arrival.headers['x-signature'],
          Authorization: { set: true, hint: expect.stringContaining('cdef') },
        },
        body: arrival.body.toString(),
      },
    ]);
    expect(Date.parse(settingsChangedAt!)).toBeLessThan(Date.parse(crm.attempts[0]!.startedAt));
    // A signature for a time to come would be good then.
    const made = Number(data[0]!.headers['Webhook-Timestamp']);
    expect(made).toBeGreaterThanOrEqual(Number(arrival.headers['webhook-timestamp']));
    expect(made).toBeLessThanOrEqual(Date.now() / 1000);
    const later = new Date(Date.now() + 86_400_000).toISOString();
    await expect(requestsOf(crm.id, `?at=${later}`)).rejects.toThrow('invalid_parameters');
  });

  it('show no signature to whoever only reads: it would be good for sending the event once more', async () => {
    await send(program.url, '/v1/track', track(order));
    const crm = (await settled()).find(({ destination }) => destination === 'crm')!;
    const reader = { name: 'reader', role: 'viewer' };
    token = (await control.ask<{ token: string }>('POST', 'tokens', reader)).answer.token;
    const { data } = await requestsOf(crm.id);
    expect(data[0]!.headers).toMatchObject({
      'Webhook-Id': order,
      'Webhook-Signature': { set: true },
      'X-Signature': { set: true },
    });
    expect(JSON.stringify(data)).not.toContain(String(arrivalAtCrm().headers['x-signature']));
  });

  it('are those of one endpoint where each endpoint is a delivery of its own', async () => {
    await send(program.url, '/v1/track', track(order));
    const lanes = (await settled()).filter(({ destination }) => destination === 'both');
    const urls = await Promise.all(
      lanes.map(async ({ id }) => {
        const { data } = await requestsOf(id);
        return data.map(({ url }) => url);
      }),
    );
    expect(urls.toSorted()).toEqual([[`${receiver.url}/a`], [`${receiver.url}/b`]]);
  });

  it('say when the settings were changed after they were sent', async () => {
    await send(program.url, '/v1/track', track(order));
    const crm = (await settled()).find(({ destination }) => destination === 'crm')!;
    await control.ask('PATCH', 'destinations/crm', { settings: { format: 'canonical' } });
    const { data, settingsChangedAt } = await requestsOf(crm.id);
    expect(Date.parse(settingsChangedAt!)).toBeGreaterThan(Date.parse(crm.attempts[0]!.startedAt));
    expect(JSON.parse(data[0]!.body)).toHaveProperty('receivedAt');
  });

  it.each(['nonsense', '1-1', '999999999999999-1', '0-99999999'])('are unknown for %s', async (id) => {
    await expect(requestsOf(id)).rejects.toThrow('unknown_delivery');
  });
});
