import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { checkReachability } from '../../src/adapters/http-client/egress-report.ts';
import { freePort, startReceiver, type TestReceiver } from '../support/receiver.ts';

const TLS = join(import.meta.dirname, '../support/tls');
const pem = (name: string) => readFileSync(join(TLS, `${name}.pem`));
const key = (name: string) => readFileSync(join(TLS, `${name}.key`));
const allow = ['127.0.0.0/8'];
const ca = join(TLS, 'ca.pem');

const receivers: TestReceiver[] = [];
afterEach(async () => {
  await Promise.all(receivers.splice(0).map((receiver) => receiver.stop()));
});

async function receiver(certificate?: string): Promise<TestReceiver> {
  const tls = certificate === undefined ? {} : { tls: { cert: pem(certificate), key: key(certificate) } };
  const started = await startReceiver(tls);
  receivers.push(started);
  return started;
}

test('an endpoint is connected to, and no request is sent', async () => {
  const { url, arrivals } = await receiver();
  expect(await checkReachability(`${url}/in`, { allow })).toEqual({
    kind: 'connected',
    ms: expect.any(Number),
  });
  expect(arrivals).toEqual([]);
});

test('the end of a certificate is told, and one that requests would not accept is refused', async () => {
  const good = await receiver('server');
  const localhost = (one: TestReceiver) => `https://localhost:${one.port}/in`;
  const reached = await checkReachability(localhost(good), { allow: [...allow, '::1/128'], ca });
  expect(reached).toMatchObject({ kind: 'connected', certificateEndsAt: expect.any(Number) });
  const expired = await receiver('expired');
  expect(await checkReachability(localhost(expired), { allow: [...allow, '::1/128'], ca })).toMatchObject({
    ...{ kind: 'failed', reason: 'certificate_untrusted', detail: expect.stringContaining('expired') },
  });
  expect(await checkReachability(localhost(good), { allow: [...allow, '::1/128'] })).toMatchObject({
    ...{ kind: 'failed', reason: 'certificate_untrusted' },
  });
});

test('what is refused, what nobody listens to, and what has no name is told as deliveries have it', async () => {
  const { url } = await receiver();
  const closed = `http://127.0.0.1:${await freePort()}/`;
  expect(await checkReachability(url, { allow: [] })).toMatchObject({
    kind: 'failed',
    reason: 'egress_refused',
  });
  expect(await checkReachability(closed, { allow })).toMatchObject({
    kind: 'failed',
    reason: 'connection_refused',
  });
  const lookup = (_name: string, _options: object, done: (error: NodeJS.ErrnoException, found: []) => void) =>
    done(Object.assign(new Error('no'), { code: 'ENOTFOUND' }), []);
  expect(await checkReachability('http://a.example', { allow }, { lookup })).toMatchObject({
    ...{ kind: 'failed', reason: 'name_not_resolved' },
  });
  expect(await checkReachability('nonsense', { allow })).toMatchObject({
    kind: 'failed',
    reason: 'invalid_request',
  });
  expect(await checkReachability(closed, { allow, ca: '/nowhere.pem' })).toMatchObject({
    ...{ kind: 'failed', detail: expect.stringContaining('/nowhere.pem') },
  });
});

test('an endpoint whose name is looked up for ever is given up', async () => {
  const reached = await checkReachability(
    'https://a.example/',
    { allow },
    { lookup: () => {}, patience: 20 },
  );
  expect(reached).toEqual({ kind: 'failed', reason: 'timeout', detail: 'no connection within 0.02 s' });
});
