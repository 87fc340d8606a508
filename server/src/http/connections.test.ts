import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { Readable } from 'node:stream';
import { setImmediate as turn } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { ConnectionTracker } from './connections.ts';

const PIECE = Buffer.alloc(64 * 1024, 'x');
/** More than the system takes off the server's hands. */
const PIECES = 300;
const TOTAL = PIECE.length * PIECES;

let server: Server;
let tracker: ConnectionTracker;
let client: Socket;
let peer: Socket;
/** The last piece was handed to the system, or waits for it. */
let isSent: boolean;

beforeEach(async () => {
  server = createServer().listen(0, '127.0.0.1');
  tracker = new ConnectionTracker(server, false);
  await once(server, 'listening');
  client = connect((server.address() as AddressInfo).port, '127.0.0.1').pause();
  client.on('error', () => {});
  [peer] = (await once(server, 'connection')) as [Socket];
  peer.on('error', () => {});
  isSent = false;
  // Piece by piece, as answers are written: only a piece that is gone shows that the client reads.
  const answer = Readable.from(Array.from({ length: PIECES }, () => PIECE));
  answer.once('end', () => {
    isSent = true;
  });
  answer.pipe(peer, { end: false });
});

afterEach(() => {
  client.destroy();
  server.close();
});

const hasMore = () => !isSent || peer.writableLength > 0;

/** Bytes that the system has taken from the server. */
const written = () => peer.bytesWritten - peer.writableLength;

describe('a look for stalled clients', () => {
  test('spares one that reads something between two looks, however little', async () => {
    let read = 0;
    client.on('data', (part) => {
      read += part.length;
    });
    let looks = 0;
    while (hasMore()) {
      const before = written();
      client.resume();
      // The system may hold several megabytes back before it takes more from the server.
      while (written() === before && hasMore()) await turn();
      client.pause();
      tracker.closeStalled();
      looks++;
    }
    expect(looks).toBeGreaterThan(2);
    expect(peer.destroyed).toBe(false);
    client.resume();
    while (read < TOTAL) await once(client, 'data');
  });

  test('cuts off one that reads nothing', async () => {
    while (!peer.destroyed) {
      tracker.closeStalled();
      await turn();
    }
    expect(written()).toBeLessThan(TOTAL);
  });

  test('spares one that has nothing left to read', async () => {
    client.resume();
    while (hasMore()) await turn();
    for (let nth = 0; nth < 3; nth++) tracker.closeStalled();
    expect(peer.destroyed).toBe(false);
  });
});
