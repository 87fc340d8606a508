import { describe } from 'vitest';
import { type Breach, itNotices } from '../../test/support/invariants.ts';
import type { MergeRecord, ProfileChanges, UsersCursor } from '../ports/profile-store.ts';
import { checkChanges } from './check-changes.ts';

const BEFORE: UsersCursor = { position: 5, clock: 0, nextProfile: 3, nextOutbox: 7 };
const NOTHING: ProfileChanges = {
  ...{ cursor: BEFORE, put: [], removed: [], bind: [], unbind: [], timers: [], firedTimers: [], outbox: [] },
  merges: [],
};
const STATE = new Uint8Array();
const MERGE: MergeRecord = {
  ...{ winner: 1, loser: 2, rule: 'alias', identity: { kind: 'user_id', value: 'a' }, messageId: 'm' },
  ...{ at: 0, position: 0 },
};

const changes =
  (fields: Partial<ProfileChanges>, cursor: Partial<UsersCursor> = {}) =>
  () =>
    checkChanges({ ...NOTHING, ...fields, cursor: { ...BEFORE, ...cursor } }, BEFORE);

const BREACHES: readonly Breach[] = [
  ['a slice does not go back in the log', changes({}, { position: 4 })],
  ['numbers of profiles are not given again', changes({}, { nextProfile: 2 })],
  ['the outbox has a number for each of its entries', changes({}, { nextOutbox: 8 })],
  [
    'entries of the outbox follow each other',
    changes({ outbox: [{ sequence: 8, profile: 1, json: '{}' }] }, { nextOutbox: 8 }),
  ],
  ['a profile that is stored was given its number', changes({ put: [{ id: 3, state: STATE }] })],
  ['a profile that was merged away is not stored', changes({ put: [{ id: 2, state: STATE }], removed: [2] })],
  ['an id is bound to a profile that was given its number', changes({ bind: [{ key: 1, profile: 3 }] })],
  [
    'no id is bound to a profile that was merged away',
    changes({ bind: [{ key: 1, profile: 2 }], removed: [2] }),
  ],
  ['an id that is bound is not let go as well', changes({ bind: [{ key: 1, profile: 2 }], unbind: [1] })],
  ['a profile is merged into another one', changes({ merges: [{ ...MERGE, loser: 1 }], removed: [1] })],
  ['a profile that was merged into another is gone', changes({ merges: [MERGE] })],
  ['a timer is of a whole minute', changes({ timers: [{ minute: 0.5, profile: 1 }] })],
];

describe('a slice of profiles', () => itNotices(BREACHES));
