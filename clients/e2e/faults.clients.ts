import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  type Fault,
  PASS,
  refusal,
  type Script,
  startFaultProxy,
  tooMany,
} from '../../server/test/support/fault-proxy.ts';
import { type ClientOptions, libraries, startDriver } from './library.ts';
import { Trial } from './trial.ts';
import { expectSum } from './world.ts';

const TLS = fileURLToPath(new URL('../../server/test/support/tls/', import.meta.url));

const { found } = libraries();

/** The same sum as in `sum.clients.ts`, over a network that fails in every way a network fails. */
describe.each(found)('the $name client over a faulty network', (library) => {
  const trial = new Trial(library);
  beforeAll(() => trial.begin());
  afterAll(() => trial.end());

  /** Each of the first requests meets a fault; what is sent again passes in the end. */
  const TROUBLES: readonly (readonly [string, readonly Fault[], ClientOptions])[] = [
    ['429 with Retry-After', [tooMany(2), tooMany(1), tooMany(1)], {}],
    ['503', [refusal(503), refusal(503, { 'retry-after': '3' }), refusal(503)], {}],
    ['500, 502, 504 and 408', [refusal(500), refusal(502), refusal(504), refusal(408)], {}],
    ['a reset before the server has it', [{ kind: 'reset', when: 'before' }], {}],
    [
      'a reset after the server has it',
      [
        { kind: 'reset', when: 'after' },
        { kind: 'reset', when: 'after' },
      ],
      {},
    ],
    [
      'a connection closed before and after',
      [
        { kind: 'close', when: 'before' },
        { kind: 'close', when: 'after' },
      ],
      {},
    ],
    ['an answer slower than the limit', [{ kind: 'slow', delay: 6000 }], { timeoutMs: 2000 }],
    ['a slow answer within the limit', [{ kind: 'slow', delay: 700 }], {}],
    ['no answer, not received', [{ kind: 'hang', when: 'before' }], { timeoutMs: 2000 }],
    ['no answer, received (half-open)', [{ kind: 'hang', when: 'after' }], { timeoutMs: 2000 }],
    ['a request doubled on the way', [{ kind: 'twice' }], {}],
  ];

  it.each(TROUBLES)('delivers every call once after %s', async (_, faults, options) => {
    const client = await trial.start(options);
    const script = faultsPerRequest(faults);
    trial.world.proxy.use(script);
    await trial.calls(client, 60);
    expect(await client.flush()).toMatchObject({ ok: true });
    const { succeeded, failed } = await expectSum(trial.world, client, trial.prefix);
    expect({ succeeded: succeeded.size, failed: [...failed] }).toEqual({ succeeded: 60, failed: [] });
    await client.close();
    await trial.finish();
  });

  it('takes an answer whose body is cut off for what its status says, or tries again: never twice', async () => {
    const client = await trial.start();
    trial.world.proxy.use(faultsPerRequest([{ kind: 'cut' }, { kind: 'cut' }]));
    await trial.calls(client, 40);
    await client.close();
    expect((await expectSum(trial.world, client, trial.prefix)).succeeded.size).toBe(40);
    await trial.finish();
  });

  it('delivers every call once over connections that are reset or never read from', async () => {
    const client = await trial.start({ timeoutMs: 2000 });
    trial.world.proxy.useConnections(
      (nth) => (['reset', 'deaf', 'reset', 'deaf'] as const)[nth % 9] ?? 'accept',
    );
    await trial.calls(client, 60);
    await client.close();
    expect((await expectSum(trial.world, client, trial.prefix)).succeeded.size).toBe(60);
    await trial.finish();
  });

  it.each([
    [400, 'refused'],
    [401, 'refused'],
    [413, 'refused'],
    [501, 'refused'],
    [301, 'refused'],
  ])('reports the calls of a request that was answered with %i', async (status, code) => {
    const client = await trial.start();
    trial.world.proxy.use(faultsPerRequest([refusal(status, status === 301 ? { location: '/' } : {})], 1));
    await trial.calls(client, 40);
    await client.close();
    const { succeeded, failed } = await expectSum(trial.world, client, trial.prefix);
    expect([succeeded.size, failed.size]).toEqual([20, 20]);
    const losses = client.reported.filter(({ callback }) => callback === 'failure');
    expect(new Set(losses.map(({ error }) => error?.code))).toEqual(new Set([code]));
    for (const id of failed) expect(trial.world.arrived().has(id)).toBe(false);
    await trial.finish();
  });

  it('reports every call when the write key is unknown', async () => {
    const client = await trial.start({ writeKey: 'nobody' });
    await trial.calls(client, 30);
    expect(await client.flush()).toMatchObject({ ok: true });
    expect((await expectSum(trial.world, client, trial.prefix)).failed.size).toBe(30);
    await client.close();
    await trial.finish();
  });

  it('gives up after ten tries and says so', async () => {
    const client = await trial.start({ waitScale: 0.002 });
    trial.world.proxy.use(() => refusal(503));
    await trial.calls(client, 20);
    await client.flush();
    const { failed } = await expectSum(trial.world, client, trial.prefix);
    expect(failed.size).toBe(20);
    expect(client.reported.every(({ tries, error }) => tries === 10 && error?.code === 'gave_up')).toBe(true);
    expect(trial.world.proxy.requests.filter(({ body }) => body.includes(`"${trial.prefix}0"`))).toHaveLength(
      10,
    );
    await client.close();
    await trial.finish();
  });

  it.each(['self-signed', 'expired', 'other-host'])(
    'does not speak to a server whose certificate is %s',
    async (name) => {
      const secure = await startFaultProxy(trial.world.url, () => PASS, { tls: certificate(name) });
      const client = await trial.start(
        { endpoint: secure.url, waitScale: 0.002, ca: join(TLS, 'ca.pem') },
        TRUST,
      );
      await trial.calls(client, 20);
      await client.flush();
      expect((await expectSum(trial.world, client, trial.prefix)).failed.size).toBe(20);
      expect(secure.requests).toEqual([]);
      await client.close();
      await trial.finish();
      await secure.stop();
    },
  );

  it('speaks to a server whose certificate is trusted', async () => {
    const secure = await startFaultProxy(trial.world.url, () => PASS, { tls: certificate('server') });
    const client = await trial.start({ endpoint: secure.url, ca: join(TLS, 'ca.pem') }, TRUST);
    await trial.calls(client, 20);
    await client.close();
    expect((await expectSum(trial.world, client, trial.prefix)).succeeded.size).toBe(20);
    await trial.finish();
    await secure.stop();
  });

  it('has the true time at the webhook although its clock is three hours off', async () => {
    const ahead = 3 * 3_600_000;
    const probe = await startDriver(library, { writeKey: 'wk', clockOffsetMs: ahead }).catch(() => undefined);
    const hasClock = probe?.ready.ready === true;
    await probe?.end();
    // The clock of a program without one to replace is right; the rest of this test holds for it too.
    const client = await trial.start(hasClock ? { clockOffsetMs: ahead, waitScale: 1 } : { waitScale: 1 });
    if (!hasClock)
      console.log(`${library.name}: the client has no clock to set wrong, so only its sentAt is looked at`);
    // Sent again after more than two seconds: only a sentAt made anew for that try leads to the true time.
    trial.world.proxy.use(faultsPerRequest([tooMany(2)]));
    const made = Date.now();
    await trial.calls(client, 20);
    await client.close();
    expect((await expectSum(trial.world, client, trial.prefix)).succeeded.size).toBe(20);
    const timestamp = Date.parse(String(trial.world.event(`${trial.prefix}0`)!['timestamp']));
    expect(timestamp).toBeGreaterThan(made - 1_000);
    expect(timestamp).toBeLessThan(Date.now() + 1_000);
    const sent = trial.world.proxy.requests
      .filter(({ body }) => body.includes(`"${trial.prefix}0"`))
      .map(({ body }) => Date.parse(String((JSON.parse(body.toString()) as { sentAt: unknown }).sentAt)));
    expect(sent).toHaveLength(2);
    expect(sent[1]! - sent[0]!).toBeGreaterThan(1_900);
    await trial.finish();
  });
});

/** These faults in order, one per request with calls, then none. */
function faultsPerRequest(faults: readonly Fault[], most = faults.length): Script {
  let next = 0;
  return ({ method }) => (method === 'POST' && next < most ? (faults[next++] ?? PASS) : PASS);
}

function certificate(name: string): { key: Buffer; cert: Buffer } {
  return { key: readFileSync(join(TLS, `${name}.key`)), cert: readFileSync(join(TLS, `${name}.pem`)) };
}

/** Node reads additional authorities from its environment, when it starts. */
const TRUST = { NODE_EXTRA_CA_CERTS: join(TLS, 'ca.pem') };
