import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { track } from '../support/calls.ts';
import { post, postHead, TestConnection } from '../support/http-server.ts';
import { makePlace, type Place, type Program, startServer } from '../support/program.ts';
import { memoryOf } from './memory-of.ts';

/**
 * Hostile and broken clients against the real program in a process of its own: its memory stays bounded, and a good client
 * beside them has its answers.
 */

let place: Place;
let program: Program;
const sockets = new Set<Socket>();

/** A connection may say nothing for this long, in milliseconds. */
const HEAD_TIMEOUT = 15_000;

beforeAll(async () => {
  place = makePlace('sources: [{ name: website, writeKeys: [wk] }]');
  program = await startServer(place);
  // The first calls take memory for compiled code and buffers, which belongs to no attack.
  for (let nth = 0; nth < 200; nth++) await goodCall();
});

afterEach(async () => {
  for (const socket of sockets) socket.destroy();
  sockets.clear();
  // The server serves a new connection after it has noticed the end of the old ones.
  await goodCall();
});

afterAll(async () => {
  expect(await program.stop()).toBe(0);
  expect(program.out.stderr).not.toContain('request.failed');
  place.remove();
});

/** `onEnd` is given the age of the connection in milliseconds. */
function open(onEnd: (age: number) => void = () => {}): Promise<Socket> {
  const { hostname, port } = new URL(program.url);
  const began = performance.now();
  const socket = connect(Number(port), hostname);
  socket.on('error', () => {});
  socket.once('close', () => onEnd(performance.now() - began));
  // A socket that is not read does not notice its end.
  socket.resume();
  sockets.add(socket);
  return once(socket, 'connect').then(() => socket);
}

async function openMany(count: number, onEnd?: (age: number) => void): Promise<Socket[]> {
  const opened: Socket[] = [];
  // In steps: the system keeps only so many that nobody has accepted yet.
  while (opened.length < count) {
    const step = Array.from({ length: Math.min(500, count - opened.length) }, () => open(onEnd));
    opened.push(...(await Promise.all(step)));
  }
  return opened;
}

const AUTHORIZATION = `Authorization: Basic ${Buffer.from('wk:').toString('base64')}`;
let calls = 0;
const goodRequest = () => post('/v1/track', JSON.stringify(track(`good-${++calls}`)), [AUTHORIZATION]);

/** Makes a call on a connection of its own. Resolves to its milliseconds, without those spent waiting for a processor. */
async function goodCall(): Promise<number> {
  const started = performance.now() - waitedForProcessor();
  const connection = new TestConnection(await open());
  await connection.send(goodRequest());
  expect(await connection.nextResponse()).toMatchObject({ status: 200, body: '{"success":true}' });
  connection.destroy();
  return performance.now() - waitedForProcessor() - started;
}

/** Milliseconds for which the program and this process could have run, and other processes had the processors. */
function waitedForProcessor(): number {
  const nanoseconds = [program.pid, process.pid].map((pid) => {
    try {
      return Number(readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ')[1]);
    } catch {
      // This kernel does not count waiting for the processor, so the whole time counts.
      return 0;
    }
  });
  return nanoseconds.reduce((sum, one) => sum + one) / 1e6;
}

/** The least patient client waits this long for an answer. The fuzz run prints how long it takes on a machine at rest. */
const PATIENCE = 10_000;

async function expectGoodService(): Promise<void> {
  const times: number[] = [];
  for (let nth = 0; nth < 20; nth++) times.push(await goodCall());
  expect(Math.max(...times)).toBeLessThan(PATIENCE);
}

/** Resolves when the other side has closed, with everything it sent. */
async function toItsEnd(socket: Socket): Promise<string> {
  const parts: Buffer[] = [];
  socket.on('data', (part) => parts.push(part));
  if (!socket.destroyed) await once(socket, 'close');
  return Buffer.concat(parts).toString();
}

describe('a good client has its answers, and memory is bounded, beside', () => {
  test('10,000 connections that say nothing', async () => {
    const before = memoryOf(program.pid);
    const agesAtEnd: number[] = [];
    const idle = await openMany(10_000, (age) => agesAtEnd.push(age));
    await expectGoodService();
    expect(idle).toHaveLength(10_000);
    // On a busy machine the first connections reach their timeout before the last ones open, so only their ages are compared.
    expect(agesAtEnd.filter((age) => age < HEAD_TIMEOUT)).toEqual([]);
    expect(memoryOf(program.pid) - before).toBeLessThan(300);
  });

  test('2,000 connections that send their heads and bodies byte by byte', async () => {
    const before = memoryOf(program.pid);
    const slow = await openMany(2000);
    const head = 'POST /v1/track HTTP/1.1\r\nHost: a\r\nCookie: ';
    slow.forEach((socket, nth) => {
      socket.write(nth % 2 === 0 ? head : postHead('/v1/batch', 500_000));
    });
    for (let round = 0; round < 10; round++) {
      for (const socket of slow) socket.write('x');
      await goodCall();
    }
    await expectGoodService();
    expect(memoryOf(program.pid) - before).toBeLessThan(300);
  });

  test('headers that never end', async () => {
    const before = memoryOf(program.pid);
    const endless = await openMany(200);
    const ends = endless.map(toItsEnd);
    const piece = `A: ${'x'.repeat(4000)}\r\n`;
    for (const socket of endless) socket.write('POST /v1/track HTTP/1.1\r\n');
    for (let round = 0; round < 10; round++) {
      for (const socket of endless) if (socket.writable) socket.write(piece);
      await goodCall();
    }
    for (const text of await Promise.all(ends)) expect(text).toMatch(/^HTTP\/1\.1 431 /);
    expect(memoryOf(program.pid) - before).toBeLessThan(100);
  });

  test('bodies in chunks of one byte, which are cut off', async () => {
    const before = memoryOf(program.pid);
    const senders = await openMany(20);
    const chunks = Buffer.from('1\r\nx\r\n'.repeat(10_000));
    for (const socket of senders) {
      socket.write('POST /v1/batch HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n');
      for (let nth = 0; nth < 40; nth++) socket.write(chunks);
    }
    await expectGoodService();
    await Promise.all(senders.map((socket) => socket.destroyed || once(socket, 'close')));
    expect(memoryOf(program.pid) - before).toBeLessThan(150);
  });

  test('bodies that were announced small and never stop', async () => {
    const before = memoryOf(program.pid);
    const endless = await openMany(20);
    const piece = Buffer.alloc(100_000, 'x');
    for (const socket of endless) {
      socket.write('POST /v1/batch HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nfffffff\r\n');
      for (let nth = 0; nth < 60; nth++) socket.write(piece);
    }
    await expectGoodService();
    // The server reads and drops up to a limit, and then closes.
    await Promise.all(endless.map((socket) => socket.destroyed || once(socket, 'close')));
    expect(memoryOf(program.pid) - before).toBeLessThan(150);
  });

  test('clients that send requests without end and wait for no answer, which are cut off', async () => {
    const before = memoryOf(program.pid);
    const deaf = await openMany(50);
    const many = Buffer.concat(Array.from({ length: 500 }, () => post('/v1/track', '{"no', [AUTHORIZATION])));
    for (const socket of deaf) {
      socket.pause();
      for (let nth = 0; nth < 20; nth++) socket.write(many);
    }
    await expectGoodService();
    for (const socket of deaf) socket.resume();
    await Promise.all(deaf.map((socket) => socket.destroyed || once(socket, 'close')));
    // 150 requests at once of each are 7,500 in all: bounded, however many more they send.
    expect(memoryOf(program.pid) - before).toBeLessThan(300);
  });

  test('good requests with garbage behind them, each of which has its own answer', async () => {
    const clients = await openMany(200);
    const ends = clients.map(toItsEnd);
    for (const socket of clients)
      socket.write(Buffer.concat([goodRequest(), goodRequest(), Buffer.from('\0\xff garbage\r\n\r\n')]));
    for (const text of await Promise.all(ends)) {
      expect([...text.matchAll(/HTTP\/1\.1 (\d{3})/g)].map(([, status]) => status)).toEqual([
        '200',
        '200',
        '400',
      ]);
    }
    await expectGoodService();
  });

  test('5,000 clients that disconnect in the middle of a body', async () => {
    const before = memoryOf(program.pid);
    const body = Buffer.alloc(100_000, 'x');
    for (let round = 0; round < 10; round++) {
      const clients = await openMany(500);
      await Promise.all(
        clients.map((socket) => {
          socket.end(Buffer.concat([Buffer.from(postHead('/v1/batch', 400_000)), body.subarray(0, 10_000)]));
          socket.resetAndDestroy();
          return socket.closed || once(socket, 'close');
        }),
      );
      sockets.clear();
      await goodCall();
    }
    // 150 requests at once of each are 7,500 in all: bounded, however many more they send.
    expect(memoryOf(program.pid) - before).toBeLessThan(300);
  });
});
