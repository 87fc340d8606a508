import fc from 'fast-check';
import { expect, it, test } from 'vitest';
import { sourceWith } from '../../test/support/sources.ts';
import { joinLines } from '../adapters/encoding/chunk-codec.ts';
import { AcceptedEvent, indexWriteKeys } from './calls.ts';
import { parseRequest } from './parse.ts';

const SOURCE = sourceWith({ writeKeys: ['k'] });
const NO_USER = { userFrom: 0, userTo: 0, isUserEscaped: false };
const MARKS = { hasNoIntegrations: true, isSkewed: false };

it('an event that waits does not keep the lines of others in memory', () => {
  const text = '{"messageId":"m","type":"track"}';
  const bytes = Buffer.from(`${'x'.repeat(500)}${text}${'y'.repeat(500)}`);
  const line = { ...NO_USER, ...MARKS, bytes, from: 500, to: 500 + text.length, idFrom: 514, idTo: 515 };
  const one = new AcceptedEvent(SOURCE, line);
  const alone = one.detached(5);
  expect(alone.line!.bytes).toHaveLength(text.length);
  expect(alone.line!.bytes.toString()).toBe(text);
  expect([alone.event, alone.arrivedAt]).toEqual([one.event, 5]);
});

it('an event with a line nearly of its own is left as it is', () => {
  const bytes = Buffer.from('{"messageId":"m"}  ');
  const line = { ...NO_USER, ...MARKS, bytes, from: 0, to: 17, idFrom: 14, idTo: 15 };
  const one = new AcceptedEvent(SOURCE, line);
  expect(one.detached(5)).toBe(one);
});

const source = sourceWith({ writeKeys: ['k'] });

test('lines of several requests, some parsed and some left out, are those of the events in their order', () => {
  const call = fc.constantFrom(
    '{"type":"track","event":"E","userId":"u","messageId":"a"}',
    '{"type":"track","event":"Größe","userId":"用户","messageId":"b"}',
    '{"type":"track", "event":"parsed","userId":"u","messageId":"c"}',
    '{"type":"track","userId":"discarded","messageId":"d"}',
  );
  const requests = fc.array(fc.array(call, { minLength: 1, maxLength: 6 }), { minLength: 1, maxLength: 5 });
  fc.assert(
    fc.property(requests, fc.nat(), (bodies, left) => {
      const events = bodies.flatMap((calls) => {
        const body = Buffer.from(`{"batch":[${calls.join(',')}]}`);
        const request = { type: 'batch', writeKey: 'k', body, receivedAt: 1_700_000_000_000 } as const;
        const received = parseRequest(request, indexWriteKeys([source], 'refuse'), () => 'assigned');
        return received.kind === 'received' ? [...received.events] : [];
      });
      events.splice(left % (events.length + 1), 1);
      expect(Buffer.from(joinLines(events.map(({ line }) => line))).toString()).toBe(
        events.map(({ json }) => json).join('\n'),
      );
    }),
  );
});
