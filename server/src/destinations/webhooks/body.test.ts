import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { CALL_TYPES } from '../../model/call.ts';
import type { Event } from '../../model/event.ts';
import { body } from './body.ts';
import { signature } from './signature.ts';

/** Any string JSON can hold, halves of surrogate pairs among them. */
const text = fc
  .array(fc.oneof(fc.integer({ min: 0, max: 0xffff }), fc.integer({ min: 0xd7f0, max: 0xe010 })), {
    maxLength: 12,
  })
  .map((units) => String.fromCharCode(...units));

/** Keys in all the orders that matter: array indexes move to the front, names of prototypes must not bite. */
const key = fc.oneof(
  text,
  fc.nat().map(String),
  fc.constantFrom('__proto__', 'toJSON', 'constructor', '01', '-1'),
);

/** What `JSON.parse` can make of a client's object: no NaN, but -0, and Infinity out of `1e999`. */
const object = fc.object({
  key,
  values: [text, fc.double({ noNaN: true }), fc.integer(), fc.boolean(), fc.constant(null)],
  maxDepth: 3,
});

const event = fc.record(
  {
    messageId: text,
    type: fc.constantFrom(...CALL_TYPES),
    channel: text,
    userId: text,
    anonymousId: text,
    previousId: text,
    groupId: text,
    event: text,
    name: text,
    category: text,
    properties: object,
    traits: object,
    context: object,
    integrations: object,
    timestamp: fc.constant('2026-01-02T03:04:05.678Z'),
    receivedAt: fc.constant('2026-01-02T03:04:05.678Z'),
  },
  { requiredKeys: ['messageId', 'type', 'channel', 'context', 'integrations', 'timestamp', 'receivedAt'] },
);

const format = fc.constantFrom('documented', 'canonical');

describe('body', () => {
  it('is the same text after a receiver has parsed and serialised it', () => {
    fc.assert(
      fc.property(event, object, format, (known, unknown, asked) => {
        const made = body({ ...unknown, ...known } as Event, asked);
        expect(JSON.stringify(JSON.parse(made))).toBe(made);
      }),
      { numRuns: 1000 },
    );
  });

  it('has bytes that a re-serialising receiver verifies with the signature of the ones that were sent', () => {
    fc.assert(
      fc.property(event, format, text, (known, asked, secret) => {
        const sent = Buffer.from(body(known as Event, asked));
        const serialisedAgain = Buffer.from(JSON.stringify(JSON.parse(sent.toString('utf8'))));
        expect(signature(serialisedAgain, secret)).toBe(signature(sent, secret));
      }),
    );
  });

  it('is the same for an event in memory and for the same event read back from the log', () => {
    fc.assert(
      fc.property(event, format, (known, asked) => {
        const stored = JSON.parse(JSON.stringify(known));
        expect(body(stored, asked)).toBe(body(known as Event, asked));
      }),
    );
  });
});
