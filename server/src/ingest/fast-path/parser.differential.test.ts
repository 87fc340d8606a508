import fc from 'fast-check';
import { expect, test, vi } from 'vitest';
import { anyCall, batch, call, mutated, mutation } from '../../../test/support/random-calls.ts';
import { amountOf } from '../../../test/support/runs.ts';
import { sourceWith } from '../../../test/support/sources.ts';
import { CALL_TYPES, type CallType } from '../../model/event.ts';
import { ADDRESS_RULES } from '../../model/settings.ts';
import { type ParseFailure, parseCalls, type RequestCalls } from '../calls.ts';
import { parseCallsFast } from './parser.ts';

/**
 * A body is read in one of two ways: scanned, where it is canonical JSON, or parsed. Both ways must give the
 * same events, byte for byte.
 */

const receivedAt = Date.parse('2026-11-21T12:00:00.000Z');
const peer = { remoteAddress: '::ffff:203.0.113.9' };

/** One source for each thing that may become of an address. */
const sources = ADDRESS_RULES.map((ip, index) => sourceWith({ id: index + 1, ip }));

/**
 * The source of the first calls of the body being compared; those behind come from the next one, as their own
 * write keys say.
 */
let first = 0;
const sourceOf = (index: number) => sources[(first + (index < 3 ? 0 : 1)) % sources.length]!;
const newMessageId = () => 'assigned';

interface Reading {
  readonly sharedKey: string | undefined;
  readonly calls: readonly unknown[];
  readonly changes: unknown;
}

function scanned(type: CallType | 'batch', body: Buffer): Reading | undefined {
  const calls = parseCallsFast({ type, body, receivedAt, peer }, newMessageId);
  return calls === undefined ? undefined : readingOf(calls);
}

function parsed(type: CallType | 'batch', body: Buffer): Reading | ParseFailure {
  const request = { type, body, receivedAt, peer };
  const calls = parseCalls({ request, newMessageId });
  return 'code' in calls ? calls : readingOf(calls);
}

function readingOf(calls: RequestCalls): Reading {
  const all = Array.from({ length: calls.length }, (_, index) => {
    const accepted = calls.accept(index, sourceOf(index));
    const key = calls.keyOf(index);
    const value = JSON.stringify(calls.valueOf(index));
    if (typeof accepted === 'string') return { key, value, reason: accepted };
    const { json, length, messageId, userId, event, line } = accepted;
    if (line.hasNoIntegrations) {
      withoutIntegrations++;
      expect([event.integrations, 'integrations' in event.context]).toEqual([{}, false]);
    }
    // The object as well as the text, as one of the two was made from the other.
    return { key, value, json, length, messageId, userId, event: JSON.stringify(event) };
  });
  return { sharedKey: calls.sharedKey, calls: all, changes: calls.envelope.changes.take() };
}

/** How many were marked as having no integrations. */
let withoutIntegrations = 0;

/**
 * Of the calls given since the last question, how many were accepted, and how many of those without parsing
 * them.
 */
let accepted = 0;
let copied = 0;

function compare(type: CallType | 'batch', body: Buffer): void {
  first++;
  const parse = vi.spyOn(JSON, 'parse');
  const one = parseCallsFast({ type, body, receivedAt, peer }, newMessageId);
  for (let index = 0; index < (one?.length ?? 0); index++) {
    parse.mockClear();
    if (typeof one!.accept(index, sourceOf(index)) === 'string') continue;
    accepted++;
    // A userId with escapes is parsed alone.
    if (!parse.mock.calls.some(([text]) => text.startsWith('{'))) copied++;
  }
  parse.mockRestore();
  if (one !== undefined) expect(scanned(type, body)).toEqual(parsed(type, body));
}

function shareCopied(): number {
  const share = copied / accepted;
  accepted = 0;
  copied = 0;
  return share;
}

test('a call that is scanned is the event that parsing makes of it', () => {
  fc.assert(
    fc.property(anyCall, fc.constantFrom(...CALL_TYPES), (one, type) => {
      compare(type, Buffer.from(JSON.stringify(one)));
    }),
    { numRuns: amountOf({ gate: 1000, long: 3000 }) },
  );
  expect(shareCopied()).toBeGreaterThan(0.1);
});

test('so is every call of a batch, with what the batch shares', () => {
  fc.assert(
    fc.property(batch, (body) => compare('batch', Buffer.from(JSON.stringify(body)))),
    { numRuns: amountOf({ gate: 500, long: 1500 }) },
  );
  expect(shareCopied()).toBeGreaterThan(0.1);
});

test('a text that was changed anywhere is refused, or read as parsing reads it', () => {
  fc.assert(
    fc.property(
      fc.oneof(call, batch),
      fc.array(mutation, { minLength: 1, maxLength: 3 }),
      (body, changes) => {
        const type = typeof body === 'object' && body !== null && 'batch' in body ? 'batch' : 'track';
        compare(type, Buffer.from(mutated(JSON.stringify(body), changes)));
      },
    ),
    { numRuns: amountOf({ gate: 1500, long: 5000 }) },
  );
  expect(shareCopied()).toBeGreaterThan(0.1);
});

test('so is one whose bytes were changed, UTF-8 or not', () => {
  fc.assert(
    fc.property(call, fc.nat(), fc.integer({ min: 0, max: 255 }), (one, place, byte) => {
      const body = Buffer.from(JSON.stringify({ ...(one as object), userId: 'Jürgen 用户 💧' }));
      body[place % body.length] = byte;
      compare('track', body);
    }),
    { numRuns: amountOf({ gate: 500, long: 2000 }) },
  );
  expect(shareCopied()).toBeGreaterThan(0.1);
});

const base = '"userId":"u1","event":"E","messageId":"m1"';

test.each([
  ['1.0', false],
  ['1e3', false],
  ['-0', false],
  ['0', true],
  ['-1', true],
  ['10', true],
  ['01', false],
  ['0.5', true],
  ['0.50', false],
  ['1e+21', true],
  ['1e21', false],
  ['1e-7', true],
  ['0.0000001', false],
  ['0.000001', true],
  ['123456789012345', true],
  ['9007199254740993', false],
  ['9007199254740992', false],
  ['9007199254740991', true],
  ['-9007199254740992', false],
  ['52.520008123456789', false],
  ['1.7976931348623157e+308', true],
  ['1e400', false],
  ['.5', false],
  ['1.', false],
  ['-', false],
  ['"\\u0041"', false],
  ['"\\/"', false],
  ['"\\n\\t\\"\\\\"', true],
  ['"\\ud83d\\ude00"', false],
  ['"\u007f\u2028é"', true],
  ['{"a":1,"b":2}', true],
  ['{"a":1,"a":2}', false],
  ['{"a":{"a":1},"b":{"a":1}}', true],
  ['{"1":1}', false],
  ['{"a": 1}', false],
  ['[1,2,[],{}]', true],
  ['[1,2,]', false],
  ['[1 ]', false],
  ['nul', false],
  ['"a\u0001"', false],
])('%s is canonical JSON: %s', (json, canonical) => {
  const body = Buffer.from(`{${base},"properties":{"v":${json}}}`);
  expect(scanned('track', body) !== undefined).toBe(canonical);
  compare('track', body);
});

test.each([' ', '\n', '\r\n\t', '\u0000', '\u000b', '\ufeff', 'x'])('%j behind the body', (rest) => {
  compare('track', Buffer.from(`{${base}}${rest}`));
  compare('batch', Buffer.from(`{"batch":[{"type":"track",${base}}]}${rest}`));
});

test.each(ADDRESS_RULES)(
  'with ip: %s, a browser, a phone and a server get the same as by parsing, scanned',
  (ip) => {
    first = ADDRESS_RULES.indexOf(ip);
    const own = [
      '"ip":"198.51.100.77"',
      '"ip":"2001:db8:1:2::3"',
      '"ip":""',
      '"ip":7',
      '"ip":null',
      '"locale":"de"',
    ];
    for (const name of ['analytics.js', 'analytics-ios', 'analytics-node']) {
      for (const field of own) {
        const library = `"library":{"name":"${name}","version":"1"}`;
        for (const context of [`${field},${library}`, `${library},${field}`]) {
          const call = Buffer.from(`{${base},"context":{${context}}}`);
          const isScanned = scanned('track', call) !== undefined;
          expect(isScanned).toBe(field !== '"ip":null');
          if (isScanned) expect(scanned('track', call)).toEqual(parsed('track', call));
        }
      }
    }
  },
);

test('the call of a browser is copied, the address with it', () => {
  for (const ip of ['', ',"ip":"198.51.100.77"']) {
    const body = Buffer.from(`{${base},"context":{"library":{"name":"analytics.js"}${ip}}}`);
    const accepted = parseCallsFast({ type: 'track', body, receivedAt, peer }, newMessageId)!.accept(
      0,
      sources[0]!,
    );
    // A call that was parsed has no range of an id, because it exists as an object.
    expect(typeof accepted !== 'string' && accepted.line.idTo).toBeGreaterThan(0);
  }
});

test('a call is known to say nothing of integrations', () => {
  const hasNoIntegrations = (type: CallType | 'batch', body: string) => {
    const calls = parseCallsFast({ type, body: Buffer.from(body), receivedAt }, newMessageId)!;
    const accepted = calls.accept(0, sourceOf(0));
    return typeof accepted !== 'string' && accepted.line.hasNoIntegrations;
  };
  expect(withoutIntegrations).toBeGreaterThan(20);
  expect(hasNoIntegrations('track', `{${base}}`)).toBe(true);
  expect(hasNoIntegrations('track', `{${base},"integrations":{}}`)).toBe(true);
  expect(hasNoIntegrations('track', `{${base},"integrations":{"All":false}}`)).toBe(false);
  expect(scanned('track', Buffer.from(`{${base},"context":{"integrations":{"All":false}}}`))).toBeUndefined();
  const call = `{"type":"track",${base}}`;
  expect(hasNoIntegrations('batch', `{"batch":[${call}],"integrations":{}}`)).toBe(true);
  expect(hasNoIntegrations('batch', `{"batch":[${call}],"integrations":{"All":false}}`)).toBe(false);
  expect(scanned('batch', Buffer.from(`{"batch":[${call}],"context":{"integrations":{}}}`))).toBeUndefined();
});

test('a few calls of a batch that are not canonical do not keep the others from being scanned', () => {
  const odd = `{"type":"track",${base}, "properties":{"a":1.0}}`;
  const good = `{"type":"track",${base}}`;
  const body = Buffer.from(`{"batch":[${good},${odd},${good}],"sentAt":\t"2026-11-21T11:59:59.000Z" }`);
  expect(scanned('batch', body)).toEqual(parsed('batch', body));
  const broken = Buffer.from(`{"batch":[${good},${odd.replace('1.0', '1.0.0')},${good}]}`);
  expect(scanned('batch', broken)).toBeUndefined();
  const mostly = Buffer.from(`{"batch":[${Array.from({ length: 20 }, () => odd).join(',')}]}`);
  expect(scanned('batch', mostly)).toBeUndefined();
});
