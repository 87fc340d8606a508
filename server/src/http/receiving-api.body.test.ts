import { randomBytes } from 'node:crypto';
import { gzipSync } from 'node:zlib';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import {
  post,
  postHead,
  startTestServer,
  type TestConnection,
  type TestServer,
  type WireResponse,
} from '../../test/support/http-server.ts';
import { until } from '../../test/support/until.ts';
import type { IngestResult } from '../ports/ingest.ts';

let running: TestServer;
let connection: TestConnection;

beforeEach(async () => {
  running = await startTestServer();
  connection = await running.connect();
});

afterEach(async () => {
  connection.destroy();
  await running.listener.stop();
});

const GZIP = ['Content-Encoding: gzip'];
const SINGLE = 32_768;
const BATCH = 524_288;

function codeOf({ status, body }: WireResponse): [number, string] {
  return [status, JSON.parse(body).code];
}

const chunk = (bytes: string) => `${bytes.length.toString(16)}\r\n${bytes}\r\n`;
const chunkedHead = (path: string) =>
  `POST ${path} HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n`;

describe('the size of a body', () => {
  test.each([
    ['/v1/track', SINGLE, 'message_too_large'],
    ['/v1/batch', BATCH, 'batch_too_large'],
  ])('for %s may be %i bytes and no more', async (path, limit, code) => {
    await connection.send(post(path, 'x'.repeat(limit)));
    expect((await connection.nextResponse()).status).toBe(200);
    expect(running.calls[0]!.body).toHaveLength(limit);

    await connection.send(post(path, 'x'.repeat(limit + 1)));
    expect(codeOf(await connection.nextResponse())).toEqual([400, code]);

    await connection.send(chunkedHead(path), chunk('x'.repeat(limit)), chunk('x'), chunk(''));
    expect(codeOf(await connection.nextResponse())).toEqual([400, code]);

    await connection.send(chunkedHead(path), chunk('x'.repeat(limit)), chunk(''));
    expect((await connection.nextResponse()).status).toBe(200);
    expect(running.calls).toHaveLength(2);
  });

  test('is refused from the head alone, and the connection serves on after the body has come', async () => {
    await connection.send(postHead('/v1/track', 100_000));
    expect(codeOf(await connection.nextResponse())).toEqual([400, 'message_too_large']);
    await connection.send('x'.repeat(100_000), post('/v1/track', '{}'));
    expect((await connection.nextResponse()).status).toBe(200);
    expect(running.calls).toHaveLength(1);
  });

  test('is told to whoever is refused for it, with the limit', async () => {
    const messageOf = async () => JSON.parse((await connection.nextResponse()).body).message;
    await connection.send(post('/v1/batch', 'x'.repeat(612_345)));
    expect(await messageOf()).toBe('The batch is too large. It has 612,345 bytes, the limit is 524,288.');
    await connection.send(post('/v1/track', 'x'.repeat(40_000)));
    expect(await messageOf()).toContain('It has 40,000 bytes, the limit is 32,768.');
    await connection.send(post('/v1/track', randomBytes(40_000), GZIP));
    expect(await messageOf()).toContain(
      'It has 40,000 bytes before it is inflated, the limit is 32,768 after it.',
    );
    await connection.send(post('/v1/batch', gzipSync(Buffer.alloc(BATCH + 1)), GZIP));
    expect(await messageOf()).toContain('It has more than 524,288 bytes, which is the limit.');
    await connection.send(chunkedHead('/v1/track'), chunk('x'.repeat(SINGLE + 1)), chunk(''));
    expect(await messageOf()).toContain('It has more than 32,768 bytes, which is the limit.');
  });

  test('is refused as soon as it shows, when no length was announced', async () => {
    await connection.send(chunkedHead('/v1/track'), chunk('x'.repeat(SINGLE + 1)));
    expect(codeOf(await connection.nextResponse())).toEqual([400, 'message_too_large']);
    await connection.send(chunk('more'), chunk(''), post('/v1/track', '{}'));
    expect((await connection.nextResponse()).status).toBe(200);
    expect(running.calls).toHaveLength(1);
  });

  test.each([
    ['announced', postHead('/v1/batch', 1_000_000_000)],
    ['in chunks', `${chunkedHead('/v1/batch')}${(1_000_000_000).toString(16)}\r\n`],
    ['sent to nowhere', postHead('/nowhere', 1_000_000_000)],
  ])('beyond all measure, %s, is not read to its end', async (_, head) => {
    const piece = Buffer.alloc(1_000_000, 'x');
    await connection.send(head, piece);
    expect([400, 404]).toContain((await connection.nextResponse()).status);
    for (let sent = 1; sent < 100 && !connection.isGone; sent++) await connection.send(piece);
    expect(connection.isGone).toBe(true);
    expect(running.calls).toEqual([]);
  });

  test('is 0 when there is none', async () => {
    await connection.send('POST /v1/track HTTP/1.1\r\nHost: test\r\n\r\n');
    expect((await connection.nextResponse()).status).toBe(200);
    expect(running.calls[0]!.body).toHaveLength(0);
  });
});

test('a body that comes in pieces is put together', async () => {
  const body = Buffer.from('{"a":"é€😀"}');
  await connection.send(postHead('/v1/track', body.length));
  for (const byte of body) await connection.send(Uint8Array.of(byte));
  await connection.nextResponse();
  expect(running.calls[0]!.body).toEqual(body);
});

describe('gzip', () => {
  const body = Buffer.from('{"userId":"u1"}');

  test.each([
    ['announced', GZIP],
    ['announced in other letters', ['content-ENCODING:  GZip ']],
    ['announced as x-gzip', ['Content-Encoding: x-gzip']],
    ['announced as identity', ['Content-Encoding: identity']],
    ['not announced', []],
    ['with the content type of a form', [...GZIP, 'Content-Type: application/x-www-form-urlencoded']],
  ])('is inflated, %s', async (_, headers) => {
    await connection.send(post('/v1/track', gzipSync(body), headers));
    expect((await connection.nextResponse()).status).toBe(200);
    expect(running.calls[0]!.body).toEqual(body);
  });

  test.each([
    ['that is something else', Buffer.from('x\x9c{"userId":"u1"}', 'latin1')],
    ['that breaks off', gzipSync(body).subarray(0, -9)],
    ['with a wrong checksum', Buffer.concat([gzipSync(body).subarray(0, -8), Buffer.alloc(8)])],
    ['that is empty', Buffer.alloc(0)],
  ])('%s is refused', async (_, bytes) => {
    await connection.send(post('/v1/track', bytes, GZIP));
    expect(codeOf(await connection.nextResponse())).toEqual([400, 'invalid_encoding']);
    expect(running.calls).toEqual([]);
  });

  test.each([
    ...[...GZIP, 'Content-Encoding: utf-8', 'Content-Encoding: UTF8', 'Content-Encoding: none'],
    'Content-Encoding: identity',
  ])('is looked for in the body: plain JSON with %s is read', async (header) => {
    await connection.send(post('/v1/track', body, [header]));
    expect((await connection.nextResponse()).status).toBe(200);
    expect(running.calls[0]!.body).toEqual(body);
  });

  test.each(['br', 'deflate', 'zstd', 'gzip, gzip'])('is all there is: %s is refused', async (encoding) => {
    await connection.send(post('/v1/track', body, [`Content-Encoding: ${encoding}`]));
    expect(codeOf(await connection.nextResponse())).toEqual([400, 'unsupported_encoding']);
  });

  test.each([
    ['/v1/track', SINGLE, 'message_too_large'],
    ['/v1/batch', BATCH, 'batch_too_large'],
  ])('for %s counts its inflated bytes', async (path, limit, code) => {
    await connection.send(post(path, gzipSync(Buffer.alloc(limit, 'x')), GZIP));
    expect((await connection.nextResponse()).status).toBe(200);
    expect(running.calls[0]!.body).toHaveLength(limit);
    await connection.send(post(path, gzipSync(Buffer.alloc(limit + 1, 'x')), GZIP));
    expect(codeOf(await connection.nextResponse())).toEqual([400, code]);
    // What cannot be compressed grows a little, and is within the limit all the same.
    const noise = randomBytes(limit);
    await connection.send(post(path, gzipSync(noise), GZIP));
    expect((await connection.nextResponse()).status).toBe(200);
    expect(running.calls[1]!.body.equals(noise)).toBe(true);
  });

  test('that inflates without end is stopped at the limit', async () => {
    const bomb = gzipSync(Buffer.alloc(100_000_000));
    const before = process.memoryUsage().arrayBuffers;
    await connection.send(post('/v1/batch', bomb, GZIP));
    expect(codeOf(await connection.nextResponse())).toEqual([400, 'batch_too_large']);
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(20_000_000);
  });
});

describe('a client that goes away', () => {
  test.each([
    ['in the head', 'POST /v1/track HTTP/1.1\r\nHost:'],
    ['before the body', postHead('/v1/track', 10)],
    ['in the body', `${postHead('/v1/track', 10)}12345`],
    ['in a chunk', `${chunkedHead('/v1/track')}a\r\n12345`],
  ])('%s has made no call', async (_, bytes) => {
    await connection.send(bytes);
    connection.destroy();
    await connection.closed;
    const other = await running.connect();
    await other.send(post('/v1/track', '{}'));
    expect((await other.nextResponse()).status).toBe(200);
    // Stopping waits for every connection, so that nothing can come after it.
    await running.listener.stop();
    expect(running.calls).toHaveLength(1);
  });

  test('before its answer does no harm', async () => {
    const held: ((verdict: IngestResult) => void)[] = [];
    const other = await startTestServer({ verdict: (_, answer) => held.push(answer) });
    const gone = await other.connect();
    await gone.send(post('/v1/track', '{}'), post('/v1/track', '{}'));
    await until('a call waits for its verdict', () => held.length > 0);
    gone.destroy();
    await other.listener.stop();
    expect(() => {
      for (const answer of held) answer({ kind: 'stored' });
    }).not.toThrow();
    await new Promise((resolve) => setImmediate(resolve));
    expect(other.logged.map(({ event }) => event)).not.toContain('request.failed');
  });
});
