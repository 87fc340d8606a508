import { createHash } from 'node:crypto';
import { expect, it } from 'vitest';
import type { JsonObject } from '../model/json.ts';
import { lineOf } from '../model/serialized-event.ts';
import type { IdHash } from '../ports/regulations.ts';
import { SuppressionFilter } from './suppression-filter.ts';

const hashId: IdHash = (kind, id, out, at) => {
  const bytes = typeof id === 'string' ? Buffer.from(id) : id.bytes.subarray(id.from, id.to);
  const digest = createHash('sha256').update(kind).update(bytes).digest();
  out[at] = digest.readUInt32LE(0);
  out[at + 1] = digest.readUInt32LE(4);
};

const HOSTILE = ['u1', 'constructor', '__proto__', '"}', 'ü\u0000', '日本', '"userId":"u2"', 'a'.repeat(500)];

/** Whether an event with these ids is suppressed, and a call with them, which always agree. */
function isSuppressed(filter: SuppressionFilter, ids: JsonObject): boolean {
  const line = lineOf(
    JSON.stringify({ messageId: 'm', type: 'track', channel: 'server', ...ids, event: 'e' }),
  );
  expect(filter.names(ids)).toBe(filter.suppresses(line));
  return filter.suppresses(line);
}

it('knows suppressed userIds in every form, and nobody else', () => {
  const filter = new SuppressionFilter(hashId);
  expect(filter.isEmpty).toBe(true);
  for (const id of HOSTILE) expect(isSuppressed(filter, { userId: id })).toBe(false);
  filter.add('user', HOSTILE);
  expect(filter.isEmpty).toBe(false);
  for (const id of HOSTILE) {
    expect(isSuppressed(filter, { userId: id })).toBe(true);
    expect(isSuppressed(filter, { userId: id, anonymousId: 'a' })).toBe(true);
    expect(isSuppressed(filter, { userId: `${id}x` })).toBe(false);
    expect(isSuppressed(filter, { anonymousId: id })).toBe(false);
    expect(isSuppressed(filter, { userId: 'other', previousId: id })).toBe(true);
  }
});

it('looks at an anonymousId only without a userId, and at a previousId in both ways', () => {
  const filter = new SuppressionFilter(hashId);
  filter.add('anonymous', ['a"']);
  expect(isSuppressed(filter, { anonymousId: 'a"' })).toBe(true);
  expect(isSuppressed(filter, { userId: 'u', anonymousId: 'a"' })).toBe(false);
  expect(isSuppressed(filter, { userId: 'a"' })).toBe(false);
  expect(isSuppressed(filter, { userId: 'u', previousId: 'a"' })).toBe(true);
});

it('sees users in calls that are not valid', () => {
  const filter = new SuppressionFilter(hashId);
  filter.add('user', ['7']);
  expect(filter.names({ userId: 7, event: null })).toBe(true);
  for (const call of [null, 7, '7', ['7'], { userId: ['7'] }, { userId: { userId: '7' } }])
    expect(filter.names(call)).toBe(false);
});
