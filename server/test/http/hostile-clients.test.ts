import { once } from 'node:events';
import type { Socket } from 'node:net';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { postHead } from '../support/http-server.ts';
import { Besieged, keyed } from './besieged.ts';
import { memoryOf } from './memory-of.ts';

/**
 * Hostile and broken clients against the real program in a process of its own: its memory stays bounded, and
 * a good client beside them has its answers. How soon is measured in hostile-clients.timing.ts.
 */

let besieged: Besieged;

/** A connection may say nothing for this long, in milliseconds. */
const HEAD_TIMEOUT = 15_000;

beforeAll(async () => {
  besieged = await Besieged.start();
});

afterEach(() => besieged.destroyAll());

afterAll(() => besieged.stop());

const memory = () => memoryOf(besieged.program.pid);

async function expectGoodService(): Promise<void> {
  for (let nth = 0; nth < 20; nth++) await besieged.goodCall();
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
    const before = memory();
    const agesAtEnd: number[] = [];
    const idle = await besieged.openMany(10_000, (age) => agesAtEnd.push(age));
    await expectGoodService();
    expect(idle).toHaveLength(10_000);
    // On a busy machine the first connections reach their timeout before the last ones open, so only their
    // ages are compared.
    expect(agesAtEnd.filter((age) => age < HEAD_TIMEOUT)).toEqual([]);
    expect(memory() - before).toBeLessThan(300);
  });

  test('2,000 connections that send their heads and bodies byte by byte', async () => {
    const before = memory();
    const slow = await besieged.openMany(2000);
    const head = 'POST /v1/track HTTP/1.1\r\nHost: a\r\nCookie: ';
    slow.forEach((socket, nth) => {
      socket.write(nth % 2 === 0 ? head : postHead('/v1/batch', 500_000));
    });
    for (let round = 0; round < 10; round++) {
      for (const socket of slow) socket.write('x');
      await besieged.goodCall();
    }
    await expectGoodService();
    expect(memory() - before).toBeLessThan(300);
  });

  test('headers that never end', async () => {
    const before = memory();
    const endless = await besieged.openMany(200);
    const ends = endless.map(toItsEnd);
    const piece = `A: ${'x'.repeat(4000)}\r\n`;
    for (const socket of endless) socket.write('POST /v1/track HTTP/1.1\r\n');
    for (let round = 0; round < 10; round++) {
      for (const socket of endless) if (socket.writable) socket.write(piece);
      await besieged.goodCall();
    }
    for (const text of await Promise.all(ends)) expect(text).toMatch(/^HTTP\/1\.1 431 /);
    expect(memory() - before).toBeLessThan(100);
  });

  test('bodies in chunks of one byte, which are cut off', async () => {
    const before = memory();
    const senders = await besieged.openMany(20);
    const chunks = Buffer.from('1\r\nx\r\n'.repeat(10_000));
    for (const socket of senders) {
      socket.write('POST /v1/batch HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n');
      for (let nth = 0; nth < 40; nth++) socket.write(chunks);
    }
    await expectGoodService();
    await Promise.all(senders.map((socket) => socket.destroyed || once(socket, 'close')));
    expect(memory() - before).toBeLessThan(150);
  });

  test('bodies that were announced small and never stop', async () => {
    const before = memory();
    const endless = await besieged.openMany(20);
    const piece = Buffer.alloc(100_000, 'x');
    for (const socket of endless) {
      socket.write('POST /v1/batch HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nfffffff\r\n');
      for (let nth = 0; nth < 60; nth++) socket.write(piece);
    }
    await expectGoodService();
    // The server reads and drops up to a limit, and then closes.
    await Promise.all(endless.map((socket) => socket.destroyed || once(socket, 'close')));
    expect(memory() - before).toBeLessThan(150);
  });

  test('clients that send requests without end and wait for no answer, which are cut off', async () => {
    const before = memory();
    const deaf = await besieged.openMany(50);
    const many = Buffer.concat(Array.from({ length: 500 }, () => keyed('{"no')));
    for (const socket of deaf) {
      socket.pause();
      for (let nth = 0; nth < 20; nth++) socket.write(many);
    }
    await expectGoodService();
    for (const socket of deaf) socket.resume();
    await Promise.all(deaf.map((socket) => socket.destroyed || once(socket, 'close')));
    // 150 requests at once of each are 7,500 in all: bounded, however many more they send.
    expect(memory() - before).toBeLessThan(300);
  });

  test('good requests with garbage behind them, each of which has its own answer', async () => {
    const clients = await besieged.openMany(200);
    const ends = clients.map(toItsEnd);
    for (const socket of clients)
      socket.write(
        Buffer.concat([
          besieged.goodRequest(),
          besieged.goodRequest(),
          Buffer.from('\0\xff garbage\r\n\r\n'),
        ]),
      );
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
    const before = memory();
    const body = Buffer.alloc(100_000, 'x');
    for (let round = 0; round < 10; round++) {
      const clients = await besieged.openMany(500);
      await Promise.all(
        clients.map((socket) => {
          socket.end(Buffer.concat([Buffer.from(postHead('/v1/batch', 400_000)), body.subarray(0, 10_000)]));
          socket.resetAndDestroy();
          return socket.closed || once(socket, 'close');
        }),
      );
      await besieged.goodCall();
    }
    // 150 requests at once of each are 7,500 in all: bounded, however many more they send.
    expect(memory() - before).toBeLessThan(300);
  });
});
