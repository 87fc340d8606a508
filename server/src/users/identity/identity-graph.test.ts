import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { amountOf } from '../../../test/support/runs.ts';
import { NaivePeople } from '../../../test/users/naive-people.ts';
import type { IdentityKey, ProfileId } from '../../ports/profile-store.ts';
import { DEFAULT_IDENTITY_SETTINGS, type IdentitySettings } from '../contract.ts';
import { IdentityGraph } from './identity-graph.ts';
import { IdentityReader } from './identity-reader.ts';
import { decodeProfile, encodeProfile, type ProfileState } from './profile-state.ts';
import { setTrait } from './traits.ts';

/** The ids of a call. */
interface Call {
  readonly userId?: string | undefined;
  readonly anonymousId?: string | undefined;
  readonly previousId?: string | undefined;
  readonly email?: string | undefined;
  /** Sent with a write key that everybody can read. */
  readonly isPublic?: boolean | undefined;
}

const SERVER_SOURCE = 1;
const PUBLIC_SOURCE = 2;

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
  readonly counts = { unattributed: 0, overLimit: 0, conflicts: 0, unproven: 0, collisions: 0 };
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
      const { isPublic = false } = call;
      const source = isPublic ? PUBLIC_SOURCE : SERVER_SOURCE;
      const at = this.#position++;
      const cause = { at, messageId: `m${at}`, position: at, source, isPublic };
      const ids = {
        user: this.#reader.identity('user', call.userId),
        anonymous: this.#reader.identity('anonymous', call.anonymousId),
        previous: this.#reader.previous(call.previousId),
        ...this.#reader.external(call.email === undefined ? {} : { email: call.email }),
      };
      const profile = graph.attribute(ids, cause);
      if (profile === undefined) continue;
      profile.sources.add(source);
      setTrait(profile, cause.messageId, { ...cause, value: 1 });
      changed.set(profile.id, profile);
    }
    for (const [key, profile] of graph.bound) this.owners.set(key, profile);
    for (const key of graph.unbound) this.owners.delete(key);
    for (const [id, state] of changed) this.states.set(id, encodeProfile(state));
    for (const id of graph.removed) this.states.delete(id);
    for (const merge of graph.merges) this.merges.push(`${merge.rule} ${merge.identity.value}`);
    for (const name of ['unattributed', 'overLimit', 'conflicts', 'unproven', 'collisions'] as const)
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

/** The ids that calls have bound to a profile, without its traits. */
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
  isPublic: fc.boolean(),
});

describe('a merge that is refused', () => {
  const refusalsIn = (log: Log) =>
    log
      .profiles()
      .flatMap(({ userId, refusals }) =>
        (refusals?.samples ?? []).map(
          ({ rule, reason, position }) => `${userId} ${rule} ${reason} ${position}`,
        ),
      );

  test('is noted with the profile of its event: by rule, reason and event', () => {
    const log = new Log();
    log.slice([
      { userId: 'ann', anonymousId: 'd1', email: 'a@x' },
      { userId: 'bob', previousId: 'd1' },
      { userId: 'bob', email: 'a@x' },
      { userId: 'bob', previousId: 'ann', isPublic: true },
    ]);
    expect(refusalsIn(log)).toEqual([
      'bob alias belongs_to_another_user 1',
      'bob external belongs_to_another_user 2',
      'bob alias unproven 3',
    ]);
    expect(log.counts).toMatchObject({ conflicts: 2, unproven: 1 });
  });

  test('is none where an anonymous id stays with the user who had it first', () => {
    const log = new Log();
    log.slice([
      { userId: 'ann', anonymousId: 'd1' },
      { userId: 'bob', anonymousId: 'd1' },
    ]);
    expect(refusalsIn(log)).toEqual([]);
  });
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
          for (const { email, isPublic = false, ...ids } of calls) {
            const at = position++;
            model.take({
              ...ids,
              ...{ type: 'track', isPublic, source: isPublic ? PUBLIC_SOURCE : SERVER_SOURCE },
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

  test('the calls of one person make one profile, whichever arrives first, as long as the alias of a user comes behind its events', () => {
    const calls: Call[] = [
      { anonymousId: 'a1' },
      { anonymousId: 'a1' },
      { userId: 'ann', previousId: 'a1' },
      { userId: 'ann', anonymousId: 'a2', email: 'ann@example.com' },
      { userId: 'ann' },
      { anonymousId: 'a2' },
      { anonymousId: 'a3', email: 'ann@example.com' },
    ];
    const ids = ['anonymous a1', 'anonymous a2', 'anonymous a3', 'email ann@example.com'];
    fc.assert(
      fc.property(fc.shuffledSubarray(calls, { minLength: calls.length }), fc.nat(8), (shuffled, cut) => {
        const log = new Log();
        log.slice(shuffled.slice(0, cut));
        log.slice([...shuffled.slice(cut), { userId: 'anna', previousId: 'ann' }]);
        const [profile, ...others] = log.profiles();
        expect(others).toEqual([]);
        expect(profile!.userId).toBe('anna');
        expect(profile!.formerUserIds).toEqual(['ann']);
        expect(profile!.traits.size).toBe(calls.length + 1);
        const named = profile!.identities.map(({ kind, value }) => `${kind} ${value}`).sort();
        expect(named).toEqual([...ids, 'user ann', 'user anna'].sort());
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

  test('an id that was only ever an anonymousId or a previousId never joins two users', () => {
    const log = new Log();
    log.slice([
      { userId: 'ann', previousId: 'device' },
      { userId: 'bob', previousId: 'device' },
    ]);
    expect(told(log.profiles())).toEqual(
      sorted([
        ['ann', ['anonymous device', 'user ann'], ['m0']],
        ['bob', ['user bob'], ['m1']],
      ]),
    );
    expect(log.counts.conflicts).toBe(1);
    // A user of that name is a user of its own.
    log.slice([{ userId: 'device' }]);
    expect(log.profiles().map(({ userId }) => userId)).toEqual(['ann', 'bob', 'device']);
    expect(log.merges).toEqual([]);
  });

  test('an alias of ids that are joined already binds none of them in another way', () => {
    const device = new Log();
    device.slice([
      { userId: 'ann', anonymousId: 'd' },
      { userId: 'ann', previousId: 'd' },
      { userId: 'ann', previousId: 'ann' },
    ]);
    expect(told(device.profiles())).toEqual(
      sorted([['ann', ['anonymous d', 'user ann'], ['m0', 'm1', 'm2']]]),
    );
    const log = new Log();
    log.slice([{ userId: 'old' }, { userId: 'new', previousId: 'old' }]);
    const joined = told(log.profiles());
    log.slice([{ userId: 'old', previousId: 'new' }]);
    expect(told(log.profiles()).map(withoutTraits)).toEqual(joined.map(withoutTraits));
    expect(log.profiles()).toMatchObject([{ userId: 'new', formerUserIds: ['old'] }]);
  });

  test('with `alias: refuse` two users stay two, which is counted as a conflict', () => {
    const log = new Log({ ...SETTINGS, alias: 'refuse' });
    log.slice([{ userId: 'ann' }, { userId: 'anna', previousId: 'ann' }]);
    log.slice([{ anonymousId: 'd' }, { userId: 'anna', previousId: 'd' }]);
    expect(told(log.profiles())).toEqual(
      sorted([
        ['ann', ['user ann'], ['m0']],
        ['anna', ['anonymous d', 'user anna'], ['m1', 'm2', 'm3']],
      ]),
    );
    expect(log.counts.conflicts).toBe(1);
  });

  describe('of a client source', () => {
    const PUBLIC = { isPublic: true };

    test('an alias joins no user, whoever it names', () => {
      const log = new Log();
      log.slice([
        { userId: 'ann', anonymousId: 'a', email: 'ann@example.com' },
        { userId: 'bob' },
        { anonymousId: 'unseen' },
      ]);
      const before = told(log.profiles()).map(withoutTraits);
      for (const previousId of ['ann', 'bob', 'a', 'unseen', 'new', 'mallory'])
        log.slice([{ ...PUBLIC, userId: 'mallory', previousId }]);
      log.slice([{ ...PUBLIC, anonymousId: 'mallory-1', previousId: 'ann' }]);
      log.slice([{ ...PUBLIC, userId: 'mallory', email: 'ann@example.com' }]);
      const after = told(log.profiles()).map(withoutTraits);
      expect(after).toEqual(
        [...before, ['mallory', ['user mallory']], [null, ['anonymous mallory-1']]].sort((a, b) =>
          JSON.stringify(a) < JSON.stringify(b) ? -1 : 1,
        ),
      );
      expect(log.merges).toEqual([]);
      expect(log.counts.unproven).toBe(6);
    });

    test('an alias joins an anonymous id that the call has, or that the source has used', () => {
      const log = new Log();
      log.slice([{ ...PUBLIC, anonymousId: 'seen' }]);
      log.slice([{ ...PUBLIC, userId: 'ann', previousId: 'seen' }]);
      log.slice([{ ...PUBLIC, userId: 'bob', anonymousId: 'own', previousId: 'own' }]);
      expect(told(log.profiles())).toEqual(
        sorted([
          ['ann', ['anonymous seen', 'user ann'], ['m0', 'm1']],
          ['bob', ['anonymous own', 'user bob'], ['m2']],
        ]),
      );
      expect(log.counts).toMatchObject({ unproven: 0, conflicts: 0 });
    });

    test('ids never push out those of a server source; those of one event go first', () => {
      const log = new Log({ ...SETTINGS, limits: { anonymousIds: 3, externalIds: 1 } });
      log.slice([
        { userId: 'ann', anonymousId: 'server' },
        { ...PUBLIC, userId: 'ann', anonymousId: 'often' },
        { ...PUBLIC, userId: 'ann', anonymousId: 'often' },
      ]);
      for (let nth = 0; nth < 20; nth++)
        log.slice([{ ...PUBLIC, userId: 'ann', anonymousId: `flood-${nth}` }]);
      const idsOf = () => log.profiles().flatMap(({ identities }) => identities.map(({ value }) => value));
      expect(idsOf()).toEqual(['ann', 'server', 'often', 'flood-19']);
      expect(log.counts.overLimit).toBe(19);
      expect(log.owners.has(log.keyOf('anonymous', 'flood-18'))).toBe(false);
      // One that a server source names stays from then on.
      log.slice([{ userId: 'ann', anonymousId: 'often' }]);
      log.slice(['x', 'y'].map((anonymousId) => ({ userId: 'ann', anonymousId })));
      expect(idsOf()).toEqual(['ann', 'server', 'often', 'x']);
      expect(log.counts.overLimit).toBe(21);
    });
  });

  test.each([true, {}, [], 'half \ud800', 'x'.repeat(1025), 2 ** 53, 1.5e300])(
    'an external id that is %j binds nothing, and is counted',
    (value) => {
      const reader = new IdentityReader(countingHash(), SETTINGS);
      const { external, invalid } = reader.external({ email: value });
      expect([external.length, invalid]).toEqual([0, 1]);
      expect(reader.external({ email: null, other: value })).toEqual({ external: [], invalid: 0 });
    },
  );

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
    expect(log.counts).toEqual({ unattributed: 1, overLimit: 0, conflicts: 0, unproven: 0, collisions: 0 });
  });

  test('ids beyond the limits are not bound and are counted; userIds do not count', () => {
    const log = new Log({ ...SETTINGS, limits: { anonymousIds: 2, externalIds: 1 } });
    log.slice(['a', 'b', 'c'].map((anonymousId) => ({ userId: 'ann', anonymousId })));
    log.slice(['one', 'two'].map((email) => ({ userId: 'ann', email })));
    expect(log.counts.overLimit).toBe(2);
    log.slice([
      { anonymousId: 'c' },
      { userId: 'bob', anonymousId: 'e' },
      { userId: 'bob', previousId: 'ann' },
      { userId: 'cid' },
      { userId: 'ann', previousId: 'cid' },
    ]);
    expect(told(log.profiles())).toEqual(
      sorted([
        [
          'ann',
          ['anonymous a', 'anonymous b', 'email one', 'user ann', 'user cid'],
          [0, 1, 2, 3, 4, 8, 9].map((n) => `m${n}`),
        ],
        [undefined, ['anonymous c'], ['m5']],
        ['bob', ['anonymous e', 'user bob'], ['m6', 'm7']],
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
