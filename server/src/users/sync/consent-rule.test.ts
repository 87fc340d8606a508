import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { quoted } from '../../../../clients/e2e/sentences/quoted.ts';
import { isConsented } from '../../model/consent.ts';
import type { AudienceDefinition, TraitDefinition } from '../../model/definition.ts';
import type { Event } from '../../model/event.ts';
import { isObject, type Json, type JsonObject } from '../../model/json.ts';
import { newIdentity, newProfile, type ProfileState, USER } from '../identity/profile-state.ts';
import { ConsentRule } from './consent-rule.ts';
import { MembershipSync } from './membership-sync.ts';
import { NOTHING_SENT } from './sent.ts';

const NOW = Date.UTC(2026, 0, 1, 12);
const [STRICT, OTHER] = [7, 8];

const VIPS: AudienceDefinition = {
  ...{ id: 12, version: 1, kind: 'audience', name: 'VIPs', key: 'vips', text: '', enabled: true },
  definition: { op: 'group', id: 'g' },
  ...{ destinations: ['ads', 'ops'], includeAnonymous: false },
};
const SPENT: TraitDefinition = {
  ...{ id: 13, version: 1, kind: 'trait', name: 'Spent', key: 'spent', text: '', enabled: true },
  definition: { op: 'event', type: 'track', name: 'Order', reduce: { op: 'count' } },
  destinations: ['ads', 'ops'],
};

/** `ads` asks for consent, `ops` does not. */
const RULE = new ConsentRule({ asking: [['ads', ['Ads', 'Stats']]], requiredSources: [STRICT] });

function syncOf(...computations: (AudienceDefinition | TraitDefinition)[]): MembershipSync {
  const sync = new MembershipSync({
    ...{ lineage: '1', isSynced: () => true, consent: RULE },
    listenersOf: ({ destinations }) => ({ connected: destinations, hearing: destinations }),
  });
  sync.configure(computations);
  return sync;
}

function user(source = OTHER): ProfileState {
  const state = newProfile(5);
  state.userId = 'u1';
  state.identities.push(newIdentity(USER, 'u1', NOW));
  state.sources.add(source);
  return state;
}

/** Slices with these changes, and a later one in which what waited is told. */
function course(sync: MembershipSync, state: ProfileState) {
  let now = NOW;
  const slice = (change: () => void) => {
    const before = sync.before(state);
    change();
    return sync.finish(state, [before], now);
  };
  return (change: { value?: Json; consent?: readonly string[] }, id = VIPS.id) => {
    const notifications = slice(() => {
      const { value, consent } = change;
      const computed = state.computed.get(id) ?? { value: null, since: 0, sent: NOTHING_SENT };
      if (value !== undefined) state.computed.set(id, { ...computed, value, since: now });
      if (consent !== undefined) state.consent = { categories: consent, at: now, messageId: 'm' };
    });
    // Longer than anything waits.
    now += 600_000;
    notifications.push(...slice(() => {}));
    return notifications.map(({ json }) => JSON.parse(json) as Event);
  };
}

/** The value of an event for each of its destinations, as the plan of the event lets it through. */
function heard({ integrations, context, traits }: Event): Record<string, Json> {
  const { consent } = context;
  const preferences = isObject(consent) ? (consent['categoryPreferences'] as JsonObject) : undefined;
  const [value] = Object.values(traits!) as [Json];
  return Object.fromEntries(
    ['ads', 'ops']
      .filter((name) => integrations[name] ?? integrations['All'] ?? true)
      .filter((name) => name !== 'ads' || isConsented(preferences, ['Ads', 'Stats']))
      .map((name) => [name, value]),
  );
}

describe('a change of an audience', () => {
  const carries = quoted(
    'The event carries these preferences in `context.consent`, and its plan asks them again.',
  );
  it(carries, () => {
    const then = course(syncOf(VIPS), user());
    const [first, ...more] = then({ value: true, consent: ['Ads'] });
    expect(more).toEqual([]);
    expect(heard(first!)).toEqual({ ops: true });
    expect(first!.context['consent']).toEqual({ categoryPreferences: { Ads: true } });
    const [told, ...others] = then({ consent: ['Ads', 'Stats'] });
    expect(others).toEqual([]);
    expect(heard(told!)).toEqual({ ads: true });
    expect(told!.context['consent']).toEqual({ categoryPreferences: { Ads: true, Stats: true } });
    expect(then({ consent: ['Ads', 'Stats', 'x'] })).toEqual([]);
  });

  const takenBack = quoted(
    'A `false` for a membership that was told, a `null` for a trait, and `delete` are never withheld.',
  );
  it(takenBack, () => {
    const then = course(syncOf(VIPS), user());
    then({ value: true, consent: ['Ads', 'Stats'] });
    expect(then({ consent: [] })).toEqual([]);
    const [left] = then({ value: false });
    expect(heard(left!)).toEqual({ ads: false, ops: false });
    const [again] = then({ value: true });
    expect(heard(again!)).toEqual({ ops: true });
    expect(heard(then({ value: false })[0]!)).toEqual({ ops: false });
  });

  const withNone = quoted(
    'With none, users whom a source with `consent: required` has seen have consented to nothing, and all others are told of.',
  );
  it(withNone, () => {
    const [free] = course(syncOf(VIPS), user())({ value: true });
    expect(heard(free!)).toEqual({ ads: true, ops: true });
    expect(free!.context).not.toHaveProperty('consent');
    const [strict] = course(syncOf(VIPS), user(STRICT))({ value: true });
    expect(heard(strict!)).toEqual({ ops: true });
    expect(strict!.context['consent']).toEqual({ categoryPreferences: {} });
  });

  it(quoted('What is withheld counts as not told, and is told when consent comes.'), () => {
    const only = { ...VIPS, destinations: ['ads'] };
    const then = course(syncOf(only), user());
    expect(then({ value: true, consent: [] })).toEqual([]);
    expect(then({ value: false })).toEqual([]);
    expect(then({ value: true })).toEqual([]);
    expect(then({ consent: ['Ads', 'Stats'] }).map(heard)).toEqual([{ ads: true, ops: true }]);
  });
});

it('a computed trait is told with consent alone, and taken back without', () => {
  const then = course(syncOf(SPENT), user());
  expect(then({ value: 1, consent: [] }, SPENT.id).map(heard)).toEqual([{ ops: 1 }]);
  expect(then({ consent: ['Ads', 'Stats'] }, SPENT.id).map(heard)).toEqual([{ ads: 1 }]);
  expect(then({ value: 2, consent: [] }, SPENT.id).map(heard)).toEqual([{ ops: 2 }]);
  expect(then({ value: null }, SPENT.id).map(heard)).toEqual([{ ads: null, ops: null }]);
});

it('whatever changes, a destination knows the truth as far as it is allowed to, and hears nothing twice', () => {
  const step = fc.record(
    { value: fc.boolean(), consent: fc.subarray(['Ads', 'Stats', 'other']) },
    { requiredKeys: [] },
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 12 }), fc.constantFrom(STRICT, OTHER), (steps, source) => {
      const state = user(source);
      const then = course(syncOf(VIPS), state);
      const known: Record<string, Json | undefined> = {};
      let value = false;
      for (const change of steps) {
        const events = then(change);
        value = change.value ?? value;
        const isAllowed = RULE.allowed(['ads'], state).length > 0;
        for (const [name, told] of events.flatMap((event) => Object.entries(heard(event)))) {
          expect(told, `${name} hears news`).not.toBe(known[name] ?? false);
          if (name === 'ads' && told === true) expect(isAllowed).toBe(true);
          known[name] = told;
        }
        expect(known['ops'] ?? false).toBe(value);
        if (isAllowed || !value) expect(known['ads'] ?? false).toBe(value);
      }
    }),
  );
});
