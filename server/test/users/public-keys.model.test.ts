import { hash as digest } from 'node:crypto';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { JsonObject } from '../../src/model/json.ts';
import { isoTime, SECOND } from '../../src/model/time.ts';
import { surveyUsers } from '../../src/regulations/survey.ts';
import { Computations } from '../../src/users/computation/computations.ts';
import { DEFAULT_IDENTITY_SETTINGS, type IdentityHash, KEEP_PROFILES } from '../../src/users/contract.ts';
import { createProcessor } from '../../src/users/processor.ts';
import { emptyContents } from '../memory-store/contents.ts';
import { openMemoryLogReader } from '../memory-store/log-reader.ts';
import { emptyProfiles, openMemoryProfiles } from '../memory-store/profile-store.ts';
import { openMemoryStore } from '../memory-store/store.ts';
import { handClock } from '../support/clock.ts';
import { amountOf } from '../support/runs.ts';

const START = Date.parse('2026-11-22T12:00:00.000Z');
const [SERVER, WEBSITE] = [1, 2];
/** Few, so that they are reached. */
const IDENTITIES = {
  ...DEFAULT_IDENTITY_SETTINGS,
  externalIds: ['email'],
  limits: { anonymousIds: 3, externalIds: 2 },
};
const SILENT = { debug() {}, info() {}, warn() {}, error() {} };

const hash: IdentityHash = (kind, value) =>
  Number.parseInt(digest('sha256', `${kind} ${value}`).slice(0, 13), 16);

interface Call {
  readonly isHostile: boolean;
  readonly type: 'identify' | 'track' | 'group' | 'alias';
  readonly userId?: string | undefined;
  readonly anonymousId?: string | undefined;
  readonly previousId?: string | undefined;
  readonly groupId?: string | undefined;
  readonly traits?: JsonObject | undefined;
}

/** Stands for a text of 8,000 characters. */
const LONG = 'long';
const USERS = ['u1', 'u2', 'u3'];
const DEVICES = ['a1', 'a2', 'a3', 'a4'];

/** Calls of servers of the operator: an alias names a device, or a user who has an event of its own. */
const honest = fc
  .record(
    {
      isHostile: fc.constant(false),
      type: fc.constantFrom('identify' as const, 'track' as const, 'group' as const, 'alias' as const),
      userId: fc.constantFrom(...USERS),
      anonymousId: fc.constantFrom(...DEVICES),
      previousId: fc.constantFrom(...USERS, ...DEVICES),
      groupId: fc.constantFrom('g1', 'g2'),
      traits: fc.record(
        { plan: fc.constantFrom('free', 'pro'), age: fc.nat(3), email: fc.constantFrom('e1', 'e2') },
        { requiredKeys: [] },
      ),
    },
    { requiredKeys: ['isHostile', 'type'] },
  )
  .filter(({ userId, anonymousId }) => userId !== undefined || anonymousId !== undefined);

/**
 * Calls of anybody with the key of a website: about honest users too, and with none of their anonymous ids as
 * its own.
 */
const hostile = fc
  .record(
    {
      isHostile: fc.constant(true),
      type: fc.constantFrom('identify' as const, 'track' as const, 'group' as const, 'alias' as const),
      userId: fc.constantFrom(...USERS, 'h1'),
      anonymousId: fc.constantFrom('x1', 'x2', 'x3', 'x4', 'x5'),
      previousId: fc.constantFrom(...USERS, ...DEVICES, 'x1', 'x2', 'h1'),
      groupId: fc.constantFrom('x-group', 'g1'),
      traits: fc.record(
        {
          plan: fc.constantFrom('x-plan', null),
          email: fc.constantFrom('e1', 'e2', 'e3'),
          ...Object.fromEntries(Array.from({ length: 9 }, (_, nth) => [`x-${nth}`, fc.constant(LONG)])),
        },
        { requiredKeys: [] },
      ),
    },
    { requiredKeys: ['isHostile', 'type'] },
  )
  .filter(({ userId, anonymousId }) => userId !== undefined || anonymousId !== undefined);

/**
 * State of the honest users after these calls, without what hostile calls have given to the userId that they
 * name.
 */
async function lifeOf(calls: readonly Call[], foreign: ReadonlySet<string>): Promise<unknown> {
  const contents = emptyContents();
  const clock = handClock(START);
  const reader = openMemoryLogReader(contents);
  const processor = createProcessor({
    ...{ reader, store: openMemoryProfiles(emptyProfiles()), clock, logger: SILENT, hash },
    computations: new Computations({ reader, clock }),
  });
  await processor.configure({
    computations: [],
    identities: IDENTITIES,
    serverSources: [SERVER],
    hearing: [],
    retention: KEEP_PROFILES,
  });
  const named = new Set<string>();
  for (const [nth, { isHostile, type, previousId, groupId, traits, ...ids }] of calls.entries()) {
    if (!isHostile && type === 'alias' && !DEVICES.includes(previousId ?? '') && !named.has(previousId ?? ''))
      continue;
    if (!isHostile && ids.userId !== undefined) named.add(ids.userId);
    const at = isoTime(START - 1000 * SECOND + nth);
    const fields = {
      group: { groupId },
      alias: { previousId },
      identify: {
        traits:
          traits &&
          Object.fromEntries(
            Object.entries(traits).map(([name, value]) => [name, value === LONG ? 'x'.repeat(8000) : value]),
          ),
      },
      track: { event: 'Seen' },
    }[type];
    const event = {
      messageId: `m${nth}`,
      type,
      context: {},
      ...ids,
      ...fields,
      timestamp: at,
      receivedAt: at,
    };
    contents.events.set(++contents.lastPosition, {
      ...{
        source: isHostile ? WEBSITE : SERVER,
        messageId: `m${nth}`,
        userId: ids.userId,
        owed: [],
        skipped: [],
      },
      ...{ receivedAt: clock.monotonic(), json: JSON.stringify(event) },
    });
  }
  while ((await processor.slice()).hasMore);
  const { log } = openMemoryStore({ contents });
  const survey = {
    log,
    users: processor,
    identities: IDENTITIES,
    trusted: [SERVER],
    confirm: false,
    checkStop: () => {},
  };
  const isOwn = (id: string) => !id.startsWith('x');
  return await Promise.all(
    [...named].sort().map(async (userId) => {
      const profile = (await processor.profile({ userId }))!;
      const [subject] = (await surveyUsers([userId], survey)).subjects;
      return {
        userId: profile.userId,
        formerUserIds: profile.formerUserIds,
        anonymousIds: profile.anonymousIds.filter(isOwn),
        externalIds: profile.externalIds,
        traits: Object.entries(profile.traits).filter(([name]) => !foreign.has(name)),
        groups: profile.groups.filter((group) => !foreign.has(group)),
        erasedWith: [...subject!.formerUserIds, ...subject!.anonymousIds.filter(isOwn)].sort(),
      };
    }),
  );
}

/**
 * Servers have joined three users, one of them by the id of a device alone; a public key then says the same
 * of two of them.
 */
const JOINED_BEFORE: Call[] = [
  { isHostile: false, type: 'identify', userId: 'u1', anonymousId: 'a4' },
  { isHostile: false, type: 'identify', userId: 'u3' },
  { isHostile: false, type: 'alias', anonymousId: 'a4', previousId: 'u3' },
  { isHostile: false, type: 'alias', userId: 'u2', previousId: 'u3' },
  { isHostile: true, type: 'alias', userId: 'u3', previousId: 'u1' },
];

/**
 * Names of traits and groups in hostile calls: whom they name, or whose anonymous id they bind, has them too.
 */
function givenBy(calls: readonly Call[]): Set<string> {
  const all = calls.filter(({ isHostile }) => isHostile);
  return new Set(all.flatMap(({ traits = {}, groupId }) => [...Object.keys(traits), groupId ?? '']));
}

test('whoever has a public key changes nothing of what servers say of honest users, and joins and erases nobody', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.oneof(honest, hostile), { maxLength: 60, size: 'max' }), async (calls) => {
      const given = givenBy(calls as Call[]);
      const alone = (calls as Call[]).filter(({ isHostile }) => !isHostile);
      expect(await lifeOf(calls as Call[], given)).toEqual(await lifeOf(alone, given));
    }),
    { numRuns: amountOf({ gate: 150, long: 10_000 }), examples: [[JOINED_BEFORE]] },
  );
});
