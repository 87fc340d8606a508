import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { JsonObject } from '../../model/json.ts';
import {
  decodeProfile,
  encodeProfile,
  mergeProfiles,
  newProfile,
  type ProfileState,
} from './profile-state.ts';
import { MAX_GROUPS, MAX_SIZE, MAX_TRAITS, noteTraits, type SaidOfUser } from './traits.ts';

/** Notes what a call of a server source says, at a time that is its number too. */
function note(profile: ProfileState, at: number, traits: JsonObject, more: Partial<SaidOfUser> = {}) {
  return noteTraits(profile, {
    ...{ traits, groupId: undefined, at, messageId: `m${at}`, isPublic: false },
    ...more,
  });
}

const PUBLIC = { isPublic: true };

/**
 * Expects the stored profile to have the same size as the one in memory, so that a restart changes nothing.
 */
function expectSameStored(profile: ProfileState): void {
  expect(decodeProfile(profile.id, encodeProfile(profile))).toEqual(profile);
}

test('traits that are too long are left out and counted, and the others of the call are kept', () => {
  const profile = newProfile(1);
  const traits = {
    ...{ ['n'.repeat(200)]: 1, ['n'.repeat(201)]: 2, 'half \ud800': 3 },
    ...{
      text: 'v'.repeat(8192),
      longText: 'v'.repeat(8193),
      list: ['v'.repeat(8188)],
      longList: ['v'.repeat(8189)],
    },
  };
  expect(note(profile, 1, traits)).toEqual({ names: 2, values: 2, gone: 0 });
  expect([...profile.traits.keys()]).toEqual(['n'.repeat(200), 'text', 'list']);
  expect(profile.leftOut).toBe(4);
  expectSameStored(profile);
});

describe('a profile with too many', () => {
  test('traits keeps the newest, in whatever order they come', () => {
    for (const isReversed of [false, true]) {
      const profile = newProfile(1);
      for (let index = 0; index < MAX_TRAITS + 5; index++) {
        const at = isReversed ? MAX_TRAITS + 4 - index : index;
        note(profile, at, { [`t${at}`]: at });
      }
      expect(profile.traits.size).toBe(MAX_TRAITS);
      expect([profile.traits.has('t4'), profile.traits.has('t5')]).toEqual([false, true]);
      expect(profile.leftOut).toBe(5);
    }
  });

  test('groups keeps the newest', () => {
    const profile = newProfile(1);
    for (let at = 0; at < MAX_GROUPS + 3; at++) note(profile, at, {}, { groupId: `g${at}` });
    expect([profile.groups.size, profile.groups.has('g2'), profile.groups.has('g3')]).toEqual([
      1000,
      false,
      true,
    ]);
    expectSameStored(profile);
  });

  test('texts keeps the newest of them, traits and groups alike', () => {
    const profile = newProfile(1);
    for (let at = 0; at < 9; at++)
      note(profile, at, { [`t${at}`]: 'v'.repeat(8000) }, { groupId: `g${at}`.padEnd(1024, '.') });
    expect([...profile.traits.keys()]).toEqual(['t2', 't3', 't4', 't5', 't6', 't7', 't8']);
    expect(profile.groups.size).toBe(7);
    expect(profile.size).toBeLessThanOrEqual(MAX_SIZE);
    expect(profile.leftOut).toBe(4);
    expectSameStored(profile);
  });
});

describe('a client source', () => {
  test('pushes out what client sources said, and never what a server said', () => {
    const profile = newProfile(1);
    note(profile, 0, { plan: 'pro' }, { groupId: 'acme' });
    note(profile, 1, { color: 'red' }, { ...PUBLIC, groupId: 'mob' });
    for (let at = 2; at < 40; at++) note(profile, at, { [`flood ${at}`]: 'v'.repeat(8000) }, PUBLIC);
    for (let at = 40; at < 1100; at++) note(profile, at, {}, { ...PUBLIC, groupId: `g${at}` });
    expect(profile.traits.get('plan')?.value).toBe('pro');
    expect(profile.traits.has('color')).toBe(false);
    expect([profile.groups.has('acme'), profile.groups.has('mob')]).toEqual([true, false]);
    expectSameStored(profile);
  });

  test('finds no room where servers have said enough', () => {
    const profile = newProfile(1);
    for (let at = 0; at < 8; at++) note(profile, at, { [`t${at}`]: 'v'.repeat(8100) });
    expect(note(profile, 9, { late: 'v'.repeat(2000), small: 1 }, PUBLIC).gone).toBe(1);
    expect([...profile.traits.keys()].at(-1)).toBe('small');
    expect(profile.traits.size).toBe(9);
  });

  test('makes a trait its own by another value of it, and a server makes it its own again', () => {
    const profile = newProfile(1);
    note(profile, 0, { plan: 'pro' });
    note(profile, 1, { plan: 'free' }, PUBLIC);
    expect(profile.traits.get('plan')).toMatchObject({ value: 'free', isPublic: true });
    note(profile, 2, { plan: 'pro' });
    expect(profile.traits.get('plan')).toMatchObject({ value: 'pro', isPublic: false });
  });
});

test('a merge keeps within the bounds, and counts what goes', () => {
  const [winner, loser] = [newProfile(1), newProfile(2)];
  for (let at = 0; at < 6; at++) {
    note(winner, at, { [`w${at}`]: 'v'.repeat(8000) });
    note(loser, at + 10, { [`l${at}`]: 'v'.repeat(8000) }, PUBLIC);
  }
  const merged = mergeProfiles(winner, loser);
  expect([...merged.traits.keys()]).toEqual(['w0', 'w1', 'w2', 'w3', 'w4', 'w5', 'l4', 'l5']);
  expect(merged.leftOut).toBe(4);
  expectSameStored(merged);
});

test('the size of a profile is the same noted and stored, and never beyond its bound', () => {
  const value = fc.oneof(
    fc.string({ unit: 'binary', maxLength: 4000 }),
    fc.jsonValue({ maxDepth: 2 }),
    fc.constantFrom('\udc00', 2 ** 60, -0, 1.5, null, true),
  );
  const call = fc.record({
    traits: fc.dictionary(fc.string({ unit: 'binary', maxLength: 210 }), value, { maxKeys: 6 }),
    groupId: fc.option(fc.string({ unit: 'grapheme', minLength: 1, maxLength: 300 }), { nil: undefined }),
    at: fc.nat(50),
    messageId: fc.string({ unit: 'grapheme-ascii', maxLength: 300 }),
    isPublic: fc.boolean(),
  });
  fc.assert(
    fc.property(fc.array(call, { maxLength: 40 }), (calls) => {
      let profile = newProfile(1);
      let counted = 0;
      for (const said of calls) {
        const { names, values, gone } = noteTraits(profile, said as SaidOfUser);
        counted += names + values + gone;
        const stored = decodeProfile(1, encodeProfile(profile));
        expect(stored.size).toBe(profile.size);
        profile = stored;
      }
      expect(profile.size).toBeLessThanOrEqual(MAX_SIZE);
      expect(profile.leftOut).toBe(counted);
    }),
    { numRuns: 100 },
  );
});
