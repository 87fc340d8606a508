import { expect, it } from 'vitest';
import { sourceWith } from '../../test/support/sources.ts';
import { AcceptedEvent } from './accepted.ts';

const SOURCE = sourceWith({ writeKeys: ['k'] });
const KNOWN = { userFrom: 0, userTo: 0, isUndirected: true };

it('an event that waits does not keep the lines of others in memory', () => {
  const text = '{"messageId":"m","type":"track"}';
  const bytes = Buffer.from(`${'x'.repeat(500)}${text}${'y'.repeat(500)}`);
  const one = new AcceptedEvent(SOURCE, { ...KNOWN, bytes, from: 500, to: 500 + text.length, idTo: 515 });
  const alone = one.alone(5);
  expect(alone.line!.bytes).toHaveLength(text.length);
  expect(alone.line!.bytes.toString()).toBe(text);
  expect([alone.event, alone.arrivedAt]).toEqual([one.event, 5]);
});

it('an event with a line nearly of its own is left as it is', () => {
  const bytes = Buffer.from('{"messageId":"m"}  ');
  const one = new AcceptedEvent(SOURCE, { ...KNOWN, bytes, from: 0, to: 17, idTo: 15 });
  expect(one.alone(5)).toBe(one);
});
