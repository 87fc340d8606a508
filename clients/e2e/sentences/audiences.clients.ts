import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Driver, libraries, librariesBesideTheServer } from '../library.ts';
import { quoted } from './quoted.ts';
import { type Body, bodiesAt, type Call, expectSigned, Scene } from './scene.ts';

const { missing } = libraries();
const tried = librariesBesideTheServer(2);
for (const line of missing) console.log(line);

const plan = (userId: string, plan: string): Call => ['identify', { userId, traits: { plan } }];
const did = (event: string, userId: string, fields: Body = {}): Call => [
  'track',
  { userId, event, ...fields },
];

/** spec/specification.md, "Audiences", with calls that each of our clients makes. */
describe.each(tried)('the $name client', (library) => {
  let scene: Scene;
  let website: Driver;
  beforeAll(async () => {
    scene = await Scene.open(library);
    website = await scene.client('wk');
  });
  afterAll(() => scene.close());

  /** The whole bodies of the requests about a user that `marketing` got. */
  const toldBodies = (key: string, userId: string) =>
    bodiesAt(scene.marketing).filter(
      ({ userId: id, traits }) => id === userId && Object.hasOwn(traits as Body, key),
    );

  it(
    quoted(
      'An audience is a condition; users who meet it are its members.',
      'A change is delivered as an `identify` for the user.',
      'The first sync sends every member.',
      'Later syncs send only changes.',
    ),
    async () => {
      await scene.send(website, plan('ann', 'pro'), plan('bob', 'pro'), plan('cid', 'free'));
      await scene.define('audiences', 'Pro plan', "trait('plan') = 'pro'");
      await scene.untilTold('pro_plan', ['ann', true], ['bob', true]);
      expect(await scene.api('GET', 'audiences/Pro%20plan')).toMatchObject({ members: 2 });
      await scene.send(website, plan('cid', 'pro'), plan('ann', 'free'));
      await scene.untilTold('pro_plan', ['cid', true], ['ann', false]);
      await scene.settle(website);
      expect(scene.told('pro_plan', 'ann', 'bob', 'cid')).toEqual([[true, false], [true], [true]]);
      for (const body of bodiesAt(scene.marketing))
        expect(body).toMatchObject({ version: 1, type: 'identify' });
      expectSigned(scene.marketing);
    },
  );

  it(
    quoted(
      'Its `traits` have one key: the key of the audience with `true` for a member and `false` for a user who no longer is one, or the key of the computed trait with its value.',
      '`context.personas` has `computation_class` (`audience` or `trait`), `computation_id`, `computation_key` and `sequence`.',
      'A computed trait that becomes absent is `null`.',
      'Of two events of one user and one audience or trait the later one has the greater `sequence`, in whatever order they arrive, and a `timestamp` that is not earlier.',
    ),
    async () => {
      await scene.define('audiences', 'Buyers', "event('Bought').within(3 seconds).count() >= 1");
      await scene.define('audiences', 'Recent Buyers', "event('Bought').within(90 seconds).count() >= 1");
      await scene.define('traits', 'Spent', "event('Bought').sum(property('total'))");
      await scene.send(website, did('Bought', 'dan', { properties: { total: 9.5 } }));
      await scene.untilTold('recent_buyers', ['dan', true]);
      const key = (await scene.entered(website, 'dan', 'buyers', 'recent_buyers'))!;
      await scene.untilTold(key, ['dan', false]);
      await scene.untilTold('spent', ['dan', 9.5]);
      await scene.api('PATCH', 'traits/Spent', { definition: "event('Never').sum(property('total'))" });
      await scene.untilTold('spent', ['dan', null]);
      const [entered, left] = toldBodies(key, 'dan');
      const [spent, absent] = toldBodies('spent', 'dan');
      expect([entered, left].map((body) => body?.['traits'])).toEqual([{ [key]: true }, { [key]: false }]);
      expect([spent, absent].map((body) => body?.['traits'])).toEqual([{ spent: 9.5 }, { spent: null }]);
      const personas = (body: Body | undefined) => (body?.['context'] as Body | undefined)?.['personas'];
      expect(personas(entered)).toEqual({
        computation_class: 'audience',
        computation_id: expect.stringMatching(/^aud_\d+$/),
        computation_key: key,
        sequence: expect.any(Number),
      });
      expect(personas(left)).toEqual({
        ...(personas(entered) as Body),
        sequence: expect.any(Number),
      });
      for (const [first, second] of [
        [entered, left],
        [spent, absent],
      ]) {
        const sequences = [first, second].map((body) => (personas(body) as { sequence: number }).sequence);
        expect(sequences[1]).toBeGreaterThan(sequences[0]!);
        expect(`${second!['timestamp']}` >= `${first!['timestamp']}`).toBe(true);
      }
      expect(personas(spent)).toEqual({
        computation_class: 'trait',
        computation_id: expect.stringMatching(/^trait_\d+$/),
        computation_key: 'spent',
        sequence: expect.any(Number),
      });
    },
  );

  it(
    quoted(
      'Membership changes with an event, with a trait, with another audience or computed trait that the condition mentions, and by itself when a window passes.',
    ),
    async () => {
      await scene.define('audiences', 'By Event', "event('Joined')");
      await scene.define('audiences', 'By Trait', "trait('level') >= 3");
      await scene.define('traits', 'Visits', "event('Visited').count()", { destinations: [] });
      await scene.define('audiences', 'By Others', "audience('By Event') and computed('Visits') >= 2");
      await scene.define('audiences', 'By Time', "event('Joined').within(3 seconds).count() >= 1");
      await scene.define('audiences', 'By More Time', "event('Joined').within(90 seconds).count() >= 1");
      await scene.send(website, did('Joined', 'eve'), ['identify', { userId: 'eve', traits: { level: 3 } }]);
      await scene.untilTold('by_event', ['eve', true]);
      await scene.untilTold('by_trait', ['eve', true]);
      await scene.send(website, did('Visited', 'eve'), did('Visited', 'eve'));
      await scene.untilTold('by_others', ['eve', true]);
      const key = (await scene.entered(website, 'eve', 'by_time', 'by_more_time'))!;
      await scene.untilTold(key, ['eve', false]);
      expect(scene.told(key, 'eve')).toEqual([[true, false]]);
    },
  );

  it(
    quoted(
      'It goes only to the destinations that the audience or trait names; their filters and whether they are enabled count as for any event.',
    ),
    async () => {
      // `archive` takes tracks only, and `off` is disabled.
      await scene.define('audiences', 'Everywhere', "event('Seen')", {
        destinations: ['crm', 'archive', 'off'],
      });
      await scene.send(website, did('Seen', 'fay'));
      const isTold = (body: Body) => Object.hasOwn((body['traits'] ?? {}) as Body, 'everywhere');
      await scene.crm.until(() => bodiesAt(scene.crm).some(isTold));
      await scene.settle(website);
      expect(scene.told('everywhere', 'fay')).toEqual([[]]);
      expect(bodiesAt(scene.archive).filter(isTold)).toEqual([]);
      const { messageId } = bodiesAt(scene.crm).find(isTold) as { messageId: string };
      const { data } = (await scene.api('GET', `events/${messageId}`)) as { data: Body[] };
      expect(data).toMatchObject([
        {
          source: 'audiences',
          deliveries: [{ destination: 'crm' }],
          skipped: expect.arrayContaining([
            { destination: 'archive', reason: 'filtered' },
            { destination: 'off', reason: 'destination_disabled' },
          ]),
        },
      ]);
    },
  );

  it(
    quoted(
      'Several changes of one user in one audience or trait within a second are one event.',
      'One that is taken back within a second is none.',
    ),
    async () => {
      await scene.define('traits', 'Steps', "event('Stepped').count()");
      await scene.define('audiences', 'Fast', "trait('speed') = 'fast'");
      const speed = (speed: string): Call => ['identify', { userId: 'gil', traits: { speed } }];
      await scene.send(website, ...Array.from({ length: 9 }, () => did('Stepped', 'gil')));
      await scene.send(website, speed('fast'), speed('slow'));
      await scene.untilTold('steps', ['gil', 9]);
      await scene.settle(website);
      expect(scene.told('steps', 'gil')).toEqual([[9]]);
      expect(scene.told('fast', 'gil')).toEqual([[]]);
    },
  );

  it(
    quoted(
      'The event goes to the `userId` of the profile; after a merge that is the id that won.',
      'The former id hears `false` for each membership that it was told `true`.',
    ),
    async () => {
      await scene.define('audiences', 'Gold', "trait('tier') = 'gold'");
      await scene.define('audiences', 'Silver', "trait('tier') = 'silver'");
      await scene.send(website, ['identify', { userId: 'hal-before', traits: { tier: 'gold' } }]);
      await scene.untilTold('gold', ['hal-before', true]);
      await scene.send(website, ['alias', { previousId: 'hal-before', userId: 'hal' }]);
      await scene.untilTold('gold', ['hal-before', false], ['hal', true]);
      // The events of the former id are those of the winner from now on.
      await scene.send(website, ['identify', { userId: 'hal-before', traits: { tier: 'silver' } }]);
      await scene.untilTold('gold', ['hal', false]);
      await scene.untilTold('silver', ['hal', true]);
      await scene.settle(website);
      expect(scene.told('gold', 'hal-before', 'hal')).toEqual([
        [true, false],
        [true, false],
      ]);
      expect(scene.told('silver', 'hal-before', 'hal')).toEqual([[], [true]]);
    },
  );

  it(
    quoted(
      'A profile that has anonymous ids alone is a member only with `includeAnonymous: true`.',
      'The default is `false`.',
    ),
    async () => {
      await scene.define('audiences', 'Known', "event('Looked')");
      await scene.define('audiences', 'Anyone', "event('Looked')", { includeAnonymous: true });
      expect(await scene.api('GET', 'audiences/Known')).toMatchObject({ includeAnonymous: false });
      await scene.send(website, ['track', { anonymousId: 'ivy-device', event: 'Looked' }]);
      await scene.untilTold('anyone', ['ivy-device', true]);
      await scene.settle(website);
      expect(scene.told('known', 'ivy-device')).toEqual([[]]);
    },
  );

  it(quoted('No change is told twice, and nobody hears `false` who was not told `true`.'), async () => {
    await scene.define('audiences', 'Kept', "trait('kept') = 'yes'");
    const kept = (userId: string, kept: string): Call => ['identify', { userId, traits: { kept } }];
    await scene.send(website, kept('jan', 'yes'), kept('kim', 'no'));
    await scene.untilTold('kept', ['jan', true]);
    await scene.kill();
    await scene.start();
    await scene.send(website, kept('jan', 'no'), kept('kim', 'never'));
    await scene.untilTold('kept', ['jan', false]);
    await scene.kill();
    await scene.start();
    await scene.settle(website);
    // A request that was cut off by the kill is sent again with its id.
    const ids = new Set(toldBodies('kept', 'jan').map(({ messageId }) => messageId));
    expect(ids.size).toBe(2);
    expect(scene.told('kept', 'kim')).toEqual([[]]);
  });

  it(
    quoted(
      'A changed definition sends those who enter and leave.',
      'A destination that is added to an audience or trait gets every member, and so does each destination of an audience or trait that is enabled again.',
      'A destination that was itself disabled, or whose filter let these events not through, gets what differs from what it was told: what was told is known for each destination.',
      'One that is added again hears `false` for those it was told who left meanwhile.',
      'Disabled and removed audiences and traits send nothing.',
    ),
    async () => {
      const atLeast = (n: number) => `event('Paid').count() >= ${n}`;
      await scene.send(website, did('Paid', 'lea'), did('Paid', 'mia'), did('Paid', 'mia'));
      await scene.define('audiences', 'Paying', atLeast(1));
      await scene.define('traits', 'Payments', "event('Paid').count()");
      await scene.untilTold('paying', ['lea', true], ['mia', true]);
      await scene.untilTold('payments', ['lea', 1], ['mia', 2]);
      await scene.api('PATCH', 'audiences/Paying', { definition: atLeast(2) });
      await scene.untilTold('paying', ['lea', false]);
      await scene.settle(website);
      expect(scene.told('paying', 'lea', 'mia')).toEqual([[true, false], [true]]);

      const toldCrm = () => bodiesAt(scene.crm).filter(({ traits }) => 'paying' in ((traits ?? {}) as Body));
      await scene.api('PATCH', 'audiences/Paying', { destinations: ['marketing', 'crm'] });
      await scene.crm.until(() => toldCrm().length === 1);
      expect(toldCrm()).toMatchObject([{ userId: 'mia', traits: { paying: true } }]);

      await scene.api('PATCH', 'audiences/Paying', { enabled: false });
      await scene.api('DELETE', 'traits/Payments');
      await scene.send(website, did('Paid', 'lea'));
      await scene.settle(website);
      expect(scene.told('paying', 'lea', 'mia')).toEqual([[true, false], [true]]);
      expect(scene.told('payments', 'lea')).toEqual([[1]]);
      await scene.api('PATCH', 'audiences/Paying', { enabled: true });
      await scene.marketing.until(
        () => `${scene.told('paying', 'lea', 'mia')}` === 'true,false,true,true,true',
      );
      await scene.crm.until(() => toldCrm().length === 3);

      // `crm` knows `lea` and `mia`; what becomes of them while it hears nothing is told when it hears again.
      const filter = (types: string[]) =>
        scene.api('PATCH', 'destinations/crm', { settings: { filter: { types } } });
      for (const [silence, voice, user] of [
        [
          () => scene.api('POST', 'destinations/crm/disable'),
          () => scene.api('POST', 'destinations/crm/enable'),
          'nia',
        ],
        [() => filter(['track']), () => filter(['track', 'identify']), 'oli'],
      ] as const) {
        const before = toldCrm().length;
        await silence();
        await scene.send(website, did('Paid', user), did('Paid', user));
        await scene.untilTold('paying', [user, true]);
        await scene.settle(website);
        expect(toldCrm()).toHaveLength(before);
        await voice();
        await scene.crm.until(() => toldCrm().length === before + 1);
        await scene.settle(website);
        expect(toldCrm().slice(before)).toMatchObject([{ userId: user, traits: { paying: true } }]);
      }

      const before = toldCrm().length;
      await scene.api('PATCH', 'audiences/Paying', { destinations: ['marketing'] });
      await scene.send(website, did('Paid', 'nia'));
      await scene.api('PATCH', 'audiences/Paying', { definition: atLeast(3) });
      await scene.untilTold('paying', ['oli', false]);
      await scene.settle(website);
      expect(toldCrm()).toHaveLength(before);
      await scene.api('PATCH', 'audiences/Paying', { destinations: ['marketing', 'crm'] });
      await scene.crm.until(() => toldCrm().length === before + 4);
      const last = toldCrm().slice(before) as { userId: string; traits: { paying: boolean } }[];
      expect(last.map(({ userId, traits }) => [userId, traits.paying]).sort()).toEqual([
        ['lea', false],
        ['mia', false],
        ['nia', true],
        ['oli', false],
      ]);
    },
  );

  it(quoted('The events belong to the source `audiences`, which no client can send to.'), async () => {
    expect(await scene.api('GET', 'sources/audiences')).toMatchObject({ writeKeys: [] });
    expect(await scene.ask('PATCH', 'sources/audiences', { writeKeys: ['wk_mine'] })).not.toMatchObject({
      status: 200,
    });
    const { sources } = (await scene.api('GET', 'ledger')) as { sources: Record<string, Body> };
    expect(sources['audiences']).toMatchObject({ accepted: expect.any(Number) });
    const { messageId } = bodiesAt(scene.marketing)[0] as { messageId: string };
    const { data } = (await scene.api('GET', `events/${messageId}`)) as { data: Body[] };
    expect(data).toMatchObject([{ source: 'audiences' }]);
  });

  it(
    quoted(
      'The key is the name in snake case.',
      'Only ASCII letters and digits count; everything else separates words.',
      'A word also ends before a capital letter that follows a lower-case one.',
      'Capital letters become small ones, and words are joined by one `_`.',
    ),
    async () => {
      const keys = {
        'Order completed last 30days': 'order_completed_last_30days',
        'VIP Users (US)': 'vip_users_us',
        'A/B Test: v2': 'a_b_test_v2',
        Big__Spender: 'big_spender',
        camelCaseName: 'camel_case_name',
        'iOS Users': 'i_os_users',
        'HTTPServer Users': 'httpserver_users',
        'MRR>10K': 'mrr_10k',
        '2FA Enabled': '2fa_enabled',
        Café: 'caf',
        'Geschäft 🛒 Kunde': 'gesch_ft_kunde',
      };
      for (const [name, key] of Object.entries(keys)) {
        const made = await scene.api('POST', 'audiences', {
          name,
          definition: "event('Keyed')",
          destinations: ['marketing'],
        });
        expect(made).toMatchObject({ name, key });
      }
      await scene.send(website, did('Keyed', 'nia'));
      await Promise.all(Object.values(keys).map((key) => scene.untilTold(key, ['nia', true])));
    },
  );

  it(
    quoted(
      'A name with an empty key is refused, and so is one whose key another audience or trait has.',
      'A key never changes.',
    ),
    async () => {
      const make = async (list: string, name: string) =>
        (await scene.ask('POST', list, { name, definition: "event('Made').count() >= 1" })).status;
      await scene.define('audiences', 'Early Birds', "event('Made')");
      expect(await make('audiences', '🛒 – ü')).toBe(422);
      expect(await make('audiences', 'early_birds')).toBe(422);
      const trait = { name: 'EARLY birds', definition: "event('Made').count()" };
      expect((await scene.ask('POST', 'traits', trait)).status).toBe(422);
      const renamed = await scene.ask('PATCH', 'audiences/Early%20Birds', {
        key: 'late_birds',
        enabled: true,
      });
      expect(renamed.answer).toMatchObject({ key: 'early_birds' });
      await scene.send(website, did('Made', 'oda'));
      await scene.untilTold('early_birds', ['oda', true]);
      expect(scene.told('late_birds', 'oda')).toEqual([[]]);
    },
  );
});
