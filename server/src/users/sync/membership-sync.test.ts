import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { AudienceDefinition, TraitDefinition } from '../../model/definition.ts';
import type { Event } from '../../model/event.ts';
import type { Json } from '../../model/json.ts';
import type { ProfileId } from '../../ports/profile-store.ts';
import {
  ANONYMOUS,
  mergeProfiles,
  newIdentity,
  newProfile,
  type ProfileState,
  USER,
} from '../identity/profile-state.ts';
import { MembershipSync, type Notification } from './membership-sync.ts';
import { NOTHING_SENT } from './sent.ts';

const NOW = Date.UTC(2026, 0, 1, 12);

const VIPS: AudienceDefinition = {
  id: 12,
  version: 3,
  kind: 'audience',
  name: 'VIP Users',
  key: 'vip_users',
  text: "trait('plan') = 'pro'",
  definition: { op: '=', value: { op: 'trait', name: 'plan' }, to: 'pro' },
  destinations: ['crm'],
  enabled: true,
  includeAnonymous: false,
};

const ORDERS: TraitDefinition = {
  ...{ id: 13, version: 1, kind: 'trait', name: 'Orders', key: 'orders', text: '', destinations: ['crm'] },
  enabled: true,
  definition: { op: 'event', type: 'track', name: 'Order', reduce: { op: 'count' } },
};

function syncOf(
  computations: readonly (AudienceDefinition | TraitDefinition)[],
  isSynced: (computation: number, profile: ProfileId) => boolean = () => true,
  deaf: ReadonlySet<string> = new Set(),
): MembershipSync {
  const sync = new MembershipSync({
    ...{ lineage: '1', isSynced },
    listenersOf: ({ destinations }) => ({
      connected: destinations,
      hearing: destinations.filter((name) => !deaf.has(name)),
    }),
  });
  sync.configure(computations);
  return sync;
}

function user(id: ProfileId, userId: string | undefined, ...anonymousIds: string[]): ProfileState {
  const state = newProfile(id);
  state.userId = userId;
  if (userId !== undefined) state.identities.push(newIdentity(USER, userId, NOW));
  for (const value of anonymousIds) state.identities.push(newIdentity(ANONYMOUS, value, NOW));
  return state;
}

/** As an evaluation would. */
function setValue(state: ProfileState, computation: number, value: Json, since = NOW): void {
  const known = state.computed.get(computation);
  if (known === undefined) state.computed.set(computation, { value, since, sent: NOTHING_SENT });
  else Object.assign(known, { value, since });
}

/** Does what a slice does with a profile that gets these values. */
function slice(
  sync: MembershipSync,
  state: ProfileState,
  now: number,
  values: Readonly<Record<number, Json>> = {},
): Event[] {
  const before = sync.before(state);
  for (const [id, value] of Object.entries(values)) setValue(state, Number(id), value);
  return eventsOf(sync.finish(state, [before], now));
}

/** Does what a slice does with two profiles that become one. */
function merge(
  sync: MembershipSync,
  [winner, loser]: readonly [ProfileState, ProfileState],
  now: number,
): { readonly merged: ProfileState; readonly events: Event[] } {
  const befores = [sync.before(winner), sync.before(loser)];
  const merged = mergeProfiles(winner, loser);
  return { merged, events: eventsOf(sync.finish(merged, befores, now)) };
}

function eventsOf(notifications: readonly Notification[]): Event[] {
  return notifications.map(({ json }) => JSON.parse(json) as Event);
}

function valuesOf(events: readonly Event[]): unknown[] {
  return events.map(({ userId, anonymousId, traits }) => [userId ?? anonymousId, ...Object.values(traits!)]);
}

describe('a change', () => {
  it('takes back what was told before a merge although a sync is under way', () => {
    let isWalked = true;
    const sync = syncOf([VIPS], () => isWalked);
    const [winner, loser] = [user(5, 'u1'), user(6, 'u2')];
    slice(sync, loser, NOW, { 12: true });
    slice(sync, loser, NOW + 1000);
    isWalked = false;
    expect(valuesOf(merge(sync, [winner, loser], NOW + 2000).events)).toEqual([['u2', false]]);
  });

  it('also goes to an anonymous member when the audience has no anonymous members any more', () => {
    const sync = syncOf([{ ...VIPS, includeAnonymous: true }]);
    const state = user(5, undefined, 'a1');
    slice(sync, state, NOW, { 12: true });
    expect(valuesOf(slice(sync, state, NOW + 1000))).toEqual([['a1', true]]);
    sync.configure([VIPS]);
    slice(sync, state, NOW + 2000, { 12: false });
    expect(valuesOf(slice(sync, state, NOW + 3000))).toEqual([['a1', false]]);
  });

  it('is an identify with the key, the class, the id and the time of the change', () => {
    const sync = syncOf([VIPS]);
    const state = user(5, 'u1');
    setValue(state, 12, true, NOW - 20);
    expect(slice(sync, state, NOW)).toEqual([]);
    expect(slice(sync, state, NOW + 1000)).toEqual([
      {
        messageId: `aud_12_v3_1.5.${NOW + 1000}`,
        type: 'identify',
        channel: 'server',
        userId: 'u1',
        traits: { vip_users: true },
        context: {
          personas: {
            computation_class: 'audience',
            computation_id: 'aud_12',
            computation_key: 'vip_users',
            sequence: NOW + 1000,
          },
        },
        integrations: {},
        timestamp: '2026-01-01T11:59:59.980Z',
        receivedAt: '2026-01-01T12:00:01.000Z',
      },
    ]);
  });

  it('waits up to a second for others of the same user and computation, which are one event', () => {
    const sync = syncOf([ORDERS]);
    const state = user(5, 'u1');
    for (const [after, orders] of [0, 300, 999].entries()) {
      expect(slice(sync, state, NOW + orders, { 13: after + 1 })).toEqual([]);
    }
    expect(sync.nextDue()).toBe(NOW + 1000);
    expect(sync.heldUntil(5)).toBe(NOW + 1000);
    expect(sync.due(NOW + 999)).toEqual([]);
    expect(sync.due(NOW + 1000)).toEqual([5]);
    expect(valuesOf(slice(sync, state, NOW + 1000))).toEqual([['u1', 3]]);
    expect(slice(sync, state, NOW + 5000)).toEqual([]);
    expect(sync.nextDue()).toBeUndefined();
    expect(sync.heldUntil(5)).toBeUndefined();
  });

  it('that is taken back within a second is told to nobody', () => {
    const sync = syncOf([VIPS]);
    const state = user(5, 'u1');
    slice(sync, state, NOW, { 12: true });
    expect(slice(sync, state, NOW + 500, { 12: false })).toEqual([]);
    expect(sync.due(NOW + 1000)).toEqual([]);
    expect(slice(sync, state, NOW + 9000)).toEqual([]);
  });

  it('to false goes only to those who were told true', () => {
    const sync = syncOf([VIPS]);
    const state = user(5, 'u1');
    slice(sync, state, NOW, { 12: false });
    expect(slice(sync, state, NOW + 2000)).toEqual([]);
    slice(sync, state, NOW + 3000, { 12: true });
    slice(sync, state, NOW + 4000);
    slice(sync, state, NOW + 5000, { 12: false });
    expect(valuesOf(slice(sync, state, NOW + 6000))).toEqual([['u1', false]]);
  });

  it('of a computed trait that becomes absent sends null, and a value false is a value', () => {
    const sync = syncOf([ORDERS]);
    const state = user(5, 'u1');
    const told: unknown[] = [];
    for (const [nth, value] of [false, null, 7].entries()) {
      setValue(state, 13, value);
      told.push(...slice(sync, state, NOW + nth * 3000));
      told.push(...slice(sync, state, NOW + nth * 3000 + 1000));
    }
    expect(valuesOf(told as Event[])).toEqual([
      ['u1', false],
      ['u1', null],
      ['u1', 7],
    ]);
  });

  it('of a disabled computation, of one without destinations and of one that is not synced yet is silent', () => {
    for (const sync of [
      syncOf([{ ...VIPS, enabled: false }]),
      syncOf([{ ...VIPS, destinations: [] }]),
      syncOf([VIPS], (_, profile) => profile < 5),
      syncOf([]),
    ]) {
      const state = user(5, 'u1');
      slice(sync, state, NOW, { 12: true });
      expect(slice(sync, state, NOW + 2000)).toEqual([]);
      expect(state.computed.get(12)!.sent.value).toBeUndefined();
    }
  });

  it('of a profile with anonymous ids alone is told only with includeAnonymous', () => {
    for (const [includeAnonymous, told] of [
      [false, []],
      [true, [['a1', true]]],
    ] as const) {
      const sync = syncOf([{ ...VIPS, includeAnonymous }]);
      const state = user(5, undefined, 'a2', 'a1');
      slice(sync, state, NOW, { 12: true });
      expect(valuesOf(slice(sync, state, NOW + 1000))).toEqual(told);
    }
  });

  it('waits once more after the wall clock was set back, and no longer', () => {
    const sync = syncOf([VIPS]);
    const state = user(5, 'u1');
    slice(sync, state, NOW, { 12: true });
    expect(valuesOf(slice(sync, state, NOW - 3_600_000))).toEqual([['u1', true]]);
  });
});

describe('a merge', () => {
  it('tells the former id false for each membership that it was told true, and the winner its own changes', () => {
    const sync = syncOf([VIPS, ORDERS]);
    const loser = told(sync, user(5, 'old'), { 12: true, 13: 4 });
    const winner = told(sync, user(6, 'new'), { 12: false, 13: 1 });
    const { merged, events } = merge(sync, [winner, loser], NOW);
    expect(valuesOf(events)).toEqual([['old', false]]);
    expect(slice(sync, merged, NOW + 1, { 12: true, 13: 5 })).toEqual([]);
    expect(valuesOf(slice(sync, merged, NOW + 1001))).toEqual([
      ['new', true],
      ['new', 5],
    ]);
    expect(sync.members()).toEqual({ 12: 1, 13: 1 });
  });

  it('tells an anonymous id false when its profile becomes that of a user', () => {
    const sync = syncOf([{ ...VIPS, includeAnonymous: true }]);
    const state = told(sync, user(5, undefined, 'a1'), { 12: true });
    const before = sync.before(state);
    state.userId = 'u1';
    expect(valuesOf(eventsOf(sync.finish(state, [before], NOW)))).toEqual([['a1', false]]);
    expect(valuesOf(slice(sync, state, NOW + 1000))).toEqual([['u1', true]]);
  });
});

describe('a first sync', () => {
  it('tells members at once, and later changes of those whom it has passed', () => {
    let passed = 0;
    const sync = syncOf([VIPS], (_, profile) => profile <= passed);
    const members = [1, 2, 3].map((id) => user(id, `u${id}`));
    for (const state of members) {
      slice(sync, state, NOW, { 12: state.id !== 2 });
    }
    const told: Event[] = [];
    for (const state of members) {
      const before = sync.before(state);
      passed = state.id;
      sync.visit(state.id, [{ id: 12, kind: 'new' }]);
      told.push(...eventsOf(sync.finish(state, [before], NOW)));
    }
    expect(valuesOf(told)).toEqual([
      ['u1', true],
      ['u3', true],
    ]);
    expect(sync.members()).toEqual({ 12: 2 });
    expect(slice(sync, members[0]!, NOW + 5000)).toEqual([]);
  });

  // Also one that was connected with another definition, or while all profiles are made anew.
  it.each(['destinations', 'edited', 'rebuilt'] as const)(
    'tells a new destination alone what the others know, with another messageId (%s)',
    (kind) => {
      const sync = syncOf([VIPS]);
      const state = told(sync, user(5, 'u1'), { 12: true });
      sync.configure([{ ...VIPS, destinations: ['crm', 'warehouse'] }]);
      sync.visit(5, [{ id: 12, kind, only: ['warehouse'] }]);
      expect(slice(sync, state, NOW)).toEqual([
        expect.objectContaining({
          messageId: `aud_12_v3_1.5.${NOW}`,
          traits: { vip_users: true },
          integrations: { All: false, warehouse: true },
        }),
      ]);
      expect(slice(sync, state, NOW + 5000)).toEqual([]);
    },
  );
});

describe('a destination that is new to an audience', () => {
  it('hears nothing of those who have left, whatever the others were told and though the audience was disabled', () => {
    const sync = syncOf([VIPS]);
    const [left, leaving] = [
      told(sync, user(5, 'u1'), { 12: true }),
      told(sync, user(6, 'u2'), { 12: true }),
    ];
    const both = { ...VIPS, destinations: ['crm', 'warehouse'] };
    sync.configure([{ ...both, enabled: false }]);
    for (const { id } of [left, leaving])
      sync.visit(id, [{ id: 12, kind: 'destinations', only: ['warehouse'] }]);
    expect(slice(sync, left, NOW, { 12: false })).toEqual([]);
    expect(slice(sync, leaving, NOW)).toEqual([]);
    sync.configure([both]);
    sync.visit(left.id, [{ id: 12, kind: 'enabled' }]);
    const toCrm = { traits: { vip_users: false }, integrations: { All: false, crm: true } };
    expect(slice(sync, left, NOW + 1000)).toMatchObject([toCrm]);
    setValue(leaving, 12, false);
    sync.visit(leaving.id, [{ id: 12, kind: 'enabled' }]);
    expect(slice(sync, leaving, NOW + 1000)).toMatchObject([toCrm]);
  });
});

describe('a new destination to which an event was on its way', () => {
  const BOTH = { ...VIPS, destinations: ['crm', 'erp'] };
  /** No walk has come to anybody: `erp` waits. */
  const waiting = new MembershipSync({
    ...{ lineage: '1', isSynced: () => true },
    listenersOf: () => ({ connected: ['crm'], hearing: ['crm'], waiting: ['erp'], ready: ['erp'] }),
  });
  waiting.configure([BOTH]);
  const uncertain = (state: ProfileState) =>
    waiting.uncertain(state, BOTH, { key: `user ${state.userId}`, to: ['erp'] });

  it('is told of a change that comes before the walk does', () => {
    const state = told(syncOf([VIPS]), user(5, 'u1'), { 12: true });
    uncertain(state);
    slice(waiting, state, NOW, { 12: false });
    expect(slice(waiting, state, NOW + 1000)).toMatchObject([{ integrations: { All: false, crm: true } }]);
    const sync = syncOf([BOTH]);
    sync.visit(5, [{ id: 12, kind: 'destinations', only: ['erp'] }]);
    expect(slice(sync, state, NOW + 2000)).toMatchObject([
      { traits: { vip_users: false }, integrations: { All: false, erp: true } },
    ]);
  });

  it('is told of somebody who goes, or becomes somebody else, before the walk comes', () => {
    const toBoth = { traits: { vip_users: false }, integrations: { All: false, crm: true, erp: true } };
    const gone = told(syncOf([VIPS]), user(5, 'u1'), { 12: true });
    uncertain(gone);
    expect(eventsOf(waiting.leave(gone, [waiting.before(gone)], NOW)!)).toMatchObject([toBoth]);
    const old = told(syncOf([VIPS]), user(6, 'old'), { 12: true });
    uncertain(old);
    const { events } = merge(waiting, [user(7, 'new', 'a1'), old], NOW);
    expect(events).toMatchObject([{ userId: 'old', ...toBoth }]);
  });
});

describe('a destination that an audience names again', () => {
  const BOTH = { ...VIPS, destinations: ['crm', 'erp'] };

  it('hears every member and who left, and counts as knowing what it was told until then', () => {
    const connected = ['crm', 'erp'];
    let hearing = ['crm', 'erp'];
    const sync = new MembershipSync({
      ...{ lineage: '1', isSynced: () => true },
      listenersOf: () => ({ connected, hearing }),
    });
    sync.configure([BOTH]);
    const ids = ['stays', 'leaves', 'comes', 'comes and goes'];
    const [stays, leaves, comes, goes] = ids.map((id, nth) => user(5 + nth, id)) as [
      ProfileState,
      ProfileState,
      ProfileState,
      ProfileState,
    ];
    for (const state of [stays, leaves]) told(sync, state, { 12: true });
    sync.configure([{ ...BOTH, destinations: ['crm'] }]);
    hearing = ['crm'];
    for (const state of [comes, goes]) told(sync, state, { 12: true });
    for (const state of [leaves, goes]) {
      slice(sync, state, NOW, { 12: false });
      slice(sync, state, NOW + 2000);
    }
    sync.configure([BOTH]);
    hearing = ['crm', 'erp'];
    const heard = [stays, leaves, comes, goes].flatMap((state) => {
      sync.visit(state.id, [{ id: 12, kind: 'destinations', back: ['erp'] }]);
      return slice(sync, state, NOW + 3000).map(({ userId, traits, integrations }) => [
        ...[userId, traits!['vip_users'], integrations],
      ]);
    });
    const toErp = { All: false, erp: true };
    expect(heard).toEqual([
      ['stays', true, toErp],
      ['leaves', false, toErp],
      ['comes', true, toErp],
    ]);
  });
});

describe('a destination that hears nothing for a while', () => {
  const BOTH = { ...VIPS, destinations: ['crm', 'erp'] };
  const MISSED = [{ id: 12, kind: 'missed' }] as const;

  /** Events that a walk sends of a profile. */
  function walk(sync: MembershipSync, state: ProfileState, now: number): unknown[] {
    sync.visit(state.id, MISSED);
    return slice(sync, state, now).map(({ traits, integrations }) => [traits!['vip_users'], integrations]);
  }

  it('is told what it missed, and the others are not', () => {
    const deaf = new Set(['erp']);
    const sync = syncOf([BOTH], () => true, deaf);
    const [entered, came] = [user(5, 'u1'), user(6, 'u2')];
    told(sync, entered, { 12: true });
    expect(walk(sync, entered, NOW)).toEqual([]);
    deaf.clear();
    expect(walk(sync, entered, NOW + 1)).toEqual([[true, { All: false, erp: true }]]);
    expect(walk(sync, entered, NOW + 2)).toEqual([]);
    told(sync, came, { 12: true });
    expect(walk(sync, came, NOW)).toEqual([]);
  });

  it('is told `false` of those who left, if it knew them, and nothing of those who came and went', () => {
    const deaf = new Set<string>();
    const sync = syncOf([BOTH], () => true, deaf);
    const [left, passed] = [told(sync, user(5, 'u1'), { 12: true }), user(6, 'u2')];
    deaf.add('erp');
    told(sync, passed, { 12: true });
    for (const state of [left, passed]) {
      slice(sync, state, NOW, { 12: false });
      slice(sync, state, NOW + 1000);
    }
    deaf.clear();
    expect(walk(sync, left, NOW + 2000)).toEqual([[false, { All: false, erp: true }]]);
    expect(walk(sync, passed, NOW + 2000)).toEqual([]);
  });

  it('is told the next change before the walk comes, if it is one to it', () => {
    const deaf = new Set(['erp']);
    const sync = syncOf([BOTH], () => true, deaf);
    const state = told(sync, user(5, 'u1'), { 12: true });
    deaf.clear();
    slice(sync, state, NOW, { 12: false });
    // `erp` was never told `true`.
    expect(slice(sync, state, NOW + 1000)).toMatchObject([{ integrations: { All: false, crm: true } }]);
    expect(walk(sync, state, NOW + 2000)).toEqual([]);
    slice(sync, state, NOW + 3000, { 12: true });
    expect(slice(sync, state, NOW + 4000)).toMatchObject([{ traits: { vip_users: true }, integrations: {} }]);
  });

  it('is told of the former id of a user who was merged meanwhile', () => {
    const deaf = new Set<string>();
    const sync = syncOf([BOTH], () => true, deaf);
    const loser = told(sync, user(5, 'old'), { 12: true });
    const winner = user(6, 'new', 'a1');
    deaf.add('erp');
    const { merged, events } = merge(sync, [winner, loser], NOW);
    expect(events).toMatchObject([{ userId: 'old', traits: { vip_users: false }, integrations: {} }]);
    deaf.clear();
    sync.visit(merged.id, MISSED);
    expect(slice(sync, merged, NOW + 1000)).toMatchObject([
      { userId: 'old', traits: { vip_users: false }, integrations: { All: false, erp: true } },
    ]);
    expect(walk(sync, merged, NOW + 2000)).toEqual([]);
  });

  it('is told what is so where nobody knows whether it got the last event', () => {
    const sync = syncOf([BOTH]);
    const state = told(sync, user(5, 'u1'), { 12: true });
    sync.uncertain(state, BOTH, { key: 'user u1', to: ['erp'] });
    expect(walk(sync, state, NOW)).toEqual([[true, { All: false, erp: true }]]);
    sync.uncertain(state, BOTH, { key: 'user before', to: ['erp', 'other'] });
    expect(walk(sync, state, NOW)).toEqual([[false, { All: false, erp: true }]]);
    expect(walk(sync, state, NOW)).toEqual([]);
  });
});

describe('events of one user', () => {
  it('have rising sequences and times that never fall, whatever the clock does', () => {
    const sync = syncOf([ORDERS]);
    const state = user(5, 'u1');
    const events: Event[] = [];
    for (const [nth, now] of [NOW, NOW + 9000, NOW - 60_000, NOW - 120_000, NOW + 20_000].entries()) {
      setValue(state, 13, nth, now - 5000);
      events.push(...slice(sync, state, now), ...slice(sync, state, now + 70_000));
    }
    const sequences = events.map(({ context }) => (context['personas'] as { sequence: number }).sequence);
    const times = events.map(({ timestamp }) => timestamp);
    expect(sequences).toHaveLength(5);
    expect(sequences).toEqual([...new Set(sequences)].sort((a, b) => a - b));
    expect(times).toEqual([...times].sort());
    expect(new Set(events.map(({ messageId }) => messageId)).size).toBe(5);
  });

  it('of two anonymous members who become one, say nothing of the id that stays', () => {
    const sync = syncOf([{ ...VIPS, includeAnonymous: true }]);
    const [first, second] = [user(5, undefined, 'a1'), user(6, undefined, 'a2')];
    for (const state of [first, second]) told(sync, state, { 12: true });
    const { merged, events } = merge(sync, [second, first], NOW);
    expect(valuesOf(events)).toEqual([['a2', false]]);
    expect(slice(sync, merged, NOW + 1, { 12: true })).toEqual([]);
    expect(slice(sync, merged, NOW + 5000)).toEqual([]);
    slice(sync, merged, NOW + 6000, { 12: false });
    expect(valuesOf(slice(sync, merged, NOW + 7000))).toEqual([['a1', false]]);
  });
});

/** The profile after destinations were told these values. */
function told(sync: MembershipSync, state: ProfileState, values: Record<number, Json>): ProfileState {
  slice(sync, state, NOW - 10_000, values);
  slice(sync, state, NOW - 9000);
  return state;
}

describe('any course of changes', () => {
  it('is told so that the receiver ends up with the value, without repeats, at most once a second', () => {
    const steps = fc.array(
      fc.record({ wait: fc.integer({ min: 0, max: 1500 }), value: fc.constantFrom(null, 1, 2, 3, 'x') }),
      { maxLength: 40 },
    );
    fc.assert(
      fc.property(steps, (course) => {
        const sync = syncOf([ORDERS]);
        const state = user(5, 'u1');
        const received: { value: Json; at: number }[] = [];
        let now = NOW;
        const look = (values?: Record<number, Json>) => {
          for (const { traits, receivedAt } of slice(sync, state, now, values))
            received.push({ value: traits!['orders']!, at: Date.parse(receivedAt) });
        };
        for (const { wait, value } of course) {
          for (const end = now + wait; now < end; now = Math.min(end, sync.nextDue() ?? end)) {
            if (sync.due(now).length > 0) look();
            if (sync.nextDue() === now) break;
          }
          look({ 13: value });
        }
        for (let due = sync.nextDue(); due !== undefined; due = sync.nextDue()) {
          now = Math.max(now, due);
          sync.due(now);
          look();
        }
        const value = state.computed.get(13)?.value ?? null;
        expect(received.at(-1)?.value ?? null).toEqual(value);
        for (const [nth, one] of received.entries()) {
          expect(one.value).not.toEqual(received[nth - 1]?.value ?? null);
          if (nth > 0) expect(one.at - received[nth - 1]!.at).toBeGreaterThanOrEqual(1000);
        }
        expect(sync.members()).toEqual(
          course.length === 0 ? {} : expect.objectContaining(value === null ? {} : { 13: 1 }),
        );
      }),
      { numRuns: 300 },
    );
  });
});
