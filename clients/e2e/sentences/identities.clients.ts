import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { send } from '../../../server/test/support/calls.ts';
import { until } from '../../../server/test/support/until.ts';
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
  let app: Driver;
  beforeAll(async () => {
    const identities = {
      externalIds: ['email'],
      blocked: ['null', 'undefined', 'anonymous', '-1', '0', 'kiosk'],
    };
    scene = await Scene.open(library, { more: { identities, profiles: 'on' } });
    website = await scene.client('wk');
    app = await scene.client('wk_app');
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

  const counted = async (result: string) => {
    const headers = { authorization: 'Bearer t0ken' };
    const text = await (await fetch(`${scene.url}/metrics`, { headers })).text();
    const line = new RegExp(`^millrace_profiles_identities_total\\{result="${result}"\\} (\\d+)`, 'm');
    return Number(line.exec(text)?.[1]);
  };

  it(
    quoted(
      'A profile is one user: a `userId`, and the anonymous and external ids that belong to it.',
      'It has at most 900 anonymous and 100 external ids; its `userId`s do not count.',
      'For an id beyond that, one makes room that only client sources have named, first those of a single event; where there is none, it is not bound.',
      'Two profiles with more ids together are not merged, unless that makes room.',
      'All of this is counted.',
    ),
    async () => {
      const before = await counted('over_limit');
      const device = (nth: number) => `bob-device-${nth}`;
      const calls = Array.from({ length: 898 }, (_, nth) =>
        identify({ userId: 'bob', anonymousId: device(nth) }, { nth }),
      );
      await scene.send(website, identify({ userId: 'bob' }, { email: 'bob@example.com' }), ...calls);
      await scene.settle(website);
      const own = (anonymousId: string) => identify({ userId: 'bob', anonymousId }, {});
      await scene.send(app, own('phone'), own('phone'), own('once'), own('flood'));
      const full = await profile('/bob');
      expect(full).toMatchObject({ externalIds: { email: ['bob@example.com'] } });
      expect(full?.anonymousIds).toHaveLength(900);
      expect(full?.anonymousIds).toEqual(expect.arrayContaining(['phone', 'flood', device(897)]));
      expect(full?.anonymousIds).not.toContain('once');
      expect(await counted('over_limit')).toBe(before + 1);
      // Ids that the server source names push out those of the client source. The third one finds no room.
      await scene.send(website, ...['a', 'b', 'c'].map((name) => own(`bob-${name}`)));
      const { anonymousIds } = (await profile('/bob'))!;
      expect(anonymousIds).toEqual(expect.arrayContaining(['bob-a', 'bob-b']));
      for (const gone of ['phone', 'flood', 'bob-c']) expect(anonymousIds).not.toContain(gone);
      expect(await counted('over_limit')).toBe(before + 4);
      await scene.send(website, identify({ userId: 'bob-2', anonymousId: 'bob-2-device' }, { b: 2 }), [
        'alias',
        { previousId: 'bob-2', userId: 'bob' },
      ]);
      expect((await profile('/bob'))?.formerUserIds).toEqual([]);
      expect((await profile('/bob-2'))?.userId).toBe('bob-2');
      expect(await counted('over_limit')).toBe(before + 5);
      await scene.send(website, identify({ userId: 'bob-3' }, {}), [
        'alias',
        { previousId: 'bob-3', userId: 'bob' },
      ]);
      expect((await profile('/bob'))?.formerUserIds).toEqual(['bob-3']);
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
      'Only an `alias` of a server source does, where the previous id was the `userId` of an event before it: the new id wins, and the profile remembers the previous one as a former id.',
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
      'The previous id of any other `alias` becomes an anonymous id of the new one, where it is free.',
      'A `userId` of that name that comes later is a user of its own: an id that was only ever an `anonymousId` or a `previousId` joins no two users.',
      'An alias of ids that are joined already changes nothing.',
    ),
    async () => {
      await scene.send(
        website,
        ['alias', { previousId: 'fay-0', userId: 'fay' }],
        identify({ anonymousId: 'fay-0' }, { a: 1 }),
        identify({ userId: 'fay-0' }, { b: 2 }),
        ['alias', { previousId: 'fay-0-device', userId: 'fay' }],
        ['alias', { previousId: 'fay-0-device', userId: 'flo' }],
        ['alias', { previousId: 'fay-0', userId: 'fay' }],
      );
      const [fay, other, flo] = [await profile('/fay'), await profile('/fay-0'), await profile('/flo')];
      // The last alias comes behind an event of the user fay-0, and joins two users.
      expect(fay).toMatchObject({ formerUserIds: ['fay-0'], anonymousIds: ['fay-0', 'fay-0-device'] });
      expect(fay).toMatchObject({ traits: { a: 1, b: 2 } });
      expect(other).toEqual(fay);
      expect(flo).toMatchObject({ formerUserIds: [], anonymousIds: [] });
      await scene.send(website, ['alias', { previousId: 'fay', userId: 'fay-0' }]);
      expect((await profile('/fay'))?.merges).toEqual(fay!.merges);
    },
  );

  it(
    quoted(
      'A source with `trust: client` has a write key that everybody can read, and a new source is one.',
      'What its calls say of the `userId` that they name counts, and they bind an anonymous id to it; they bind no external id.',
      'Its alias binds an anonymous id that the call has itself, or that the source has used before; any other, and one without a `userId`, joins nothing and is counted.',
    ),
    async () => {
      expect(await scene.api('GET', 'sources/app')).toMatchObject({ trust: 'client' });
      await scene.send(
        website,
        identify({ userId: 'pia', anonymousId: 'pia-device' }, { email: 'pia@example.com' }),
        identify({ anonymousId: 'no-ones' }, {}),
      );
      await scene.settle(website);
      const refused = async () => (await counted('unproven')) + (await counted('conflict'));
      const before = await refused();
      await scene.send(
        app,
        identify({ userId: 'pia', anonymousId: 'pia-phone' }, { plan: 'pro' }),
        identify({ anonymousId: 'mal-device' }, { email: 'pia@example.com', seen: true }),
        ['alias', { previousId: 'mal-device', userId: 'mal' }],
        ...['pia', 'pia-device', 'no-ones', 'never-seen'].map(
          (previousId): Call => ['alias', { previousId, userId: 'mal' }],
        ),
      );
      await scene.settle(app);
      const nobody = { previousId: 'pia', anonymousId: 'mal-phone' };
      expect(await send(scene.url, '/v1/alias', nobody, { writeKey: 'wk_app' })).toMatchObject({
        status: 200,
      });
      expect(await profile('/pia')).toMatchObject({
        ...{ userId: 'pia', formerUserIds: [], merges: [] },
        anonymousIds: ['pia-device', 'pia-phone'],
        externalIds: { email: ['pia@example.com'] },
        traits: { plan: 'pro' },
      });
      const mallory = await profile('/mal');
      expect(mallory).toMatchObject({
        formerUserIds: [],
        anonymousIds: ['mal-device'],
        traits: { seen: true },
      });
      expect(Object.values(mallory!.externalIds).flat()).toEqual([]);
      await until('all are counted', async () => expect(await refused()).toBe(before + 5));
    },
  );

  it(quoted('With `identities.alias: refuse` no call does.'), async () => {
    const other = await Scene.open(library, { more: { identities: { alias: 'refuse' }, profiles: 'on' } });
    try {
      const client = await other.client('wk');
      await other.send(client, identify({ userId: 'one' }, {}), [
        'alias',
        { previousId: 'one', userId: 'two' },
      ]);
      await other.settle(client);
      for (const userId of ['one', 'two'])
        expect((await other.ask('GET', `profiles/${userId}`)).answer).toMatchObject({
          userId,
          formerUserIds: [],
        });
    } finally {
      await other.close();
    }
  });

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

  it(
    quoted(
      'A profile keeps at most 1,000 traits and 1,000 groups, and 64 KB of both.',
      'Beyond that those go that client sources said, the oldest first, and then those of server sources.',
      'A trait whose name has more than 200 characters or half of a surrogate pair, or whose value has more than 8,192 characters of JSON, is not kept.',
      'What is not kept is counted, and its number shown with the profile.',
    ),
    async () => {
      const text = (nth: number) => `${nth} `.padEnd(8000, '.');
      const spoken = { ['n'.repeat(201)]: 1, long: '.'.repeat(8193), plan: 'pro' };
      await scene.send(website, identify({ userId: 'nia' }, spoken));
      // Some languages have no such text.
      const half = { type: 'identify', userId: 'nia', traits: { 'half \ud800': 2 } };
      expect((await send(scene.url, '/v1/identify', half)).status).toBe(200);
      expect(await profile('/nia')).toMatchObject({ traits: { plan: 'pro' }, leftOut: 3 });
      for (let nth = 0; nth < 12; nth += 3) {
        const three = [nth, nth + 1, nth + 2].map((one) => [`flood ${one}`, text(one)]);
        await scene.send(app, identify({ userId: 'nia' }, Object.fromEntries(three)));
      }
      const flooded = (await profile('/nia'))!;
      expect(Object.keys(flooded.traits).sort()).toEqual([
        'flood 10',
        'flood 11',
        'flood 4',
        'flood 5',
        'flood 6',
        'flood 7',
        'flood 8',
        'flood 9',
        'plan',
      ]);
      expect(flooded['leftOut']).toBe(3 + 4);
      const many = (from: number) =>
        Object.fromEntries(Array.from({ length: 501 }, (_, nth) => [`t${from + nth}`, nth]));
      await scene.send(website, identify({ userId: 'ola' }, many(0)), identify({ userId: 'ola' }, many(501)));
      expect(Object.keys((await profile('/ola'))!.traits)).toHaveLength(1000);
      const groups = Array.from(
        { length: 1002 },
        (_, nth): Call => ['group', { userId: 'ola', groupId: `g${nth}` }],
      );
      await scene.send(website, ...groups);
      expect((await profile('/ola'))!['groups']).toHaveLength(1000);
    },
  );
});
