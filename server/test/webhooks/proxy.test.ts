import { readFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import type { TlsOptions } from 'node:tls';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { createHttpClient, type HttpClientOptions } from '../../src/adapters/http-client/client.ts';
import { type DnsLookup, egressRules } from '../../src/adapters/http-client/egress.ts';
import type { HttpClient } from '../../src/ports/http-client.ts';
import { http, post, type RawServer, type RawServerOptions, startRawServer } from '../support/raw-server.ts';
import { type ConnectProxy, type ConnectProxyOptions, startConnectProxy } from './connect-proxy.ts';

const pem = (name: string) => readFileSync(new URL(`../support/tls/${name}`, import.meta.url), 'utf8');
const certified = (name: string): TlsOptions => ({ cert: pem(`${name}.pem`), key: pem(`${name}.key`) });
const started: (() => Promise<void>)[] = [];

afterEach(async () => {
  vi.unstubAllEnvs();
  for (const stop of started.splice(0).reverse()) await stop();
});

async function startProxy(options: ConnectProxyOptions = {}): Promise<ConnectProxy> {
  const proxy = await startConnectProxy(options);
  started.push(() => proxy.stop());
  return proxy;
}

async function endpoint(options: RawServerOptions = {}): Promise<RawServer> {
  const server = await startRawServer((socket) => socket.write(http('200 OK', 'fine')), options);
  started.push(() => server.stop());
  return server;
}

function transportWith(options: Partial<HttpClientOptions>): HttpClient {
  const transport = createHttpClient({ egress: egressRules(['127.0.0.1/32']), ...options });
  started.push(() => transport.stop());
  return transport;
}

/** Answers as a machine does that knows only these names. */
function names(known: Record<string, readonly string[]>): DnsLookup {
  return (hostname, _options, done) => {
    const addresses = (known[hostname] ?? []).map((address) => ({ address, family: 4 }));
    setImmediate(() => done(null, addresses));
  };
}

describe('a proxy', () => {
  it('carries http and https, to the address that was checked, in the name of the host', async () => {
    const { port, asked } = await startProxy();
    const plain = await endpoint();
    const secure = await endpoint({ tls: certified('server') });
    const lookup = names({ localhost: ['127.0.0.1'], 'hooks.example': ['127.0.0.1'] });
    const transport = transportWith({ proxy: `http://127.0.0.1:${port}`, lookup, ca: pem('ca.pem') });
    expect(await post(transport, `http://hooks.example:${plain.port}/x`)).toMatchObject({ status: 200 });
    expect(await post(transport, `https://localhost:${secure.port}/y`)).toMatchObject({ status: 200 });
    expect(asked.map(({ target }) => target)).toEqual([
      `127.0.0.1:${plain.port}`,
      `127.0.0.1:${secure.port}`,
    ]);
    expect(plain.requests[0]!.head).toMatch(/^POST \/x HTTP\/1\.1\r\n/);
    expect(plain.requests[0]!.head).toContain(`host: hooks.example:${plain.port}`);
    expect(secure.requests[0]!.head).toMatch(/^POST \/y HTTP\/1\.1\r\n/);
  });

  it('keeps its tunnels: ten requests are one CONNECT', async () => {
    const { port, asked } = await startProxy();
    const server = await endpoint();
    const transport = transportWith({ proxy: `http://127.0.0.1:${port}` });
    for (let nth = 0; nth < 10; nth++) {
      expect(await post(transport, `http://127.0.0.1:${server.port}/`)).toMatchObject({ status: 200 });
    }
    expect(asked).toHaveLength(1);
  });

  it('gets the credentials of its URL, decoded, and the endpoint does not', async () => {
    const { port, asked } = await startProxy();
    const server = await endpoint();
    const transport = transportWith({ proxy: `http://us%40er:p%3Ass@127.0.0.1:${port}` });
    await post(transport, `http://127.0.0.1:${server.port}/`);
    expect(asked[0]!.authorization).toBe(`Basic ${Buffer.from('us@er:p:ss').toString('base64')}`);
    expect(server.requests[0]!.head.toLowerCase()).not.toContain('authorization');
  });

  it('can itself be reached over TLS, and its certificate is checked', async () => {
    const { port } = await startProxy({ tls: certified('server') });
    const server = await endpoint({ tls: certified('server') });
    const url = `https://127.0.0.1:${server.port}/`;
    const trusting = transportWith({ proxy: `https://127.0.0.1:${port}`, ca: pem('ca.pem') });
    expect(await post(trusting, url)).toMatchObject({ status: 200 });
    const wary = transportWith({ proxy: `https://127.0.0.1:${port}` });
    expect(await post(wary, url)).toMatchObject({ kind: 'failed', reason: 'connection_failed' });
  });

  it.each(['10.0.0.5', '169.254.169.254', '127.0.0.2'])(
    'is not even asked for the address %s, which is refused',
    async (address) => {
      const { port, asked } = await startProxy();
      const transport = transportWith({
        proxy: `http://127.0.0.1:${port}`,
        lookup: names({ 'hooks.example': [address] }),
      });
      for (const host of [address, 'hooks.example']) {
        const answer = await post(transport, `http://${host}/`);
        expect(answer).toMatchObject({ kind: 'failed', reason: 'egress_refused' });
      }
      expect(asked).toEqual([]);
    },
  );

  it('does not weaken the check of the certificate of the endpoint behind it', async () => {
    const { port } = await startProxy();
    for (const name of ['self-signed', 'expired', 'other-host']) {
      const server = await endpoint({ tls: certified(name) });
      const transport = transportWith({ proxy: `http://127.0.0.1:${port}`, ca: pem('ca.pem') });
      const answer = await post(transport, `https://127.0.0.1:${server.port}/`);
      expect(answer).toMatchObject({ kind: 'failed', reason: 'certificate_untrusted' });
      expect(server.requests).toHaveLength(0);
    }
  });

  it('that refuses is connection_failed and says with what, but not with which password', async () => {
    const { port } = await startProxy({ refuse: () => '407 Proxy Authentication Required' });
    const transport = transportWith({ proxy: `http://u:geheim@127.0.0.1:${port}` });
    const answer = await post(transport, 'http://127.0.0.1:9/');
    expect(answer).toMatchObject({
      kind: 'failed',
      reason: 'connection_failed',
      detail: `the proxy 127.0.0.1:${port} gives no connection: it answered 407 to CONNECT 127.0.0.1:9; it wants other credentials`,
    });
  });

  it('is asked for the next address of a name when it cannot reach the first', async () => {
    const server = await endpoint();
    const { port, asked } = await startProxy({
      refuse: (target) => (target.startsWith('127.0.0.9') ? '502 Bad Gateway' : undefined),
    });
    const transport = transportWith({
      egress: egressRules(['127.0.0.0/8']),
      proxy: `http://127.0.0.1:${port}`,
      lookup: names({ 'hooks.example': ['127.0.0.9', '127.0.0.1'] }),
    });
    const answer = await post(transport, `http://hooks.example:${server.port}/`);
    expect(answer).toMatchObject({ status: 200 });
    expect(asked.map(({ target }) => target.split(':')[0])).toEqual(['127.0.0.9', '127.0.0.1']);
  });

  it('that is not there, that is no proxy, and that hangs up are connection_failed', async () => {
    const transport = transportWith({ proxy: 'http://127.0.0.1:9' });
    expect(await post(transport, 'http://127.0.0.1/')).toMatchObject({ reason: 'connection_failed' });
    for (const speak of [
      (socket: Socket) => socket.write('220 smtp ready\r\n\r\n'),
      (socket: Socket) => socket.end(),
      (socket: Socket) => socket.write('x'.repeat(20_000)),
    ]) {
      const server = await startRawServer(() => {}, { onConnection: speak });
      started.push(() => server.stop());
      const through = transportWith({ proxy: `http://127.0.0.1:${server.port}` });
      expect(await post(through, 'http://127.0.0.1/')).toMatchObject({ reason: 'connection_failed' });
    }
  });

  it('that says 200 in a head without end gives no tunnel, and no byte of it is taken for an answer', async () => {
    const head = `HTTP/1.1 200 Connection established\r\nX-Long: ${'x'.repeat(20_000)}`;
    const server = await startRawServer((socket) => socket.write(head));
    started.push(() => server.stop());
    const transport = transportWith({ proxy: `http://127.0.0.1:${server.port}` });
    expect(await post(transport, 'http://127.0.0.1:9/')).toMatchObject({
      reason: 'connection_failed',
      detail: expect.stringContaining('longer than 16 KB'),
    });
    expect(server.requests).toHaveLength(1);
  });

  it('whose answer comes byte by byte gives a tunnel, and what comes behind it belongs to the tunnel', async () => {
    const head = `HTTP/1.1 200 Established\r\nVia: ${'x'.repeat(3000)}\r\n\r\n`;
    const server = await startRawServer((socket, { head: asked }) => {
      socket.setNoDelay(true);
      if (asked.startsWith('CONNECT')) for (const byte of head) socket.write(byte);
      else socket.write(http('200 OK'));
    });
    started.push(() => server.stop());
    const transport = transportWith({ proxy: `http://127.0.0.1:${server.port}` });
    for (let nth = 0; nth < 2; nth++) {
      expect(await post(transport, 'http://127.0.0.1:9/')).toMatchObject({ status: 200 });
    }
    expect(server.requests.map((request) => request.head.split(' ')[0])).toEqual(['CONNECT', 'POST', 'POST']);
  });

  it.each([
    ['http', 1],
    ['https', 1],
    ['https', 700],
  ])(
    'that cuts a tunnel of %s after %i bytes leaves a failure and nothing else',
    async (scheme, cutAfter) => {
      const { port, asked } = await startProxy({ cutAfter });
      const server = await endpoint(scheme === 'https' ? { tls: certified('server') } : {});
      const transport = transportWith({ proxy: `http://127.0.0.1:${port}`, ca: pem('ca.pem') });
      for (let nth = 1; nth <= 3; nth++) {
        const answer = await post(transport, `${scheme}://127.0.0.1:${server.port}/`);
        expect(answer).toMatchObject({ kind: 'failed', reason: expect.stringMatching(/^connection_/) });
        expect(asked).toHaveLength(nth);
      }
    },
  );

  it('that goes away while tunnels lie idle is asked for new ones', async () => {
    const server = await endpoint({ tls: certified('server') });
    const first = await startConnectProxy();
    const transport = transportWith({ proxy: `http://127.0.0.1:${first.port}`, ca: pem('ca.pem') });
    const url = `https://127.0.0.1:${server.port}/`;
    expect(await post(transport, url)).toMatchObject({ status: 200 });
    await first.stop();
    expect(await post(transport, url)).toMatchObject({ kind: 'failed', reason: 'connection_failed' });
  });

  it('that says nothing is given up when the time of the request is over', async () => {
    const server = await startRawServer(() => {});
    started.push(() => server.stop());
    const transport = transportWith({ proxy: `http://127.0.0.1:${server.port}` });
    const answer = await post(transport, 'http://127.0.0.1/', { timeout: 100 });
    expect(answer).toMatchObject({ reason: 'timeout', detail: 'not connected within 100 ms' });
  });

  it('of the environment is not used', async () => {
    const { port, asked } = await startProxy();
    const server = await endpoint();
    for (const name of ['HTTP_PROXY', 'http_proxy', 'HTTPS_PROXY', 'https_proxy', 'ALL_PROXY']) {
      vi.stubEnv(name, `http://127.0.0.1:${port}`);
    }
    vi.stubEnv('NODE_USE_ENV_PROXY', '1');
    const transport = transportWith({});
    expect(await post(transport, `http://127.0.0.1:${server.port}/`)).toMatchObject({ status: 200 });
    expect(asked).toEqual([]);
  });
});
