import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { amountOf } from '../../test/support/runs.ts';
import { NaivePeople } from '../../test/users/naive-people.ts';
import type { IdentityKey, ProfileId } from '../ports/profile-store.ts';
import { DEFAULT_IDENTITY_SETTINGS, type IdentitySettings } from './contract.ts';
import { IdentityGraph, IdentityReader } from './identity-graph.ts';
import { decodeProfile, encodeProfile, type ProfileState, setTrait } from './profile-state.ts';

/** The ids of a call. */
interface Call {
  readonly userId?: string | undefined;
  readonly anonymousId?: string | undefined;
  readonly previousId?: string | undefined;
  readonly email?: string | undefined;
}

const SETTINGS: IdentitySettings = { ...DEFAULT_IDENTITY_SETTINGS, externalIds: ['email'] };

/** Numbers ids as they come. */
function countingHash(): (kind: string, value: string) => IdentityKey {
  const keys = new Map<string, IdentityKey>();
  return (kind, value) => {
    const text = `${kind} ${value}`;
    if (!keys.has(text)) keys.set(text, keys.size + 1);
    return keys.get(text)!;
  };
}

/** Applies calls slice by slice over profiles that are stored as bytes in between, as the processor does. */
class Log {
  readonly owners = new Map<IdentityKey, ProfileId>();
  readonly states = new Map<ProfileId, Uint8Array>();
  readonly merges: string[] = [];
  readonly counts = { unattributed: 0, overLimit: 0, conflicts: 0, collisions: 0 };
  #next = 1;
  #position = 0;
  readonly #settings: IdentitySettings;
  readonly #hash: (kind: string, value: string) => IdentityKey;
  readonly #reader: IdentityReader;

  constructor(settings = SETTINGS, hash = countingHash()) {
    this.#settings = settings;
    this.#hash = hash;
    this.#reader = new IdentityReader(hash, settings);
  }

  keyOf(kind: string, value: string): IdentityKey {
    return this.#hash(kind, value);
  }

  slice(calls: readonly Call[]): void {
    const graph = new IdentityGraph(this.#hash, this.#settings, {
      owners: new Map(this.owners),
      load: (id) => (this.states.has(id) ? decodeProfile(id, this.states.get(id)!) : undefined),
      nextProfile: this.#next,
    });
    const changed = new Map<ProfileId, ProfileState>();
    for (const call of calls) {
      const cause = { at: this.#position, messageId: `m${this.#position}`, position: this.#position++ };
      const ids = {
        user: this.#reader.identity('user', call.userId),
        anonymous: this.#reader.identity('anonymous', call.anonymousId),
        previous: this.#reader.previous(call.previousId),
        ...this.#reader.external(call.email === undefined ? {} : { email: call.email }),
      };
      const profile = graph.attribute(ids, cause);
      if (profile === undefined) continue;
      setTrait(profile, cause.messageId, { value: 1, at: cause.at, messageId: cause.messageId });
      changed.set(profile.id, profile);
    }
    for (const [key, profile] of graph.bound) this.owners.set(key, profile);
    for (const [id, state] of changed) this.states.set(id, encodeProfile(state));
    for (const id of graph.removed) this.states.delete(id);
    for (const merge of graph.merges) this.merges.push(`${merge.rule} ${merge.identity.value}`);
    for (const name of ['unattributed', 'overLimit', 'conflicts', 'collisions'] as const)
      this.counts[name] += graph.counts[name];
    this.#next = graph.nextProfile;
  }

  profiles(): ProfileState[] {
    return [...this.states].map(([id, bytes]) => decodeProfile(id, bytes));
  }
}

function sorted<T>(items: readonly T[]): string[] {
  return items.map((item) => JSON.stringify(item)).sort();
}

function told(profiles: readonly ProfileState[]): string[] {
  return sorted(
    profiles.map(({ userId, formerUserIds, identities, traits }) => {
      const ids = identities.map(({ kind, value }) => `${kind} ${value}`).sort();
      const users = ids.filter((id) => id.startsWith('user ')).map((id) => id.slice(5));
      expect(formerUserIds).toEqual(users.filter((id) => id !== userId));
      return [userId, ids, [...traits.keys()].sort()];
    }),
  );
}

/** What calls have bound, without what they have set. */
function withoutTraits(profile: string): unknown {
  return (JSON.parse(profile) as unknown[]).slice(0, 2);
}

const few = (prefix: string) =>
  fc.option(
    fc.nat(4).map((number) => `${prefix}${number}`),
    { nil: undefined },
  );

const anyCall: fc.Arbitrary<Call> = fc.record({
  userId: few('u'),
  anonymousId: few('a'),
  previousId: fc.oneof({ weight: 4, arbitrary: fc.constant(undefined) }, few('u'), few('a')),
  email: fc.oneof({ weight: 3, arbitrary: fc.constant(undefined) }, few('e')),
});

describe('identities', () => {
  test('profiles are those of a naive model, whatever is joined and wherever slices end', () => {
    const slices = fc.array(fc.array(anyCall, { maxLength: 6 }), { maxLength: 10 });
    fc.assert(
      fc.property(slices, (slices) => {
        const log = new Log();
        const model = new NaivePeople();
        let position = 0;
        for (const calls of slices) {
          log.slice(calls);
          for (const { email, ...ids } of calls) {
            const at = position++;
            model.take({
              ...ids,
              type: 'track',
              traits: email === undefined ? {} : { email },
              at,
              messageId: `m${at}`,
            });
          }
          const people = model.people.map(({ userId, ids, events }) => [
            userId,
            [...ids].sort(),
            events.map(({ messageId }) => messageId).sort(),
          ]);
          expect(told(log.profiles())).toEqual(sorted(people));
          // Each id leads to the one profile that names it.
          for (const profile of log.profiles()) {
            for (const { kind, value } of profile.identities)
              expect(log.owners.get(log.keyOf(kind, value))).toBe(profile.id);
          }
        }
      }),
      { numRuns: amountOf({ gate: 400, long: 1500 }) },
    );
  });

  test('the calls of one person make one profile, whichever arrives first', () => {
    const calls: Call[] = [
      { anonymousId: 'a1' },
      { anonymousId: 'a1' },
      { userId: 'ann', previousId: 'a1' },
      { userId: 'ann', anonymousId: 'a2', email: 'ann@example.com' },
      { userId: 'ann' },
      { anonymousId: 'a2' },
      { anonymousId: 'a3', email: 'ann@example.com' },
      { userId: 'anna', previousId: 'ann' },
    ];
    const ids = ['anonymous a1', 'anonymous a2', 'anonymous a3', 'anonymous ann', 'email ann@example.com'];
    fc.assert(
      fc.property(fc.shuffledSubarray(calls, { minLength: calls.length }), fc.nat(8), (shuffled, cut) => {
        const log = new Log();
        log.slice(shuffled.slice(0, cut));
        log.slice(shuffled.slice(cut));
        const [profile, ...others] = log.profiles();
        expect(others).toEqual([]);
        expect(profile!.userId).toBe('anna');
        expect(profile!.formerUserIds).toEqual(['a1', 'ann']);
        expect(profile!.traits.size).toBe(calls.length);
        const named = profile!.identities.map(({ kind, value }) => `${kind} ${value}`).sort();
        expect(named).toEqual([...ids, 'user a1', 'user ann', 'user anna'].sort());
      }),
    );
  });

  test('identify and track never join two userIds, and an anonymous id stays with who had it first', () => {
    const log = new Log();
    log.slice([
      { userId: 'ann', anonymousId: 'tablet' },
      { userId: 'bob', anonymousId: 'tablet' },
    ]);
    log.slice([{ anonymousId: 'tablet' }, { userId: 'bob', previousId: 'tablet' }]);
    expect(told(log.profiles())).toEqual(
      sorted([
        ['ann', ['anonymous tablet', 'user ann'], ['m0', 'm2']],
        ['bob', ['user bob'], ['m1', 'm3']],
      ]),
    );
    expect(log.counts.conflicts).toBe(1);
    expect(log.merges).toEqual([]);
  });

  test('an external id never joins two userIds; that is counted as a conflict', () => {
    const log = new Log();
    log.slice([
      { userId: 'ann', email: 'us@example.com' },
      { userId: 'bob', email: 'us@example.com' },
    ]);
    log.slice([{ anonymousId: 'a', email: 'us@example.com' }]);
    expect(told(log.profiles())).toEqual(
      sorted([
        ['ann', ['anonymous a', 'email us@example.com', 'user ann'], ['m0', 'm2']],
        ['bob', ['user bob'], ['m1']],
      ]),
    );
    expect(log.counts.conflicts).toBe(1);
    expect(log.merges).toEqual(['external us@example.com']);
  });

  test('an alias of ids that are joined already binds none of them in another way', () => {
    const backwards = new Log();
    backwards.slice([{ userId: 'new', previousId: 'old' }]);
    const joined = told(backwards.profiles());
    backwards.slice([
      { userId: 'old', previousId: 'new' },
      { userId: 'new', previousId: 'new' },
    ]);
    expect(told(backwards.profiles()).map(withoutTraits)).toEqual(joined.map(withoutTraits));
    const device = new Log();
    device.slice([
      { userId: 'ann', anonymousId: 'd' },
      { userId: 'ann', previousId: 'd' },
    ]);
    expect(device.profiles()).toMatchObject([{ userId: 'ann', formerUserIds: [] }]);
    expect(device.merges).toEqual([]);
  });

  test('an alias of ids that are joined already changes nothing, not even backwards', () => {
    const log = new Log();
    log.slice([
      { userId: 'new', previousId: 'old' },
      { userId: 'old', previousId: 'new' },
      { userId: 'old' },
    ]);
    const [profile, ...others] = log.profiles();
    expect(others).toEqual([]);
    expect(profile!.userId).toBe('new');
    expect(profile!.formerUserIds).toEqual(['old']);
  });

  test.each([
    ...['null', 'NULL', ' undefined ', 'anonymous', '-1', '0', '', '   ', '0000', 'x'.repeat(1025)],
    '00000000-0000-0000-0000-000000000000',
  ])('"%s" joins nothing', (value) => {
    const log = new Log();
    log.slice([
      { userId: value, anonymousId: 'a' },
      { userId: value, anonymousId: 'b' },
    ]);
    log.slice([
      { userId: 'ann', anonymousId: value },
      { userId: 'bob', anonymousId: value },
    ]);
    log.slice([{ userId: 'ann', previousId: value, email: value }, { userId: value }]);
    expect(log.profiles().length).toBe(4);
    expect(log.counts).toEqual({ unattributed: 1, overLimit: 0, conflicts: 0, collisions: 0 });
  });

  test('ids beyond the limit are not bound and are counted', () => {
    const log = new Log({ ...SETTINGS, limit: 3 });
    log.slice(['a', 'b', 'c', 'd'].map((anonymousId) => ({ userId: 'ann', anonymousId })));
    expect(log.counts.overLimit).toBe(2);
    log.slice([
      { anonymousId: 'd' },
      { userId: 'bob', anonymousId: 'e' },
      { userId: 'bob', previousId: 'ann' },
    ]);
    expect(told(log.profiles())).toEqual(
      sorted([
        ['ann', ['anonymous a', 'anonymous b', 'user ann'], ['m0', 'm1', 'm2', 'm3']],
        [undefined, ['anonymous d'], ['m4']],
        ['bob', ['anonymous e', 'user bob'], ['m5', 'm6']],
      ]),
    );
    expect(log.counts.overLimit).toBe(3);
  });

  test('an id whose key belongs to another id is not taken for it', () => {
    const log = new Log(SETTINGS, () => 1);
    log.slice([{ anonymousId: 'a' }, { anonymousId: 'b' }, { userId: 'ann', anonymousId: 'a' }]);
    expect(told(log.profiles())).toEqual(sorted([[undefined, ['anonymous a'], ['m0', 'm2']]]));
    expect(log.counts.collisions).toBeGreaterThan(0);
  });

  test('a merge is recorded with its rule and its event', () => {
    const log = new Log();
    log.slice([{ anonymousId: 'a' }, { userId: 'ann' }, { userId: 'ann', anonymousId: 'a' }]);
    log.slice([{ userId: 'anna' }, { userId: 'anna', previousId: 'ann' }]);
    expect(log.merges).toEqual(['identify a', 'alias ann']);
  });
});
