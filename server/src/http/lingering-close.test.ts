import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { connect as connectTls } from 'node:tls';
import { afterEach, describe, expect, test } from 'vitest';
import { controlHandler, postHead, stillClock } from '../../test/support/http-server.ts';
import { ROOT } from '../../test/support/program.ts';
import { runningServer } from '../../test/support/running-server.ts';
import { amountOf, IS_LONG } from '../../test/support/runs.ts';
import { steadyTime } from '../../test/support/steady-time.ts';
import { until } from '../../test/support/until.ts';

const server = runningServer();
const sockets = new Set<Socket>();

afterEach(() => {
  for (const socket of sockets) socket.destroy();
  sockets.clear();
});

const MEGABYTE = 1024 * 1024;
const PIECE = Buffer.alloc(MEGABYTE, 'x');
/** Beyond every limit of a body, and more than the system keeps for a program that does not read. */
const PIECES = 27;

const control = controlHandler(({ body }) => ({
  status: body === 'too_large' ? 413 : 401,
  headers: {},
  body: '{}',
}));

/** A client that reads nothing yet, and does not end its side because the server ends its own. */
async function open(port: number): Promise<Socket> {
  // Paused before it is connected: Node would read ahead.
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true }).pause();
  sockets.add(socket);
  socket.on('error', () => {});
  await once(socket, 'connect');
  return socket;
}

/** Rejects when the connection is broken before the bytes are with the system. */
function write(socket: Socket, bytes: Uint8Array | string): Promise<void> {
  return new Promise((resolve, reject) => {
    socket.write(bytes, (error) => (error ? reject(error) : resolve()));
  });
}

/** Everything that comes until the server closes its side, or until `isEnough`. */
async function read(socket: Socket, isEnough: (text: string) => boolean): Promise<string> {
  let text = '';
  for await (const part of socket.iterator({ destroyOnReturn: false })) {
    text += String(part);
    if (isEnough(text)) break;
  }
  return text;
}

const hasAnswer = (text: string) => /\r\n\r\n.*\}$/s.test(text);

/** As many clients do: sends everything, then reads. Resolves to the status of the answer. */
async function statusAfter(
  socket: Socket,
  head: string,
  piece: Uint8Array,
  pieces = PIECES,
): Promise<number> {
  await write(socket, head);
  for (let sent = 0; sent < pieces; sent++) await write(socket, piece);
  const text = await read(socket, hasAnswer);
  socket.destroy();
  return Number(/^HTTP\/1\.1 (\d{3}) /.exec(text)?.[1]);
}

/** Resolves when the server has looked at everything that was sent before. */
async function untilRead(): Promise<void> {
  const other = await open(server.now.port);
  await write(other, 'GET /nowhere HTTP/1.1\r\n\r\n');
  await read(other, hasAnswer);
}

const announced = (path: string, ...headers: string[]) => postHead(path, PIECES * PIECE.length, headers);
const chunked = (path: string, ...headers: string[]) =>
  `${[`POST ${path} HTTP/1.1`, 'Host: localhost', 'Transfer-Encoding: chunked', ...headers].join('\r\n')}\r\n\r\n`;
const CHUNK = Buffer.concat([Buffer.from(`${PIECE.length.toString(16)}\r\n`), PIECE, Buffer.from('\r\n')]);
/** One byte to a chunk. */
const TINY_CHUNKS = Buffer.from('1\r\nx\r\n'.repeat(MEGABYTE / 6));
const CLOSE = 'Connection: close';

const REFUSALS: [string, string, Uint8Array, number][] = [
  ['a call, by its announced length', announced('/v1/track'), PIECE, 400],
  ['a batch, by its announced length', announced('/v1/batch'), PIECE, 400],
  ['a call in chunks', chunked('/v1/track'), CHUNK, 400],
  ['a batch in chunks', chunked('/v1/batch'), CHUNK, 400],
  ['a call in tiny chunks', chunked('/v1/track'), TINY_CHUNKS, 400],
  ['another encoding', announced('/v1/track', 'Content-Encoding: br'), PIECE, 400],
  ['the last call of a connection', announced('/v1/track', CLOSE), PIECE, 400],
  ['the last call of a connection, in chunks', chunked('/v1/track', CLOSE), CHUNK, 400],
  ['a call of HTTP/1.0', announced('/v1/track').replace('HTTP/1.1', 'HTTP/1.0'), PIECE, 400],
  ['a path that is none', announced('/v1/nowhere'), PIECE, 404],
  ['a path that is none, in chunks', chunked('/nowhere'), CHUNK, 404],
  ['a method that is none', announced('/healthz'), PIECE, 405],
  ['the last request to a wrong path', announced('/nowhere', CLOSE), PIECE, 404],
  ['a request of the control API', announced('/api/v1/regulations'), PIECE, 413],
  ['a request of the control API, in chunks', chunked('/api/v1/regulations'), CHUNK, 413],
  ['the last request of the control API', announced('/api/v1/regulations', CLOSE), PIECE, 413],
  ['the last request of the control API, in chunks', chunked('/api/v1/x', CLOSE), CHUNK, 413],
  ['a broken chunk', `${chunked('/v1/track')}nonsense\r\n`, PIECE, 400],
  ['a broken chunk of the control API', `${chunked('/api/v1/x')}nonsense\r\n`, PIECE, 400],
  ['a head beyond all measure', 'POST /v1/track HTTP/1.1\r\nCookie: ', PIECE, 431],
  ['what is no HTTP', 'hello\r\n\r\n', PIECE, 400],
];

const ROUNDS = amountOf({ gate: 1, long: 3 });
/** With TLS the same code waits; the gate looks at some of the refusals. */
const OVER_TLS = REFUSALS.filter((_, nth) => IS_LONG || nth % 3 === 0);

describe('a client that reads only after it has sent 27 MB gets its answer', () => {
  test.each(REFUSALS)('for %s', async (_, head, piece, status) => {
    const { port } = await server.listen({ control });
    for (let round = 0; round < ROUNDS; round++)
      expect(await statusAfter(await open(port), head, piece)).toBe(status);
  });

  test.each(OVER_TLS)('over TLS, for %s', async (_, head, piece, status) => {
    const folder = join(ROOT, 'server/test/support/tls');
    const tls = { cert: join(folder, 'server.pem'), key: join(folder, 'server.key') };
    const ca = readFileSync(join(folder, 'ca.pem'));
    const { port } = await server.listen({ control, tls });
    const socket = connectTls({ port, host: 'localhost', servername: 'localhost', ca });
    sockets.add(socket);
    await once(socket, 'secureConnect');
    socket.on('error', () => {});
    expect(await statusAfter(socket.pause(), head, piece)).toBe(status);
  });

  test.each(['/v1/track', '/api/v1/x'])('for a request to %s that finds no place', async (path) => {
    const bounds = { connections: 10, requests: 1, bytes: 100_000 };
    const { port } = await server.listen({ control, bounds, verdict: () => {} });
    const holder = await open(port);
    await write(holder, `${postHead('/v1/track', 2)}{}`);
    await until('a call has come', () => server.now.calls.length > 0);
    expect(await statusAfter(await open(port), chunked(path), CHUNK)).toBe(429);
  });

  test.each(['/v1/track', '/api/v1/x'])('for a slow request to %s that loses its place', async (path) => {
    let now = 1000;
    const bounds = { connections: 10, requests: 1, bytes: 100_000 };
    const clock = { ...stillClock, monotonic: () => now };
    const { port } = await server.listen({ control, bounds, clock });
    const slow = await open(port);
    await write(slow, `${chunked(path)}1\r\nx\r\n`);
    const other = await open(port);
    for (let answered = ''; !answered.includes(' 200 '); now += 5000) {
      await write(other, `${postHead('/v1/track', 2)}{}`);
      answered = await read(other, hasAnswer);
    }
    expect(await statusAfter(slow, '', CHUNK)).toBe(429);
  });

  test.each([
    ['its head', 'POST /v1/track HTTP/1.1\r\nCookie: '],
    ['the body of a call', postHead('/v1/track', 10)],
    ['the body of a request of the control API', postHead('/api/v1/x', 10)],
  ])('although %s came too late', async (_, begin) => {
    const answered = Promise.withResolvers<void>();
    const recorder = {
      requestAnswered: () => answered.resolve(),
      committed() {},
      forDestination: () => ({ attemptEnded() {} }),
    };
    const timeouts = { head: 1000, request: 1000, checkInterval: 20 };
    const { port } = await server.listen({ control, recorder, timeouts });
    const slow = await open(port);
    await write(slow, begin);
    await answered.promise;
    expect(await statusAfter(slow, '', PIECE)).toBe(408);
  });

  test.each([
    ['in chunks', chunked('/api/v1/x'), CHUNK],
    ['by its announced length', announced('/api/v1/x'), PIECE],
  ])('although the answer is made only later, %s', async (_, head, piece) => {
    const slow = controlHandler(async ({ body }) => {
      await setTimeout(300);
      return { status: body === 'too_large' ? 413 : 500, headers: {}, body: '{}' };
    });
    const { port } = await server.listen({ control: slow });
    expect(await statusAfter(await open(port), head, piece)).toBe(413);
  });
});

describe('a client of a server that is stopping', () => {
  steadyTime();

  test('gets its answer, as far as it sends everything within a second', async () => {
    const { port, listener } = await server.listen({ control });
    const refused = await open(port);
    const arriving = await open(port);
    await write(refused, chunked('/nowhere'));
    await write(arriving, `${chunked('/api/v1/x')}1\r\nx\r\n`);
    await untilRead();
    const stopped = listener.stop();
    expect(await statusAfter(arriving, '', CHUNK, 6)).toBe(413);
    expect(await statusAfter(refused, '', CHUNK, 6)).toBe(404);
    await stopped;
  });
});

const FOREVER = { linger: 1_000_000, lingerIdle: 1_000_000 };

describe('a client that was refused and does not stop is cut off', () => {
  /**
   * Sends a byte every so many milliseconds until the server takes no more. The client ends nothing by
   * itself.
   */
  async function dripUntilReset(socket: Socket, pause: number): Promise<void> {
    const closed = new Promise((resolve) => socket.once('close', resolve));
    const drip = setInterval(() => socket.write('x'), pause);
    socket.resume();
    await closed;
    clearInterval(drip);
  }

  test.each([
    ['announced', postHead('/nowhere', 999_999_999), PIECE],
    ['in chunks', chunked('/nowhere'), CHUNK],
  ])('after 64 MB, %s', async (_, head, piece) => {
    const { port } = await server.listen({ timeouts: FOREVER });
    const endless = await open(port);
    await write(endless, head);
    let sent = 0;
    const send = async () => {
      for (; sent < 200; sent++) await write(endless, piece);
    };
    await expect(send()).rejects.toThrow(/ECONNRESET|EPIPE/);
    expect(sent).toBeGreaterThan(60);
  });

  async function openRefused(port: number): Promise<Socket> {
    const socket = await open(port);
    await write(socket, 'no HTTP\r\n\r\n');
    await read(socket, hasAnswer);
    return socket;
  }

  test('although its answer is never made', async () => {
    const { port } = await server.listen({ control: () => {}, timeouts: FOREVER });
    const endless = await open(port);
    await write(endless, chunked('/api/v1/x'));
    const send = async () => {
      for (let sent = 0; sent < 200; sent++) await write(endless, CHUNK);
    };
    await expect(send()).rejects.toThrow(/ECONNRESET|EPIPE/);
  });

  test('when it sends nothing for a while', async () => {
    const { port } = await server.listen({ timeouts: { ...FOREVER, lingerIdle: 100 } });
    await dripUntilReset(await openRefused(port), 500);
  });

  test('when it sends a byte now and then', async () => {
    const { port } = await server.listen({ timeouts: { ...FOREVER, linger: 500 } });
    await dripUntilReset(await openRefused(port), 10);
  });

  test('by a stop of the server, soon', async () => {
    const { port, listener } = await server.listen({ timeouts: { ...FOREVER, grace: 1_000_000 } });
    const dripped = dripUntilReset(await openRefused(port), 10);
    await listener.stop();
    await dripped;
  });

  test('when a thousand others are refused after it', async () => {
    const { port } = await server.listen({ timeouts: FOREVER });
    const refused: Socket[] = [];
    for (let nth = 0; nth < 1001; nth++) refused.push(await openRefused(port));
    await dripUntilReset(refused[0]!, 10);
    for (const socket of refused.slice(1)) socket.resume().write('x');
    await untilRead();
    expect(refused.filter(({ closed }) => closed)).toHaveLength(1);
  });
});
