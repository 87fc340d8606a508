import fc from 'fast-check';
import { expect, test } from 'vitest';
import { amountOf } from '../../test/support/runs.ts';
import { sourceWith } from '../../test/support/sources.ts';
import { CALL_TYPES } from '../model/event.ts';
import type { Json, JsonObject } from '../model/json.ts';
import { addressWishOf } from './address.ts';
import { indexWriteKeys } from './calls.ts';
import { batchEnvelope } from './envelope.ts';
import { isTooLarge } from './limits.ts';
import { normalize } from './normalize.ts';
import { type ParsedRequest, parseRequest } from './parse.ts';

const website = sourceWith();
const keys = indexWriteKeys([website], 'refuse');
const receivedAt = Date.parse('2026-11-21T12:00:00.000Z');

const KNOWN = [
  ...['messageId', 'type', 'channel', 'userId', 'anonymousId', 'previousId', 'groupId', 'event', 'name'],
  ...['category', 'properties', 'traits', 'context', 'integrations', 'timestamp', 'originalTimestamp'],
  ...['sentAt', 'receivedAt', 'writeKey', 'batch'],
];

/**
 * Keys that break careless code: prototypes, integers (JavaScript moves them to the front), lone surrogates,
 * nothing.
 */
const nastyKey = fc.oneof(
  fc.constantFrom('__proto__', 'constructor', 'prototype', 'toString', 'hasOwnProperty', 'toJSON', 'length'),
  fc.constantFrom('0', '1', '-1', '01', '4294967294', '4294967295', '9007199254740993', '', '\ud800', 'a'),
  fc.constantFrom(...KNOWN),
  fc.string({ unit: 'binary' }),
);

/** JSON texts written by hand, so that numbers and keys appear that `JSON.stringify` never writes. */
const { text: anyText, object: anyObject } = fc.letrec<{ text: string; object: string }>((tie) => ({
  text: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.constantFrom(
      'null',
      'true',
      'false',
      '0',
      '-0',
      '1.0',
      '1e400',
      '-1E-400',
      '9007199254740993',
      '""',
      '" "',
    ),
    fc.double({ noNaN: true, noDefaultInfinity: true }).map(String),
    fc.string({ unit: 'binary' }).map((value) => JSON.stringify(value)),
    fc.constantFrom(
      '"\\ud800"',
      '"\\udc00\\ud800"',
      '"\\u0000"',
      '"\\/"',
      '"2026-11-21T11:00:00.000Z"',
      '"2026-02-30"',
    ),
    fc.constantFrom(...CALL_TYPES).map((type) => `"${type}"`),
    fc.array(tie('text'), { maxLength: 4 }).map((items) => `[${items.join(' , ')}]`),
    tie('object'),
  ),
  object: fc
    .array(fc.tuple(nastyKey, tie('text')), { maxLength: 8 })
    .map((fields) => `{${fields.map(([key, value]) => `${JSON.stringify(key)}:${value}`).join(',')}}`),
}));

/** Calls that are mostly valid, with anything else beside. */
const likelyCall = fc
  .tuple(fc.constantFrom(...CALL_TYPES), anyObject, anyObject, anyObject)
  .map(
    ([type, fields, properties, context]) =>
      `{"properties":${properties},"context":${context},${fields.slice(1, -1)}${fields === '{}' ? '' : ','}` +
      `"type":"${type}","userId":"u1","groupId":7,"previousId":"u0","event":"E","name":null,"category":null}`,
  );

const anyBatch = fc
  .tuple(anyObject, fc.array(fc.oneof(likelyCall, anyText), { maxLength: 5 }))
  .map(([shared, calls]) => `{"context":${shared},"batch":[${calls.join(',')}]}`);

function receive(type: 'track' | 'batch', text: string): ParsedRequest {
  const body = Buffer.from(text);
  return parseRequest({ type, writeKey: 'wk', body, receivedAt }, keys, () => 'assigned');
}

test('every event is a fixed point of parsing and writing, and its text is its object', () => {
  let events = 0;
  fc.assert(
    fc.property(fc.oneof(anyBatch, likelyCall), (text) => {
      const received = receive(text.startsWith('{"context"') ? 'batch' : 'track', text);
      if (received.kind === 'refused') return;
      for (const { event, json } of received.events) {
        events++;
        expect(JSON.stringify(JSON.parse(json))).toBe(json);
        expect(JSON.stringify(event)).toBe(json);
        expect(Object.getPrototypeOf(event)).toBe(Object.prototype);
        expect(json).not.toContain('\n');
      }
    }),
    { numRuns: amountOf({ gate: 600, long: 2000 }) },
  );
  expect(events).toBeGreaterThan(500);
});

test('no bytes make it throw, and every call of a batch is counted once', () => {
  fc.assert(
    fc.property(fc.oneof(anyText, anyBatch, fc.string({ unit: 'binary' })), fc.boolean(), (text, batch) => {
      const received = receive(batch ? 'batch' : 'track', text);
      if (received.kind === 'refused') return;
      const discarded = received.counts.flatMap((count) => Object.values(count.discarded));
      const stray = Object.values(received.unattributed);
      const sum = [...discarded, ...stray].reduce((total, n) => total + n, received.events.length);
      const calls = received.counts.reduce((total, count) => total + count.calls, 0);
      expect(calls + stray.reduce((total, n) => total + n, 0)).toBe(sum);
      // A batch of `null` is an empty one.
      if (batch) expect(sum).toBe(JSON.parse(text).batch?.length ?? 0);
    }),
    { numRuns: amountOf({ gate: 600, long: 2000 }) },
  );
  fc.assert(
    fc.property(fc.uint8Array(), (bytes) => {
      parseRequest({ type: 'track', body: Buffer.from(bytes), receivedAt }, keys, () => 'assigned');
    }),
  );
});

test('normalising changes neither the call nor what its batch shares', () => {
  fc.assert(
    fc.property(anyObject, likelyCall, (sharedText, callText) => {
      const text = `{"context":${sharedText},"integrations":{"All":false}}`;
      const shared: JsonObject = deepFrozen(JSON.parse(text));
      const call: JsonObject = deepFrozen(JSON.parse(callText));
      const request = { type: 'batch', body: Buffer.alloc(0), receivedAt } as const;
      const envelope = batchEnvelope(shared, { request, newMessageId: () => 'assigned' });
      // Writing to a frozen object throws in a module.
      if (typeof envelope !== 'string') normalize(call, envelope, addressWishOf(website));
      expect(JSON.stringify(shared)).toBe(JSON.stringify(JSON.parse(text)));
    }),
  );
});

function deepFrozen<T extends Json>(value: T): T {
  if (typeof value === 'object' && value !== null)
    for (const inner of Object.values(value)) deepFrozen(inner);
  return Object.freeze(value);
}

test('the cheap bound of the size never lets a call through that is too large', () => {
  const heavy = fc.oneof(
    fc.integer({ min: 0, max: 34_000 }).map((length) => 'x'.repeat(length)),
    fc.integer({ min: 0, max: 12_000 }).map((length) => '€'.repeat(length)),
    fc.integer({ min: 0, max: 6_000 }).map((length) => '\u0001'.repeat(length)),
    fc.integer({ min: 0, max: 110 }).map((length) => '\u0001'.repeat(length)),
    fc.constantFrom(null, '', 7, false),
  );
  const call = fc.dictionary(fc.constantFrom(...KNOWN, 'other'), heavy);
  fc.assert(
    fc.property(call, heavy, heavy, (fields, pad, ip) => {
      const item: JsonObject = {
        ...fields,
        type: 'track',
        userId: 'u1',
        event: 'E',
        properties: { pad },
        context: ip === null ? null : { ip },
      };
      const request = { type: 'batch', body: Buffer.alloc(0), receivedAt } as const;
      const envelope = batchEnvelope({}, { request, newMessageId: () => 'm' });
      const event =
        typeof envelope === 'string'
          ? envelope
          : normalize(item, envelope, addressWishOf(sourceWith({ ip: 'drop' })));
      if (typeof event === 'string') return;
      const large = Buffer.byteLength(JSON.stringify(item)) > 32_768;
      expect(isTooLarge(item, JSON.stringify(event))).toBe(large);
    }),
    { numRuns: amountOf({ gate: 1000, long: 3000 }) },
  );
});
