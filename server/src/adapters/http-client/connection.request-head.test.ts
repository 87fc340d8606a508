import { expect, test } from 'vitest';
import { serializeRequestHead } from './connection.ts';

const PLACE = { path: '/hook?team=growth', host: 'hooks.example:8443' };

test('a head has the lines that HTTP needs and the headers in their order', () => {
  expect(serializeRequestHead(PLACE, { 'X-Team': 'gr\u00fcn', 'Webhook-Id': 'a b\tc' }, 12)).toBe(
    'POST /hook?team=growth HTTP/1.1\r\nhost: hooks.example:8443\r\nconnection: keep-alive\r\n' +
      'X-Team: gr\u00fcn\r\nWebhook-Id: a b\tc\r\ncontent-length: 12\r\n\r\n',
  );
});

test('a host that is named is sent in place of that of the URL', () => {
  const head = String(serializeRequestHead(PLACE, { HOST: 'other.example' }, 0));
  expect(head.match(/^host:.*$/gim)).toEqual(['host: other.example']);
});

test.each([
  'Connection',
  'content-length',
  'Expect',
  'Keep-Alive',
  'TE',
  'Trailer',
  'TRANSFER-ENCODING',
  'Upgrade',
])('the header %s is nobody else’s to set, asked once or twice', (name) => {
  for (let nth = 0; nth < 2; nth++) {
    const refused = { reason: 'invalid_request', detail: expect.stringContaining(name) };
    expect(serializeRequestHead(PLACE, { 'X-Team': 'a', [name]: 'x' }, 0)).toEqual(refused);
  }
});

test.each(['', 'a b', 'a:b', 'a\r\nb', 'gr\u00fcn', 'a\0'])('%j is not the name of a header', (name) => {
  expect(serializeRequestHead(PLACE, { [name]: 'x' }, 0)).toMatchObject({ reason: 'invalid_request' });
});

test.each(['a\r\nX-Other: b', 'a\nb', 'a\rb', 'a\0b', 'a\u007fb', 'snow \u2603'])(
  '%j is not the value of a header',
  (value) => {
    const refused = serializeRequestHead(PLACE, { 'X-Team': value }, 0);
    expect(refused).toMatchObject({ reason: 'invalid_request', detail: expect.stringContaining('X-Team') });
    expect(JSON.stringify(refused)).not.toContain(value);
  },
);
