import { describe, expect, it } from 'vitest';
import type { IdJoin } from '../../src/model/regulation.ts';
import type { JoinedIds } from '../../src/ports/users.ts';
import { type SurveyDependencies, surveyUsers } from '../../src/regulations/survey.ts';
import { batch, event } from '../conformance/batches.ts';
import { START } from '../conformance/harness.ts';
import { openMemoryStore } from '../memory-store/store.ts';

const [SERVER, CLIENT] = [1, 3];
const of = (userId: string, messageId: string, fields = {}) =>
  event(messageId, SERVER, { userId, ...fields });
const alias = (userId: string, previousId: string, source: number) =>
  event(`${previousId} to ${userId}`, source, { type: 'alias', userId, previousId });

type NewEvents = ReturnType<typeof event>[];

/** Surveys users of whom profiles know what `joined` says. */
async function survey(
  userIds: readonly string[],
  events: NewEvents,
  options: {
    readonly joined?: Readonly<Record<string, JoinedIds>>;
    readonly confirm?: boolean;
    readonly erased?: readonly number[];
  } = {},
) {
  const { log } = openMemoryStore();
  for (const one of events) await log.append(batch([one]));
  await log.eraseAt(options.erased ?? []);
  const { joined = {}, confirm = false } = options;
  const nobody = (userId: string) => ({ userId, formerUserIds: [], anonymousIds: [], sources: [] });
  const users: SurveyDependencies['users'] = {
    joinedIds: async (ids) => ids.map((id) => joined[id] ?? nobody(id)),
    usersOf: async (ids) =>
      ids.map((id) => Object.values(joined).find(({ anonymousIds }) => anonymousIds.includes(id))?.userId),
  };
  const identities = { blocked: [], alias: 'join' } as const;
  const terms = { log, users, identities, trusted: [SERVER], confirm, checkStop: () => {} };
  return (await surveyUsers(userIds, terms)).subjects;
}

/** A profile of three users, whom aliases have joined one after the other. */
function profileOf(...userIds: readonly string[]): Record<string, JoinedIds> {
  const [userId = '', ...formerUserIds] = userIds;
  const joins = userIds.map((value): IdJoin => ({ kind: 'user', value, at: START }));
  const one = { userId, formerUserIds, anonymousIds: [], sources: [SERVER], joins };
  return Object.fromEntries(userIds.map((id) => [id, one]));
}

describe('the ids that are joined to a user', () => {
  it('are named with the event that joined them: by rule, source, messageId and time', async () => {
    const events = [
      of('ann', 'a', { anonymousId: 'phone' }),
      of('ann', 'b', { anonymousId: 'phone' }),
      of('old', 'c'),
      alias('ann', 'old', SERVER),
      alias('ann', 'cookie', SERVER),
    ];
    const [ann] = await survey(['ann'], events);
    const at = expect.any(Number);
    expect(ann?.joins).toEqual([
      { kind: 'user', value: 'old', rule: 'alias', source: SERVER, messageId: 'old to ann', at },
      { kind: 'anonymous', value: 'phone', rule: 'identify', source: SERVER, messageId: 'a', at },
      { kind: 'anonymous', value: 'cookie', rule: 'alias', source: SERVER, messageId: 'cookie to ann', at },
      { kind: 'anonymous', value: 'old', rule: 'alias', source: SERVER, messageId: 'old to ann', at },
    ]);
  });

  it('are named by the merge that their profile remembers, and by the time alone where the event is gone', async () => {
    const merge = { rule: 'external', messageId: 'gone', at: START, position: 0 } as const;
    const joins: IdJoin[] = [
      { kind: 'anonymous', value: 'laptop', ...merge, source: CLIENT },
      { kind: 'anonymous', value: 'phone', at: START },
    ];
    const profile = {
      userId: 'ann',
      formerUserIds: [],
      anonymousIds: ['laptop', 'phone'],
      sources: [1],
      joins,
    };
    const [ann] = await survey(['ann'], [of('ann', 'a')], { joined: { ann: profile } });
    expect(ann?.joins).toEqual([
      {
        ...{ kind: 'anonymous', value: 'laptop', rule: 'external', source: CLIENT },
        ...{ messageId: 'gone', at: START },
      },
      { kind: 'anonymous', value: 'phone', at: START },
    ]);
  });

  it('learn the source of an earlier merge from its event', async () => {
    const join = { rule: 'alias', messageId: 'old to ann', at: START, position: 2 } as const;
    const profile = profileOf('ann', 'old');
    const joins: IdJoin[] = [{ kind: 'user', value: 'old', ...join }];
    const joined = { ann: { ...profile['ann']!, joins } };
    const events = [of('old', 'a'), alias('ann', 'old', SERVER)];
    const [ann] = await survey(['ann'], events, { joined });
    expect(ann?.joins?.[0]).toMatchObject({ value: 'old', messageId: 'old to ann', source: SERVER });
  });
});

describe('a userId that client sources alone have joined', () => {
  const events = [
    of('ann', 'a', { anonymousId: 'phone' }),
    of('bob', 'b', { anonymousId: 'tablet' }),
    of('cleo', 'c'),
    alias('ann', 'cleo', SERVER),
    alias('ann', 'bob', CLIENT),
  ];
  const joined = profileOf('ann', 'bob', 'cleo');
  for (const one of Object.values(joined)) Object.assign(one, { anonymousIds: ['phone', 'tablet'] });

  it('is left out with the ids that it alone has used, and is named', async () => {
    const [ann] = await survey(['ann'], events, { joined });
    expect(ann).toMatchObject({ formerUserIds: ['cleo'], anonymousIds: ['phone', 'cleo'] });
    expect(ann?.leftOut).toEqual([
      {
        ...{ kind: 'user', value: 'bob', rule: 'alias', source: CLIENT },
        ...{ messageId: 'bob to ann', at: expect.any(Number) },
      },
    ]);
  });

  it('leaves out all others where it is the one that was asked for', async () => {
    const [bob] = await survey(['bob'], events, { joined });
    expect(bob).toMatchObject({ userId: 'bob', formerUserIds: [], anonymousIds: ['tablet'] });
    expect(bob?.leftOut?.map(({ value }) => value).sort()).toEqual(['ann', 'cleo']);
  });

  it('is taken along where that is confirmed, and where it is named too', async () => {
    const [ann] = await survey(['ann'], events, { joined, confirm: true });
    expect(ann?.formerUserIds.toSorted()).toEqual(['bob', 'cleo']);
    expect(ann).not.toHaveProperty('leftOut');
    const both = await survey(['ann', 'bob'], events, { joined });
    expect(both.every((one) => !('leftOut' in one))).toBe(true);
  });

  it('is taken along where a server source has said the same', async () => {
    const [ann] = await survey(['ann'], [...events, alias('bob', 'ann', SERVER)], { joined });
    expect(ann).not.toHaveProperty('leftOut');
  });

  it('is recognised by the merge where the event is gone, and taken along where nothing says who joined it', async () => {
    const merge = { rule: 'alias', messageId: 'bob to ann', at: START, position: 5, source: CLIENT } as const;
    const joins: IdJoin[] = [{ kind: 'user', value: 'bob', ...merge }];
    const aliases = [{ previousId: 'bob', userId: 'ann', ...merge }];
    const known = { ...joined, ann: { ...joined['ann']!, joins, aliases } };
    const [ann] = await survey(['ann'], events, { joined: known, erased: [5] });
    expect(ann?.leftOut).toMatchObject([
      { value: 'bob', source: CLIENT, messageId: 'bob to ann', at: START },
    ]);
    const [unknown] = await survey(['ann'], events, { joined, erased: [5] });
    expect(unknown?.formerUserIds).toContain('bob');
  });

  it('is taken along where a server source has joined it by an alias without a userId', async () => {
    const merge = { rule: 'alias', messageId: 'm', at: START, position: 5, source: SERVER } as const;
    const aliases = [{ previousId: 'bob', userId: 'ann', ...merge }];
    const known = { ...joined, ann: { ...joined['ann']!, aliases } };
    const [ann] = await survey(['ann'], events, { joined: known });
    expect(ann).not.toHaveProperty('leftOut');
  });

  it('is taken along although a client source says later what servers have joined, or nobody knows who', async () => {
    const said = [of('ann', 'a'), of('bob', 'b'), of('cleo', 'c'), alias('bob', 'ann', CLIENT)];
    const merge = { messageId: 'm', position: 0, previousId: 'bob' };
    const byServers = [
      { ...merge, userId: 'ann', source: SERVER },
      { ...merge, userId: 'cleo', source: SERVER },
    ];
    for (const aliases of [byServers, [merge]]) {
      const known = { ...joined, ann: { ...joined['ann']!, aliases } };
      const [ann] = await survey(['ann'], said, { joined: known });
      expect(ann?.formerUserIds.toSorted()).toEqual(['bob', 'cleo']);
      expect(ann).not.toHaveProperty('leftOut');
    }
  });

  it('is left out by the event of a merge that does not say its source', async () => {
    const aliases = [{ previousId: 'bob', messageId: 'bob to ann', position: 5 }];
    const known = { ...joined, ann: { ...joined['ann']!, aliases } };
    const [ann] = await survey(['ann'], events, { joined: known });
    expect(ann?.leftOut?.map(({ value }) => value)).toEqual(['bob']);
  });

  it('is left out through an id that was only ever an anonymous one', async () => {
    const shared = [of('ann', 'a'), of('bob', 'b'), alias('ann', 'd1', CLIENT), alias('bob', 'd1', CLIENT)];
    const [bob] = await survey(['bob'], shared, { joined: profileOf('bob', 'ann', 'd1') });
    expect(bob).toMatchObject({ formerUserIds: [], anonymousIds: [] });
    expect(bob?.leftOut?.map(({ value }) => value).sort()).toEqual(['ann', 'd1']);
  });
});
