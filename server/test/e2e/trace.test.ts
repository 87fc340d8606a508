import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runVerb } from '../../../cli/test/program.ts';
import type { Trace } from '../../src/app.ts';
import { send, track } from '../support/calls.ts';
import { makePlace, type Place, type Program, startServer } from '../support/program.ts';
import { freePort, startReceiver, type TestReceiver } from '../support/receiver.ts';
import { until } from '../support/until.ts';

type Call = Trace['data'][number];
type Accepted = Extract<Call, { verdict: 'accepted' }>;

/**
 * Three destinations: one that accepts at the second try at the earliest, one that refuses, one where nothing
 * listens.
 */
const yaml = (receiver: TestReceiver, down: number) => `
egress: { allow: [127.0.0.0/8] }
sources:
  - { name: website, writeKeys: [wk] }
  - { name: app, writeKeys: [wk_app] }
destinations:
  - { name: crm, type: webhooks, sources: [website], settings: { endpoints: [{ url: "${receiver.url}/in" }] } }
  - { name: refuses, type: webhooks, sources: [website], settings: { endpoints: [{ url: "${receiver.url}/no?token=t0ken" }] } }
  - { name: down, type: webhooks, sources: [website], settings: { endpoints: [{ url: "http://127.0.0.1:${down}/" }] } }
  - { name: off, type: webhooks, sources: [website], enabled: false, settings: { endpoints: [{ url: "${receiver.url}/" }] } }
`;

describe('where an event is', () => {
  let receiver: TestReceiver;
  let place: Place;
  let program: Program;

  beforeAll(async () => {
    receiver = await startReceiver({
      answer: (response, { path }) =>
        path.startsWith('/no') ? void response.writeHead(410).end('gone for good') : void response.end(),
    });
    place = makePlace(yaml(receiver, await freePort()));
    await start();
  });

  afterAll(async () => {
    await program.kill();
    await receiver.stop();
    place.remove();
  });

  async function start(): Promise<void> {
    program = await startServer(place);
  }

  const trace = (...args: string[]) =>
    runVerb(['trace', '--url', program.url, '--data', place.data, ...args]);

  async function traced(...args: string[]): Promise<Trace> {
    const { code, out, err } = await trace(...args, '--json');
    expect({ code, err }).toEqual({ code: 0, err: '' });
    return JSON.parse(out) as Trace;
  }

  /** Asks until every request that is due at once has been made and recorded. */
  async function settled(id: string): Promise<Accepted> {
    return until(`every request of ${id} is recorded`, async () => {
      const { data } = await traced(id);
      const call = data[0] as Accepted;
      return call.deliveries.every(({ attempts }) => attempts.length > 0) && call;
    });
  }

  it('is answered for every destination: delivered, dead, retrying or skipped, with every request made', async () => {
    await send(program.url, '/v1/track', track('order-1'));
    const call = await settled('order-1');
    expect(call).toMatchObject({
      source: 'website',
      verdict: 'accepted',
      event: { messageId: 'order-1', type: 'track', event: 'Order Placed' },
      skipped: [{ destination: 'off', reason: 'destination_disabled' }],
    });
    const [crm, refuses, down] = call.deliveries;
    expect(crm).toMatchObject({ destination: 'crm', state: 'delivered' });
    expect(crm!.attempts).toEqual([
      {
        ...{ endpoint: `${receiver.url}/in`, startedAt: expect.any(String), latencyMs: expect.any(Number) },
        ...{ outcome: 'accepted', reason: 'status_200', status: 200 },
      },
    ]);
    expect(refuses).toMatchObject({
      ...{ destination: 'refuses', state: 'dead', reason: 'status_410' },
      attempts: [{ outcome: 'refused', status: 410, answer: 'gone for good' }],
    });
    expect(down).toMatchObject({
      ...{ destination: 'down', state: 'retrying' },
      attempts: expect.arrayContaining([
        expect.objectContaining({ outcome: 'retryable', reason: 'connection_refused' }),
      ]),
    });
    expect(new Set(call.deliveries.map(({ id }) => id)).size).toBe(3);

    const { out } = await trace('order-1');
    expect(out).toMatch(
      /^order-1 {2}track "Order Placed" of user u1\naccepted from website at 20\S+, \d+ s ago\n/,
    );
    expect(out).toMatch(
      /\ncrm {2}delivered\n {2}\d\d:\d\d:\d\d\.\d{3} {2}http:\S+\/in +status_200 +[\d.]+ ms\n/,
    );
    expect(out).toMatch(/\nrefuses {2}dead: status_410\n.*gone for good\n/);
    // The time of the next try depends on how long all this took.
    expect(out).toMatch(/\ndown {2}retrying: [^\n]+\n.*connection_refused/);
    expect(out).toMatch(/\noff {2}skipped: destination_disabled\n/);
    expect(out).not.toContain('t0ken');
  });

  it('is answered after a restart too', async () => {
    await send(program.url, '/v1/track', track('order-2'));
    const before = await settled('order-2');
    await program.kill();
    await start();
    const { data } = await traced('order-2');
    const requests = (call: Call | undefined) =>
      (call as Accepted).deliveries.map(({ attempts }) => attempts[0]!);
    // The clock of the new process may be a millisecond off.
    const withoutTime = (call: Call | undefined) =>
      requests(call).map(({ startedAt, ...rest }) => ({
        ...rest,
        isTimed: !Number.isNaN(Date.parse(startedAt)),
      }));
    expect(withoutTime(data[0])).toEqual(withoutTime(before));
    const shifts = requests(data[0]).map(
      ({ startedAt }, nth) => Date.parse(startedAt) - Date.parse(requests(before)[nth]!.startedAt),
    );
    for (const shift of shifts) expect(Math.abs(shift)).toBeLessThan(1000);
  });

  it('is answered for each source that used the id', async () => {
    await send(program.url, '/v1/track', track('same'));
    await send(program.url, '/v1/track', track('same'), { writeKey: 'wk_app' });
    const { data } = await traced('same');
    expect(data.map(({ source }) => source).sort()).toEqual(['app', 'website']);
    expect((await traced('same', '--source', 'app')).data).toMatchObject([{ source: 'app', deliveries: [] }]);
    expect((await trace('same', '--source', 'app')).out).toContain(
      'no destination is connected to this source',
    );
  });

  it('is answered for a call that was discarded, as far as samples are kept', async () => {
    await send(program.url, '/v1/batch', { batch: [{ type: 'track', userId: 'u1', messageId: 'bad "1"' }] });
    const { data } = await traced('bad "1"');
    expect(data).toMatchObject([{ source: 'website', verdict: 'discarded', reason: 'event_not_defined' }]);
    expect((await trace('bad "1"')).out).toMatch(
      /^discarded from website at 20\S+, \d+ s ago: event_not_defined\n/,
    );
  });

  it('says what it can mean that nothing is known', async () => {
    const { code, out, err } = await trace('never/seen?');
    expect({ code, out }).toEqual({ code: 1, out: '' });
    expect(err).toMatch(/knows no event with the messageId "never\/seen\?": it was never accepted here/);
  });

  it('wants a messageId, and names a missing token', async () => {
    expect((await trace()).code).toBe(2);
    const { code, err } = await runVerb(['trace', 'x', '--url', program.url], { MILLRACE_DATA: '/nowhere' });
    expect(code).toBe(1);
    expect(err).toContain('wants a token');
  });
});
