import { setTimeout } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Driver, libraries, librariesBesideTheServer } from '../library.ts';
import { quoted } from './quoted.ts';
import { type Body, bodiesAt, type Call, Scene } from './scene.ts';

const { missing } = libraries();
const tried = librariesBesideTheServer(0);
for (const line of missing) console.log(line);

const HOUR = 3_600_000;

/** Resolves to the beginning of the present hour, which goes on for a minute at least. */
async function thisHour(): Promise<number> {
  const left = HOUR - (Date.now() % HOUR);
  if (left < 60_000) await setTimeout(left);
  return Date.now() - (Date.now() % HOUR);
}

const at = (time: number): string => new Date(time).toISOString();

/** spec/specification.md, "Computed traits", with calls that each of our clients makes. */
describe.each(tried)('the $name client', (library) => {
  let scene: Scene;
  let website: Driver;
  beforeAll(async () => {
    scene = await Scene.open(library);
    website = await scene.client('wk');
  });
  afterAll(() => scene.close());

  const did = (event: string, userId: string, properties: Body = {}, more: Body = {}): Call => [
    'track',
    { userId, event, properties, ...more },
  ];

  it(
    quoted(
      "A computed trait is a value that the service derives from a user's events: a count, a sum, an average, the least or greatest value, the most frequent one, the first, the last, a list of different values, or their number.",
      'A changed value is delivered as an identify with `traits: {<key>: <value>}`.',
    ),
    async () => {
      const values: Record<string, unknown> = {
        'count()': 4,
        "sum(property('total'))": 16.5,
        "avg(property('total'))": 4.125,
        "min(property('total'))": 1.5,
        "max(property('total'))": 5,
        "mode(property('total'))": 5,
        "first(property('item'))": 'tea',
        "last(property('item'))": 'cup',
        "unique(property('item'))": ['cup', 'pot', 'tea'],
        "unique_count(property('item'))": 3,
      };
      const keyOf = (reducer: string) => `ordered_${reducer.slice(0, reducer.indexOf('('))}`;
      for (const reducer of Object.keys(values))
        await scene.define('traits', keyOf(reducer).replaceAll('_', ' '), `event('Ordered').${reducer}`);
      const ordered = (nth: number, item: string, total: number): Call =>
        did('Ordered', 'ann', { item, total }, { timestamp: at(Date.UTC(2026, 0, 1 + nth)) });
      await scene.send(
        website,
        ordered(0, 'tea', 5),
        ordered(1, 'pot', 1.5),
        ordered(2, 'tea', 5),
        ordered(3, 'cup', 5),
      );
      for (const [reducer, value] of Object.entries(values))
        await scene.untilTold(keyOf(reducer), ['ann', value]);
      const told = bodiesAt(scene.marketing).filter(({ userId }) => userId === 'ann');
      for (const body of told)
        expect(body).toMatchObject({
          type: 'identify',
          context: { personas: { computation_class: 'trait' } },
        });
      expect(told.every(({ traits }) => Object.keys(traits as Body).length === 1)).toBe(true);
    },
  );

  it(quoted('Definitions are text or JSON.'), async () => {
    const text = "event('Rated').max(property('stars'))";
    await scene.define('traits', 'Best Rating', text);
    const { json } = await scene.api('GET', 'traits/Best%20Rating');
    const made = await scene.api('POST', 'traits', {
      name: 'Top Rating',
      definition: json,
      destinations: ['marketing'],
    });
    expect(made).toMatchObject({ definition: text, json });
    await scene.untilShown('traits/Top%20Rating', ({ state }) => state === 'live');
    await scene.send(website, did('Rated', 'bob', { stars: 4 }));
    await scene.untilTold('best_rating', ['bob', 4]);
    await scene.untilTold('top_rating', ['bob', 4]);
  });

  it(
    quoted(
      "A value depends on the set of a user's events, not on the order in which they arrive: late events count at their `timestamp`, and where times are equal the `messageId` decides.",
      'An event from the future counts as of its arrival.',
    ),
    async () => {
      await scene.define('traits', 'Chosen', "event('Chose').last(property('plan'))");
      const then = Date.now() - HOUR;
      const chose = (plan: string, time: number, messageId = `${library.name}-${plan}`): Call =>
        did('Chose', 'cid', { plan }, { timestamp: at(time), messageId });
      await scene.send(website, chose('first', then, 'cid-5'));
      await scene.untilTold('chosen', ['cid', 'first']);
      await scene.send(website, chose('late', then - HOUR), chose('lower', then, 'cid-1'));
      await scene.settle(website);
      await scene.send(website, chose('higher', then, 'cid-7'));
      await scene.untilTold('chosen', ['cid', 'higher']);
      await scene.send(website, chose('future', Date.now() + 20 * HOUR));
      await scene.untilTold('chosen', ['cid', 'future']);
      await scene.send(website, chose('now', Date.now()));
      await scene.untilTold('chosen', ['cid', 'now']);
      expect(scene.told('chosen', 'cid')).toEqual([['first', 'higher', 'future', 'now']]);
    },
  );

  it(
    quoted(
      '`count` and `unique_count` of no event are 0; any other value is absent.',
      'A user who never did what a trait counts has no such trait.',
      'Every comparison with a value that is absent is false.',
    ),
    async () => {
      await scene.define(
        'audiences',
        'None Bought',
        "event('Bought').count() = 0 and trait('checked') = 'yes'",
      );
      await scene.define(
        'audiences',
        'No Shop',
        "event('Bought').unique_count(property('shop')) = 0 and trait('checked') = 'yes'",
      );
      const total = "event('Bought').sum(property('total'))";
      for (const [name, comparison] of [
        ['Below', '< 9'],
        ['Not Nine', '!= 9'],
        ['Above', '> 9'],
      ] as const)
        await scene.define('audiences', name, `${total} ${comparison} and trait('checked') = 'yes'`);
      await scene.define('traits', 'Bought Count', "event('Bought').count()");
      await scene.send(website, ['identify', { userId: 'dan', traits: { checked: 'yes' } }]);
      await scene.untilTold('none_bought', ['dan', true]);
      await scene.untilTold('no_shop', ['dan', true]);
      await scene.settle(website);
      for (const key of ['below', 'not_nine', 'above', 'bought_count'])
        expect([key, scene.told(key, 'dan')]).toEqual([key, [[]]]);
      expect(await scene.api('GET', 'profiles/dan')).not.toHaveProperty('computedTraits.bought_count');
    },
  );

  it(
    quoted(
      'Sums are exact decimals with nine digits behind the point.',
      '`sum`, `avg`, `min` and `max` count numbers only.',
    ),
    async () => {
      for (const reducer of ['sum', 'avg', 'min', 'max'])
        await scene.define('traits', `Kilos ${reducer}`, `event('Weighed').${reducer}(property('kg'))`);
      const weighed = (kg: unknown) => did('Weighed', 'eve', { kg });
      // Added as floating-point numbers they are 0.6000000000000001.
      await scene.send(website, ...[0.1, 0.2, 0.3, '99', true, null, ['99']].map(weighed));
      await scene.untilTold('kilos_sum', ['eve', 0.6]);
      await scene.untilTold('kilos_avg', ['eve', 0.2]);
      await scene.untilTold('kilos_min', ['eve', 0.1]);
      await scene.untilTold('kilos_max', ['eve', 0.3]);
      await scene.send(website, weighed(0.0000000014));
      await scene.untilTold('kilos_sum', ['eve', 0.600000001]);
    },
  );

  it(quoted('A window over a count ends at the exact millisecond.'), async () => {
    const windows = [4, 90];
    for (const seconds of windows) {
      const within = `event('Tapped').within(${seconds} seconds).count()`;
      await scene.define('audiences', `Once in ${seconds}`, `${within} >= 1`);
      await scene.define('audiences', `Twice in ${seconds}`, `${within} >= 2`);
    }
    const now = Date.now();
    const tapped = (time: number) => did('Tapped', 'fay', {}, { timestamp: at(time) });
    await scene.send(website, tapped(now - 1000), tapped(now));
    await scene.untilTold('twice_in_90', ['fay', true]);
    const twice = (await scene.entered(website, 'fay', 'twice_in_4', 'twice_in_90'))!;
    const once = twice.replace('twice', 'once');
    const window = 1000 * Number(twice.split('_').at(-1));
    await scene.untilTold(twice, ['fay', false]);
    await scene.untilTold(once, ['fay', false]);
    const leftAt = (key: string) => {
      const left = bodiesAt(scene.marketing).find(
        ({ userId, traits }) => userId === 'fay' && (traits as Body)[key] === false,
      );
      return Date.parse(String(left?.['timestamp']));
    };
    // A machine that has much else to do notices it later, and never sooner.
    expect(leftAt(twice)).toBeGreaterThanOrEqual(now + window - 1000);
    expect(leftAt(once)).toBeGreaterThanOrEqual(now + window);
    expect([scene.told(twice, 'fay'), scene.told(once, 'fay')]).toEqual([[[true, false]], [[true, false]]]);
  });

  it(
    quoted(
      "A window over any other value moves hour by hour, and so does a count beyond 64; the definition's text has to say so.",
    ),
    async () => {
      const refused = async (list: string, definition: string) =>
        (await scene.ask('POST', list, { name: 'Refused', definition })).status;
      expect(await refused('traits', "event('Ran').within(90 minutes).sum(property('km'))")).toBe(422);
      expect(await refused('audiences', "event('Ran').within(90 minutes).count() >= 65")).toBe(422);
      await scene.define('traits', 'Distance', "event('Ran').within(2 hours).sum(property('km'))");
      await scene.define('traits', 'Runs', "event('Ran').within(2 hours).count()");
      const hour = await thisHour();
      const ran = (userId: string, time: number): Call =>
        did('Ran', userId, { km: 1 }, { timestamp: at(time) });
      const old = hour - 2 * HOUR;
      await scene.send(website, ran('gil', old), ran('gil', old - 1), ran('gil', hour - 1));
      await scene.untilTold('distance', ['gil', 2]);
      await scene.untilTold('runs', ['gil', 1]);
      // With more than 64 in the window, the rest of its first hour counts too.
      const recent = Array.from({ length: 70 }, () => ran('hal', Date.now()));
      await scene.send(website, ...recent, ran('hal', old), ran('hal', old - 1));
      await scene.untilTold('runs', ['hal', 71]);
    },
  );

  it(
    quoted(
      'A condition on a property looks at each event, a condition on a trait at the user as it is now; while the latter is false no event counts.',
    ),
    async () => {
      await scene.define(
        'traits',
        'Gold Kilos',
        "event('Carried').where(property('kg') >= 1 and trait('tier') = 'gold').sum(property('kg'))",
      );
      const tier = (tier: string): Call => ['identify', { userId: 'ivy', traits: { tier } }];
      await scene.send(website, ...[0.5, 1, 2].map((kg) => did('Carried', 'ivy', { kg })), tier('silver'));
      await scene.settle(website);
      expect(scene.told('gold_kilos', 'ivy')).toEqual([[]]);
      await scene.send(website, tier('gold'));
      await scene.untilTold('gold_kilos', ['ivy', 3]);
      await scene.send(website, tier('silver'));
      await scene.untilTold('gold_kilos', ['ivy', null]);
    },
  );
});
