import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { HttpClient } from '../../src/ports/http-client.ts';
import {
  closed,
  http,
  post,
  type RawRequest,
  type RawServer,
  startRawServer,
  withLimits,
} from '../support/raw-server.ts';

/**
 * Promises of every HTTP client about requests and answers. `create` makes one that may send to 127.0.0.0/8.
 */
export function httpClientConformance(name: string, create: () => HttpClient): void {
  describe(name, () => {
    let transport: HttpClient;
    const servers: RawServer[] = [];

    beforeEach(() => {
      transport = create();
    });

    afterEach(async () => {
      await transport.stop();
      await Promise.all(servers.splice(0).map((server) => server.stop()));
    });

    async function receiver(onRequest: (socket: Socket, request: RawRequest) => void): Promise<RawServer> {
      const server = await startRawServer(onRequest);
      servers.push(server);
      return server;
    }

    test('sends one POST with the headers and the bytes it was given', async () => {
      const server = await receiver((socket) => socket.write(http('200 OK', 'fine')));
      const body = Buffer.from('{"event":"Grün"}');
      const answer = await post(transport, urlOf(server), { headers: { 'X-Team': 'growth' }, body });
      expect(answer).toEqual({ kind: 'answered', status: 200, body: '', latencyMs: expect.any(Number) });
      expect(server.requests).toHaveLength(1);
      const { head, body: received } = server.requests[0]!;
      const lines = head.split('\r\n');
      expect(lines[0]).toBe('POST /hook?team=growth HTTP/1.1');
      expect(lines.slice(1).toSorted()).toEqual([
        'X-Team: growth',
        'connection: keep-alive',
        `content-length: ${body.length}`,
        `host: 127.0.0.1:${server.port}`,
      ]);
      expect(Buffer.from(received, 'latin1')).toEqual(body);
    });

    test('sends each request with the fixed headers that it was given', async () => {
      const server = await receiver((socket) => socket.write(http('200 OK', '')));
      const [a, b] = [{ 'X-Team': 'a', 'X-Kind': 'k' }, { 'X-Team': 'b' }];
      const each = [
        { pool: 1, fixedHeaders: a },
        { pool: 1, fixedHeaders: a },
        { pool: 2, fixedHeaders: b },
        { pool: 1, fixedHeaders: b },
        { pool: 2 },
        { pool: 1, fixedHeaders: a },
      ];
      for (const [nth, given] of each.entries()) {
        await post(transport, urlOf(server), { headers: { 'X-Nth': String(nth) }, ...given });
      }
      const sent = server.requests.map(({ head }) =>
        head
          .split('\r\n')
          .filter((line) => line.startsWith('X-'))
          .toSorted(),
      );
      expect(sent).toEqual(
        each.map(({ fixedHeaders = {} }, nth) =>
          [
            ...Object.entries(fixedHeaders).map(([name, value]) => `${name}: ${value}`),
            `X-Nth: ${nth}`,
          ].toSorted(),
        ),
      );
    });

    test.each([
      ['204 No Content', 'HTTP/1.1 204 No Content\r\n\r\n', ''],
      ['404 Not Found', http('404 Not Found', 'no such hook'), 'no such hook'],
      ['500 Oops', http('500 Oops', 'down'), 'down'],
      ['503 with an empty body', http('503 Busy'), ''],
      [
        '500 in chunks',
        'HTTP/1.1 500 Oops\r\nTransfer-Encoding: chunked\r\n\r\n2\r\ndo\r\n2\r\nwn\r\n0\r\n\r\n',
        'down',
      ],
      ['502 that ends with the connection', 'HTTP/1.0 502 Bad\r\n\r\nproxy error', 'proxy error'],
      ['207 after a 103', `HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n${http('207 Multi', 'x')}`, ''],
    ])('answers with status and body of %s', async (name, bytes, body) => {
      const server = await receiver((socket) => {
        socket.write(bytes);
        if (bytes.startsWith('HTTP/1.0')) socket.end();
      });
      const answer = await post(transport, urlOf(server));
      expect(answer).toMatchObject({ kind: 'answered', status: Number(name.slice(0, 3)), body });
    });

    test('a redirect is an answer and is not followed', async () => {
      const elsewhere = await receiver((socket) => socket.write(http('200 OK')));
      const server = await receiver((socket) => {
        socket.write(http('301 Moved', '', `Location: ${urlOf(elsewhere)}\r\n`));
      });
      expect(await post(transport, urlOf(server))).toMatchObject({ kind: 'answered', status: 301 });
      expect(elsewhere.sockets).toHaveLength(0);
    });

    test('hands on Retry-After as it came, the first if there are several', async () => {
      const server = await receiver((socket) => {
        socket.write(http('429 Slow Down', '', 'Retry-After: 120\r\nRETRY-AFTER: 7\r\n'));
      });
      expect(await post(transport, urlOf(server))).toMatchObject({ status: 429, retryAfter: '120' });
    });

    test('keeps 4 KB of a body and no half of a character', async () => {
      const server = await receiver((socket) =>
        socket.write(http('500 Oops', 'é'.repeat(5000).replace('é', 'e'))),
      );
      const answer = await post(transport, urlOf(server));
      expect(answer).toMatchObject({ status: 500, body: `e${'é'.repeat(2047)}` });
    });

    test('a 2xx counts as soon as its head is there', async () => {
      const server = await receiver((socket) => {
        socket.write('HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf');
      });
      const answer = await post(transport, urlOf(server));
      expect(answer).toMatchObject({ kind: 'answered', status: 200, body: '' });
      // The rest never comes: the connection is given up instead of kept.
      await closed(server.sockets[0]);
    });

    test('no answer is a timeout, not before the limit, and ends the connection', async () => {
      const server = await receiver(() => {});
      const attempt = async (limit: number) => ({
        limit,
        answer: await post(transport, urlOf(server), { timeout: limit }),
      });
      const { limit, answer } = await withLimits(attempt, () => server.requests.length > 0);
      expect(answer).toMatchObject({ reason: 'timeout', detail: `no answer within ${limit} ms` });
      expect(answer.latencyMs).toBeGreaterThanOrEqual(limit);
      await closed(server.sockets.at(-1));
    });

    test('a short time limit does not wait for a long one that began before', async () => {
      const server = await receiver(() => {});
      let longEnded = false;
      const long = post(transport, urlOf(server), { timeout: 60_000 }).finally(() => {
        longEnded = true;
      });
      const short = await post(transport, urlOf(server), { timeout: 500 });
      expect(short).toMatchObject({ reason: 'timeout', detail: expect.stringContaining('within 500 ms') });
      expect(longEnded).toBe(false);
      await transport.stop();
      expect(await long).toMatchObject({ reason: 'connection_closed' });
    });

    test('a head that drips is a timeout', async () => {
      const server = await receiver((socket) => drip(socket, 'HTTP/1.1 200 OK\r\nX-Slow: ', 'x'));
      const attempt = (limit: number) => post(transport, urlOf(server), { timeout: limit });
      const answer = await withLimits(attempt, () => server.requests.length > 0);
      expect(answer).toMatchObject({ kind: 'failed', reason: 'timeout' });
    });

    test('a body that drips for ever ends at the limit, and what was read is the answer', async () => {
      const server = await receiver((socket) => drip(socket, 'HTTP/1.1 500 Oops\r\n\r\nx', 'x'));
      const attempt = (limit: number) => post(transport, urlOf(server), { timeout: limit });
      const answer = await withLimits(attempt, ({ kind }) => kind === 'answered');
      expect(answer).toMatchObject({ kind: 'answered', status: 500, body: expect.stringMatching(/^x+$/) });
      await closed(server.sockets.at(-1));
    });

    test.each([
      ['200 OK', ''],
      ['500 Oops', 'x'.repeat(4096)],
    ])('100 MB after a %s are not read', async (status, body) => {
      const total = 100 * 1024 * 1024;
      const server = await receiver((socket) => {
        socket.write(`HTTP/1.1 ${status}\r\nContent-Length: ${total}\r\n\r\n`);
        const chunk = Buffer.alloc(64 * 1024, 'x');
        const push = () => {
          while (socket.writable && socket.write(chunk));
        };
        socket.on('drain', push);
        push();
      });
      expect(await post(transport, urlOf(server))).toMatchObject({ kind: 'answered', body });
      const [socket] = server.sockets;
      await closed(socket);
      // The buffers of the two kernels are beyond the client's control.
      expect(socket!.bytesWritten).toBeLessThan(total / 4);
    });

    test.each([
      ['garbage', 'SSH-2.0-OpenSSH_9.2\r\n'],
      ['a broken header', 'HTTP/1.1 200 OK\r\nno colon here\r\n\r\n'],
      ['two lengths', 'HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab'],
      ['a head without end', `HTTP/1.1 200 OK\r\nX-Long: ${'x'.repeat(100_000)}`],
      [
        'a change of protocol',
        'HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n',
      ],
    ])('%s is a protocol error', async (_name, bytes) => {
      const server = await receiver((socket) => socket.write(bytes));
      expect(await post(transport, urlOf(server))).toMatchObject({
        kind: 'failed',
        reason: 'protocol_error',
      });
    });

    test.each<[string, (socket: Socket) => void]>([
      ['closes without a word', (socket) => socket.end()],
      ['resets without a word', (socket) => socket.resetAndDestroy()],
      ['closes in the middle of the head', (socket) => socket.end('HTTP/1.1 200 OK\r\nContent-')],
    ])('a receiver that %s is connection_closed, and the request is sent once', async (_name, act) => {
      const server = await receiver(act);
      expect(await post(transport, urlOf(server))).toMatchObject({
        kind: 'failed',
        reason: 'connection_closed',
      });
      expect(server.requests).toHaveLength(1);
    });

    test('an answer whose body is cut off is an answer', async () => {
      const server = await receiver((socket) =>
        socket.end('HTTP/1.1 500 Oops\r\nContent-Length: 99\r\n\r\ndown'),
      );
      expect(await post(transport, urlOf(server))).toMatchObject({
        kind: 'answered',
        status: 500,
        body: 'down',
      });
    });

    test('a closed port is connection_refused', async () => {
      const server = await receiver(() => {});
      await server.stop();
      const answer = await post(transport, urlOf(server));
      expect(answer).toMatchObject({ kind: 'failed', reason: 'connection_refused' });
      expect(answer).toMatchObject({ detail: expect.stringContaining('ECONNREFUSED') });
    });

    test('a connection that is never taken is a timeout, and its socket is given up', async () => {
      // The accept queue is full and never emptied: further packets are dropped.
      const script = `require('node:net').createServer().listen({ port: 0, host: '127.0.0.1', backlog: 1 }, function () {
    require('node:fs').writeSync(1, String(this.address().port));
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 240_000);
    process.exit();
  })`;
      const child = spawn(process.execPath, ['-e', script], { stdio: ['ignore', 'pipe', 'inherit'] });
      const [port] = await once(child.stdout, 'data');
      const queued = [connect(Number(port), '127.0.0.1'), connect(Number(port), '127.0.0.1')];
      await Promise.all(queued.map((socket) => once(socket, 'connect')));
      const answer = post(transport, `http://127.0.0.1:${port}/`, { timeout: 150 });
      expect(await answer).toMatchObject({ reason: 'timeout', detail: 'not connected within 150 ms' });
      await new Promise(setImmediate);
      expect(process.getActiveResourcesInfo()).not.toContain('ConnectWrap');
      for (const socket of queued) socket.destroy();
      child.kill('SIGKILL');
      await once(child, 'close');
    });

    test.each<[string, string, Record<string, string>]>([
      ['no URL', 'nonsense', {}],
      ['a relative URL', '/hook', {}],
      ['another scheme', 'ftp://127.0.0.1/', {}],
      ['a password in the URL', 'http://user:secret@127.0.0.1/', {}],
      ['a line break in a header', 'http://127.0.0.1:9/', { 'X-Team': 'a\r\nX-Other: b' }],
      ['a header without a name', 'http://127.0.0.1:9/', { '': 'a' }],
      ['a header that is not ours to give', 'http://127.0.0.1:9/', { 'Transfer-Encoding': 'chunked' }],
    ])('%s is an invalid request', async (_name, url, headers) => {
      const answer = await post(transport, url, { headers });
      expect(answer).toMatchObject({ kind: 'failed', reason: 'invalid_request' });
      expect(JSON.stringify(answer)).not.toContain('secret');
    });

    test('a mistake in done is seen and harms no other request', async () => {
      const server = await receiver((socket) => socket.write(http('200 OK')));
      const seen = new Promise((resolve) => process.prependOnceListener('uncaughtException', resolve));
      const others = process.listeners('uncaughtException').slice(1);
      for (const listener of others) process.off('uncaughtException', listener);
      const request = { url: urlOf(server), headers: {}, body: Buffer.from('{}'), timeout: 60_000, pool: 1 };
      transport.send(request, () => {
        throw new Error('a bug');
      });
      expect(await seen).toEqual(new Error('a bug'));
      for (const listener of others) process.on('uncaughtException', listener);
      expect(await post(transport, urlOf(server))).toMatchObject({ status: 200 });
    });
  });
}

function urlOf(server: RawServer): string {
  return `http://127.0.0.1:${server.port}/hook?team=growth`;
}

function drip(socket: Socket, start: string, more: string): void {
  socket.write(start);
  const timer = setInterval(() => socket.write(more), 20);
  socket.once('close', () => clearInterval(timer));
}
