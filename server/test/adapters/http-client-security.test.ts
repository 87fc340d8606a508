import { readFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import type { TLSSocket, TlsOptions } from 'node:tls';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { createHttpClient, type HttpClientOptions } from '../../src/adapters/http-client/client.ts';
import { type DnsLookup, egressRules } from '../../src/adapters/http-client/egress.ts';
import type { HttpClient } from '../../src/ports/http-client.ts';
import {
  closed,
  http,
  post,
  type RawServer,
  type RawServerOptions,
  startRawServer,
} from '../support/raw-server.ts';
import { steadyTime } from '../support/steady-time.ts';

steadyTime();

const LOOPBACK = egressRules(['127.0.0.0/8']);
const started: (() => Promise<void>)[] = [];

afterEach(async () => {
  vi.unstubAllEnvs();
  await Promise.all(started.splice(0).map((stop) => stop()));
});

function transportWith(options: Partial<HttpClientOptions> = {}): HttpClient {
  const transport = createHttpClient({ egress: LOOPBACK, ...options });
  started.push(() => transport.stop());
  return transport;
}

async function receiver(options: RawServerOptions = {}): Promise<RawServer> {
  const server = await startRawServer((socket) => socket.write(http('200 OK')), options);
  started.push(() => server.stop());
  return server;
}

function names(answers: Record<string, string[]>): DnsLookup {
  return (hostname, _options, done) => {
    const addresses = answers[hostname]?.map((address) => ({
      address,
      family: address.includes(':') ? 6 : 4,
    }));
    const error = Object.assign(new Error(`getaddrinfo ENOTFOUND ${hostname}`), { code: 'ENOTFOUND' });
    setImmediate(() => (addresses === undefined ? done(error, []) : done(null, addresses)));
  };
}

describe('addresses', () => {
  test.each([
    '127.0.0.1',
    '127.1',
    '0x7f.1',
    '2130706433',
    '0177.0.0.1',
    '0.0.0.0',
    '[::1]',
    '[::]',
    '[::ffff:127.0.0.1]',
    '[::ffff:7f00:1]',
    '[::127.0.0.1]',
    '[64:ff9b::127.0.0.1]',
  ])('nothing is sent to the literal address %s', async (host) => {
    const server = await receiver();
    const transport = transportWith({ egress: egressRules([]) });
    const answer = await post(transport, `http://${host}:${server.port}/`);
    expect(answer).toMatchObject({ kind: 'failed', reason: 'egress_refused' });
    expect(answer).toMatchObject({
      detail: expect.stringContaining('add it to egress.allow if it is yours'),
    });
    expect(server.sockets).toHaveLength(0);
  });

  test.each([
    ['a private address', ['10.0.0.5']],
    ['a private and a loopback address', ['127.0.0.1', '10.0.0.5']],
    ['the address of a metadata service', ['169.254.169.254']],
    ['a mapped loopback address', ['::ffff:127.0.0.1']],
  ])('nothing is sent to a name with %s', async (_name, addresses) => {
    const server = await receiver();
    const lookup = names({ 'hooks.example': addresses });
    const transport = transportWith({ egress: egressRules([]), lookup });
    const answer = await post(transport, `http://hooks.example:${server.port}/`);
    expect(answer).toMatchObject({ kind: 'failed', reason: 'egress_refused' });
    expect(answer).toMatchObject({ detail: expect.stringContaining(addresses[0]!) });
    expect(server.sockets).toHaveLength(0);
  });

  test('a name with an allowed and a refused address is connected to over the allowed one alone', async () => {
    const server = await receiver();
    const lookup = names({ 'hooks.example': ['::1', '127.0.0.9', '127.0.0.1'] });
    const url = `http://hooks.example:${server.port}/`;
    const right = transportWith({ egress: egressRules(['127.0.0.1/32']), lookup });
    expect(await post(right, url)).toMatchObject({ status: 200 });
    // The only allowed address has no listener, and the client must not turn to the refused ones.
    const wrong = transportWith({ egress: egressRules(['127.0.0.9/32']), lookup });
    expect(await post(wrong, url)).toMatchObject({ kind: 'failed', reason: 'connection_refused' });
    expect(server.sockets).toHaveLength(1);
  });

  test('a name that moves to a refused address is refused from the next connection on', async () => {
    const server = await receiver();
    const answers = { 'hooks.example': ['127.0.0.1'] };
    const transport = transportWith({ egress: egressRules(['127.0.0.1/32']), lookup: names(answers) });
    const url = `http://hooks.example:${server.port}/`;
    expect(await post(transport, url)).toMatchObject({ status: 200 });
    answers['hooks.example'] = ['127.0.0.2'];
    server.sockets[0]!.end();
    await closed(server.sockets[0]);
    expect(await post(transport, url)).toMatchObject({ kind: 'failed', reason: 'egress_refused' });
    expect(server.sockets).toHaveLength(1);
  });

  test('connects to the address that was checked, in the name of the host', async () => {
    const server = await receiver();
    const lookup = vi.fn<DnsLookup>(names({ 'hooks.example': ['127.0.0.1'] }));
    const transport = transportWith({ lookup });
    const url = `http://hooks.example:${server.port}/`;
    expect(await post(transport, url)).toMatchObject({ status: 200 });
    expect(server.requests[0]!.head).toContain(`host: hooks.example:${server.port}`);
    expect(lookup).toHaveBeenCalledTimes(1);
  });

  test('tries the other addresses of a name when one does not take the connection', async () => {
    const server = await receiver();
    const lookup = names({ 'hooks.example': ['127.0.0.9', '127.0.0.1'] });
    const answer = await post(transportWith({ lookup }), `http://hooks.example:${server.port}/`);
    expect(answer).toMatchObject({ status: 200 });
  });

  test('a name that does not resolve is name_not_resolved', async () => {
    const answer = await post(transportWith({ lookup: names({}) }), 'http://nowhere.example/');
    expect(answer).toMatchObject({
      kind: 'failed',
      reason: 'name_not_resolved',
      detail: 'nowhere.example does not resolve (ENOTFOUND)',
    });
  });

  test('a lookup that never answers is a timeout, and one lookup of a name runs at a time', async () => {
    const lookup = vi.fn<DnsLookup>(() => {});
    const transport = transportWith({ lookup });
    const posts = [1, 2, 3].map(() => post(transport, 'http://hooks.example/', { timeout: 100 }));
    for (const answer of await Promise.all(posts)) {
      expect(answer).toMatchObject({ reason: 'timeout', detail: 'not connected within 100 ms' });
    }
    expect(lookup).toHaveBeenCalledTimes(1);
  });
});

describe('certificates', () => {
  const pem = (name: string) => readFileSync(new URL(`../support/tls/${name}`, import.meta.url), 'utf8');
  const certified = (name: string): TlsOptions => ({ cert: pem(`${name}.pem`), key: pem(`${name}.key`) });
  const ca = pem('ca.pem');

  test.each([
    ['self-signed', 'self-signed certificate (DEPTH_ZERO_SELF_SIGNED_CERT)'],
    ['expired', 'certificate has expired (CERT_HAS_EXPIRED)'],
    ['other-host', 'certificate is for another host (ERR_TLS_CERT_ALTNAME_INVALID)'],
  ])('no request is sent to a receiver with a %s certificate', async (name, detail) => {
    // Many programs leave this switch on by mistake; it must have no effect.
    vi.stubEnv('NODE_TLS_REJECT_UNAUTHORIZED', '0');
    const server = await receiver({ tls: certified(name) });
    const transport = transportWith({ ca });
    const answer = await post(transport, `https://127.0.0.1:${server.port}/`);
    expect(answer).toMatchObject({ kind: 'failed', reason: 'certificate_untrusted', detail });
    expect(server.requests).toHaveLength(0);
  });

  test('an authority nobody knows is not trusted', async () => {
    const server = await receiver({ tls: certified('server') });
    const answer = await post(transportWith(), `https://127.0.0.1:${server.port}/`);
    expect(answer).toMatchObject({ kind: 'failed', reason: 'certificate_untrusted' });
    expect(server.requests).toHaveLength(0);
  });

  test.each(['127.0.0.1', 'localhost', 'localhost.'])(
    'a private authority is trusted when given, for %s',
    async (host) => {
      const server = await receiver({ tls: certified('server') });
      const transport = transportWith({ ca, lookup: names({ [host]: ['127.0.0.1'] }) });
      for (let i = 0; i < 3; i++) {
        expect(await post(transport, `https://${host}:${server.port}/`)).toMatchObject({ status: 200 });
      }
      expect(server.sockets).toHaveLength(1);
      const { servername } = server.sockets[0] as TLSSocket;
      expect(servername).toBe(host === '127.0.0.1' ? false : 'localhost');
    },
  );

  test('a Host header is refused: the certificate and the receiver are those of the URL', async () => {
    const server = await receiver({ tls: certified('other-host') });
    const transport = transportWith({ ca });
    const headers = { Host: 'other.example' };
    for (const given of [{ headers }, { headers: {}, fixedHeaders: headers }]) {
      const answer = await post(transport, `https://127.0.0.1:${server.port}/`, given);
      expect(answer).toMatchObject({ kind: 'failed', reason: 'invalid_request' });
    }
    const answer = await post(transport, `https://127.0.0.1:${server.port}/`);
    expect(answer).toMatchObject({ kind: 'failed', reason: 'certificate_untrusted' });
    expect(server.requests).toHaveLength(0);
  });

  test('a receiver that does not speak TLS is connection_failed', async () => {
    const server = await receiver({ onConnection: (socket) => socket.write('220 smtp ready\r\n') });
    const answer = await post(transportWith(), `https://127.0.0.1:${server.port}/`);
    expect(answer).toMatchObject({ kind: 'failed', reason: 'connection_failed' });
  });

  test('a handshake that never ends is a timeout, and the attempt to connect is given up', async () => {
    const server = await receiver();
    const transport = transportWith();
    const answer = post(transport, `https://127.0.0.1:${server.port}/`, { timeout: 150 });
    await server.opened(1);
    const gone = closed(server.sockets[0]);
    expect(await answer).toMatchObject({ reason: 'timeout', detail: 'not connected within 150 ms' });
    await gone;
  });

  test('stop gives up handshakes too', async () => {
    const sockets: Socket[] = [];
    const server = await receiver({ onConnection: (socket) => sockets.push(socket) });
    const transport = transportWith();
    const answer = post(transport, `https://127.0.0.1:${server.port}/`);
    await server.opened(1);
    const gone = closed(sockets[0]);
    await transport.stop();
    expect(await answer).toMatchObject({ kind: 'failed', reason: 'connection_closed' });
    await gone;
  });
});
