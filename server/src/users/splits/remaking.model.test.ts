import { hash as digest } from 'node:crypto';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { emptyContents } from '../../../test/memory-store/contents.ts';
import { openMemoryLogReader } from '../../../test/memory-store/log-reader.ts';
import { openMemoryProfiles } from '../../../test/memory-store/profile-store.ts';
import { handClock } from '../../../test/support/clock.ts';
import { amountOf } from '../../../test/support/runs.ts';
import { isoTime } from '../../model/time.ts';
import { Computations } from '../computation/computations.ts';
import { DEFAULT_IDENTITY_SETTINGS, type IdentityHash } from '../contract.ts';
import { createProcessor } from '../processor.ts';

const START = Date.parse('2026-11-22T12:00:00.000Z');
const [SERVER, WEBSITE] = [1, 2];
const USERS = ['u0', 'u1', 'u2', 'u3'];
const DEVICES = ['d0', 'd1', 'd2'];

const hash: IdentityHash = (kind, value) =>
  Number.parseInt(digest('sha256', `${kind} ${value}`).slice(0, 13), 16);
const silent = { debug() {}, info() {}, warn() {}, error() {} };
const some = <T>(...values: readonly T[]) => fc.option(fc.constantFrom(...values), { nil: undefined });

const call = fc.record({
  source: fc.constantFrom(SERVER, SERVER, WEBSITE),
  type: fc.constantFrom('identify', 'identify', 'track', 'alias'),
  userId: some(...USERS),
  anonymousId: some(...DEVICES),
  previousId: fc.constantFrom(...USERS, ...DEVICES),
});

const identity = fc.oneof(
  fc.constantFrom(...USERS).map((value) => ({ kind: 'user', value })),
  fc.constantFrom(...DEVICES).map((value) => ({ kind: 'anonymous', value })),
);
const pair = fc.tuple(fc.constantFrom(...USERS), identity).filter(([user, { value }]) => user !== value);

/** Users of a log; `at`: how many of its events are applied when the ids are kept apart. */
async function profilesOf(
  calls: readonly { readonly [field: string]: unknown }[],
  apart: readonly (readonly [number, number])[],
  at: number,
) {
  const contents = emptyContents();
  const clock = handClock(START);
  const reader = openMemoryLogReader(contents);
  const computations = new Computations({ reader, clock });
  const store = openMemoryProfiles();
  const processor = createProcessor({ reader, store, clock, logger: silent, hash, computations });
  const configure = (apart: readonly (readonly [number, number])[]) =>
    processor.configure({
      ...{ computations: [], identities: DEFAULT_IDENTITY_SETTINGS, hearing: [] },
      ...{ serverSources: [SERVER], retention: { protectedSources: [SERVER] }, apart },
    });
  await configure(at === 0 ? apart : []);
  for (const [nth, { source, type, previousId, ...ids }] of calls.entries()) {
    if (nth === at) {
      while ((await processor.slice()).hasMore);
      await configure(apart);
    }
    const time = isoTime(START - 1_000_000 + nth);
    const fields =
      type === 'alias' ? { previousId } : type === 'identify' ? { traits: { [`t${nth}`]: nth } } : {};
    const json = JSON.stringify({
      ...{ messageId: `m${nth}`, type, ...ids, ...fields },
      ...{ context: {}, timestamp: time, receivedAt: time },
    });
    const record = { messageId: '', userId: undefined, receivedAt: 0, owed: [], skipped: [] };
    contents.events.set(++contents.lastPosition, { ...record, source: source as number, json });
  }
  if (at >= calls.length) {
    while ((await processor.slice()).hasMore);
    await configure(apart);
  }
  while ((await processor.slice()).hasMore);
  const shown = [];
  for (const id of [
    ...USERS.map((userId) => ({ userId })),
    ...DEVICES.map((anonymousId) => ({ anonymousId })),
  ]) {
    const profile = await processor.profile(id);
    if (profile === undefined) shown.push(undefined);
    else {
      const { userId, formerUserIds, anonymousIds, traits, sources, firstSeenAt, lastSeenAt } = profile;
      shown.push({ userId, formerUserIds, anonymousIds, traits, sources, firstSeenAt, lastSeenAt });
    }
  }
  return shown;
}

test('profiles that are taken apart are those that the log makes where their ids are kept apart from the beginning', async () => {
  // With several, one may hand an id to a user whom another has kept from it meanwhile: a rebuild puts that
  // right.
  const splits = fc.array(pair, { minLength: 1, maxLength: 1 });
  await fc.assert(
    fc.asyncProperty(fc.array(call, { maxLength: 14 }), splits, fc.nat(20), async (calls, pairs, at) => {
      const apart = pairs.map(([user, { kind, value }]) => [hash('user', user), hash(kind, value)] as const);
      expect(await profilesOf(calls, apart, at + 1)).toEqual(await profilesOf(calls, apart, 0));
    }),
    { numRuns: amountOf({ gate: 200, long: 20_000 }) },
  );
});
