import fc from 'fast-check';
import { expect, test } from 'vitest';
import { sourceWith } from '../../test/support/sources.ts';
import { joined } from '../model/lines.ts';
import { receiveCall } from './receive.ts';
import { writeKeys } from './write-keys.ts';

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
        const received = receiveCall(request, writeKeys([source], 'refuse'), () => 'assigned');
        return received.kind === 'received' ? [...received.events] : [];
      });
      events.splice(left % (events.length + 1), 1);
      expect(Buffer.from(joined(events.map(({ line }) => line))).toString()).toBe(
        events.map(({ json }) => json).join('\n'),
      );
    }),
  );
});
