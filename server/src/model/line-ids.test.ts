import { expect, it } from 'vitest';
import { idText, LineIds } from './line-ids.ts';

const FIRST = { messageId: 'm"1', type: 'track', channel: 'server' };
const REST = { event: 'e', properties: { userId: 'no', anonymousId: 'no' }, context: { previousId: 'no' } };

function idsOf(event: object) {
  const before = Buffer.from('{"userId":"before"}\n');
  const line = Buffer.from(JSON.stringify(event));
  const bytes = Buffer.concat([before, line, before]);
  const ids = new LineIds();
  const isKnown = ids.scan(bytes, before.length, before.length + line.length);
  const text = (from: number, to: number) => (to === 0 ? undefined : idText(bytes, from, to));
  return {
    isKnown,
    isEscaped: ids.isEscaped,
    userId: text(ids.userFrom, ids.userTo),
    anonymousId: text(ids.anonymousFrom, ids.anonymousTo),
    previousId: text(ids.previousFrom, ids.previousTo),
  };
}

const IDS = ['u1', 'ü', 'a"b\\', '","userId":"x', '\u0001', '日本', 'constructor', '{}'];

it('finds the ids that an event has, and none of its other fields', () => {
  expect(idsOf({ ...FIRST, ...REST })).toEqual({ isKnown: true, isEscaped: false });
  for (const id of IDS) {
    for (const names of [['userId'], ['anonymousId'], ['userId', 'anonymousId', 'previousId']]) {
      const ids = Object.fromEntries(names.map((name) => [name, id]));
      const isEscaped = JSON.stringify(id) !== `"${id}"`;
      expect(idsOf({ ...FIRST, ...ids, groupId: 'g', ...REST })).toEqual({
        isKnown: true,
        isEscaped,
        ...ids,
      });
    }
  }
});

it('says so when a line begins otherwise', () => {
  expect(idsOf({ userId: 'u1', messageId: 'm' }).isKnown).toBe(false);
});
