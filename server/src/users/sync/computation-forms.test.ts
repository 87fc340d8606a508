import { describe, expect, it } from 'vitest';
import { quoted } from '../../../../clients/e2e/sentences/quoted.ts';
import type { Computation } from '../../model/definition.ts';
import type { ComputationForm } from '../../model/delivery-policy.ts';
import { hearsOfComputations } from '../../model/destination.ts';
import type { Json } from '../../model/json.ts';
import { newIdentity, newProfile, type ProfileState, USER } from '../identity/profile-state.ts';
import { computationEvent, noticeIn, type ToldChange } from './computation-event.ts';
import { ComputationForms } from './computation-forms.ts';
import { MembershipSync } from './membership-sync.ts';
import { NOTHING_SENT } from './sent.ts';

const NOW = Date.UTC(2026, 0, 1, 12);

const VIPS: Computation = {
  ...{ id: 12, version: 1, kind: 'audience', name: 'VIPs', key: 'vips', text: '', enabled: true },
  definition: { op: 'group', id: 'g' },
  ...{ destinations: ['ads', 'ops', 'list'], includeAnonymous: false },
};

function user(userId: string, traits: Readonly<Record<string, Json>> = {}): ProfileState {
  const state = newProfile(5);
  state.userId = userId;
  state.identities.push(newIdentity(USER, userId, NOW));
  for (const [name, value] of Object.entries(traits))
    state.traits.set(name, { value, at: NOW, messageId: 'm', isPublic: false });
  return state;
}

const CHANGE: ToldChange = {
  ...{ computation: VIPS, recipient: { userId: 'u' }, value: true, at: NOW, now: NOW },
  ...{ sequence: NOW, number: '1.5.9' },
};

/** The events of a change, for `ads` with this form, `list` as a track, and `ops` without one. */
function eventsOf(form: ComputationForm, state: ProfileState | undefined, change: Partial<ToldChange> = {}) {
  const forms = new ComputationForms([
    ['ads', form],
    ['list', { as: 'track' }],
  ]);
  const changes = forms.inForms({ ...CHANGE, ...change }, { to: ['ads', 'ops', 'list'], user: state });
  return changes.map(computationEvent);
}

describe('a change that destinations hear in several forms', () => {
  const share = quoted(
    'Events of one change share their `sequence`, and each has its own `messageId` and goes to the destinations of its form alone.',
  );
  it(share, () => {
    const events = eventsOf({ as: 'both', space: 's' }, user('u'));
    const told = events.map(({ type, messageId, integrations }) => [type, messageId, integrations]);
    expect(told).toEqual([
      ['identify', 'aud_12_v1_1.5.9', { All: false, ads: true }],
      ['track', 'aud_12_v1_1.5.9.2', { All: false, ads: true }],
      ['identify', 'aud_12_v1_1.5.9.3', { All: false, ops: true }],
      ['track', 'aud_12_v1_1.5.9.4', { All: false, list: true }],
    ]);
    const sequences = events.map(({ context }) => (context['personas'] as { sequence: number }).sequence);
    expect(new Set(sequences)).toEqual(new Set([NOW]));
  });

  it('is one event for destinations of one form, and the usual one where none of them asks', () => {
    const changes = (forms: ComputationForms) =>
      forms.inForms({ ...CHANGE, only: undefined }, { to: ['ads', 'ops', 'list'], user: user('u') });
    const same = new ComputationForms(['ads', 'ops', 'list'].map((name) => [name, { as: 'track' }]));
    expect(changes(same)).toHaveLength(1);
    expect(changes(new ComputationForms())).toEqual([CHANGE]);
    expect(changes(new ComputationForms([['another', { as: 'both' }]]))).toEqual([CHANGE]);
  });

  it('has the value under its key, whatever traits go with it', () => {
    const said = { vips: 'x', audience_key: 'y', plan: 'pro', gone: null, __proto__x: 1 };
    const traits = [...Object.keys(said), '__proto__', 'absent'];
    const [identify, track] = eventsOf({ as: 'both', traits, email: true }, user('u', said));
    const others = { plan: 'pro', __proto__x: 1 };
    expect(identify!.traits).toEqual({ vips: true, audience_key: 'y', ...others });
    expect(track!.properties).toEqual({ vips: true, audience_key: 'vips', ...others });
    for (const event of [identify, track])
      expect(noticeIn(JSON.stringify(event))).toMatchObject({ key: 'vips', value: true });
  });

  const beside = quoted(
    'Traits that `traits` names stand beside the value, except where something is taken back.',
  );
  it(beside, () => {
    const form: ComputationForm = { email: true, traits: ['plan'] };
    const state = user('u', { plan: 'pro', email: 'a@x.example' });
    expect(eventsOf(form, state)[0]!.traits).toEqual({ plan: 'pro', email: 'a@x.example', vips: true });
    const left = eventsOf(form, state, { value: false });
    expect(left[0]!.traits).toEqual({ email: 'a@x.example', vips: false });
    expect(eventsOf(form, undefined)[0]!.traits).toEqual({ vips: true });
  });
});

it('what an audience took back from a former id says nothing of the user who has won', () => {
  const sync = new MembershipSync({
    ...{ lineage: '1', isSynced: () => true, forms: new ComputationForms([['ads', { email: true }]]) },
    listenersOf: () => ({ connected: ['ads'], hearing: ['ads'] }),
  });
  sync.configure([{ ...VIPS, destinations: ['ads'] }]);
  const state = user('old', { email: 'a@x.example' });
  const told: object[] = [];
  const slice = (now: number, change: () => void) => {
    const before = sync.before(state);
    change();
    for (const { json } of sync.finish(state, [before], now)) {
      const { userId, traits } = JSON.parse(json) as { userId: string; traits: object };
      told.push({ userId, traits });
    }
  };
  slice(NOW, () => state.computed.set(VIPS.id, { value: true, since: NOW, sent: NOTHING_SENT }));
  slice(NOW + 600_000, () => {});
  slice(NOW + 1_200_000, () => {
    state.userId = 'new';
    state.identities.push(newIdentity(USER, 'new', NOW));
  });
  slice(NOW + 1_800_000, () => {});
  expect(told).toEqual([
    { userId: 'old', traits: { email: 'a@x.example', vips: true } },
    { userId: 'old', traits: { vips: false } },
    { userId: 'new', traits: { email: 'a@x.example', vips: true } },
  ]);
});

it.each([
  ['identify', { types: ['identify'] }, true],
  ['identify', { types: ['track'] }, false],
  ['track', { types: ['identify'] }, false],
  ['track', { types: ['track'], events: ['Audience *', 'Trait Computed'] }, true],
  ['track', { events: ['Audience Entered', 'Trait Computed'] }, false],
  ['both', { types: ['identify'] }, true],
  ['both', { types: ['track'], events: ['*'] }, true],
  ['both', { types: ['page'] }, false],
] as const)('a destination with the form %s and the filter %j hears: %s', (as, filter, isHearing) => {
  expect(hearsOfComputations({ enabled: true, filter, computations: { as } })).toBe(isHearing);
  expect(hearsOfComputations({ enabled: false, filter, computations: { as } })).toBe(false);
});
