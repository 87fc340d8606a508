import { describe, expect, test } from 'vitest';
import { parseFastPathRequest } from './request-parser.ts';

const head = (lines: readonly string[], requestLine = 'POST /v1/track HTTP/1.1') =>
  `${[requestLine, ...lines].join('\r\n')}\r\n\r\n`;
const read = (text: string) => parseFastPathRequest(Buffer.from(text, 'latin1'));
const LENGTH = 'Content-Length: 2';

describe('a plain request', () => {
  test('is read with what is needed of it', () => {
    const lines = [
      ...['Host: a', 'Authorization: Basic d2s6', 'Content-Type: text/plain', 'Content-Encoding: gzip'],
      ...[
        'Origin: https://shop.example',
        'traceparent: 00-a-b-01',
        'X-Forwarded-For: 203.0.113.9, 10.0.0.1',
        'Connection: keep-alive',
        'Content-Length: 17',
      ],
    ];
    expect(read(`${head(lines)}{"a":`)).toEqual({
      action: { kind: 'call', type: 'track', limit: 32_768, tooLarge: 'message_too_large' },
      bodyAt: head(lines).length,
      contentLength: 17,
      contentEncoding: 'gzip',
      authorization: 'Basic d2s6',
      traceparent: '00-a-b-01',
      forwardedFor: '203.0.113.9, 10.0.0.1',
      origin: 'https://shop.example',
    });
  });

  test('needs nothing but a length', () => {
    expect(read(head(['Content-Length: 0']))).toMatchObject({ contentLength: 0, origin: undefined });
  });

  test.each([
    ['/v1/track', 'track'],
    ['/v1/t/', 'track'],
    ['/v1/alias?a=b&c=%20', 'alias'],
    ['/v1/batch/?', 'batch'],
    ['/v1/import', 'batch'],
  ])('may be for %s', (target, type) => {
    expect(read(head([LENGTH], `POST ${target} HTTP/1.1`))?.action.type).toBe(type);
  });

  test.each([
    ['names in other letters', ['CONTENT-length: 2', 'AUTHORIZATION: x', 'CoNNection: Keep-ALIVE']],
    ['no blank behind the colon', ['Content-Length:2', 'Connection:keep-alive']],
    ['an empty value', [LENGTH, 'Content-Type: ', 'Origin:']],
    ['blanks and colons in a value', [LENGTH, 'User-Agent: a b: c']],
    ['headers that nobody looks at, twice', [LENGTH, 'Cookie: a', 'Cookie: b']],
    ['the greatest length', ['Content-Length: 999999999']],
    ['names like those that are looked at', [LENGTH, 'Content-Lengti: 3', 'ye: x', 'Contact: x']],
  ])('may have %s', (_, lines) => {
    expect(read(head(lines))).toBeDefined();
  });

  test('may have a head of 8 KB', () => {
    const fill = (bytes: number) => head([LENGTH, `A: ${'x'.repeat(bytes - head([LENGTH, 'A: ']).length)}`]);
    expect(read(fill(8192))?.bodyAt).toBe(8192);
    expect(read(fill(8193))).toBeUndefined();
  });
});

describe('what is left', () => {
  test.each([
    'GET /v1/track HTTP/1.1',
    'post /v1/track HTTP/1.1',
    'POST /v1/track HTTP/1.0',
    'POST /v1/track http/1.1',
    'POST /v1/track HTTP/1.1 ',
    'POST  /v1/track HTTP/1.1',
    'POST /v1/track  HTTP/1.1',
    'POST //v1/track HTTP/1.1',
    'POST http://a/v1/track HTTP/1.1',
    'POST /v1/track#x HTTP/1.1',
    'POST /v1/track?a b HTTP/1.1',
    'POST /v1/track?é HTTP/1.1',
    'POST /v1/%74rack HTTP/1.1',
    'POST /v1/tracks HTTP/1.1',
    'POST /v1/ HTTP/1.1',
    'POST /v1/m HTTP/1.1',
    'POST /v1/pixel/track HTTP/1.1',
    'POST /healthz HTTP/1.1',
    ' POST /v1/track HTTP/1.1',
    '\r\nPOST /v1/track HTTP/1.1',
  ])('%j', (requestLine) => {
    expect(read(head([LENGTH], requestLine))).toBeUndefined();
  });

  test.each([
    ['no length', ['Host: a']],
    ['two lengths', [LENGTH, LENGTH]],
    ['an empty length', ['Content-Length: ']],
    ['a length with a sign', ['Content-Length: +2']],
    ['a length with a nought before it', ['Content-Length: 02']],
    ['a length of ten digits', ['Content-Length: 1000000000']],
    ['a length with a comma', ['Content-Length: 2, 2']],
    ['a length in sixteens', ['Content-Length: 0x2']],
    ['a coding', [LENGTH, 'Transfer-Encoding: chunked']],
    ['a coding that is none', [LENGTH, 'transfer-encoding: identity']],
    ['an expectation', [LENGTH, 'Expect: 100-continue']],
    ['an upgrade', [LENGTH, 'Upgrade: h2c']],
    ['a trailer', [LENGTH, 'Trailer: a']],
    ['TE', [LENGTH, 'TE: trailers']],
    ['a connection that is to be closed', [LENGTH, 'Connection: close']],
    ['a connection with more to say', [LENGTH, 'Connection: keep-alive, upgrade']],
    ['a connection of an old proxy', [LENGTH, 'Proxy-Connection: keep-alive']],
    ['two keys', [LENGTH, 'Authorization: a', 'authorization: a']],
    ['two encodings', [LENGTH, 'Content-Encoding: gzip', 'Content-Encoding: gzip']],
    ['two origins', [LENGTH, 'Origin: a', 'Origin: a']],
    ['two traces', [LENGTH, 'traceparent: a', 'traceparent: a']],
    ['two hosts', [LENGTH, 'Host: a', 'Host: b']],
    ['two types', [LENGTH, 'Content-Type: a', 'Content-Type: b']],
    ['a blank before the colon', ['Content-Length : 2']],
    ['two blanks behind the colon', ['Content-Length:  2']],
    ['a blank at the end', ['Content-Length: 2 ']],
    ['a value that is a blank', [LENGTH, 'A:  ']],
    ['a tab', [LENGTH, 'A:\tb']],
    ['a folded line', [LENGTH, 'A: b', ' c']],
    ['a line without a colon', [LENGTH, 'A']],
    ['a line without a name', [LENGTH, ': b']],
    ['a name that is no token', [LENGTH, 'A(b): c']],
    ['a byte beyond ASCII', [LENGTH, 'A: é']],
    ['a NUL', [LENGTH, 'A: \0']],
    ['a bare CR', [LENGTH, 'A: b\rContent-Length: 3']],
    ['a bare LF', [LENGTH, 'A: b\nContent-Length: 3']],
  ])('has %s', (_, lines) => {
    expect(read(head(lines))).toBeUndefined();
  });

  test('has no more of a head than a part of it', () => {
    const whole = head(['Host: a', LENGTH]);
    for (let end = 0; end < whole.length; end++) expect(read(whole.slice(0, end))).toBeUndefined();
    expect(read(whole)).toBeDefined();
  });

  test('has lines that end in LF alone', () => {
    const whole = head(['Host: a', LENGTH]);
    expect(read(whole.replaceAll('\r\n', '\n'))).toBeUndefined();
    expect(read(whole.replace('\r\n\r\n', '\r\n\n'))).toBeUndefined();
  });
});
