import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Json } from '../../model/json.ts';
import { newerConsent } from './profile-consent.ts';
import {
  type ComputedValue,
  decodeProfile,
  encodeProfile,
  mergeProfiles,
  newIdentity,
  newProfile,
  type ProfileState,
} from './profile-state.ts';
import { ENTRY_SIZE, noteTraits, type TraitValue } from './traits.ts';

/** One call's effect on a profile. */
interface Step {
  readonly id: readonly [string, string];
  readonly trait: readonly [string, Json];
  readonly group: string;
  readonly at: number;
  readonly messageId: string;
  readonly source: number;
  readonly isPublic: boolean;
  readonly consented: readonly string[] | undefined;
}

/** Few different names, times and ids, so that equal ones meet. */
const step: fc.Arbitrary<Step> = fc.record({
  id: fc.tuple(fc.constantFrom('anonymous', 'email'), fc.constantFrom('a', 'b', 'c', 'd')),
  trait: fc.tuple(
    fc.constantFrom('plan', 'name', 'zoë'),
    fc.constantFrom<Json>(1, 'x', null, [1], { a: 'ö' }, true, '\ud800'),
  ),
  group: fc.constantFrom('g1', 'g2', 'g3'),
  at: fc.nat(5),
  messageId: fc.constantFrom('m1', 'm2', 'm'.repeat(80)),
  source: fc.nat(3),
  isPublic: fc.boolean(),
  consented: fc.option(fc.subarray(['Ads', 'Stats', 'zoë']), { nil: undefined }),
});

function take(
  state: ProfileState,
  { id, trait: [name, said], group, at, messageId, source, isPublic, consented }: Step,
): void {
  const [kind, value] = id;
  const known = state.identities.find((identity) => identity.kind === kind && identity.value === value);
  if (known === undefined) state.identities.push(newIdentity(kind, value, at));
  else {
    known.at = Math.min(known.at, at);
    known.isUsed = true;
  }
  noteTraits(state, { traits: { [name]: said }, groupId: group, at, messageId, isPublic });
  // Events of one time and messageId are one.
  const consent = consented && { categories: [...consented, `${at} ${messageId}`].slice(-1), at, messageId };
  const newer = newerConsent(state.consent, consent);
  if (newer !== undefined) state.consent = newer;
  state.sources.add(source);
  state.firstSeenAt = Math.min(state.firstSeenAt, at);
  state.firstPosition = Math.min(state.firstPosition, at);
  state.lastSeenAt = Math.max(state.lastSeenAt, at);
}

/** Everything but the number, sorted, so that the order of arrival makes no difference. */
function content(state: ProfileState): unknown {
  const { id: _id, identities, traits, groups, sources, ...rest } = state;
  return {
    ...rest,
    identities: identities.map((identity) => JSON.stringify(identity)).sort(),
    traits: [...traits].sort(([a], [b]) => (a < b ? -1 : 1)),
    groups: [...groups].sort(([a], [b]) => (a < b ? -1 : 1)),
    sources: [...sources].sort(),
  };
}

test('a profile is the same whatever order its calls and merges come in', () => {
  const order = fc.array(fc.record({ step, part: fc.nat(2), rank: fc.nat() }), {
    minLength: 1,
    maxLength: 12,
  });
  fc.assert(
    fc.property(order, fc.nat(), (steps, seed) => {
      const whole = newProfile(1);
      for (const { step } of steps) take(whole, step);
      const parts = [newProfile(1), newProfile(2), newProfile(3)];
      for (const { step, part } of [...steps].sort((a, b) => a.rank - b.rank)) take(parts[part]!, step);
      const [first, second, third] = parts as [ProfileState, ProfileState, ProfileState];
      const merges = [
        () => mergeProfiles(mergeProfiles(first, second), third),
        () => mergeProfiles(first, mergeProfiles(second, third)),
        () => mergeProfiles(mergeProfiles(third, second), first),
        () => mergeProfiles(second, mergeProfiles(first, third)),
      ];
      const merged = merges[seed % merges.length]!();
      expect(content(merged)).toEqual(content(whole));
      expect(decodeProfile(merged.id, encodeProfile(merged))).toEqual(merged);
    }),
    { numRuns: 3000 },
  );
});

test('the userId of the winner stays, and the other one becomes a former id', () => {
  const winner = { ...newProfile(1), userId: 'new', formerUserIds: ['z'] };
  winner.identities = [newIdentity('user', 'new', 1), newIdentity('user', 'z', 1)];
  const loser = { ...newProfile(2), userId: 'old', formerUserIds: ['b'] };
  loser.identities = [
    newIdentity('user', 'old', 1),
    newIdentity('user', 'b', 1),
    newIdentity('anonymous', 'b', 1),
  ];
  const merged = mergeProfiles(winner, loser);
  expect(merged.userId).toBe('new');
  expect(merged.formerUserIds).toEqual(['b', 'old', 'z']);
  // The profile keeps the number under which more ids stand already.
  expect(merged.id).toBe(2);
  expect(decodeProfile(2, encodeProfile(merged))).toEqual(merged);
});

test('a merge keeps what was sent of the winner, and the next event comes behind those of both', () => {
  const winner = newProfile(1);
  winner.computed.set(7, { value: true, since: 5, sent: { value: true, at: 5, sequence: 2 } });
  const loser = newProfile(2);
  loser.computed.set(7, { value: true, since: 3, sent: { value: true, at: 9, sequence: 9 } });
  loser.computed.set(8, { value: 3, since: 3, sent: { value: 3, at: 3, sequence: 4 } });
  const { computed } = mergeProfiles(winner, loser);
  expect(computed.get(7)).toEqual({ value: true, since: 5, sent: { value: true, at: 9, sequence: 9 } });
  expect(computed.get(8)).toEqual({ value: null, since: 0, sent: { value: undefined, at: 3, sequence: 4 } });
});

test('a state keeps what was sent, to whom, and what is owed', () => {
  const state = newProfile(1);
  const known = { crm: [], 'a b': [true], warehouse: null } as const;
  for (const [id, sent] of [
    { value: undefined, at: 0, sequence: 0 },
    { value: 'x', at: 5, sequence: 1_764_000_000_000 },
    { value: null, at: -5, sequence: 3, known },
    { value: [1], at: 5, sequence: 3, owed: [{ to: 'user u 1', destinations: ['crm'] }] },
    { value: false, at: 5, sequence: 3, known, owed: [{ to: 'anonymous a', destinations: ['crm', 'x'] }] },
  ].entries())
    state.computed.set(id, { value: 1, since: 7, sent });
  expect(decodeProfile(1, encodeProfile(state))).toEqual(state);
});

test('the bytes of a profile are a multiple of 128, and other bytes are refused', () => {
  const state = newProfile(1);
  for (let index = 0; index < 40; index++) {
    state.identities.push(newIdentity('anonymous', `anonymous-${index}`, index));
    expect(encodeProfile(state).length % 128).toBe(0);
  }
  expect(() => decodeProfile(1, new Uint8Array(128))).toThrow(RangeError);
  expect(() => decodeProfile(1, encodeProfile(state).subarray(0, 128))).toThrow(RangeError);
});

test('a state keeps who has named each id, and whether more than once', () => {
  const state = newProfile(7);
  state.userId = 'ann';
  const ids = [
    newIdentity('user', 'ann', 1),
    newIdentity('anonymous', 'a1', 2),
    newIdentity('email', 'e', 3),
  ];
  state.identities = ids.flatMap((one) => [
    one,
    { ...one, value: `${one.value}-public`, isPublic: true },
    { ...one, value: `${one.value}-both`, isPublic: true, isUsed: true },
  ]);
  state.formerUserIds = ['ann-both', 'ann-public'];
  expect(decodeProfile(7, encodeProfile(state))).toEqual(state);
});

test('a state of the first format is read: every source was trusted, and what was told was told to all', () => {
  const bytes =
    '012a616e6e61316d31706c616e70726f61676561636d65020001030080050000000102008004000000000201008005000000020406030003030701' +
    '040080060000000102010080040000000080090000000300020c020080080000000102030d000080080000000001';
  const state = decodeProfile(1, Buffer.from(bytes.padEnd(256 * 2, '0'), 'hex'));
  const call = { at: 5, messageId: 'm1', isPublic: false };
  expect(state).toEqual({
    ...newProfile(1),
    userId: 'ann',
    identities: [newIdentity('user', 'ann', 5), newIdentity('anonymous', 'a1', 4)],
    traits: new Map<string, TraitValue>([
      ['plan', { ...call, value: 'pro' }],
      ['age', { ...call, value: 7 }],
    ]),
    groups: new Map([['acme', { at: 6, isPublic: false }]]),
    size: 'planpro'.length + 'age'.length + 'acme'.length + 3 * ENTRY_SIZE,
    sources: new Set([2]),
    ...{ firstSeenAt: 4, lastSeenAt: 9, timer: 3 },
    computed: new Map<number, ComputedValue>([
      [12, { value: true, since: 8, sent: { value: true, at: 0, sequence: 3 } }],
      [13, { value: null, since: 8, sent: { value: undefined, at: 0, sequence: 1 } }],
    ]),
  });
});
