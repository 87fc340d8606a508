import { createHmac } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { quoted } from '../../../clients/e2e/sentences/quoted.ts';
import { isForwarded } from '../model/event.ts';
import type { Source } from '../model/settings.ts';
import type { IngestRequest } from '../ports/ingest.ts';
import { indexWriteKeys } from './calls.ts';
import { parseRequest } from './parse.ts';

const SOURCE: Source = {
  ...{ id: 1, name: 'website', writeKeys: ['wk'], enabled: true, mode: 'standard', whenDisabled: 'refuse' },
  ...{ ip: 'keep', trust: 'client' },
};
const STRICT: Source = { ...SOURCE, id: 2, name: 'strict', writeKeys: ['wk_strict'], mode: 'strict' };
const SECRET = 'not-a-real-secret-1';
const SIGNED: Source = {
  ...SOURCE,
  ...{ id: 3, name: 'signed', writeKeys: ['wk_signed'], forwarded: { sharedSecret: SECRET } },
};
const OFF: Source = { ...SOURCE, id: 4, name: 'off', writeKeys: ['wk_off'], enabled: false };

const NOW = Date.parse('2026-11-21T12:00:00.000Z');

let ids = 0;
function parse(body: string | Buffer | object, more: Partial<IngestRequest> = {}) {
  const bytes = Buffer.isBuffer(body)
    ? body
    : Buffer.from(typeof body === 'string' ? body : JSON.stringify(body));
  return parseRequest(
    { type: 'forwarded', writeKey: 'wk', body: bytes, receivedAt: NOW, ...more },
    indexWriteKeys([SOURCE, STRICT, SIGNED, OFF], 'refuse'),
    () => `assigned-${++ids}`,
  );
}

function received(...given: Parameters<typeof parse>) {
  const parsed = parse(...given);
  if (parsed.kind === 'refused') throw new Error(`${parsed.code}: ${parsed.detail}`);
  return parsed;
}

const CALL = {
  type: 'track',
  event: 'Lamp Lit',
  anonymousId: 'an-1',
  messageId: 'm-1',
  timestamp: '2025-04-05T06:07:08.500Z',
  originalTimestamp: '2025-04-05T06:07:08.000Z',
  sentAt: '2025-04-05T06:07:08.900Z',
  receivedAt: '2025-04-05T06:07:09.400Z',
  context: { library: { name: 'analytics.js', version: 'next-1.70.0' } },
  writeKey: 'KEY1',
  version: 2,
};

describe('a forwarded call', () => {
  it(
    quoted(
      'Its times are final: `sentAt` moves nothing, and its `receivedAt` is kept as `originalReceivedAt`.',
    ),
    () => {
      const [accepted] = received(CALL, { peer: { remoteAddress: '203.0.113.9' } }).events;
      expect(accepted!.event).toEqual({
        ...{ messageId: 'm-1', type: 'track', channel: 'browser', anonymousId: 'an-1', event: 'Lamp Lit' },
        ...{ context: CALL.context, integrations: {}, version: 2, receivedBy: 'forwarded' },
        timestamp: '2025-04-05T06:07:08.500Z',
        originalTimestamp: '2025-04-05T06:07:08.000Z',
        sentAt: '2025-04-05T06:07:08.900Z',
        receivedAt: '2026-11-21T12:00:00.000Z',
        originalReceivedAt: '2025-04-05T06:07:09.400Z',
      });
      expect(isForwarded(accepted!.event)).toBe(true);
    },
  );

  it('has the best time that it names, and never one that cannot be read', () => {
    const timesOf = (times: object) => {
      const [accepted] = received({ type: 'page', userId: 'u', ...times }).events;
      return accepted!.event.timestamp;
    };
    expect(timesOf({ timestamp: 'no', originalTimestamp: '2025-01-01' })).toBe('2025-01-01T00:00:00.000Z');
    expect(timesOf({ receivedAt: '2025-01-02T00:00:00Z' })).toBe('2025-01-02T00:00:00.000Z');
    expect(timesOf({})).toBe('2026-11-21T12:00:00.000Z');
    expect(received({ ...CALL, receivedAt: 7e20 }).changes.get(1)).toMatchObject({
      counts: { unreadable_times: 1 },
    });
  });

  it('is marked as such whatever it says of itself, and a call that was not forwarded is not', () => {
    const [accepted] = received({ ...CALL, receivedBy: 'x', originalReceivedAt: 'y' }).events;
    expect(accepted!.event).toMatchObject({
      receivedBy: 'forwarded',
      originalReceivedAt: CALL.receivedAt,
    });
    const direct = received({ ...CALL, writeKey: 'wk' }, { type: 'track' }).events[0]!;
    expect(isForwarded(direct.event)).toBe(false);
  });

  it(quoted('A key in the calls is that of the other service and means nothing.'), () => {
    const { writeKey: _, ...unsigned } = { writeKey: 'wk' };
    expect(parse({ ...CALL, writeKey: 'wk' }, { ...unsigned, writeKey: 'other' })).toMatchObject({
      code: 'invalid_write_key',
    });
    expect(received([{ ...CALL, writeKey: 'wk_strict' }]).events[0]!.sender.name).toBe('website');
  });

  it(quoted('Elements `{"json": …}` of a list are the call in them.'), () => {
    const { events, counts } = received([{ json: CALL }, { json: CALL, more: 1 }]);
    expect(events.map(({ messageId }) => messageId)).toEqual(['m-1']);
    expect(counts).toEqual([{ source: 1, calls: 2, discarded: { unknown_type: 1 } }]);
  });

  it(
    quoted(
      'A `delete` is answered 200 and counted as `forwarded_delete`: nobody is deleted here for it, and it refuses no batch of a strict source.',
    ),
    () => {
      const notification = { type: 'delete', userId: 'u-1' };
      for (const body of [notification, [notification]]) {
        for (const [writeKey, source] of [
          ['wk', 1],
          ['wk_strict', 2],
        ] as const) {
          const { events, counts } = received(body, { writeKey });
          expect(events).toEqual([]);
          expect(counts).toEqual([{ source, calls: 1, discarded: { forwarded_delete: 1 } }]);
        }
      }
    },
  );

  it('is invalid alone with its reason, and in a list costs nobody else', () => {
    expect(parse({ ...CALL, event: 7 })).toMatchObject({ kind: 'refused', code: 'event_not_string' });
    expect(received([{ ...CALL, event: 7 }, CALL, 3, null, 'text, with ] \\" and [']).counts).toEqual([
      { source: 1, calls: 5, discarded: { event_not_string: 1, not_an_object: 3 } },
    ]);
    expect(parse([{ ...CALL, event: 7 }, CALL], { writeKey: 'wk_strict' })).toMatchObject({
      code: 'invalid_calls',
    });
  });
});

describe('bounds of forwarded calls', () => {
  it(
    quoted(
      'A call may have 32,768 bytes of compact JSON without `_metadata`, `projectId`, `writeKey`, `version` and `receivedAt`.',
    ),
    () => {
      const { writeKey: _, version: __, receivedAt: ___, ...own } = CALL;
      const sized = (bytes: number) => {
        const filled = { ...own, properties: { x: '' } };
        filled.properties.x = 'x'.repeat(bytes - JSON.stringify(filled).length);
        return { ...filled, _metadata: { bundled: ['y'.repeat(9_000)] }, receivedAt: CALL.receivedAt };
      };
      expect(received([sized(32_768)]).events).toHaveLength(1);
      expect(received([sized(32_769)]).counts[0]!.discarded).toEqual({ message_too_large: 1 });
    },
  );

  it('takes 4,000 calls and not one more', () => {
    const list = (count: number) =>
      Array.from({ length: count }, (_, nth) => ({ ...CALL, messageId: `m${nth}` }));
    expect(received(list(4000)).events).toHaveLength(4000);
    expect(parse(list(4001))).toMatchObject({
      code: 'batch_too_large',
      detail: 'It holds 4,001 calls, the limit is 4,000.',
    });
  });

  it.each([
    '',
    '[',
    '[{}',
    '[{},',
    '[{},]',
    '[,]',
    '[{"a":1}] x',
    '[{"a":}]',
    '[{"a":1}}]',
    '["open]',
    '{"a":1',
    '[1 2]',
    '[{"a":"\\"}]',
  ])('refuses %s, which is no JSON', (text) => {
    expect(parse(text)).toMatchObject({ kind: 'refused', code: 'invalid_json' });
  });

  it('reads what JSON.parse reads, blanks and a mark included', () => {
    const text = `\ufeff [ ${JSON.stringify(CALL)} ,\n\t{"type":"page","userId":"]\\\\","name":"\\"[{"} ] \r\n`;
    expect(received(text).events).toHaveLength(2);
    expect(received('[]').events).toEqual([]);
    expect(received(' [ ] ').counts).toEqual([]);
  });

  it('discards what is nested too deep or is not UTF-8, and keeps the others', () => {
    const deep = `{"type":"page","userId":"u","properties":{"a":${'['.repeat(9000)}${']'.repeat(9000)}}}`;
    expect(received(`[${deep},${JSON.stringify(CALL)}]`).counts[0]!.discarded).toEqual({
      too_deeply_nested: 1,
    });
    const wrong = Buffer.concat([
      Buffer.from('[{"type":"page","userId":"'),
      Buffer.from([0xff]),
      Buffer.from(`"},${JSON.stringify(CALL)}]`),
    ]);
    expect(received(wrong).counts[0]!.discarded).toEqual({ not_utf8: 1 });
  });

  it('counts calls of a disabled source, and does not read them', () => {
    expect(parse([CALL, CALL], { writeKey: 'wk_off' })).toMatchObject({ code: 'invalid_write_key' });
    const { writeKey: _, ...nobody } = { type: 'forwarded' as const, writeKey: undefined };
    expect(
      parseRequest(
        { ...nobody, body: Buffer.from('[not read'), receivedAt: NOW },
        indexWriteKeys([SOURCE], 'refuse'),
        () => 'id',
      ),
    ).toMatchObject({ code: 'missing_write_key' });
  });
});

describe('the signature of forwarded calls', () => {
  const sign = (text: string) => createHmac('sha1', SECRET).update(text).digest('hex');
  const one = JSON.stringify(CALL);
  const list = `[${one},${JSON.stringify({ ...CALL, messageId: 'm-2' })}]`;
  const signed = (body: string, signature?: string) =>
    parse(body, { writeKey: 'wk_signed', ...(signature === undefined ? {} : { signature }) }).kind;

  it(
    quoted(
      'With `forwarded.sharedSecret` the header `X-Signature` has to be the HMAC with SHA-1, in hexadecimal, of the body, or for a list of its first element; else the answer is 401 `invalid_signature`.',
    ),
    () => {
      expect(signed(one, sign(one))).toBe('received');
      expect(signed(list, sign(one))).toBe('received');
      expect(signed(list, sign(one).toUpperCase())).toBe('received');
      for (const wrong of [undefined, '', 'x', sign('other'), `${sign(one)}00`, sign(list)])
        expect([wrong, signed(list, wrong)]).toEqual([wrong, 'refused']);
      expect(parse(list, { writeKey: 'wk_signed', signature: 'x' })).toMatchObject({
        code: 'invalid_signature',
        counts: [{ source: 3, calls: 1, discarded: { invalid_signature: 1 } }],
      });
    },
  );
});
