import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { gzipSync } from 'node:zlib';
import { describe, expect, test, vi } from 'vitest';
import { post, postHead, stillClock } from '../../../test/support/http-server.ts';
import { runningServer } from '../../../test/support/running-server.ts';
import { until as untilSeen } from '../../../test/support/until.ts';
import { HOUR } from '../../model/time.ts';
import type { IngestRequest, IngestResult } from '../../ports/ingest.ts';

const server = runningServer();
const { start } = server;

type Held = (verdict: IngestResult) => void;

/** A receiver that lets the test give the verdicts, and notes which calls were read without `node:http`. */
function holding() {
  const held: Held[] = [];
  const plain: boolean[] = [];
  const verdict = (call: IngestRequest, answer: Held) => {
    plain.push(isPlain(call));
    held.push(answer);
  };
  const until = async (count: number) => {
    await untilSeen(`${count} calls wait for their verdict`, () => held.length >= count);
  };
  return { held, plain, verdict, until };
}

/** Node puts its parser on every connection it reads. */
function isPlain({ peer }: IngestRequest): boolean {
  return ((peer as { parser?: unknown }).parser ?? undefined) === undefined;
}

const STORED: IngestResult = { kind: 'stored' };
const GET = 'GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n';
/** Makes a request one that is left to `node:http`, and nothing else. */
const ODD = 'X-Odd:  x';

/** Everything the server sends until it closes, without the time. */
async function toItsEnd(socket: Socket): Promise<string> {
  const parts: Buffer[] = [];
  socket.on('data', (part) => parts.push(part));
  socket.on('error', () => {});
  await once(socket, 'close');
  return Buffer.concat(parts)
    .toString()
    .replaceAll(/Date: .{29}\r\n/g, 'Date: now\r\n');
}

/** A client that closes its side when it has sent everything. */
function sendAndEnd(...parts: (string | Buffer)[]): Promise<string> {
  const socket = connect({ port: server.now.port, host: '127.0.0.1', allowHalfOpen: true });
  socket.end(Buffer.concat(parts.map((part) => Buffer.from(part))));
  socket.once('end', () => socket.destroy());
  return toItsEnd(socket);
}

/** Resolves when the server has looked at everything that was sent before. */
async function untilRead(): Promise<void> {
  const other = await server.now.connect();
  await other.send(GET);
  await other.nextResponse();
  other.destroy();
}

describe('an answer has the same bytes as one of node:http', () => {
  const verdicts: [string, IngestResult][] = [
    ['a stored call', STORED],
    ['a refused call', { kind: 'refused', code: 'invalid_json', detail: 'Not é, "€" or 😀.' }],
    ['an unknown key', { kind: 'refused', code: 'invalid_write_key' }],
    [
      'a refused batch',
      { kind: 'refused', code: 'invalid_calls', invalid: [{ index: 1, code: 'unknown_type' }] },
    ],
    ['a server that is overloaded', { kind: 'unavailable', code: 'overloaded', retryAfter: 3 }],
    ['a server that cannot store', { kind: 'unavailable', code: 'storage_unavailable', retryAfter: 9 }],
  ];

  test.each(verdicts)('to %s', async (_, verdict) => {
    const plain: boolean[] = [];
    await server.listen({
      verdict: (call, answer) => {
        plain.push(isPlain(call));
        answer(verdict);
      },
    });
    for (const headers of [[], ['Origin: https://shop.example'], ['Connection: Keep-Alive']]) {
      const ours = await sendAndEnd(post('/v1/track', '{}', headers));
      expect(ours).toBe(await sendAndEnd(post('/v1/track', '{}', [...headers, ODD])));
      expect(ours).toMatch(
        /^HTTP\/1\.1 \d{3} [\s\S]*Connection: keep-alive\r\nKeep-Alive: timeout=72\r\n\r\n\{/,
      );
    }
    expect(plain).toEqual([true, false, true, false, true, false]);
  });

  test.each([
    ['too large by its head', post('/v1/track', 'x'.repeat(32_769))],
    ['in an unknown coding', post('/v1/track', 'x', ['Content-Encoding: br'])],
    ['in broken gzip', post('/v1/track', 'x', ['Content-Encoding: gzip'])],
    ['too large when inflated', post('/v1/t', gzipSync('x'.repeat(32_769)), ['Content-Encoding: gzip'])],
    ['whose body breaks off', `${postHead('/v1/track', 10)}12345`],
    ['whose body breaks off when it is refused already', postHead('/v1/track', 100_000)],
  ])('to a call %s', async (_, bytes) => {
    const running = await server.listen();
    const odd = Buffer.from(bytes).toString('latin1').replace('\r\n', `\r\n${ODD}\r\n`);
    expect(await sendAndEnd(bytes)).toBe(await sendAndEnd(Buffer.from(odd, 'latin1')));
    expect(running.calls).toEqual([]);
  });

  test('with the time of now', async () => {
    const connection = await start();
    const before = Date.now();
    await connection.send(post('/v1/track', '{}'));
    const date = Date.parse((await connection.nextResponse()).headers.get('date')!);
    // The header has whole seconds.
    expect(date).toBeGreaterThan(before - 1000);
    expect(date).toBeLessThanOrEqual(Date.now());
  });
});

describe('what the receiver is given', () => {
  const TRACE = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
  const basic = (user: string) => `Authorization: Basic ${btoa(user)}`;

  test('is the same as through node:http, on one connection after the other', async () => {
    const connection = await start();
    const heads = [
      [basic('a:')],
      [basic('a:')],
      [],
      [basic('b:')],
      ['Authorization: Bearer x'],
      [basic('b:')],
    ];
    const traced = [[`traceparent: ${TRACE}`], ['traceparent: none'], [basic('c'), `TraceParent: ${TRACE}`]];
    for (const headers of [...heads, ...traced]) {
      await connection.send(post('/v1/batch/?a=b', '{}', headers));
      await connection.nextResponse();
    }
    const odd = await server.now.connect();
    for (const headers of [...heads, ...traced]) {
      await odd.send(post('/v1/batch/?a=b', '{}', [...headers, ODD]));
      await odd.nextResponse();
    }
    const given = server.now.calls.map(({ peer, ...call }) => call);
    expect(given.slice(0, 9)).toEqual(given.slice(9));
    expect(given.map(({ writeKey }) => writeKey).slice(0, 9)).toEqual([
      ...['a', 'a', undefined, 'b', undefined, 'b', undefined, undefined, 'c'],
    ]);
    expect(given.map(({ traceparent }) => traceparent).slice(6, 9)).toEqual([TRACE, undefined, TRACE]);
    expect(server.now.calls[0]!.peer!.remoteAddress).toBe('127.0.0.1');
  });

  test('does not depend on where the bytes were cut', async () => {
    const plain: boolean[] = [];
    const running = await server.listen({
      verdict: (call, answer) => {
        plain.push(isPlain(call));
        answer(STORED);
      },
    });
    const bytes = post('/v1/track', '{"a":1}', [basic('wk:')]);
    const headEnd = bytes.indexOf('\r\n\r\n') + 4;
    for (let cut = 1; cut < bytes.length; cut++) {
      const connection = await running.connect();
      await connection.send(bytes.subarray(0, cut));
      await untilRead();
      await connection.send(bytes.subarray(cut));
      expect((await connection.nextResponse()).status).toBe(200);
      const { body, writeKey } = running.calls.at(-1)!;
      expect([body.toString(), writeKey, plain.at(-1)]).toEqual(['{"a":1}', 'wk', cut >= headEnd]);
      connection.destroy();
    }
    expect(running.calls).toHaveLength(bytes.length - 1);
  });

  test('is every piece of a large body, inflated', async () => {
    const connection = await start();
    const body = Buffer.from(Array.from({ length: 400_000 }, (_, nth) => nth * 7));
    for (let round = 0; round < 3; round++) {
      await connection.send(post('/v1/batch', body));
      await connection.nextResponse();
      await connection.send(post('/v1/batch', gzipSync(body), ['Content-Encoding: gzip']));
      await connection.nextResponse();
    }
    expect(server.now.calls.every((call) => call.body.equals(body))).toBe(true);
    expect(server.now.calls).toHaveLength(6);
  });
});

describe('a connection is handed over', () => {
  test('with all that was read, and plain requests before and after it are answered', async () => {
    const { held, plain, verdict, until } = holding();
    const connection = await start({ verdict });
    await connection.send(post('/v1/track', '1'));
    await until(1);
    held[0]!(STORED);
    await connection.nextResponse();
    await connection.send(post('/v1/track', '2'), GET, post('/v1/track', '3'));
    await until(3);
    held[1]!(STORED);
    held[2]!(STORED);
    for (let nth = 0; nth < 3; nth++) expect((await connection.nextResponse()).status).toBe(200);
    await connection.send(post('/v1/track', '4'));
    await until(4);
    held[3]!(STORED);
    expect((await connection.nextResponse()).status).toBe(200);
    expect(server.now.calls.map(({ body }) => body.toString())).toEqual(['1', '2', '3', '4']);
    expect(plain).toEqual([true, false, false, false]);
  });

  test('in the middle of a head, and has the limits of node:http', async () => {
    const connection = await start({ timeouts: { head: 1000, request: 1000, checkInterval: 20 } });
    await connection.send(post('/v1/track', '{}'));
    await connection.nextResponse();
    await connection.send('POST /v1/tr');
    expect((await connection.nextResponse()).status).toBe(408);
    await connection.closed;
  });

  test('with what comes behind a body in several pieces', async () => {
    const { held, plain, verdict, until } = holding();
    const connection = await start({ verdict });
    await connection.send(postHead('/v1/track', 4), '12');
    await untilRead();
    await connection.send('34', post('/v1/track', '{}'), 'garbage\r\n\r\n');
    await until(1);
    await connection.send('more garbage');
    held[0]!(STORED);
    await until(2);
    held[1]!(STORED);
    const statuses = [
      await connection.nextResponse(),
      await connection.nextResponse(),
      await connection.nextResponse(),
    ];
    expect(statuses.map(({ status }) => status)).toEqual([200, 200, 400]);
    await connection.closed;
    expect(plain).toEqual([true, false]);
  });
});

describe('what comes while a call waits', () => {
  test('is read when that has its answer', async () => {
    const { held, plain, verdict, until } = holding();
    const connection = await start({ verdict });
    await connection.send(post('/v1/track', '1'));
    await until(1);
    const second = post('/v1/track', '2');
    await connection.send(second.subarray(0, 70));
    await untilRead();
    await connection.send(second.subarray(70), GET);
    await untilRead();
    expect(held).toHaveLength(1);
    held[0]!(STORED);
    expect((await connection.nextResponse()).status).toBe(200);
    await until(2);
    held[1]!({ kind: 'refused', code: 'invalid_json' });
    expect([(await connection.nextResponse()).status, (await connection.nextResponse()).status]).toEqual([
      400, 200,
    ]);
    expect(plain[0]).toBe(true);
  });

  test('is not taken off the system without end', async () => {
    const { held, verdict, until } = holding();
    const connection = await start({ verdict });
    await connection.send(post('/v1/track', '1'));
    await until(1);
    const piece = Buffer.alloc(1_000_000, 'x');
    let sent = 0;
    for (let nth = 0; nth < 50; nth++) void connection.send(piece).then(() => sent++);
    await untilRead();
    await untilRead();
    expect(sent).toBeLessThan(20);
    held[0]!(STORED);
    expect((await connection.nextResponse()).status).toBe(200);
    expect((await connection.nextResponse()).status).toBe(400);
  });
});

describe('a client that has closed its side', () => {
  test('after its request gets its answer, however late', async () => {
    const { held, plain, verdict, until } = holding();
    await server.listen({ verdict });
    const answered = sendAndEnd(post('/v1/track', '{}'));
    await until(1);
    await untilRead();
    held[0]!(STORED);
    expect(await answered).toMatch(/^HTTP\/1\.1 200 OK[\s\S]*Connection: close\r\n\r\n\{"success":true\}$/);
    expect(plain).toEqual([true]);
  });

  test('without a request, or after its answer, is not kept', async () => {
    await server.listen();
    expect(await sendAndEnd('')).toBe('');
    expect(await sendAndEnd(post('/v1/track', '{}'))).toContain('200 OK');
  });

  test('or is gone before the verdict does not hold up a stop', async () => {
    const { verdict, until } = holding();
    const connection = await start({ verdict });
    await connection.send(post('/v1/track', '{}'));
    await until(1);
    connection.destroy();
    // The clock of these tests stands still: the grace never ends.
    await server.now.listener.stop();
    expect(server.now.calls).toHaveLength(1);
  });
});

describe('the limits of time', () => {
  const limits = { head: 1000, request: 1000, checkInterval: 20 };

  test.each([
    ['has sent nothing', ''],
    ['does not send its body', postHead('/v1/track', 10)],
    ['does not send all of its body', `${postHead('/v1/track', 10)}12345`],
  ])('answer 408 to who %s', async (_, bytes) => {
    const codes: string[] = [];
    const recorder = {
      requestAnswered: (status: number, code?: string) => codes.push(`${status} ${code}`),
      committed: () => {},
      forDestination: () => ({ attemptEnded: () => {} }),
    };
    const connection = await start({ timeouts: limits, recorder });
    await connection.send(bytes);
    expect((await connection.nextResponse()).status).toBe(408);
    await connection.closed;
    expect([server.now.calls, codes]).toEqual([[], ['408 request_timeout']]);
  });

  test('are no matter of what has arrived while the process stood still', async () => {
    const connection = await start({ timeouts: { checkInterval: 10 } });
    await untilRead();
    const sent = connection.send(post('/v1/track', '{}'));
    const clock = vi.spyOn(performance, 'now').mockReturnValue(performance.now() + HOUR);
    try {
      // Long enough for the next check to be due when the loop goes on.
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 50);
      await sent;
      expect((await connection.nextResponse()).status).toBe(200);
    } finally {
      clock.mockRestore();
    }
  });

  test.each([
    ['read plainly', []],
    ['read by node:http', [ODD]],
  ])('close without a second answer who is refused and does not send its body, %s', async (_, headers) => {
    const connection = await start({ timeouts: limits });
    await connection.send(postHead('/v1/track', 100_000, headers), 'x');
    expect((await connection.nextResponse()).status).toBe(400);
    await connection.closed;
    await expect(connection.nextResponse()).rejects.toThrow('closed after ""');
  });

  test('close who is idle, without a word, and do not count the time of a verdict', async () => {
    const { held, verdict, until } = holding();
    const connection = await start({ verdict, timeouts: { ...limits, idle: 1000 } });
    const other = await server.now.connect();
    await connection.send(post('/v1/track', '{}'));
    await until(1);
    // By the time a silent one is told, the limits of the one that waits are over too.
    expect((await other.nextResponse()).status).toBe(408);
    held[0]!(STORED);
    const { status, headers } = await connection.nextResponse();
    expect([status, headers.get('keep-alive')]).toEqual([200, 'timeout=1']);
    await connection.closed;
    await expect(connection.nextResponse()).rejects.toThrow('closed after ""');
  });
});

describe('a refused body', () => {
  test('is read to its end while the client already has its answer, and the connection serves on', async () => {
    const connection = await start();
    await connection.send(postHead('/v1/track', 300_000), Buffer.alloc(100_000));
    expect((await connection.nextResponse()).status).toBe(400);
    await connection.send(Buffer.alloc(200_000), post('/v1/track', '{}'));
    expect((await connection.nextResponse()).status).toBe(200);
    expect(server.now.calls).toHaveLength(1);
    expect(isPlain(server.now.calls[0]!)).toBe(true);
  });

  test('of hundreds of megabytes is not', async () => {
    const connection = await start();
    await connection.send(postHead('/v1/track', 900_000_000));
    expect((await connection.nextResponse()).status).toBe(400);
    const piece = Buffer.alloc(1_000_000);
    for (let sent = 0; sent < 100 && !connection.isGone; sent++) await connection.send(piece);
    expect(connection.isGone).toBe(true);
  });
});

describe('the bounds', () => {
  const bounds = { connections: 10, requests: 1, bytes: 100_000 };

  test('hold: who is beyond them is turned away, and the place of a client that leaves is free again', async () => {
    const running = await server.listen({ bounds });
    for (let round = 0; round < 3; round++) {
      const hanging = await running.connect();
      await hanging.send(postHead('/v1/batch', 400_000), 'x'.repeat(1000));
      await untilRead();
      const other = await running.connect();
      await other.send(post('/v1/track', '{}'));
      expect((await other.nextResponse()).status).toBe(429);
      hanging.destroy();
      await hanging.closed;
      let status = 429;
      while (status === 429) {
        await other.send(post('/v1/track', '{}'));
        ({ status } = await other.nextResponse());
      }
      expect([status, isPlain(running.calls.at(-1)!)]).toEqual([200, true]);
      // More bytes than there is room for.
      await other.send(post('/v1/batch', Buffer.alloc(150_000)));
      expect((await other.nextResponse()).status).toBe(429);
      other.destroy();
    }
  });

  test('take the place of a body that has been arriving for five seconds, and end its connection', async () => {
    let now = 1000;
    const running = await server.listen({ bounds, clock: { ...stillClock, monotonic: () => now } });
    const slow = await running.connect();
    await slow.send(postHead('/v1/batch', 400_000), 'x');
    await untilRead();
    now += 5000;
    const other = await running.connect();
    await other.send(post('/v1/track', '{}'));
    expect((await other.nextResponse()).status).toBe(200);
    const { status, headers } = await slow.nextResponse();
    expect([status, headers.get('connection')]).toEqual([429, 'close']);
    await slow.closed;
  });
});

describe('a stop', () => {
  test('closes idle connections and lets a body arrive and be answered for the last time', async () => {
    const idle = await start();
    await idle.send(post('/v1/track', '{}'));
    await idle.nextResponse();
    const arriving = await server.now.connect();
    const refused = await server.now.connect();
    await arriving.send(postHead('/v1/track', 4), '12');
    await refused.send(postHead('/v1/track', 100_000));
    expect((await refused.nextResponse()).headers.get('connection')).toBe('keep-alive');
    await untilRead();
    const stopped = server.now.listener.stop();
    await idle.closed;
    await arriving.send('34');
    const { status, headers } = await arriving.nextResponse();
    expect([status, headers.get('connection')]).toEqual([200, 'close']);
    await arriving.closed;
    await refused.send(Buffer.alloc(100_000));
    await refused.closed;
    await stopped;
  });
});

test('a client that does not read its answers is not read either, and is cut off', async () => {
  const detail = 'x'.repeat(500_000);
  const verdict = { kind: 'refused', code: 'invalid_json', detail } as const;
  const running = await server.listen({ verdict, timeouts: { stalled: 500 } });
  const deaf = connect({ port: running.port, host: '127.0.0.1' });
  deaf.on('error', () => {});
  // One after the other, so that each is plain.
  for (let nth = 0; nth < 100; nth++) {
    deaf.write(post('/v1/track', '{}'));
    await untilRead();
  }
  const peer = running.calls[0]!.peer as Socket;
  expect(running.calls.length).toBeLessThan(50);
  expect(peer.writableLength).toBeLessThan(2 * detail.length);
  if (!peer.closed) await once(peer, 'close');
  deaf.destroy();
  await running.listener.stop();

  const again = await server.listen({ verdict });
  const reading = await again.connect();
  for (let nth = 0; nth < 20; nth++) {
    await reading.send(post('/v1/track', '{}'));
    expect((await reading.nextResponse()).status).toBe(400);
  }
});
