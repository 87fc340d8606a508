import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect as connectTcp, type Socket } from 'node:net';
import { join } from 'node:path';
import { connect as connectTls } from 'node:tls';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { IngestRequest } from '../../src/ports/ingest.ts';
import { post, postHead, startTestServer, TestConnection, type TestServer } from '../support/http-server.ts';
import { ROOT } from '../support/program.ts';
import { amountOf, IS_LONG } from '../support/runs.ts';

/**
 * Two readers stand behind one port: our own for plain requests, and `node:http` for everything else. Here
 * any bytes are sent to both, and what comes back, and what the receiver is given, must be the same: if they
 * ever disagreed about where a request ends, a request could be hidden in the body of another.
 */

const CERTIFICATES = join(ROOT, 'server/test/support/tls');
const tls = { cert: join(CERTIFICATES, 'server.pem'), key: join(CERTIFICATES, 'server.key') };
const GET = 'GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n';

let running: TestServer;
/** How many calls were read without `node:http`. */
let plain = 0;

beforeAll(async () => {
  running = await startTestServer({
    verdict: (call, answer) => {
      if (isPlain(call)) plain++;
      answer({ kind: 'stored' });
    },
  });
});

afterAll(() => running.listener.stop());

/** Node puts its parser on every connection it reads. */
function isPlain({ peer }: IngestRequest): boolean {
  return ((peer as { parser?: unknown }).parser ?? undefined) === undefined;
}

interface Seen {
  /** Every byte that came back, without the time. */
  readonly text: string;
  readonly calls: readonly object[];
}

/** Result of these bytes on a connection whose client closes its side behind them. */
async function seen(parts: readonly Buffer[], isHandedOver: boolean): Promise<Seen> {
  const socket = connectTcp({ port: running.port, host: '127.0.0.1', allowHalfOpen: true, noDelay: true });
  socket.on('error', () => {});
  if (isHandedOver) {
    // Read by `node:http` from here on.
    socket.write(GET);
    await once(socket, 'data');
  }
  const before = running.calls.length;
  const text = everything(socket);
  for (const part of parts) await new Promise((resolve) => socket.write(part, resolve));
  socket.end();
  return {
    text: await text,
    calls: running.calls
      .slice(before)
      .map(({ peer, body, ...call }) => ({ ...call, body: body.toString('latin1') })),
  };
}

async function everything(socket: Socket): Promise<string> {
  const parts: Buffer[] = [];
  socket.on('data', (part) => parts.push(part));
  socket.once('end', () => socket.destroy());
  await once(socket, 'close');
  return Buffer.concat(parts)
    .toString('latin1')
    .replaceAll(/Date: .{29}\r\n/g, '');
}

async function expectSame(...parts: readonly (string | Buffer)[]): Promise<Seen> {
  const bytes = parts.map((part) => (typeof part === 'string' ? Buffer.from(part, 'latin1') : part));
  const ours = await seen(bytes, false);
  expect(ours).toEqual(await seen(bytes, true));
  return ours;
}

function statusesIn(text: string): number[] {
  return Array.from(text.matchAll(/HTTP\/1\.1 (\d{3})/g), ([, status]) => Number(status));
}

const HEADERS = [
  'Authorization: Basic d2s6',
  'Content-Type: application/json',
  'Origin: https://shop.example',
  'traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
  'User-Agent: a/1.0 (b; c)',
  'Connection: keep-alive',
  'Content-Encoding: identity',
];

const requests = fc
  .record({
    path: fc.constantFrom('/v1/track', '/v1/t/', '/v1/batch?a=b', '/v1/import/'),
    headers: fc.subarray(HEADERS),
    body: fc.constantFrom('', '{}', '{"a":"b"}', 'POST /v1/t HTTP/1.1\r\nContent-Length: 0\r\n\r\n'),
  })
  .map(({ path, headers, body }) => post(path, body, headers).toString('latin1'));

/** Pieces put into random requests beside arbitrary bytes: parsers have disagreed about them. */
const PIECES = [
  ...[
    '\r\n',
    '\n',
    '\r',
    '\r\n\r\n',
    ' ',
    '\t',
    '\0',
    ':',
    ',',
    ';',
    '/',
    '?',
    '#',
    '%',
    '"',
    '\\',
    '|',
    '{',
    '~',
  ],
  ...['\xe9', '\x7f', '\x80', '\xff', '\x0b', '\x85', '\xa0'],
  ...['Content-Length: 5\r\n', 'Content-Length: 0\r\n', 'content-length:1\r\n', 'Content-Length : 3\r\n'],
  ...[
    'Transfer-Encoding: chunked\r\n',
    'Transfer-Encoding:identity\r\n',
    'TE: trailers\r\n',
    'Trailer: a\r\n',
  ],
  ...['Expect: 100-continue\r\n', 'Expect: x\r\n', 'Upgrade: h2c\r\n', 'Connection: close\r\n'],
  ...['Connection: upgrade\r\n', 'Proxy-Connection: close\r\n', 'Host: a\r\n', 'Content-Encoding: gzip\r\n'],
  ...[
    'Authorization: Basic YTo=\r\n',
    'X: y\r\n',
    ' folded\r\n',
    'X\r\n',
    ':\r\n',
    '0\r\n\r\n',
    '5\r\nabcde\r\n',
  ],
  ...[
    'GET ',
    'POST ',
    'HTTP/1.0',
    'HTTP/1.1',
    'http://a',
    GET,
    'POST /v1/t HTTP/1.1\r\nContent-Length: 0\r\n\r\n',
  ],
];

const mutations = fc.array(
  fc.record({
    where: fc.nat(),
    removed: fc.constantFrom(0, 0, 0, 1, 2, 10),
    put: fc.oneof(
      fc.constantFrom(...PIECES),
      fc.constant(''),
      fc.integer({ min: 0, max: 255 }).map((byte) => String.fromCharCode(byte)),
    ),
    /** At the beginning of a line, where a header would stand. */
    atLine: fc.boolean(),
  }),
  { maxLength: 3 },
);

type Mutation = typeof mutations extends fc.Arbitrary<(infer One)[]> ? One : never;

function mutated(text: string, { where, removed, put, atLine }: Mutation): string {
  const lines = [...text.matchAll(/\r\n/g)].map(({ index }) => index + 2);
  const at = atLine && lines.length > 0 ? lines[where % lines.length]! : where % (text.length + 1);
  return text.slice(0, at) + put + text.slice(at + removed);
}

describe('both readers agree', () => {
  test('about any mutation of requests, cut anywhere', async () => {
    const before = plain;
    const sent = fc.tuple(requests, fc.option(requests, { nil: '', freq: 3 }), mutations, fc.nat());
    await fc.assert(
      fc.asyncProperty(sent, async ([first, second, changes, cut]) => {
        const text = changes.reduce(mutated, first + second);
        const bytes = Buffer.from(text, 'latin1');
        const at = cut % (bytes.length + 1);
        await expectSame(bytes.subarray(0, at), bytes.subarray(at));
      }),
      { numRuns: amountOf({ gate: 200, long: 600 }) },
    );
    // Otherwise nothing was compared.
    expect(plain - before).toBeGreaterThan(20);
  });

  test('about everything that parsers have disagreed about, in every line of a head', async () => {
    const text = post('/v1/track?a', '5\r\nabcde\r\n', HEADERS.slice(0, 3)).toString('latin1');
    const lines = [...text.matchAll(/\r\n/g)].map(({ index }) => index);
    for (const put of PIECES) {
      // At the end of a line, and where the next one begins; in the long list also within both.
      for (const at of lines.flatMap((end) =>
        IS_LONG ? [end - 1, end, end + 1, end + 2] : [end, end + 2],
      )) {
        await expectSame(text.slice(0, at) + put + text.slice(at));
      }
    }
  });

  test('about any bytes in a head', async () => {
    const odd = fc.uint8Array({ maxLength: 12 }).map((bytes) => Buffer.from(bytes).toString('latin1'));
    await fc.assert(
      fc.asyncProperty(odd, odd, async (name, value) => {
        await expectSame(
          post('/v1/track', '{}').toString('latin1').replace('\r\n', `\r\n${name}: ${value}\r\n`),
        );
      }),
      { numRuns: amountOf({ gate: 100, long: 300 }) },
    );
  });

  test('about every byte in a name, a value and a target', async () => {
    // Bytes beyond ASCII are all taken alike, so the gate looks at some of them.
    for (let byte = 0; byte < 256; byte += byte < 128 ? 1 : amountOf({ gate: 9, long: 1 })) {
      const one = String.fromCharCode(byte);
      await expectSame(`POST /v1/t HTTP/1.1\r\nA${one}b: c\r\nContent-Length: 2\r\n\r\n{}`);
      for (const text of [`X: a${one}b`, `Authorization: Basic d2s${one}`, `Origin: ${one}`]) {
        await expectSame(`POST /v1/t HTTP/1.1\r\n${text}\r\nContent-Length: 2\r\n\r\n{}`);
      }
      await expectSame(`POST /v1/t?a${one}b HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}`);
    }
  });

  test('about any number of headers: a thousand are taken, and not one more', async () => {
    for (const count of [10, 99, 100, 101, 102, 500, 999, 1000, 1001, 1002, 1600]) {
      const others = 'a:\r\n'.repeat(count - 1);
      const { text, calls } = await expectSame(`POST /v1/t HTTP/1.1\r\n${others}Content-Length: 2\r\n\r\n{}`);
      const taken = [text.slice(0, 12), calls.length];
      expect([count, taken]).toEqual([count, count > 1000 ? ['HTTP/1.1 431', 0] : ['HTTP/1.1 200', 1]]);
    }
  });

  const CHUNKED = 'Host: a\r\nTransfer-Encoding: chunked\r\n\r\n';
  test.each([
    ['too large, and breaks off', [400], 'POST /v1/track HTTP/1.1\r\nContent-Length: 99999\r\n\r\nx'],
    [
      'in an unknown coding, and breaks off',
      [400],
      post('/v1/t', 'x', ['Content-Encoding: br']).subarray(0, -1),
    ],
    ['of no path, with a chunk that is none', [404], `POST /nowhere HTTP/1.1\r\n${CHUNKED}zz\r\n`],
    ['of no path, and breaks off', [404], `POST /v1/nowhere HTTP/1.1\r\n${CHUNKED}5\r\na`],
    ['of no method, with a chunk that is none', [405], `PUT /v1/track HTTP/1.1\r\n${CHUNKED}5\r\nabcde!!`],
    ['with trailers without end', [404], `POST /no HTTP/1.1\r\n${CHUNKED}0\r\nA: ${'x'.repeat(20_000)}`],
    ['behind others', [200, 200, 404], `${GET}${post('/v1/t', '{}')}POST /no HTTP/1.1\r\n${CHUNKED}zz\r\n`],
    ['whose own head is wrong', [400], 'POST /v1/track HTTP/1.1\r\nContent-Length: x\r\n\r\nzz\r\n\r\n'],
    ['whose own head is too large', [431], `POST /v1/t HTTP/1.1\r\nA: ${'x'.repeat(20_000)}\r\n\r\nzz\r\n`],
    [
      'that is whole, with garbage behind it',
      [404, 400],
      `POST /no HTTP/1.1\r\nContent-Length: 0\r\n\r\nzz\r\n\r\n`,
    ],
  ])('about one answer and no second one for a request %s', async (_, statuses, bytes) => {
    const { text } = await expectSame(bytes);
    expect(statusesIn(text)).toEqual(statuses);
  });

  test('about one answer, though not always about which, for chunks that are too many and then none', async () => {
    const bytes = `POST /v1/track HTTP/1.1\r\n${CHUNKED}9000\r\n${'x'.repeat(0x9000)}\r\nzz\r\n`;
    for (const isHandedOver of [false, true]) {
      const { text, calls } = await seen([Buffer.from(bytes)], isHandedOver);
      expect([statusesIn(text), calls]).toEqual([[400], []]);
    }
  });

  test('about a client that is refused before it was told to send its body: it is the last of its connection', async () => {
    const head =
      'POST /v1/track HTTP/1.1\r\nHost: a\r\nContent-Length: 99999\r\nExpect: 100-continue\r\n\r\n';
    // The next request, from a client that has read the refusal and keeps its body for itself.
    const { text, calls } = await expectSame(head, post('/v1/track', '{}'));
    expect(statusesIn(text)).toEqual([400]);
    expect(text).toContain('Connection: close');
    expect(calls).toEqual([]);
  });

  const inner = 'POST /v1/t HTTP/1.1\r\nAuthorization: Basic YTo=\r\nContent-Length: 0\r\n\r\n';
  test.each([
    ['a length and chunks', 'Content-Length: 5\r\nTransfer-Encoding: chunked\r\n', `0\r\n\r\n${inner}`],
    ['chunks and a length', 'Transfer-Encoding: chunked\r\nContent-Length: 5\r\n', `0\r\n\r\n${inner}`],
    ['two lengths', `Content-Length: 0\r\nContent-Length: ${inner.length}\r\n`, inner],
    ['a list of lengths', `Content-Length: 0, ${inner.length}\r\n`, inner],
    ['chunks that are hidden', 'Content-Length: 5\r\nTransfer-Encoding : chunked\r\n', `0\r\n\r\n${inner}`],
    [
      'chunks behind a bare LF',
      'Content-Length: 5\r\nA: b\nTransfer-Encoding: chunked\r\n',
      `0\r\n\r\n${inner}`,
    ],
    [
      'chunks behind a bare CR',
      'Content-Length: 5\r\nA: b\rTransfer-Encoding: chunked\r\n',
      `0\r\n\r\n${inner}`,
    ],
    [
      'chunks on a folded line',
      'Content-Length: 5\r\nA: b\r\n Transfer-Encoding: chunked\r\n',
      `0\r\n\r\n${inner}`,
    ],
    ['a length in sixteens', 'Content-Length: 0x5\r\n', inner],
    ['a length with a sign', 'Content-Length: +5\r\n', inner],
    ['a request in its body', `Content-Length: ${inner.length}\r\n`, inner],
  ])('about %s', async (_, headers, rest) => {
    await expectSame(`POST /v1/track HTTP/1.1\r\n${headers}\r\n${rest}`);
  });
});

describe('over TLS', () => {
  async function connect(port: number): Promise<TestConnection> {
    const ca = readFileSync(join(CERTIFICATES, 'ca.pem'));
    const socket = connectTls({ port, host: 'localhost', servername: 'localhost', ca });
    await once(socket, 'secureConnect');
    return new TestConnection(socket);
  }

  test('requests are plain, and a connection is handed over in the middle of one, with nothing lost', async () => {
    const read: boolean[] = [];
    const server = await startTestServer({
      tls,
      verdict: (call, answer) => {
        read.push(isPlain(call));
        answer({ kind: 'stored' });
      },
    });
    const connection = await connect(server.port);
    const body = Buffer.alloc(300_000, 'abcdefg');
    await connection.send(post('/v1/track', '{}'));
    expect((await connection.nextResponse()).status).toBe(200);
    await connection.send(post('/v1/batch', body));
    expect((await connection.nextResponse()).status).toBe(200);
    expect(read).toEqual([true, true]);
    // Several TLS records are read in one turn of the event loop. Bytes that were put back must come before
    // those read next.
    const many = Array.from({ length: 50 }, (_, nth) =>
      post('/v1/batch', `${nth} ${body.subarray(0, 2000)}`),
    );
    await connection.send(...many);
    for (let nth = 0; nth < 50; nth++) expect((await connection.nextResponse()).status).toBe(200);
    await connection.send(post('/v1/batch', body));
    expect((await connection.nextResponse()).status).toBe(200);
    expect(read.slice(2)).toEqual(Array(51).fill(false));
    expect(server.calls.slice(2, 52).map((call) => Number.parseInt(call.body.toString(), 10))).toEqual(
      Array.from({ length: 50 }, (_, nth) => nth),
    );
    expect([server.calls[1]!.body, server.calls[52]!.body].every((each) => each.equals(body))).toBe(true);
    connection.destroy();
    await server.listener.stop();
  });

  test('the limits of time hold', async () => {
    // Long enough for a handshake on a busy machine: bytes that come after the end would cost the client its
    // answer.
    const server = await startTestServer({ tls, timeouts: { head: 2000, request: 2000, checkInterval: 20 } });
    const slow = ['', postHead('/v1/track', 10), 'POST /v1'].map(async (bytes) => {
      const connection = await connect(server.port);
      await connection.send(bytes);
      expect((await connection.nextResponse()).status).toBe(408);
      await connection.closed;
    });
    await Promise.all(slow);
    await server.listener.stop();
  });
});
