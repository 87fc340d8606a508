import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { AudienceDefinition, TraitDefinition } from '../model/definition.ts';
import type { Event } from '../model/event.ts';
import type { Json } from '../model/json.ts';
import type { ProfileId } from '../ports/profile-store.ts';
import { MembershipSync, type Notification } from './membership-sync.ts';
import { ANONYMOUS, newIdentity, newProfile, type ProfileState, USER } from './profile-state.ts';

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
): MembershipSync {
  const sync = new MembershipSync({ lineage: '1', isSynced });
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
  if (known === undefined) state.computed.set(computation, { value, since, told: undefined, transition: 0 });
  else Object.assign(known, { value, since });
}

/** What a slice does with a profile that gets these values. */
function slice(
  sync: MembershipSync,
  state: ProfileState,
  now: number,
  values: Readonly<Record<number, Json>> = {},
): Event[] {
  sync.opened(state);
  for (const [id, value] of Object.entries(values)) setValue(state, Number(id), value);
  return eventsOf(sync.notify(state, now));
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
    expect(valuesOf(eventsOf(sync.merging(winner, loser, NOW + 2000)))).toEqual([['u2', false]]);
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
    sync.opened(state);
    setValue(state, 12, true, NOW - 20);
    expect(sync.notify(state, NOW)).toEqual([]);
    expect(slice(sync, state, NOW + 1000)).toEqual([
      {
        messageId: 'aud_12_v3_1.5.1',
        type: 'identify',
        channel: 'server',
        userId: 'u1',
        traits: { vip_users: true },
        context: {
          personas: {
            computation_class: 'audience',
            computation_id: 'aud_12',
            computation_key: 'vip_users',
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
      expect(state.computed.get(12)!.told).toBeUndefined();
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
    sync.opened(loser);
    sync.opened(winner);
    expect(valuesOf(eventsOf(sync.merging(winner, loser, NOW)))).toEqual([['old', false]]);
    setValue(winner, 12, true);
    setValue(winner, 13, 5);
    expect(eventsOf(sync.notify(winner, NOW))).toEqual([]);
    expect(valuesOf(slice(sync, winner, NOW + 1000))).toEqual([
      ['new', true],
      ['new', 5],
    ]);
    expect(sync.members()).toEqual({ 12: 1, 13: 1 });
  });

  it('tells an anonymous id false before its profile becomes that of a user', () => {
    const sync = syncOf([{ ...VIPS, includeAnonymous: true }]);
    const state = told(sync, user(5, undefined, 'a1'), { 12: true });
    sync.opened(state);
    expect(valuesOf(eventsOf(sync.renaming(state, NOW)))).toEqual([['a1', false]]);
    state.userId = 'u1';
    sync.notify(state, NOW);
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
      sync.opened(state);
      passed = state.id;
      sync.visit(state.id, [{ id: 12, kind: 'new' }]);
      told.push(...eventsOf(sync.notify(state, NOW)));
    }
    expect(valuesOf(told)).toEqual([
      ['u1', true],
      ['u3', true],
    ]);
    expect(sync.members()).toEqual({ 12: 2 });
    expect(slice(sync, members[0]!, NOW + 5000)).toEqual([]);
  });

  it('tells a new destination alone what the others know, with another messageId', () => {
    const sync = syncOf([VIPS]);
    const state = told(sync, user(5, 'u1'), { 12: true });
    sync.visit(5, [{ id: 12, kind: 'destinations', only: ['warehouse'] }]);
    expect(slice(sync, state, NOW)).toEqual([
      expect.objectContaining({
        messageId: 'aud_12_v3_1.5.2',
        traits: { vip_users: true },
        integrations: { All: false, warehouse: true },
      }),
    ]);
    expect(slice(sync, state, NOW + 5000)).toEqual([]);
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
        now += 3000;
        sync.due(now);
        look();
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
