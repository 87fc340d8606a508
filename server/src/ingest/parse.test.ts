import { describe, expect, test } from 'vitest';
import { sourceWith } from '../../test/support/sources.ts';
import type { CallType } from '../model/event.ts';
import { indexWriteKeys } from './calls.ts';
import { MAX_NESTING } from './limits.ts';
import { type ParsedRequest, parseRequest } from './parse.ts';

const website = sourceWith();
const keys = indexWriteKeys([website], 'refuse');

function receive(text: string, type: CallType | 'batch' = 'batch'): ParsedRequest {
  const body = Buffer.from(text);
  return parseRequest({ type, writeKey: 'wk', body, receivedAt: 0 }, keys, () => 'assigned');
}

function receiveBatch(calls: readonly unknown[], rest: object = {}): ParsedRequest {
  return receive(JSON.stringify({ batch: calls, ...rest }));
}

function discardsOf(call: ParsedRequest): Readonly<Record<string, number>> {
  return call.counts[0]?.discarded ?? {};
}

const call = { type: 'track', userId: 'u1', event: 'E', messageId: 'm1' };

/** A call whose compact JSON has exactly so many bytes. */
function callOf(bytes: number, filler = 'x'): object {
  const empty = Buffer.byteLength(JSON.stringify({ ...call, properties: { pad: '' } }));
  const each = Buffer.byteLength(filler);
  const rest = (bytes - empty) % each;
  return { ...call, properties: { pad: filler.repeat((bytes - empty - rest) / each) + 'x'.repeat(rest) } };
}

describe('an item of a batch', () => {
  test.each(['x', 'é', '€', '😀'])('may have 32,768 bytes and no more, filled with %s', (filler) => {
    const fits = callOf(32_768, filler);
    expect(Buffer.byteLength(JSON.stringify(fits))).toBe(32_768);
    expect(receiveBatch([fits, call])).toMatchObject({ kind: 'received', events: [{}, {}] });

    const received = receiveBatch([callOf(32_769, filler), call]);
    expect(received).toMatchObject({ kind: 'received', events: [{ event: { messageId: 'm1' } }] });
    expect(discardsOf(received)).toEqual({ message_too_large: 1 });
  });

  test.each(['writeKey', 'messageId', 'channel', 'timestamp', 'originalTimestamp', 'sentAt', 'receivedAt'])(
    'is too large because of a %s that its event does not keep',
    (field) => {
      const large = { ...call, [field]: field === 'writeKey' ? 'wk' : { x: 'x'.repeat(32_768) } };
      const fields = field === 'writeKey' ? { ...large, properties: { pad: 'x'.repeat(32_768) } } : large;
      expect(discardsOf(receiveBatch([fields]))).toEqual({ message_too_large: 1 });
    },
  );

  test('is too large because of many short values that its event does not keep', () => {
    const unkept = '\u0001'.repeat(100);
    const times = { timestamp: unkept, originalTimestamp: unkept, sentAt: unkept, receivedAt: unkept };
    const rest = Buffer.byteLength(JSON.stringify({ ...call, ...times, properties: { pad: '' } }));
    const pad = '€'.repeat(Math.ceil((32_769 - rest) / 3));
    const received = receiveBatch([{ ...call, ...times, properties: { pad } }]);
    expect(discardsOf(received)).toEqual({ message_too_large: 1 });
  });

  test('is measured in its compact form, without the blanks it came with', () => {
    const text = `{"batch":[${JSON.stringify(callOf(32_768)).replace('{', `{${' '.repeat(1000)}`)}]}`;
    expect(receive(text)).toMatchObject({ kind: 'received', events: [{}] });
  });

  test('is not measured with what its batch shares', () => {
    const shared = { context: { pad: 'x'.repeat(40_000) } };
    expect(receiveBatch([callOf(32_768)], shared)).toMatchObject({ kind: 'received', events: [{}] });
  });
});

describe('a batch', () => {
  test('may hold 2,500 calls and no more', () => {
    const most = Array.from({ length: 2500 }, () => call);
    expect(receiveBatch(most)).toMatchObject({ kind: 'received', counts: [{ source: 1, calls: 2500 }] });
    expect(receiveBatch([...most, call])).toMatchObject({
      kind: 'refused',
      code: 'batch_too_large',
      detail: 'It holds 2,501 calls, the limit is 2,500.',
      counts: [{ source: 1, calls: 2501, discarded: { batch_too_large: 2501 } }],
      discards: [{ source: website, reason: 'batch_too_large' }],
    });
  });

  test('whose shared context would be stored thousands of times is refused', () => {
    const calls = Array.from({ length: 2000 }, () => call);
    expect(receiveBatch(calls, { context: { pad: 'x'.repeat(8000) } })).toMatchObject({ kind: 'received' });
    expect(receiveBatch(calls, { context: { pad: 'x'.repeat(9000) } })).toMatchObject({
      kind: 'refused',
      code: 'batch_too_large',
    });
  });

  test('shares its context with its calls without changing it', () => {
    const received = receiveBatch([{ ...call, context: { a: 2 } }, call], { context: { a: 1, b: 1 } });
    expect(received).toMatchObject({
      events: [{ event: { context: { a: 2, b: 1 } } }, { event: { context: { a: 1, b: 1 } } }],
    });
  });
});

describe('nesting', () => {
  /** The event itself is the first level, `properties` the second. */
  const nested = (levels: number, open: string, close: string) =>
    `{"type":"track","userId":"u1","event":"E","properties":{"a":${open.repeat(levels - 2)}1${close.repeat(levels - 2)}}}`;

  test.each([
    ['objects', '{"a":', '}'],
    ['arrays', '[', ']'],
  ])('of %s is accepted to the limit and discarded beyond it', (_, open, close) => {
    expect(receive(nested(MAX_NESTING, open, close), 'track')).toMatchObject({ kind: 'received' });
    const deeper = nested(MAX_NESTING + 1, open, close);
    expect(receive(deeper, 'track')).toMatchObject({ kind: 'refused', code: 'too_deeply_nested' });
    expect(discardsOf(receive(`{"batch":[${deeper}]}`))).toEqual({ too_deeply_nested: 1 });
  });

  test('that overflows the stack is discarded, and the rest of the batch is kept', () => {
    const received = receive(`{"batch":[${nested(200_000, '[', ']')},${JSON.stringify(call)}]}`);
    expect(received).toMatchObject({ kind: 'received', events: [{ event: { messageId: 'm1' } }] });
    expect(discardsOf(received)).toEqual({ too_deeply_nested: 1 });
  });

  test.each([
    [
      'a dropped field',
      (deep: string) => `{"batch":[{${JSON.stringify(call).slice(1, -1)},"channel":${deep}}]}`,
    ],
    [
      'the context of a batch',
      (deep: string) => `{"context":{"a":${deep}},"batch":[${JSON.stringify(call)},7]}`,
    ],
    ['the batch itself', (deep: string) => `{"other":${deep},"batch":[{"userId":9007199254740993}]}`],
  ])('that overflows the stack in %s does no harm', (_, bodyWith) => {
    const deep = '['.repeat(100_000) + ']'.repeat(100_000);
    expect(receive(bodyWith(deep))).toMatchObject({ kind: 'received' });
  });

  test('is not counted from brackets inside of strings', () => {
    const pad = '{["\\'.repeat(2000);
    expect(receiveBatch([{ ...call, properties: { pad } }])).toMatchObject({ events: [{}] });
  });
});

describe('the detail of a refusal', () => {
  test.each([
    ['', 'It is empty.'],
    [' \n', 'It is empty.'],
    ['{"userId":', 'It breaks off at byte 10 (line 1), in userId.'],
    ['{"a":1 "b"}', 'Unexpected " at byte 7 (line 1), in a.'],
  ])('of %j says where it breaks', (text, detail) => {
    expect(receive(text, 'track')).toMatchObject({ code: 'invalid_json', detail });
  });

  test('never quotes the body, which may hold a write key', () => {
    const received = receive('{"writeKey":"wk_secret",,}', 'track');
    expect(JSON.stringify(received)).not.toContain('wk_secret');
  });
});

test('a key of two sources belongs to the first', () => {
  const twice = indexWriteKeys([website, { ...website, id: 2, name: 'shop' }], 'refuse');
  expect(twice.find('wk')).toBe(website);
  expect(twice.find('')).toBeUndefined();
});
