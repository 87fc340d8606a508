import { body, mutated, validCall } from './bodies.ts';
import type { Random } from './random.ts';

/** Bytes that one connection of the fuzzer sends. */
export interface Attack {
  /** Sent one after the other. */
  readonly pieces: readonly Buffer[];
  /** Milliseconds between two pieces. */
  readonly pause: number;
  /** Breaks the connection when everything is sent, instead of waiting for answers. */
  readonly leaves: boolean;
  /** Whether what comes back can be read as answers to one request after the other. */
  readonly isReadable: boolean;
}

const METHODS = [
  'POST',
  'POST',
  'POST',
  'GET',
  'PUT',
  'DELETE',
  'OPTIONS',
  'PATCH',
  'TRACE',
  'post',
  'BREW',
  '',
];
const PATHS = [
  ...[
    '/v1/track',
    '/v1/identify',
    '/v1/page',
    '/v1/screen',
    '/v1/group',
    '/v1/alias',
    '/v1/t/',
    '/v1/i',
    '/v1/p',
  ],
  ...[
    '/v1/batch',
    '/v1/b',
    '/v1/import/',
    '/v1/batch?x=1',
    '/v1/m',
    '//v1/t',
    'http://x/v1/batch',
    '*',
    '/',
    '',
    '/v1',
  ],
  ...[
    '/v1/pixel/track?data=e30',
    '/v1/pixel/x',
    '/v1/pixel/t?a.b.c=1&a=2',
    '/v1/projects/wk/settings',
    '/v1/projects/%ff/settings',
  ],
  ...[
    '/api/v1/ledger',
    '/api/v1/status',
    '/api/v1/nothing',
    '/api',
    '/healthz',
    '/readyz',
    '/v1/%74rack',
    '/v1/track#x',
  ],
];
const BODY_PATHS = [...PATHS.slice(0, 13), '/api/v1/ledger'];
const VERSIONS = [
  'HTTP/1.1',
  'HTTP/1.1',
  'HTTP/1.1',
  'HTTP/1.1',
  'HTTP/1.0',
  'HTTP/2.0',
  'HTTP/0.9',
  'HTP/1.1',
  '',
];
const KEY = `Authorization: Basic ${Buffer.from('wk:').toString('base64')}`;

function oddHeader(random: Random): string {
  return random.pick([
    () => 'Authorization: Basic ???',
    () => `Authorization: Basic ${random.bytes(random.int(60)).toString('base64')}`,
    () => 'Authorization: Bearer x',
    () =>
      `Content-Length: ${random.pick(['0', '5', '-1', '1e3', '0x10', '99999999999999999999', ' 5', '5, 5', ''])}`,
    () =>
      `Transfer-Encoding: ${random.pick(['chunked', 'gzip, chunked', 'identity', 'chunked, chunked', 'x'])}`,
    () => `Content-Encoding: ${random.pick(['gzip', 'br', 'GZIP', 'identity', 'gzip, gzip', ''])}`,
    () => `Expect: ${random.pick(['100-continue', '200-ok'])}`,
    () => `Connection: ${random.pick(['close', 'keep-alive', 'Upgrade, HTTP2-Settings', 'x'])}`,
    () => `Upgrade: ${random.pick(['h2c', 'websocket'])}`,
    () => `Host: ${random.pick(['', 'a', 'a, b'])}`,
    () => 'Origin: https://shop.example',
    () => `X-${random.int(1000)}: ${'x'.repeat(random.pick([1, 100, 5000, 20_000]))}`,
    () =>
      `${random.bytes(random.int(20)).toString('latin1')}: ${random.bytes(random.int(50)).toString('latin1')}`,
    () => ' folded: x',
    () => 'no colon',
  ])();
}

function chunked(random: Random, bytes: Buffer): Buffer {
  const parts: Buffer[] = [];
  for (let at = 0; at < bytes.length; ) {
    const size = 1 + random.int(random.pick([1, 50, 5000]) + 1);
    const part = bytes.subarray(at, at + size);
    const extension = random.percent(10) ? ';a=b' : '';
    const said = random.percent(2) ? random.pick(['fffffffff', '-1', 'zz', '']) : part.length.toString(16);
    parts.push(Buffer.from(`${said}${extension}\r\n`), part, Buffer.from('\r\n'));
    at += size;
    // Enough of dust is enough.
    if (parts.length > 6000) break;
  }
  return Buffer.concat([
    ...parts,
    Buffer.from(random.percent(10) ? '0\r\nX-Trailer: a\r\n\r\n' : '0\r\n\r\n'),
  ]);
}

/** A request that is right but for what chance puts into it. */
function request(random: Random): Buffer {
  const { bytes, gzip } = body(random);
  const isChunked = random.percent(20);
  const headers = [KEY, 'Host: localhost', 'Content-Type: text/plain'];
  if (gzip && random.percent(80)) headers.push('Content-Encoding: gzip');
  headers.push(isChunked ? 'Transfer-Encoding: chunked' : `Content-Length: ${bytes.length}`);
  for (let n = random.percent(30) ? random.int(4) : 0; n > 0; n--)
    headers.splice(random.int(headers.length), 0, oddHeader(random));
  const [method, path, version] = [random.pick(METHODS), random.pick(PATHS), random.pick(VERSIONS)];
  const line = random.percent(70)
    ? `POST ${random.pick(BODY_PATHS)} HTTP/1.1`
    : `${method} ${path} ${version}`;
  const head = Buffer.from(`${line}\r\n${headers.join('\r\n')}\r\n\r\n`, 'latin1');
  return Buffer.concat([head, isChunked ? chunked(random, bytes) : bytes]);
}

function valid(): Buffer {
  const text = validCall();
  return Buffer.from(
    `POST /v1/track HTTP/1.1\r\n${KEY}\r\nHost: a\r\nContent-Length: ${text.length}\r\n\r\n${text}`,
  );
}

/** TLS, HTTP/2 and other things that speak to the wrong port. */
const STRANGERS = [
  Buffer.from('16030100c8010000c40303', 'hex'),
  Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0'),
  Buffer.from('CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n'),
  Buffer.from('*1\r\n$4\r\nPING\r\n'),
  Buffer.from('SSH-2.0-OpenSSH_9.2\r\n'),
  Buffer.from('\r\n'.repeat(5000)),
];

export function attackOf(random: Random): Attack {
  const kind = random.int(10);
  let bytes: Buffer;
  if (kind === 0) bytes = random.percent(50) ? random.bytes(random.int(3000)) : random.pick(STRANGERS);
  else if (kind <= 2) bytes = mutated(random, request(random));
  else if (kind === 3) {
    const several = Array.from({ length: random.pick([2, 5, 30, 300]) }, () =>
      random.percent(50) ? valid() : request(random),
    );
    bytes = Buffer.concat(several);
    if (random.percent(50)) bytes = mutated(random, bytes);
  } else bytes = request(random);
  if (random.percent(15)) bytes = bytes.subarray(0, random.int(bytes.length));
  return {
    pieces: cut(random, bytes),
    pause: random.percent(20) ? random.int(20) : 0,
    leaves: random.percent(20),
    isReadable: kind > 3,
  };
}

function cut(random: Random, bytes: Buffer): Buffer[] {
  if (random.percent(60)) return [bytes];
  const pieces: Buffer[] = [];
  const step = 1 + random.int(Math.max(bytes.length / random.pick([2, 5, 20]), 1));
  for (let at = 0; at < bytes.length && pieces.length < 50; at += step)
    pieces.push(bytes.subarray(at, at + step));
  return pieces;
}
