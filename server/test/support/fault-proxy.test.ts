import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { request } from 'node:https';
import { connect, type Socket } from 'node:net';
import { gzipSync } from 'node:zlib';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  type Fault,
  type FaultProxy,
  inOrder,
  PASS,
  refusal,
  startFaultProxy,
  tooMany,
} from './fault-proxy.ts';
import { startReceiver, type TestReceiver } from './receiver.ts';

describe('the fault proxy', () => {
  let server: TestReceiver;
  let proxy: FaultProxy;

  beforeEach(async () => {
    server = await startReceiver({ answer: (response) => response.end('{"success":true}') });
    proxy = await startFaultProxy(server.url);
  });
  afterEach(async () => {
    await proxy.stop();
    await server.stop();
  });

  /** The bytes the client got, and how its connection ended. */
  async function post(
    path = '/v1/track',
  ): Promise<{ socket: Socket; got: () => string; ended: Promise<string> }> {
    const socket = connect(proxy.port, '127.0.0.1');
    let got = '';
    socket.setEncoding('utf8').on('data', (text: string) => {
      got += text;
    });
    const ended = new Promise<string>((resolve) => {
      socket.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? ''));
      socket.once('end', () => resolve('end'));
    });
    socket.write(`POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}`);
    return { socket, got: () => got, ended };
  }

  it('passes a request on with its method, path, headers and bytes, and the answer back', async () => {
    const body = gzipSync('{"a":1}');
    const answer = await fetch(`${proxy.url}/v1/track?x=1`, {
      method: 'POST',
      headers: { 'Content-Encoding': 'gzip', 'X-Own': 'yes' },
      body,
    });
    expect([answer.status, await answer.text()]).toEqual([200, '{"success":true}']);
    const [arrival] = server.arrivals;
    expect(arrival!.path).toBe('/v1/track?x=1');
    expect(arrival!.headers).toMatchObject({ 'content-encoding': 'gzip', 'x-own': 'yes' });
    expect(arrival!.body.equals(body)).toBe(true);
    expect(proxy.requests).toMatchObject([{ method: 'POST', serverStatus: 200, clientStatus: 200 }]);
    expect(proxy.passed).toBe(1);
  });

  it('plays the faults of a list in order, one a POST, then passes', async () => {
    proxy.use(inOrder([tooMany(7), refusal(503)]));
    const call = () => fetch(proxy.url, { method: 'POST', body: '{}' });
    const first = await call();
    expect([first.status, first.headers.get('retry-after'), first.headers.get('x-ratelimit-reset')]).toEqual([
      429,
      '7',
      '7',
    ]);
    expect((await fetch(proxy.url)).status).toBe(200);
    expect((await call()).status).toBe(503);
    expect((await call()).status).toBe(200);
    expect(server.arrivals).toHaveLength(2);
  });

  it.each<[Fault, string, number]>([
    [{ kind: 'reset', when: 'before' }, 'ECONNRESET', 0],
    [{ kind: 'reset', when: 'after' }, 'ECONNRESET', 1],
    [{ kind: 'close', when: 'before' }, 'end', 0],
    [{ kind: 'close', when: 'after' }, 'end', 1],
  ])('ends the connection without an answer: %j', async (fault, end, arrived) => {
    proxy.use(() => fault);
    const { ended, got } = await post();
    expect(await ended).toBe(end);
    expect(got()).toBe('');
    expect(server.arrivals).toHaveLength(arrived);
    expect(proxy.passed).toBe(arrived);
    expect(proxy.requests[0]!.clientStatus).toBeUndefined();
  });

  it.each<['before' | 'after', number]>([
    ['before', 0],
    ['after', 1],
  ])('gives no answer and keeps the connection: %s', async (when, arrived) => {
    proxy.use(inOrder([{ kind: 'hang', when }]));
    const { socket, got } = await post();
    await proxy.until(() => proxy.requests.length === 1 && proxy.passed === arrived);
    // A whole exchange runs beside it: any late bytes would have arrived by its end.
    await fetch(proxy.url, { method: 'POST', body: '{}' });
    expect(got()).toBe('');
    expect(socket.readyState).toBe('open');
    expect(server.arrivals).toHaveLength(arrived + 1);
    socket.destroy();
  });

  it('holds an answer back', async () => {
    proxy.use(() => ({ kind: 'slow', delay: 150 }));
    const started = performance.now();
    expect((await fetch(proxy.url, { method: 'POST', body: '{}' })).status).toBe(200);
    // A timer may fire a fraction of a millisecond early.
    expect(performance.now() - started).toBeGreaterThan(148);
  });

  it('cuts an answer in the middle', async () => {
    proxy.use(() => ({ kind: 'cut' }));
    const { ended, got } = await post();
    expect(await ended).toBe('end');
    expect(got()).toMatch(/^HTTP\/1.1 200.*\r\n\r\n\{"succes$/s);
  });

  it('sends a request on twice, and gives one answer', async () => {
    proxy.use(() => ({ kind: 'twice' }));
    expect((await fetch(proxy.url, { method: 'POST', body: '{}' })).status).toBe(200);
    expect(server.arrivals).toHaveLength(2);
    expect(proxy.requests).toMatchObject([{ answers: 2, clientStatus: 200 }]);
  });

  it('ends each connection with its answer when told to', async () => {
    const short = await startFaultProxy(server.url, inOrder([tooMany(1)]), { keepAlive: false });
    const call = () => fetch(short.url, { method: 'POST', body: '{}' });
    const answers = [await call(), await call()];
    expect(answers.map(({ status, headers }) => [status, headers.get('connection')])).toEqual([
      [429, 'close'],
      [200, 'close'],
    ]);
    await short.stop();
  });

  it('resets connections and leaves them deaf', async () => {
    proxy.useConnections((nth) => (['reset', 'deaf', 'accept'] as const)[nth]!);
    expect(await (await post()).ended).toBe('ECONNRESET');
    const deaf = await post();
    await fetch(proxy.url, { method: 'POST', body: '{}' });
    expect([deaf.got(), deaf.socket.readyState]).toEqual(['', 'open']);
    expect(proxy.requests).toHaveLength(1);
    expect(proxy.connections).toBe(3);
    deaf.socket.destroy();
    await once(deaf.socket, 'close');
  });

  it('speaks https to clients, and resets those connections too', async () => {
    const file = (name: string) => readFileSync(new URL(`tls/${name}`, import.meta.url));
    const secure = await startFaultProxy(server.url, inOrder([{ kind: 'reset', when: 'after' }]), {
      tls: { key: file('server.key'), cert: file('server.pem') },
    });
    try {
      const call = () =>
        new Promise<number | string>((resolve) => {
          request(secure.url, { method: 'POST', ca: file('ca.pem'), agent: false }, (response) =>
            resolve(response.statusCode!),
          )
            .on('error', (error: NodeJS.ErrnoException) => resolve(error.code!))
            .end('{}');
        });
      expect([await call(), await call()]).toEqual(['ECONNRESET', 200]);
      expect(secure.passed).toBe(2);
    } finally {
      await secure.stop();
    }
  });

  it('breaks the connection when the server is down', async () => {
    await server.stop();
    expect(await (await post()).ended).toBe('ECONNRESET');
    expect(proxy.requests[0]!.fault).toBe(PASS);
    expect(proxy.passed).toBe(0);
  });
});
