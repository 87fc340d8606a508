import fc from 'fast-check';
import { describe, expect, it, test } from 'vitest';
import { sourceWith } from '../../../test/support/sources.ts';
import type { Json } from '../../model/json.ts';
import { parseCalls, type RequestCalls } from '../calls.ts';
import { parseCallsFast } from './parser.ts';

/** Compares WebAssembly with `JSON.parse`, `JSON.stringify` and `Date`. */

const source = sourceWith();
const receivedAt = Date.parse('2026-11-21T12:00:00.000Z');
const newMessageId = () => 'assigned';

function scanned(body: string, type: 'track' | 'batch' = 'track'): RequestCalls | undefined {
  return parseCallsFast({ type, body: Buffer.from(body), receivedAt }, newMessageId);
}

function plain(body: string, type: 'track' | 'batch' = 'track'): RequestCalls {
  const request = { type, body: Buffer.from(body), receivedAt };
  const calls = parseCalls({ request, newMessageId });
  if ('code' in calls) throw new Error(calls.code);
  return calls;
}

function linesOf(calls: RequestCalls): unknown[] {
  return Array.from({ length: calls.length }, (_, index) => {
    const accepted = calls.accept(index, source);
    return typeof accepted === 'string' ? accepted : accepted.json;
  });
}

const track = (rest: string) => `{"userId":"u","event":"E","messageId":"m"${rest}}`;
const withValue = (json: string) => track(`,"properties":{"v":${json}}`);

/** Whether a value passes as it is written, and whether it is what `JSON.stringify` would write. */
function expectSame(json: string): void {
  const calls = scanned(withValue(json));
  if (calls === undefined) return;
  expect(JSON.stringify(JSON.parse(json))).toBe(json);
  expect(linesOf(calls)).toEqual(linesOf(plain(withValue(json))));
}

describe('a text', () => {
  it.each(Array.from({ length: 70 }, (_, length) => length))(
    'of %i characters ends at its quote, wherever an escape or another character stands in it',
    (length) => {
      for (const odd of ['', '\\n', '\\"', '\\\\', 'é', '💧', '\u007f']) {
        for (let at = 0; at <= length; at++) {
          const json = `"${'x'.repeat(at)}${odd}${'y'.repeat(length - at)}"`;
          expect(scanned(withValue(json))).toBeDefined();
          if (at % 7 === 0) expectSame(json);
        }
      }
      for (const wrong of ['\\u0041', '\\/', '\\x', '\n', '\u0000', '\u001f']) {
        expect(scanned(withValue(`"${'x'.repeat(length)}${wrong}"`))).toBeUndefined();
      }
    },
  );

  it('that breaks off ends nowhere, whatever was in memory behind it', () => {
    expect(scanned(withValue(`"${'"}}'.repeat(100)}`))).toBeUndefined();
    const whole = withValue('"some text"');
    expect(scanned(whole)).toBeDefined();
    for (let end = 0; end < whole.length; end++) expect(scanned(whole.slice(0, end))).toBeUndefined();
  });
});

describe('keys', () => {
  it.each(Array.from({ length: 40 }, (_, length) => length))('of %i characters are told apart', (length) => {
    const name = 'k'.repeat(length);
    expect(scanned(withValue(`{"${name}":1,"a":{"${name}":2}}`))).toBeDefined();
    expect(scanned(withValue(`{"${name}":1,"a":2,"${name}":3}`))).toBeUndefined();
    for (let at = 0; at < length; at++) {
      const other = `${name.slice(0, at)}j${name.slice(at + 1)}`;
      expect(scanned(withValue(`{"${name}":1,"${other}":2}`))).toBeDefined();
    }
  });

  it('that begin with a digit, have escapes or occur twice are left to JSON.parse', () => {
    for (const keys of ['"1":1', '"0a":1', '"a\\n":1', '"a":1,"a":1', '"":1,"":2']) {
      expect(scanned(withValue(`{${keys}}`))).toBeUndefined();
      expect(scanned(track(`,${keys}`))).toBeUndefined();
    }
  });

  it('are 64 in one object at most, and objects 32 deep', () => {
    const object = (keys: number) =>
      JSON.stringify(Object.fromEntries(Array.from({ length: keys }, (_, nth) => [`k${nth}`, nth])));
    expect(scanned(withValue(object(64)))).toBeDefined();
    expect(scanned(withValue(object(65)))).toBeUndefined();
    const nested = (depth: number) => `${'{"a":['.repeat(depth)}1${']}'.repeat(depth)}`;
    expect(scanned(withValue(nested(15)))).toBeDefined();
    expect(scanned(withValue(nested(16)))).toBeUndefined();
  });

  it('that only look like those the protocol knows are kept behind the others', () => {
    const body = track(
      ',"types":1,"chanel":2,"contexts":{"library":1},"originaltimestamp":"x","writeKeys":"w"',
    );
    expect(linesOf(scanned(body)!)).toEqual(linesOf(plain(body)));
    expect(scanned(body)!.keyOf(0)).toBeUndefined();
  });
});

test('what passes is what JSON.stringify writes, for any value', () => {
  let passed = 0;
  fc.assert(
    fc.property(fc.jsonValue({ depthSize: 'medium' }) as fc.Arbitrary<Json>, (value) => {
      const json = JSON.stringify(value);
      expectSame(json);
      if (scanned(withValue(json)) !== undefined) passed++;
    }),
    { numRuns: 2000 },
  );
  expect(passed).toBeGreaterThan(500);
});

test('so it is for any number, and for any text that looks like one', () => {
  const written = fc.oneof(
    fc.double({ noNaN: true, noDefaultInfinity: true }).map((number) => JSON.stringify(number)),
    fc.integer().map(String),
    fc.bigInt({ min: -(10n ** 25n), max: 10n ** 25n }).map(String),
    fc
      .array(fc.constantFrom('0', '1', '9', '.', '-', 'e', '+', 'E', '00', '123456'), {
        minLength: 1,
        maxLength: 8,
      })
      .map((parts) => parts.join('')),
  );
  fc.assert(
    fc.property(written, (text) => {
      if (scanned(withValue(text)) === undefined) return;
      expect(JSON.stringify(JSON.parse(text))).toBe(text);
    }),
    { numRuns: 5000 },
  );
});

test('every time is read and written as Date does it, between the years 0000 and 9999', () => {
  const earliest = Date.parse('0000-01-01T00:00:00.000Z');
  const latest = Date.parse('9999-12-31T23:59:59.999Z');
  fc.assert(
    fc.property(
      fc.integer({ min: earliest, max: latest }),
      fc.integer({ min: -90_000_000, max: 90_000_000 }),
      (happened, behind) => {
        const at = new Date(happened).toISOString();
        const sentAt = new Date(receivedAt - behind).toISOString();
        const body = track(`,"timestamp":"${at}","sentAt":"${sentAt}"`);
        const calls = scanned(body)!;
        const plainly = plain(body);
        expect(linesOf(calls)).toEqual(linesOf(plainly));
        expect(calls.envelope.changes.take()).toEqual(plainly.envelope.changes.take());
      },
    ),
    { numRuns: 3000 },
  );
});

test('no day that does not exist is read as one', () => {
  for (const [year, month] of [2023, 2024, 1900, 2000].flatMap((y) =>
    Array.from({ length: 14 }, (_, m) => [y, m] as const),
  )) {
    for (const day of [0, 1, 28, 29, 30, 31, 32]) {
      const at = `${year}-${String(month).padStart(2, '0')}-${String(day).padStart(2, '0')}T23:59:59.999Z`;
      const body = track(`,"timestamp":"${at}"`);
      expect(linesOf(scanned(body)!)).toEqual(linesOf(plain(body)));
    }
  }
});

describe('a body', () => {
  it('of more than 1 MB is left to JSON.parse, and the next one is scanned again', () => {
    const large = withValue(`"${'x'.repeat(1024 * 1024)}"`);
    expect(scanned(large)).toBeUndefined();
    const fits = withValue(`"${'x'.repeat(1000 * 1024)}"`);
    expect(linesOf(scanned(fits)!)).toEqual(linesOf(plain(fits)));
  });

  it('whose lines might be more than 8 MB is left to JSON.parse', () => {
    const of = (calls: number) => {
      const batch = Array.from({ length: calls }, () => track(',"type":"track"')).join(',');
      return `{"batch":[${batch}],"context":{"page":"${'x'.repeat(10_000)}"}}`;
    };
    expect(scanned(of(900), 'batch')).toBeUndefined();
    expect(linesOf(scanned(of(700), 'batch')!)).toEqual(linesOf(plain(of(700), 'batch')));
  });

  it('with as many fields as there is room for is read to its end', () => {
    const short = `{${Array.from('abcdefghijklmnopqrstuvwxyz', (key) => `"${key}":1`).join(',')}}`;
    const body = `{"batch":[${Array.from({ length: 2500 }, () => short).join(',')}]}`;
    expect(linesOf(scanned(body, 'batch')!)).toEqual(linesOf(plain(body, 'batch')));
    const empty = `{"batch":[${Array.from({ length: 2500 }, () => '{}').join(',')}]}`;
    expect(linesOf(scanned(empty, 'batch')!)).toEqual(linesOf(plain(empty, 'batch')));
    expect(scanned(empty.replace('[', '[{},'), 'batch')).toBeUndefined();
  });

  it('of another application does not get the channel of the one before', () => {
    for (const name of ['analytics-ios', 'analytics.js', 'x'.repeat(300), 'analytics-node', 'analytics.js']) {
      const body = track(`,"context":{"library":{"name":"${name}"}}`);
      for (let times = 0; times < 2; times++) expect(linesOf(scanned(body)!)).toEqual(linesOf(plain(body)));
    }
  });
});
