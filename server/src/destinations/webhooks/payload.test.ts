import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { targetsIn } from '../../../test/support/lanes.ts';
import { amountOf } from '../../../test/support/runs.ts';
import type { Destination } from '../../model/destination.ts';
import { CALL_TYPES, type Event } from '../../model/event.ts';
import { lineOf } from '../../model/serialized-event.ts';
import { webhookId } from '../http/headers.ts';
import { signBody } from '../http/signatures.ts';
import { requestsOf } from './destination.ts';
import { documentedPayloadFromBytes, messageIdFromBytes } from './fast-path/payload.ts';
import { serializePayload } from './payload.ts';

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

/** Objects that `JSON.parse` can make of a client's text: no NaN, but -0, and Infinity out of `1e999`. */
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
    context: fc.oneof(
      object,
      fc
        .tuple(object, fc.oneof(object, text, fc.constantFrom(null, {}, [], [1], { a: 1 })), object)
        .map(([before, traits, after]) => ({ ...before, traits, ...after })),
    ),
    integrations: object,
    timestamp: fc.constant('2026-01-02T03:04:05.678Z'),
    receivedAt: fc.constant('2026-01-02T03:04:05.678Z'),
  },
  { requiredKeys: ['messageId', 'type', 'channel', 'context', 'integrations', 'timestamp', 'receivedAt'] },
);

const format = fc.constantFrom('documented', 'canonical', 'segment');

describe('body', () => {
  it('is the same text after a receiver has parsed and serialised it', () => {
    fc.assert(
      fc.property(event, object, format, (known, unknown, asked) => {
        const made = serializePayload({ ...unknown, ...known } as Event, asked);
        expect(JSON.stringify(JSON.parse(made))).toBe(made);
      }),
      { numRuns: amountOf({ gate: 300, long: 1000 }) },
    );
  });

  it('has bytes that a re-serialising receiver verifies with the signature of the ones that were sent', () => {
    fc.assert(
      fc.property(event, format, text, (known, asked, secret) => {
        const sent = Buffer.from(serializePayload(known as Event, asked));
        const serialisedAgain = Buffer.from(JSON.stringify(JSON.parse(sent.toString('utf8'))));
        expect(signBody(serialisedAgain, secret)).toBe(signBody(sent, secret));
      }),
    );
  });

  it('is the same for an event in memory and for the same event read back from the log', () => {
    fc.assert(
      fc.property(event, format, (known, asked) => {
        const stored = JSON.parse(JSON.stringify(known));
        expect(serializePayload(stored, asked)).toBe(serializePayload(known as Event, asked));
      }),
    );
  });
});

describe('the traits of an identify', () => {
  const traitsIn = (more: object, asked: 'documented' | 'canonical' = 'documented') =>
    JSON.parse(serializePayload({ ...EVENT, type: 'identify', ...more } as Event, asked)).traits;

  it('are those of its context where it has none of its own', () => {
    const context = { traits: { plan: 'pro' } };
    expect(traitsIn({ context })).toEqual({ plan: 'pro' });
    expect(traitsIn({ context, traits: {} })).toEqual({ plan: 'pro' });
    expect(traitsIn({ context, traits: { plan: 'free' } })).toEqual({ plan: 'free' });
    for (const traits of [undefined, null, 'pro', [1], {}]) {
      expect(traitsIn({ context: { traits } })).toEqual({});
    }
  });

  it('stay where the client sent them in the canonical format', () => {
    expect(traitsIn({ context: { traits: { plan: 'pro' } } }, 'canonical')).toBeUndefined();
  });

  it('of a group are its own and never those of its context, which are of a user', () => {
    expect(traitsIn({ type: 'group', context: { traits: { plan: 'pro' } } })).toEqual({});
  });
});

describe('a body put together from the stored line', () => {
  /**
   * Keys that the protocol does not know are kept behind the rest; but whole numbers come first, as
   * JavaScript has it.
   */
  const others = fc.dictionary(
    fc.oneof(key, fc.constantFrom('version', 'User ID', 'timestamps', 'nam', 'tries')),
    object,
    { maxKeys: 3 },
  );
  const lineOf = (text: string) => {
    const bytes = Buffer.from(`${text}\n`);
    return { bytes: Buffer.concat([Buffer.from('{"before":1}\n'), bytes]), from: 13, to: 12 + bytes.length };
  };

  it('is the body of the event, or there is none', () => {
    fc.assert(
      fc.property(event, others, (known, more) => {
        const text = JSON.stringify({ ...known, ...more, ...known });
        const stored = JSON.parse(text) as Event;
        const put = documentedPayloadFromBytes(lineOf(text));
        if (put === undefined) expect([stored.type, 'traits' in stored]).toEqual(['page', true]);
        else expect(put.toString()).toBe(serializePayload(stored, 'documented'));
      }),
      { numRuns: amountOf({ gate: 400, long: 2000 }) },
    );
  });

  it('has the traits of the context, however long they are and whatever stands around them', () => {
    const traits = { plan: 'pro', pad: 'x'.repeat(20_000), nested: { traits: { no: 1 } } };
    for (const context of [
      { traits },
      { '1': { traits: 1 }, library: { traits: { no: 1 } }, 'a"traits": {': 'b', traits, behind: [] },
      { traitsOf: {}, trait: {}, traits, page: {} },
      {},
    ]) {
      for (const own of [{}, { traits: {} }, { traits: { own: true } }]) {
        const stored = { ...EVENT, type: 'identify', context, ...own } as Event;
        expect(documentedPayloadFromBytes(lineOf(JSON.stringify(stored)))?.toString()).toBe(
          serializePayload(stored, 'documented'),
        );
      }
    }
  });

  it('has room for every field twice as long as all the others', () => {
    for (const type of CALL_TYPES) {
      for (const field of ['userId', 'anonymousId', 'previousId', 'groupId', 'event', 'name', 'category']) {
        const { userId: _, ...rest } = EVENT;
        const stored = { ...rest, type, [field]: 'x'.repeat(3000) } as Event;
        expect(documentedPayloadFromBytes(lineOf(JSON.stringify(stored)))?.toString()).toBe(
          serializePayload(stored, 'documented'),
        );
      }
    }
  });

  it('comes with the messageId, as the header has it, or without', () => {
    const id = fc.oneof(text, fc.string({ unit: 'grapheme-ascii' }), fc.uuid());
    fc.assert(
      fc.property(id, (messageId) => {
        const plain = messageIdFromBytes(lineOf(JSON.stringify({ messageId, type: 'track' })));
        if (plain !== undefined) expect(plain).toBe(messageId);
        else expect(messageId).not.toMatch(/^[!#-[\]-~]*$/);
      }),
    );
    expect(messageIdFromBytes(lineOf('{"1":2,"messageId":"m"}'))).toBeUndefined();
    expect(webhookId(messageIdFromBytes(lineOf('{"messageId":"50%"}')) ?? '')).toBe('50%25');
  });

  it('is made of nearly every line', () => {
    const page = { ...EVENT, type: 'page' as const };
    for (const type of CALL_TYPES)
      expect(documentedPayloadFromBytes(lineOf(JSON.stringify({ ...EVENT, type })))).toBeDefined();
    expect(
      documentedPayloadFromBytes(lineOf(JSON.stringify({ ...page, traits: { a: 1 } })))?.toString(),
    ).toContain('"properties":{"a":1}');
    expect(
      documentedPayloadFromBytes(lineOf(JSON.stringify({ ...page, properties: {}, traits: { a: 1 } }))),
    ).toBeUndefined();
  });
});

const EVENT: Event = {
  ...{ messageId: 'm', type: 'track', channel: 'server', userId: 'u', context: {}, integrations: {} },
  ...{ timestamp: '2026-01-02T03:04:05.678Z', receivedAt: '2026-01-02T03:04:05.678Z' },
};

describe('a delete notification', () => {
  it.each(['documented', 'canonical'] as const)('has three fields in the format %s', (format) => {
    const event = {
      ...{ messageId: 'del_r_s_1', type: 'delete', channel: 'server', userId: 'u"1' },
      ...{ context: {}, integrations: {}, timestamp: 't', receivedAt: 'r' },
    } as Event;
    const bytes = '{"type":"delete","userId":"u\\"1","timestamp":"t"}';
    expect(serializePayload(event, format)).toBe(bytes);
    const settings = { endpoints: [{ url: 'https://x', headers: {} }], format } as const;
    const destination: Destination = {
      ...{ id: 1, name: 'd', sources: [], enabled: true, version: 1 },
      type: 'webhooks',
      settings,
    };
    const stored = { event, line: lineOf(JSON.stringify(event)), arrivedAt: 0 };
    const targets = targetsIn(destination);
    const [made] = requestsOf(
      { destination, targets, events: [{ serialized: stored }], now: 0 },
      { sourceOf: () => undefined },
    );
    expect(made?.request.body.toString()).toBe(bytes);
    expect(made?.request.headers['Webhook-Id']).toBe('del_r_s_1');
  });
});
