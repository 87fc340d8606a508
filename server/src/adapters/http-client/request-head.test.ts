import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { expect, test } from 'vitest';
import { RequestWriter, serializeFixedHead, serializeHeadRest } from './request-head.ts';

const PLACE = { path: '/hook?team=growth', host: 'hooks.example:8443' };

test('a head has the lines that HTTP needs and the headers in their order', () => {
  const fixed = serializeFixedHead(PLACE, { 'X-Team': 'gr\u00fcn', Authorization: 'a b\tc' }) as Buffer;
  expect(fixed.toString('latin1') + serializeHeadRest({ 'Webhook-Id': '7', 'X-A': '\u00ff' }, 12)).toBe(
    'POST /hook?team=growth HTTP/1.1\r\nhost: hooks.example:8443\r\nconnection: keep-alive\r\n' +
      'X-Team: gr\u00fcn\r\nAuthorization: a b\tc\r\nWebhook-Id: 7\r\nX-A: \u00ff\r\ncontent-length: 12\r\n\r\n',
  );
});

test('a head without headers ends all the same', () => {
  const fixed = serializeFixedHead(PLACE) as Buffer;
  expect(fixed.toString('latin1') + serializeHeadRest({}, 0)).toMatch(
    /keep-alive\r\ncontent-length: 0\r\n\r\n$/,
  );
});

/** Both parts check names and values. */
const PARTS = [
  ['fixed', (headers: Record<string, string>) => serializeFixedHead(PLACE, headers)],
  ['of the request', (headers: Record<string, string>) => serializeHeadRest(headers, 0)],
] as const;

test.each([
  'Connection',
  'content-length',
  'Expect',
  'HOST',
  'Keep-Alive',
  'TE',
  'Trailer',
  'TRANSFER-ENCODING',
  'Upgrade',
])('the header %s is nobody else’s to set, asked once or twice', (name) => {
  const refused = { reason: 'invalid_request', detail: expect.stringContaining(name) };
  for (const [, part] of PARTS) {
    for (let nth = 0; nth < 2; nth++) expect(part({ 'X-Team': 'a', [name]: 'x' })).toEqual(refused);
  }
});

test.each(['', 'a b', 'a:b', 'a\r\nb', 'gr\u00fcn', 'a\0'])('%j is not the name of a header', (name) => {
  for (const [, part] of PARTS) expect(part({ [name]: 'x' })).toMatchObject({ reason: 'invalid_request' });
});

test.each(['a\r\nX-Other: b', 'a\nb', 'a\rb', 'a\0b', 'a\u007fb', 'snow \u2603'])(
  '%j is not the value of a header',
  (value) => {
    for (const [, part] of PARTS) {
      const refused = part({ 'X-Team': value });
      expect(refused).toMatchObject({ reason: 'invalid_request', detail: expect.stringContaining('X-Team') });
      expect(JSON.stringify(refused)).not.toContain(value);
    }
  },
);

/** A pair of connected sockets; the receiving one does not read until it is told. */
async function pair(): Promise<{ sending: Socket; receiving: Socket; close: () => void }> {
  const server = createServer({ pauseOnConnect: true }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const sending = connect(server.address() as { port: number });
  const [receiving] = (await once(server, 'connection')) as [Socket];
  return { sending, receiving, close: () => server.close() };
}

test('what a socket keeps stays as it is while others are written', async () => {
  const writer = new RequestWriter();
  const [stuck, free] = [await pair(), await pair()];
  const body = (nth: number) => Buffer.alloc(500 + (nth % 7), String.fromCharCode(97 + (nth % 26)));
  const expected: Record<'stuck' | 'free', Buffer[]> = { stuck: [], free: [] };
  const write = (to: 'stuck' | 'free', nth: number) => {
    const [fixed, rest] = [Buffer.from(`fixed-${nth}|`), `rest-\u00fc-${nth}|`];
    writer.write((to === 'stuck' ? stuck : free).sending, fixed, rest, body(nth));
    expected[to].push(fixed, Buffer.from(rest, 'latin1'), body(nth));
  };
  let nth = 0;
  // The system takes some megabytes before a socket has to keep anything.
  while (stuck.sending.writableLength < 200_000) write('stuck', nth++);
  for (const end = nth + 300; nth < end; ) {
    write('free', nth++);
    if (nth % 3 === 0) write('stuck', nth++);
  }
  const read = Promise.all([buffer(stuck.receiving), buffer(free.receiving)]);
  stuck.sending.end();
  free.sending.end();
  const [fromStuck, fromFree] = await read;
  expect(fromStuck.equals(Buffer.concat(expected.stuck))).toBe(true);
  expect(fromFree.equals(Buffer.concat(expected.free))).toBe(true);
  stuck.close();
  free.close();
});

test('a request that is longer than the buffer is written whole', async () => {
  const { sending, receiving, close } = await pair();
  const writer = new RequestWriter();
  const bodies = [10, 16 * 1024 - 2, 16 * 1024 - 1, 16 * 1024, 3_000_000, 20].map((length) =>
    Buffer.alloc(length, 'x'),
  );
  for (const body of bodies) writer.write(sending, Buffer.from('h'), 'r', body);
  sending.end();
  const read = await buffer(receiving);
  expect(read.toString()).toBe(bodies.map((body) => `hr${body}`).join(''));
  close();
});
