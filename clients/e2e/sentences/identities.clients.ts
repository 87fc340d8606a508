import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { send } from '../../../server/test/support/calls.ts';
import { type Driver, libraries, librariesBesideTheServer } from '../library.ts';
import { quoted } from './quoted.ts';
import { type Body, bodiesAt, type Call, deletionsAt, Scene } from './scene.ts';

const { missing } = libraries();
const tried = librariesBesideTheServer(3);
for (const line of missing) console.log(line);

interface Profile extends Body {
  readonly userId?: string;
  readonly formerUserIds: readonly string[];
  readonly anonymousIds: readonly string[];
  readonly externalIds: Readonly<Record<string, readonly string[]>>;
  readonly traits: Body;
  readonly merges: readonly Body[];
}

/** The traits say which calls counted for whom. */
const identify = (ids: Body, traits: Body, more: Body = {}): Call => [
  'identify',
  { ...ids, traits, ...more },
];

/** spec/specification.md, "Identities", with calls that each of our clients makes. */
describe.each(tried)('the $name client', (library) => {
  let scene: Scene;
  let website: Driver;
  beforeAll(async () => {
    const identities = {
      externalIds: ['email'],
      limit: 1000,
      blocked: ['null', 'undefined', 'anonymous', '-1', '0', 'kiosk'],
    };
    scene = await Scene.open(library, { more: { identities, profiles: 'on' } });
    website = await scene.client('wk');
  });
  afterAll(() => scene.close());

  /** The profile as the calls so far have made it; undefined where there is none. */
  async function profile(path: string): Promise<Profile | undefined> {
    await scene.settle(website);
    const { status, answer } = await scene.ask('GET', `profiles${path}`);
    return status === 200 ? (answer as Profile) : undefined;
  }

  it(
    quoted(
      'An alias belongs between anonymous calls and the first `identify`: anonymous actions, `alias` from the anonymous id to the known one, `identify`, actions under the known id.',
      'The two keys of an alias are written with a space.',
      'An alias has no `userId`.',
    ),
    async () => {
      await scene.define('audiences', 'Viewers', "event('Viewed').count() >= 2");
      await scene.send(
        website,
        ['track', { anonymousId: 'ann-device', event: 'Viewed' }],
        ['alias', { previousId: 'ann-device', userId: 'ann' }],
        ['identify', { userId: 'ann', traits: { name: 'Ann' } }],
        ['track', { userId: 'ann', event: 'Viewed' }],
      );
      await scene.untilTold('viewers', ['ann', true]);
      expect(await profile('/ann')).toMatchObject({ anonymousIds: ['ann-device'], traits: { name: 'Ann' } });
      expect(await profile('?anonymousId=ann-device')).toMatchObject({ userId: 'ann' });
      const isAlias = (body: Body) => body['type'] === 'alias' && body['User ID'] === 'ann';
      await scene.crm.until(() => bodiesAt(scene.crm).some(isAlias));
      const alias = bodiesAt(scene.crm).find(isAlias)!;
      expect(alias).toMatchObject({ version: 1, 'Previous ID': 'ann-device' });
      expect(Object.keys(alias).filter((key) => key !== 'anonymousId')).toEqual([
        ...['version', 'type', 'Previous ID', 'User ID', 'messageId', 'context', 'timestamp'],
      ]);
    },
  );

  it(
    quoted(
      '`format: canonical`.',
      'The body is the event as it is stored, with `previousId` and `userId` for an alias.',
      'It never has a write key.',
    ),
    async () => {
      const tracks = (await scene.api('GET', 'destinations/archive'))['settings'] as Body;
      await scene.api('PATCH', 'destinations/archive', { settings: { ...tracks, filter: null } });
      await scene.send(website, ['alias', { previousId: 'arc-device', userId: 'arc' }]);
      const isAlias = (body: Body) => body['userId'] === 'arc';
      await scene.archive.until(() => bodiesAt(scene.archive).some(isAlias));
      const alias = bodiesAt(scene.archive).find(isAlias)!;
      expect(alias).toMatchObject({ type: 'alias', previousId: 'arc-device', userId: 'arc' });
      const { data } = (await scene.api('GET', `events/${alias['messageId']}`)) as { data: Body[] };
      expect(data[0]!['event']).toEqual(alias);
      expect(JSON.stringify(alias)).not.toContain('"wk"');
    },
  );

  it(
    quoted(
      'A profile is one user: a `userId`, the anonymous and external ids that belong to it, and at most 1,000 ids in all.',
      'An id beyond that is not bound, and two profiles with more ids together are not merged.',
      'Both are counted.',
    ),
    async () => {
      const overLimit = async () => {
        const text = await (
          await fetch(`${scene.url}/metrics`, { headers: { authorization: 'Bearer t0ken' } })
        ).text();
        return Number(/^millrace_profiles_identities_total\{result="over_limit"\} (\d+)/m.exec(text)?.[1]);
      };
      const before = await overLimit();
      const device = (nth: number) => `bob-device-${nth}`;
      const calls = Array.from({ length: 998 }, (_, nth) =>
        identify({ userId: 'bob', anonymousId: device(nth) }, { nth }),
      );
      await scene.send(website, identify({ userId: 'bob' }, { email: 'bob@example.com' }), ...calls);
      expect(await profile('/bob')).toMatchObject({ externalIds: { email: ['bob@example.com'] } });
      await scene.send(website, identify({ userId: 'bob', anonymousId: device(998) }, { nth: 998 }));
      const full = await profile('/bob');
      expect(full?.anonymousIds).toHaveLength(998);
      expect(full?.anonymousIds).not.toContain(device(998));
      // The event counts for its userId all the same.
      expect(full?.traits).toMatchObject({ nth: 998 });
      expect(await overLimit()).toBe(before + 1);
      await scene.send(website, identify({ userId: 'bob-2' }, { b: 2 }), [
        'alias',
        { previousId: 'bob-2', userId: 'bob' },
      ]);
      expect((await profile('/bob'))?.formerUserIds).toEqual([]);
      expect((await profile('/bob-2'))?.userId).toBe('bob-2');
      expect(await overLimit()).toBeGreaterThan(before + 1);
    },
  );

  it(
    quoted(
      'An event with a `userId` counts for that user.',
      'An event without one counts for whoever its `anonymousId` belongs to, and for a new profile when that is no one.',
    ),
    async () => {
      await scene.send(
        website,
        identify({ userId: 'cid', anonymousId: 'cid-device' }, { a: 1 }),
        identify({ anonymousId: 'cid-device' }, { b: 2 }),
        identify({ userId: 'cleo', anonymousId: 'cid-device' }, { c: 3 }),
        identify({ anonymousId: 'no-ones-device' }, { d: 4 }),
      );
      expect((await profile('/cid'))?.traits).toEqual({ a: 1, b: 2 });
      expect((await profile('/cleo'))?.traits).toEqual({ c: 3 });
      const anonymous = await profile('?anonymousId=no-ones-device');
      expect(anonymous).toMatchObject({ anonymousIds: ['no-ones-device'], traits: { d: 4 } });
      expect(anonymous).not.toHaveProperty('userId');
    },
  );

  it(
    quoted(
      '`identify` and `track` never join two different `userId`s.',
      'Only an `alias` does: the new id wins, and the profile remembers the previous one as a former id.',
      'Suppressing or deleting one of them means both.',
    ),
    async () => {
      await scene.send(
        website,
        identify({ userId: 'dan-1', anonymousId: 'dan-device' }, { a: 1 }),
        identify({ userId: 'dan-2', anonymousId: 'dan-device' }, { b: 2 }),
        ['track', { userId: 'dan-2', anonymousId: 'dan-device', event: 'Viewed' }],
      );
      expect(await profile('/dan-1')).toMatchObject({ userId: 'dan-1', formerUserIds: [], traits: { a: 1 } });
      expect(await profile('/dan-2')).toMatchObject({ userId: 'dan-2', formerUserIds: [], traits: { b: 2 } });
      await scene.send(website, ['alias', { previousId: 'dan-1', userId: 'dan-2' }]);
      const merged = await profile('/dan-1');
      expect(merged).toMatchObject({ userId: 'dan-2', formerUserIds: ['dan-1'], traits: { a: 1, b: 2 } });
      await scene.receipt(await scene.regulate('SUPPRESS_WITH_DELETE', 'dan-1'));
      for (const userId of ['dan-1', 'dan-2']) {
        expect(deletionsAt(scene.crm, userId)).toHaveLength(1);
        expect(await profile(`/${userId}`)).toBeUndefined();
      }
      const before = await scene.discarded('website', 'suppressed');
      await scene.send(website, identify({ userId: 'dan-1' }, {}), identify({ userId: 'dan-2' }, {}));
      // The counts of a request that stores nothing come with the next commit.
      await scene.untilShown('ledger', ({ sources }) => {
        const { discarded } = (sources as Record<string, Body>)['website']!;
        return (discarded as Record<string, number>)['suppressed'] === before + 2;
      });
    },
  );

  it(
    quoted(
      'The first user to appear with an anonymous id, in the order of the log, keeps it.',
      "A profile without a `userId` that has it becomes that user's.",
      'An alias does not take an anonymous id away from another user.',
    ),
    async () => {
      await scene.send(
        website,
        identify({ anonymousId: 'eve-device' }, { seen: 'before' }),
        identify({ userId: 'eve', anonymousId: 'eve-device' }, { name: 'Eve' }),
        identify({ userId: 'thief', anonymousId: 'eve-device' }, {}),
        ['alias', { previousId: 'eve-device', userId: 'thief' }],
      );
      expect(await profile('?anonymousId=eve-device')).toMatchObject({
        userId: 'eve',
        traits: { seen: 'before', name: 'Eve' },
      });
      expect(await profile('/thief')).toMatchObject({ anonymousIds: [], formerUserIds: [] });
    },
  );

  it(
    quoted(
      'An `alias` binds its previous id as a former `userId` and as an anonymous id, where these are free: it does not say which it was, and its events may come later.',
      'An alias of ids that are joined already changes nothing.',
    ),
    async () => {
      await scene.send(
        website,
        ['alias', { previousId: 'fay-0', userId: 'fay' }],
        identify({ anonymousId: 'fay-0' }, { a: 1 }),
        identify({ userId: 'fay-0' }, { b: 2 }),
      );
      const joined = await profile('/fay');
      expect(joined).toMatchObject({
        formerUserIds: ['fay-0'],
        anonymousIds: ['fay-0'],
        traits: { a: 1, b: 2 },
      });
      await scene.send(website, ['alias', { previousId: 'fay', userId: 'fay-0' }]);
      const { userId, formerUserIds, anonymousIds, merges } = (await profile('/fay-0'))!;
      expect({ userId, formerUserIds, anonymousIds, merges }).toEqual({
        userId: 'fay',
        formerUserIds: ['fay-0'],
        anonymousIds: ['fay-0'],
        merges: joined!.merges,
      });
    },
  );

  it(
    quoted(
      'An alias without a `userId` joins to its `anonymousId`.',
      'Without a `userId` its `anonymousId` is the value of `User ID`.',
    ),
    async () => {
      // Our clients refuse it: an alias of theirs needs both ids.
      const alias = { previousId: 'gil-1', anonymousId: 'gil-2' };
      expect(await website.call('alias', { ...alias, messageId: 'gil-0' })).toMatchObject({ ok: false });
      expect((await send(scene.url, '/v1/alias', { type: 'alias', ...alias })).status).toBe(200);
      await scene.send(website, identify({ anonymousId: 'gil-1' }, { a: 1 }));
      expect((await profile('?anonymousId=gil-2'))?.traits).toEqual({ a: 1 });
      const isAlias = (body: Body) => body['Previous ID'] === 'gil-1';
      await scene.crm.until(() => bodiesAt(scene.crm).some(isAlias));
      expect(bodiesAt(scene.crm).find(isAlias)).toMatchObject({ 'User ID': 'gil-2', anonymousId: 'gil-2' });
    },
  );

  it(
    quoted(
      'Traits that the configuration names as external ids join a profile without a `userId` to another one.',
      'They never join two `userId`s.',
      'Each merge is recorded with its rule and its event.',
    ),
    async () => {
      const email = 'hal@example.com';
      await scene.send(
        website,
        identify({ userId: 'hal' }, { email }),
        identify({ anonymousId: 'hal-device' }, { email, a: 1 }, { messageId: 'hal-joins' }),
        identify({ userId: 'hal-too' }, { email, b: 2 }),
      );
      expect(await profile('/hal')).toMatchObject({
        anonymousIds: ['hal-device'],
        externalIds: { email: [email] },
        traits: { a: 1 },
        merges: [{ rule: 'external', messageId: 'hal-joins' }],
      });
      expect(await profile('/hal-too')).toMatchObject({ userId: 'hal-too', traits: { b: 2 }, merges: [] });
      expect((await profile('/hal-too'))?.traits).not.toHaveProperty('a');
    },
  );

  it(
    quoted(
      'These values join nothing: `null`, `undefined`, `anonymous`, `-1`, `0`, the empty text, and texts of zeros.',
      'The list can be configured.',
    ),
    async () => {
      const values = [
        'null',
        'undefined',
        'anonymous',
        '-1',
        '0',
        '00000000-0000-0000-0000-000000000000',
        'kiosk',
      ];
      for (const value of values) {
        await scene.send(
          website,
          identify({ userId: `ivy-${value}`, anonymousId: value }, { a: 1 }),
          identify({ userId: `jim-${value}`, anonymousId: value }, { b: 2 }),
          identify({ anonymousId: value }, { c: 3 }),
        );
      }
      for (const value of values) {
        const { status, answer } = await scene.ask('GET', `profiles/ivy-${value}`);
        // The last calls may not be applied yet; `profile` waits for them.
        const shown = status === 200 ? (answer as Profile) : await profile(`/ivy-${value}`);
        expect([value, shown?.anonymousIds, shown?.traits]).toEqual([value, [], { a: 1 }]);
      }
      expect(await profile('?anonymousId=kiosk')).toBeUndefined();
      // The empty text is no id at all: a client leaves it out, and the server refuses it.
      await scene.send(website, identify({ userId: 'kim', anonymousId: '' }, {}));
      expect((await profile('/kim'))?.anonymousIds).toEqual([]);
    },
  );

  it(
    quoted(
      'For each trait the latest time wins.',
      'Where times are equal the `messageId` decides, and a time in the future counts as the time of arrival.',
      'Traits therefore come out the same whichever event arrives first.',
    ),
    async () => {
      const then = '2026-01-02T03:04:05.000Z';
      const calls = (userId: string): Call[] => [
        identify({ userId }, { plan: 'early', seats: 1 }, { timestamp: '2026-01-01T00:00:00.000Z' }),
        identify({ userId }, { plan: 'lower' }, { timestamp: then, messageId: `${userId}-1` }),
        identify({ userId }, { plan: 'higher' }, { timestamp: then, messageId: `${userId}-9` }),
      ];
      await scene.send(website, ...calls('lea'));
      await scene.send(website, ...calls('mia').reverse());
      for (const path of ['/lea', '/mia'])
        expect((await profile(path))?.traits).toEqual({ plan: 'higher', seats: 1 });
      const tomorrow = new Date(Date.now() + 86_400_000).toISOString();
      await scene.send(website, identify({ userId: 'lea' }, { plan: 'future' }, { timestamp: tomorrow }));
      expect((await profile('/lea'))?.traits).toMatchObject({ plan: 'future' });
      await scene.send(website, identify({ userId: 'lea' }, { plan: 'now' }));
      expect((await profile('/lea'))?.traits).toMatchObject({ plan: 'now' });
    },
  );
});
