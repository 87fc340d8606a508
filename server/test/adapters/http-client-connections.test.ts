import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { createHttpClient, type HttpClientOptions } from '../../src/adapters/http-client/client.ts';
import { type DnsLookup, egressRules } from '../../src/adapters/http-client/egress.ts';
import { SECOND } from '../../src/model/time.ts';
import type { HttpClient, HttpResult } from '../../src/ports/http-client.ts';
import {
  closed,
  http,
  post,
  type RawRequest,
  type RawServer,
  type RawServerOptions,
  startRawServer,
} from '../support/raw-server.ts';
import { pass, passUntil, steadyTime } from '../support/steady-time.ts';
import { until } from '../support/until.ts';

steadyTime();

const started: (() => Promise<void>)[] = [];

afterEach(async () => {
  await Promise.all(started.splice(0).map((stop) => stop()));
});

function transportWith(options: Partial<HttpClientOptions> = {}): HttpClient {
  const transport = createHttpClient({ egress: egressRules(['127.0.0.0/8']), ...options });
  started.push(() => transport.stop());
  return transport;
}

async function receiver(
  onRequest: (socket: Socket, request: RawRequest) => void,
  options: RawServerOptions = {},
): Promise<RawServer> {
  const server = await startRawServer(onRequest, options);
  started.push(() => server.stop());
  return server;
}

function urlOf(server: RawServer): string {
  return `http://127.0.0.1:${server.port}/hook`;
}

/** Sends enough requests one after the other that the client then reuses every connection at once. */
async function proveReuse(transport: HttpClient, url: string): Promise<void> {
  for (let nth = 0; nth < 70; nth++) {
    expect(await post(transport, url, { body: Buffer.from('proof') })).toMatchObject({ status: 200 });
  }
}

/**
 * Closes each connection without notice, `after` milliseconds after its n-th answer; goes on counting what it
 * reads.
 */
function closing(after: number, everyNth = 1): (socket: Socket, request: RawRequest) => void {
  const answered = new Map<Socket, number>();
  return (socket) => {
    const before = answered.get(socket) ?? 0;
    answered.set(socket, before + 1);
    // The reading half of the connection stays open: it reads on and answers nothing.
    if (before >= everyNth) return;
    if (before + 1 < everyNth) socket.write(http('200 OK'));
    else if (after === 0) socket.end(http('200 OK'));
    else socket.write(http('200 OK'), () => setTimeout(() => socket.end(), after));
  };
}

test('a request is not sent when its time was over before it had a connection', async () => {
  const server = await receiver((socket) => socket.write(http('200 OK')));
  const answer = post(transportWith(), urlOf(server), { timeout: 200 });
  // As when the process is stopped and goes on: the system has connected meanwhile.
  vi.advanceTimersByTime(500);
  expect(await answer).toMatchObject({ reason: 'timeout', detail: 'not connected within 200 ms' });
  await sleep(50);
  expect(server.requests).toHaveLength(0);
});

test('no answer is a timeout, within two steps of the queue of time limits after its limit', async () => {
  const server = await receiver(() => {});
  let answer: HttpResult | undefined;
  void post(transportWith(), urlOf(server), { timeout: 5000 }).then((given) => {
    answer = given;
  });
  await server.received(1);
  await passUntil('the request has ended', () => answer !== undefined, 5);
  expect(answer).toMatchObject({ reason: 'timeout', detail: 'no answer within 5000 ms' });
  expect(answer!.latencyMs).toBeGreaterThanOrEqual(5000);
  // clock: the test itself lets this time pass.
  expect(answer!.latencyMs).toBeLessThanOrEqual(5060);
});

test('time that a request has waited before counts for its limit and its latency', async () => {
  const server = await receiver((socket) => socket.write(http('200 OK')));
  const transport = transportWith();
  const answered = await post(transport, urlOf(server), { timeout: 1000, waited: 400 });
  expect(answered).toMatchObject({ status: 200 });
  expect(answered.latencyMs).toBeGreaterThanOrEqual(400);
  const late = await post(transport, urlOf(server), { timeout: 1000, waited: 1200 });
  expect(late).toMatchObject({ kind: 'failed', reason: 'timeout' });
  expect(server.requests).toHaveLength(1);
});

test('one request after the other uses one connection', async () => {
  const server = await receiver((socket) => socket.write(http('200 OK', 'ok')));
  const transport = transportWith();
  for (let i = 0; i < 20; i++) expect(await post(transport, urlOf(server))).toMatchObject({ status: 200 });
  expect(server.requests).toHaveLength(20);
  expect(server.sockets).toHaveLength(1);
});

test('done finds the connection of a complete answer free again', async () => {
  const server = await receiver((socket) => socket.write(http('200 OK', 'ok')));
  const transport = transportWith();
  const request = { url: urlOf(server), headers: {}, body: Buffer.from('{}'), timeout: 60_000, pool: 1 };
  await new Promise<HttpResult>((resolve) => transport.send(request, () => transport.send(request, resolve)));
  expect(server.requests).toHaveLength(2);
  expect(server.sockets).toHaveLength(1);
});

test('a connection found dead is replaced, and the request succeeds', async () => {
  const server = await receiver((socket, { connection }) => {
    const onThis = server.requests.filter((request) => request.connection === connection).length;
    if (connection === 1 && onThis === 2) socket.resetAndDestroy();
    else socket.write(http('200 OK'));
  });
  const transport = transportWith();
  await post(transport, urlOf(server));
  const answer = await post(transport, urlOf(server), { body: Buffer.from('second') });
  expect(answer).toMatchObject({ kind: 'answered', status: 200 });
  expect(server.requests.map(({ body, connection }) => [connection, body])).toEqual([
    [1, '{}'],
    [1, 'second'],
    [2, 'second'],
  ]);
});

test('a dead connection is replaced once only', async () => {
  const server = await receiver((socket) => {
    if (server.requests.length === 1) socket.write(http('200 OK'));
    else socket.end();
  });
  const transport = transportWith();
  await post(transport, urlOf(server));
  const answer = await post(transport, urlOf(server));
  expect(answer).toMatchObject({ kind: 'failed', reason: 'connection_closed' });
  expect(server.requests).toHaveLength(3);
});

test('a connection that was opened again under a waiting request counts as new', async () => {
  const server = await receiver((socket) => {
    if (server.requests.length === 1) socket.write(http('200 OK', '', 'Connection: close\r\n'));
    else socket.end();
  });
  const transport = transportWith();
  const request = { url: urlOf(server), headers: {}, body: Buffer.from('{}'), timeout: 60_000, pool: 1 };
  const answer = await new Promise<HttpResult>((resolve) => {
    transport.send(request, () => transport.send(request, resolve));
  });
  expect(answer).toMatchObject({ kind: 'failed', reason: 'connection_closed' });
  expect(server.requests).toHaveLength(2);
});

test('once a byte of an answer was seen nothing is sent again', async () => {
  const server = await receiver((socket) => {
    if (server.requests.length === 1) socket.write(http('200 OK'));
    else socket.end('HTTP/1.1 2');
  });
  const transport = transportWith();
  await post(transport, urlOf(server));
  const answer = await post(transport, urlOf(server));
  expect(answer).toMatchObject({ kind: 'failed', reason: 'connection_closed' });
  expect(server.requests).toHaveLength(2);
});

test('the time limit runs on over the second try', async () => {
  const server = await receiver((socket) => {
    if (server.requests.length === 1) socket.write(http('200 OK'));
  });
  const transport = transportWith();
  await post(transport, urlOf(server));
  let answer: HttpResult | undefined;
  void post(transport, urlOf(server), { timeout: 4000 }).then((given) => {
    answer = given;
  });
  await server.received(2);
  await pass(2000);
  server.sockets[0]!.end();
  await server.received(3);
  await passUntil('the request has ended', () => answer !== undefined);
  expect(answer).toMatchObject({ kind: 'failed', reason: 'timeout' });
  // A limit that began again would end after six seconds.
  // clock: the test itself lets this time pass.
  expect(answer!.latencyMs).toBeLessThan(5900);
  expect(server.requests).toHaveLength(3);
});

test.each([
  ['announced', 'Connection: close\r\n'],
  ['unannounced', ''],
])('a receiver that closes after each answer, %s, costs no attempt', async (_name, headers) => {
  const answered = new Set<number>();
  const server = await receiver((socket, { connection }) => {
    if (!answered.has(connection)) socket.end(http('200 OK', '', headers));
    answered.add(connection);
  });
  const transport = transportWith();
  for (let i = 0; i < 10; i++) expect(await post(transport, urlOf(server))).toMatchObject({ status: 200 });
  expect(server.sockets).toHaveLength(10);
  if (headers !== '') expect(server.requests).toHaveLength(10);
});

test('no more connections than allowed, and who came first goes first', async () => {
  const held: Socket[] = [];
  const server = await receiver((socket, { body }) => {
    if (body === 'proof') socket.write(http('200 OK'));
    else held.push(socket);
  });
  const transport = transportWith({ maxConnectionsPerPool: 2 });
  await proveReuse(transport, urlOf(server));
  const bodies = ['1', '2', '3', '4', '5', '6'];
  const answers = bodies.map((body) => post(transport, urlOf(server), { body: Buffer.from(body) }));
  for (let served = 0; served < bodies.length; served++) {
    await server.received(70 + Math.min(served + 2, bodies.length));
    held.shift()!.write(http('200 OK'));
  }
  for (const answer of await Promise.all(answers)) expect(answer).toMatchObject({ status: 200 });
  expect(server.sockets).toHaveLength(2);
  const got = server.requests.slice(70).map(({ body }) => body);
  expect(got.toSorted()).toEqual(bodies);
  expect(got.slice(2)).toEqual(bodies.slice(2));
});

test('the time limit runs while a request waits for a connection', async () => {
  const server = await receiver(() => {});
  const transport = transportWith({ maxConnectionsPerPool: 1 });
  const first = post(transport, urlOf(server), { body: Buffer.from('first') });
  const second = post(transport, urlOf(server), { body: Buffer.from('second'), timeout: 100 });
  const third = post(transport, urlOf(server), { body: Buffer.from('third') });
  expect(await second).toMatchObject({
    kind: 'failed',
    reason: 'timeout',
    detail: 'no connection was free within 100 ms',
  });
  await server.received(1);
  server.sockets[0]!.write(http('200 OK'));
  await first;
  await server.received(2);
  server.sockets[0]!.write(http('200 OK'));
  expect(await third).toMatchObject({ status: 200 });
  expect(server.requests.map(({ body }) => body)).toEqual(['first', 'third']);
});

test('a lost connection makes room for those that wait', async () => {
  const server = await receiver((socket, { body }) => {
    if (body === 'good') socket.write(http('200 OK'));
  });
  const transport = transportWith({ maxConnectionsPerPool: 1 });
  const bad = post(transport, urlOf(server), { body: Buffer.from('bad'), timeout: 5000 });
  const good = post(transport, urlOf(server), { body: Buffer.from('good') });
  await server.received(1);
  await pass(5100);
  expect(await bad).toMatchObject({ reason: 'timeout' });
  expect(await good).toMatchObject({ status: 200 });
  expect(server.sockets).toHaveLength(2);
});

test('1,000 requests at once over 16 connections are all answered', async () => {
  const server = await receiver((socket) => socket.write(http('200 OK', 'ok')));
  const transport = transportWith({ maxConnectionsPerPool: 16 });
  await proveReuse(transport, urlOf(server));
  const bodies = Array.from({ length: 1000 }, (_, i) => `{"n":${i}}`);
  const answers = await Promise.all(
    bodies.map((body) => post(transport, urlOf(server), { body: Buffer.from(body) })),
  );
  expect(answers.every((answer) => answer.kind === 'answered' && answer.status === 200)).toBe(true);
  expect(
    server.requests
      .slice(70)
      .map(({ body }) => body)
      .toSorted(),
  ).toEqual(bodies.toSorted());
  expect(server.sockets).toHaveLength(16);
});

test('whatever receivers do, every request is answered once, and connections stay within their bound', async () => {
  const misdeeds: ((socket: Socket) => void)[] = [
    (socket) => socket.write(http('200 OK', 'ok')),
    (socket) => setTimeout(() => socket.write(http('200 OK', 'late')), 5),
    (socket) => socket.write(http('500 Oops', 'x'.repeat(5000))),
    (socket) => socket.write(http('200 OK', 'x'.repeat(200_000))),
    (socket) => socket.end(http('200 OK')),
    (socket) => socket.write(http('200 OK') + http('200 OK')),
    (socket) => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhal'),
    (socket) => socket.end('HTTP/1.1 500 Oops\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhal'),
    (socket) => socket.write('what?'),
    (socket) => socket.resetAndDestroy(),
    (socket) => socket.end(),
    () => {},
  ];
  let open = 0;
  let most = 0;
  let turn = 0;
  const server = await startRawServer((socket) => misdeeds[(turn++ * 5) % misdeeds.length]!(socket), {
    onConnection: (socket) => {
      most = Math.max(most, ++open);
      socket.once('close', () => open--);
    },
  });
  started.push(() => server.stop());
  const transport = transportWith({ maxConnectionsPerPool: 8 });
  const posts = Array.from({ length: 600 }, (_, i) =>
    post(transport, urlOf(server), { timeout: 200 + (i % 7) * 300 }),
  );
  const kinds = new Set(
    (await Promise.all(posts)).map((answer) => (answer.kind === 'failed' ? answer.reason : answer.status)),
  );
  expect([...kinds].map(String).toSorted()).toEqual([
    '200',
    '500',
    'connection_closed',
    'protocol_error',
    'timeout',
  ]);
  misdeeds.fill((socket) => socket.write(http('204 No Content')));
  expect(await post(transport, urlOf(server))).toMatchObject({ status: 204 });
  // A connection that the client has closed may live a moment longer at the receiver.
  expect(most).toBeLessThanOrEqual(16);
});

test('requests of two pools never share a connection, though they go to one origin', async () => {
  const server = await receiver((socket) => socket.write(http('200 OK')));
  const transport = transportWith();
  const connections = new Map([1, 2].map((pool) => [pool, new Set<number>()]));
  for (let nth = 0; nth < 20; nth++) {
    const pool = 1 + (nth % 2);
    await post(transport, urlOf(server), { pool });
    connections.get(pool)!.add(server.requests.at(-1)!.connection);
  }
  expect([...connections.values()].map((used) => [...used])).toEqual([[1], [2]]);
});

test('an answer nobody asked for harms the requests of its own pool only', async () => {
  const server = await receiver((socket, { body }) => {
    // The second answer may meet the next request on its way; no client can tell it from the answer to that
    // request.
    if (body === 'poison') socket.write(http('200 OK'), () => socket.write(http('418 Smuggled')));
    else socket.write(http('200 OK'));
  });
  const transport = transportWith();
  const victims: Promise<HttpResult>[] = [];
  for (let nth = 0; nth < 100; nth++) {
    void post(transport, urlOf(server), { pool: 1, body: Buffer.from('poison') });
    victims.push(post(transport, urlOf(server), { pool: 2, body: Buffer.from('good') }));
    if (nth % 10 === 0) await victims.at(-1);
  }
  for (const answer of await Promise.all(victims)) expect(answer).toMatchObject({ status: 200 });
});

describe('a receiver that closes after its answers and does not say so', () => {
  const EVENTS = 600;

  test.each([
    ['with the answer', 0, 1],
    ['2 ms after the answer', 2, 1],
    ['20 ms after the answer', 20, 1],
    ['with every second answer', 0, 2],
    ['with every third answer', 0, 3],
  ])('%s gets hardly a request twice', async (_when, after, everyNth) => {
    for (const atOnce of [1, 8, 256]) {
      const server = await receiver(closing(after, everyNth));
      const transport = transportWith();
      let sent = 0;
      const sender = async () => {
        while (sent++ < EVENTS) expect(await post(transport, urlOf(server))).toMatchObject({ status: 200 });
      };
      await Promise.all(Array.from({ length: atOnce }, sender));
      const repeated = server.requests.length - EVENTS;
      expect([atOnce, repeated <= EVENTS / 20 ? 'few' : repeated]).toEqual([atOnce, 'few']);
      await transport.stop();
    }
  });

  test('and later keeps its connections has them used again', async () => {
    let isBad = true;
    const bad = closing(0);
    const server = await receiver((socket, request) => {
      if (isBad) bad(socket, request);
      else socket.write(http('200 OK'));
    });
    const transport = transportWith();
    for (let nth = 0; nth < 20; nth++) await post(transport, urlOf(server));
    isBad = false;
    let last = 0;
    let onOne = 0;
    while (onOne < 50) {
      await post(transport, urlOf(server));
      const { connection } = server.requests.at(-1)!;
      onOne = connection === last ? onOne + 1 : 0;
      last = connection;
    }
    expect(server.requests.slice(-50).map(({ connection }) => connection)).toEqual(Array(50).fill(last));
  });
});

test('a receiver that closes idle connections early has them closed before it does', async () => {
  const ends: string[] = [];
  const server = await startRawServer((socket) => socket.write(http('200 OK')), {
    onConnection: (socket) => {
      socket.once('end', () => ends.push('by the client'));
      setTimeout(() => {
        if (socket.readableEnded) return;
        ends.push('by the receiver');
        socket.destroy();
      }, 2000);
    },
  });
  started.push(() => server.stop());
  const transport = transportWith();
  await post(transport, urlOf(server));
  await passUntil('the receiver has closed the connection', () => ends.length > 0);
  await post(transport, urlOf(server));
  // In less than the receiver waits for.
  await pass(1800);
  await closed(server.sockets[1]);
  expect(ends).toEqual(['by the receiver', 'by the client']);
});

test('the bound on all connections holds, by closing idle ones and by sharing', async () => {
  const held: Socket[] = [];
  let open = 0;
  let most = 0;
  const server = await startRawServer(
    (socket, { body }) => {
      if (body === 'slow') held.push(socket);
      else socket.write(http('200 OK'));
    },
    {
      onConnection: (socket) => {
        most = Math.max(most, ++open);
        socket.once('close', () => open--);
      },
    },
  );
  started.push(() => server.stop());
  const transport = transportWith({ maxConnections: 40 });
  // Idle connections of many pools make room for others.
  for (let pool = 1; pool <= 100; pool++) {
    expect(await post(transport, urlOf(server), { pool })).toMatchObject({ status: 200 });
  }
  expect(most).toBeLessThanOrEqual(42);
  // A pool that takes all connections does not keep another pool from its requests.
  const slow = Array.from({ length: 100 }, () =>
    post(transport, urlOf(server), { pool: 200, body: Buffer.from('slow'), timeout: 60_000 }),
  );
  const other = Array.from({ length: 100 }, () => post(transport, urlOf(server), { pool: 201 }));
  for (const answer of await Promise.all(other)) expect(answer).toMatchObject({ status: 200 });
  expect(most).toBeLessThanOrEqual(80);
  for (let nth = 0; nth < slow.length; nth++) {
    await until('a call waits for its verdict', () => held.length > 0);
    held.shift()!.write(http('200 OK'));
  }
  for (const answer of await Promise.all(slow)) expect(answer).toMatchObject({ status: 200 });
});

test('idle connections are closed after the idle time', async () => {
  const server = await receiver((socket) => socket.write(http('200 OK')));
  const transport = transportWith({ idleTimeout: 100 });
  await post(transport, urlOf(server));
  await closed(server.sockets[0]);
  expect(await post(transport, urlOf(server))).toMatchObject({ status: 200 });
  expect(server.sockets).toHaveLength(2);
});

describe('a connection that is never idle', () => {
  test('is used for its age at most, and the name is asked again', async () => {
    const old = await receiver((socket) => socket.write(http('200 OK')));
    const addresses = ['127.0.0.1', '127.0.0.3'];
    const moved = await receiver((socket) => socket.write(http('200 OK')), {
      port: old.port,
      host: addresses[1]!,
    });
    let asked = 0;
    const lookup: DnsLookup = (_name, _options, callback) => {
      callback(null, [{ address: addresses[Math.min(asked++, 1)]!, family: 4 }]);
    };
    const transport = transportWith({ maxConnectionAge: 2 * SECOND, lookup });
    const url = `http://moves.test:${old.port}/`;
    while (moved.requests.length === 0) {
      expect(await post(transport, url)).toMatchObject({ status: 200 });
      // Of less than two seconds, in such steps.
      expect(old.requests.length).toBeLessThan(40);
      await pass(50);
    }
    expect(old.sockets).toHaveLength(1);
    expect(moved.requests.length).toBe(1);
  });

  test('sends nothing more to a name that has moved to a refused address', async () => {
    const server = await receiver((socket) => socket.write(http('200 OK')));
    let asked = 0;
    const lookup: DnsLookup = (_name, _options, callback) =>
      callback(null, [{ address: asked++ === 0 ? '127.0.0.1' : '10.0.0.5', family: 4 }]);
    const transport = transportWith({ maxConnectionAge: 2 * SECOND, lookup });
    const url = `http://moves.test:${server.port}/`;
    let answer = await post(transport, url);
    while ('status' in answer) {
      expect(server.requests.length).toBeLessThan(40);
      await pass(50);
      answer = await post(transport, url);
    }
    expect(answer).toMatchObject({ kind: 'failed', reason: 'egress_refused' });
    expect(server.sockets).toHaveLength(1);
  });

  test('ends at another time than those that were opened with it', async () => {
    const server = await receiver((socket) => socket.write(http('200 OK')));
    const transport = transportWith({ maxConnectionAge: 40 * SECOND, idleTimeout: 3600 * SECOND });
    await Promise.all(Array.from({ length: 20 }, () => post(transport, urlOf(server))));
    const ends: number[] = [];
    for (const socket of server.sockets) void closed(socket).then(() => ends.push(performance.now()));
    await passUntil('all are closed', () => ends.length === server.sockets.length);
    expect(new Set(ends.map((at) => Math.floor(at / SECOND))).size).toBeGreaterThan(3);
  });
});

test('bytes nobody asked for end an idle connection and are not taken for an answer', async () => {
  const server = await receiver((socket) => {
    socket.write(http('200 OK') + (server.requests.length === 1 ? http('500 Smuggled') : ''));
  });
  const transport = transportWith();
  await post(transport, urlOf(server));
  await closed(server.sockets[0]);
  expect(await post(transport, urlOf(server))).toMatchObject({ status: 200 });
  expect(server.sockets).toHaveLength(2);
});

test('bytes that arrive together with the answer that leads to a request are not its answer', async () => {
  const server = await receiver((socket, { body }) => {
    if (body !== 'held') socket.write(http('200 OK'));
  });
  const transport = transportWith();
  const held = post(transport, urlOf(server), { body: Buffer.from('held') });
  await server.received(1);
  await post(transport, urlOf(server), { body: Buffer.from('other') });
  // After this time the second connection may be used again.
  await pass(300);
  const next = held.then(() => post(transport, urlOf(server), { body: Buffer.from('next') }));
  server.sockets[0]!.write(http('200 OK', '', 'Connection: close\r\n'));
  server.sockets[1]!.write(http('418 Smuggled'));
  expect(await next).toMatchObject({ status: 200 });
  expect(server.requests.map(({ body, connection }) => [body, connection])).toEqual([
    ['held', 1],
    ['other', 2],
    ['next', 3],
  ]);
});

test('stop ends everything under way and closes every connection', async () => {
  const server = await receiver((socket) => {
    if (server.requests.length === 1) socket.write(http('200 OK'));
  });
  const transport = transportWith({ maxConnectionsPerPool: 2 });
  await post(transport, urlOf(server));
  const underWay = [1, 2, 3, 4].map(() => post(transport, urlOf(server)));
  await server.received(3);
  const gone = server.sockets.map(closed);
  await Promise.all([transport.stop(), transport.stop()]);
  for (const answer of await Promise.all(underWay)) {
    expect(answer).toMatchObject({ kind: 'failed', reason: 'connection_closed' });
  }
  await Promise.all(gone);
  expect(server.requests).toHaveLength(3);
  const late = await post(transport, urlOf(server));
  expect(late).toMatchObject({ kind: 'failed', reason: 'connection_closed' });
  expect(server.sockets).toHaveLength(2);
});
