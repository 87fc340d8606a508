import { expect, test } from 'vitest';
import { decodeProfile, encodeProfile, mergeProfiles, newProfile } from './profile-state.ts';
import { type Refusal, withRefusal } from './refusals.ts';

const refusal = (nth: number, more: Partial<Refusal> = {}): Refusal => ({
  ...{ rule: 'alias', reason: 'belongs_to_another_user', key: 2 ** 52 + nth, position: nth },
  ...{ source: 3, at: 1000 + nth, isPublic: false },
  ...more,
});

const all = (refusals: readonly Refusal[]) =>
  refusals.reduce(
    (sum: ReturnType<typeof withRefusal> | undefined, one) => withRefusal(sum, one),
    undefined,
  )!;

const upTo = (n: number, more: Partial<Refusal> = {}) =>
  Array.from({ length: n }, (_, nth) => refusal(nth + 1, more));

test('every refused merge counts, and each id is a sample once for each reason', () => {
  const refusals = all([
    refusal(1),
    refusal(2, { key: refusal(1).key }),
    refusal(3, { key: refusal(1).key, reason: 'too_many_ids' }),
  ]);
  expect(refusals.count).toBe(3);
  expect(refusals.samples.map(({ position }) => position)).toEqual([1, 3]);
});

test('ten samples stay, the newest of them, and a client pushes out none of a server', () => {
  expect(all(upTo(12)).samples.map(({ position }) => position)).toEqual([3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
  const flooded = all([refusal(0), ...upTo(1000, { isPublic: true })]);
  expect(flooded).toMatchObject({ count: 1001, samples: { length: 10 } });
  expect(flooded.samples[0]).toEqual(refusal(0));
});

test('a profile keeps them, and two that become one keep those of both', () => {
  const [one, two] = [newProfile(1), newProfile(2)];
  one.refusals = all([refusal(1), refusal(5, { isPublic: true, rule: 'external', reason: 'unproven' })]);
  two.refusals = all([refusal(3, { reason: 'split' }), refusal(7, { key: refusal(1).key })]);
  expect(decodeProfile(1, encodeProfile(one))).toEqual(one);
  expect(decodeProfile(3, encodeProfile(newProfile(3)))).toEqual(newProfile(3));
  const { refusals } = mergeProfiles(one, two);
  expect(refusals?.count).toBe(4);
  expect(refusals?.samples.map(({ position }) => position)).toEqual([1, 3, 5]);
});
