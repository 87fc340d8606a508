import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { laneIdsIn } from '../../test/support/lanes.ts';
import { sourceWith } from '../../test/support/sources.ts';
import { DESTINATION_TYPES } from '../destinations/list.ts';
import type { AudienceDefinition } from '../model/definition.ts';
import type { EventFilter } from '../model/delivery-policy.ts';
import type { Destination } from '../model/destination.ts';
import type { Event } from '../model/event.ts';
import type { JsonObject } from '../model/json.ts';
import { destinationOfLane } from '../model/lane.ts';
import { skipsOf } from '../model/plan.ts';
import type { Source } from '../model/settings.ts';
import { isEnabledBy } from './route-index.ts';
import { Router, withholding } from './router.ts';

/** Destinations with the names that they had elsewhere, and who gets an event with an integrations object. */
const INTEGRATIONS = fixture<{
  destinations: Record<string, { name: string; names: string[] }>;
  cases: { id: string; integrations: JsonObject; expect: Record<string, boolean> }[];
}>('integrations');

const CONSENT = fixture<{
  cases: {
    id: string;
    name: string;
    categories: Record<string, string[]>;
    destinations: string[];
    context: JsonObject;
    integrations?: JsonObject;
    expect: Record<string, string>;
  }[];
}>('consent');

function fixture<Of>(name: string): Of {
  const path = new URL(`../../../spec/fixtures/routing/${name}.json`, import.meta.url);
  return JSON.parse(readFileSync(path, 'utf8')) as Of;
}

const website = sourceWith({ writeKeys: ['k'] });

let nextId = 1;

function destination(name: string, over: Partial<Destination> = {}): Destination {
  return {
    id: nextId++,
    name,
    type: 'webhooks',
    sources: ['website'],
    enabled: true,
    version: 1,
    settings: { endpoints: [], format: 'documented' },
    ...over,
  };
}

function event(integrations: JsonObject, context: JsonObject = {}): Event {
  return {
    messageId: 'm',
    type: 'track',
    channel: 'server',
    context,
    integrations,
    timestamp: '',
    receivedAt: '',
  };
}

/** A destination with one lane, as a plan owes to it. */
const laneOf = ({ id, name }: Destination) => ({ id, name });

/** The rules of spec/specification.md, "Settings" and "Integrations object", one after the other. */
function reasonsOf(one: Destination, all: readonly Destination[], of: Event): string[] {
  const { enabled, name, filter } = one;
  if (!enabled) return ['destination_disabled'];
  if (!isEnabledBy(of.integrations, [name, ...namesOf(one, all)])) return ['integrations'];
  const isOfType = filter?.types?.some((type) => type === of.type) ?? true;
  const isNamed = filter?.events?.some((pattern) =>
    pattern.endsWith('*') ? of.event!.startsWith(pattern.slice(0, -1)) : of.event === pattern,
  );
  return isOfType && (of.type !== 'track' || (isNamed ?? true)) ? [] : ['filtered'];
}

/** The names that a destination answers to after its own. */
function namesOf({ integrationNames }: Destination, all: readonly Destination[]): readonly string[] {
  const names = integrationNames ?? WEBHOOK_NAMES;
  return names.filter((name) => !all.some((other) => other.name === name));
}

const WEBHOOK_NAMES = ['Webhooks', 'Webhooks (Actions)', 'Webhook', 'Extensible Webhook'];

/** Numbers below `n`, always the same. */
function seeded(seed: number): (n: number) => number {
  let state = seed;
  return (n) => {
    state = (state * 1103515245 + 12345) % 2 ** 31;
    return Math.floor((state / 2 ** 31) * n);
  };
}

describe('isEnabledBy', () => {
  it.each<[string, JsonObject, boolean]>([
    ['nothing is said', {}, true],
    ['All is true', { All: true }, true],
    ['All is false', { All: false }, false],
    ['all is false, as one client spells it', { all: false }, false],
    ['its type is on by name while All is off', { All: false, Webhooks: true }, true],
    ['its own name is on while its type is off', { Webhooks: false, crm: true }, true],
    ['its own name is off while its type is on', { Webhooks: true, crm: false }, false],
    ['its value is an object of options', { All: false, crm: { option: 1 } }, true],
    ['its value is a string', { All: false, Webhooks: 'yes' }, true],
    ['its value is null, which says nothing', { All: false, crm: null }, false],
    ['only another spelling of its name is on', { All: false, webhooks: true, CRM: true }, false],
    ['another destination is off', { Mixpanel: false }, true],
  ])('when %s', (_situation, integrations, enabled) => {
    expect(isEnabledBy(integrations, ['crm', 'Webhooks'])).toBe(enabled);
  });

  it('takes no word from what every object inherits', () => {
    expect(isEnabledBy({ All: false }, ['constructor', 'toString'])).toBe(false);
  });
});

describe('a router', () => {
  const plan = (destinations: readonly Destination[], of: Event) => {
    const planned = new Router(destinations, DESTINATION_TYPES).plan(of, website);
    return { owed: planned.owed, skipped: skipsOf(planned) };
  };

  it('sends a delete notification past filters and integrations, and not to a disabled destination', () => {
    const settings = {
      endpoints: [],
      format: 'documented',
      success: 'any',
      filter: { types: ['page'] },
    } as const;
    const [filtered, disabled] = [destination('crm', { settings }), destination('other', { enabled: false })];
    const { owed, skipped } = plan([filtered, disabled], { ...event({ All: false }), type: 'delete' });
    expect(owed).toEqual([laneOf(filtered)]);
    expect(skipped).toEqual([{ destination: disabled.id, reason: 'destination_disabled' }]);
  });

  it('sends an event to every enabled destination of its source', () => {
    const crm = destination('crm');
    const lake = destination('lake', { sources: ['app', 'website'] });
    expect(plan([crm, lake, destination('other', { sources: ['app'] })], event({}))).toEqual({
      owed: [crm, lake].map(laneOf),
      skipped: [],
    });
  });

  it('says why a destination of the source is left out', () => {
    const off = destination('off', { enabled: false });
    const crm = destination('crm');
    expect(plan([off, crm], event({ crm: false }))).toEqual({
      owed: [],
      skipped: [
        { destination: off.id, reason: 'destination_disabled' },
        { destination: crm.id, reason: 'integrations' },
      ],
    });
  });

  it('reads the integrations object in the context too, and lets the one on the call win', () => {
    const crm = destination('crm');
    expect(plan([crm], event({}, { integrations: { All: false } })).owed).toEqual([]);
    expect(plan([crm], event({ All: true }, { integrations: { All: false } })).owed).toEqual([laneOf(crm)]);
  });

  it('has one plan for all events without integrations, unless a destination looks at the event', () => {
    const all = [
      destination('crm'),
      destination('off', { enabled: false }),
      destination('x', { sources: ['app'] }),
    ];
    const routes = new Router(all, DESTINATION_TYPES);
    expect(routes.commonPlan(website)).toEqual(routes.plan(event({}), website));
    expect(routes.commonPlan(website)).toBe(routes.commonPlan(website));
    expect(routes.commonPlan({ ...website, name: 'unknown' })).toEqual({ owed: [], skipped: [] });
    const picky = destination('picky', { filter: { types: ['page'] } });
    expect(new Router([...all, picky], DESTINATION_TYPES).commonPlan(website)).toBeUndefined();
  });

  it('leaves a name that is the own name of another destination to that one, whatever its sources', () => {
    const [crm, lake] = [destination('crm'), destination('Webhook', { sources: ['app'] })];
    expect(plan([crm], event({ Webhook: false })).owed).toEqual([]);
    expect(plan([crm, lake], event({ Webhook: false })).owed).toEqual([laneOf(crm)]);
    const listed = destination('listed', { integrationNames: ['crm', 'Former'] });
    expect(plan([crm, listed], event({ crm: false })).owed).toEqual([laneOf(listed)]);
    expect(plan([crm, listed], event({ Former: false })).owed).toEqual([laneOf(crm)]);
  });

  it('leaves a destination with an empty list of names to its own and to All', () => {
    const quiet = destination('quiet', { integrationNames: [] });
    expect(plan([quiet], event({ Webhooks: false, 'Webhooks (Actions)': false })).owed).toHaveLength(1);
    expect(plan([quiet], event({ All: false })).owed).toEqual([]);
    expect(plan([quiet], event({ All: false, quiet: true })).owed).toHaveLength(1);
  });

  it.each(INTEGRATIONS.cases)('obeys the names that a destination had elsewhere: $id', (one) => {
    const all = Object.values(INTEGRATIONS.destinations).map(({ name, names }) =>
      destination(name, { integrationNames: names }),
    );
    const { owed } = plan(all, event(one.integrations));
    const names = owed.map(({ name }) => name);
    expect(Object.fromEntries(all.map(({ name }) => [name, names.includes(name)]))).toEqual(one.expect);
  });

  describe('with consent', () => {
    const ofCase = ({ destinations, categories }: (typeof CONSENT.cases)[number]) =>
      destinations.map((name) => {
        const asked = Object.entries(categories).flatMap(([id, names]) => (names.includes(name) ? [id] : []));
        return destination(name, asked.length === 0 ? {} : { consent: asked });
      });

    it.each(CONSENT.cases)('withholds what a visitor has not consented to: $id, $name', (one) => {
      const all = ofCase(one);
      const { owed, skipped } = plan(all, event(one.integrations ?? {}, one.context));
      const nameOf = (id: number) => all.find((other) => other.id === id)!.name;
      expect({
        ...Object.fromEntries(owed.map(({ name }) => [name, 'deliver'])),
        ...Object.fromEntries(skipped.map(({ destination: id, reason }) => [nameOf(id), reason])),
      }).toEqual(one.expect);
    });

    const reasons = (context: JsonObject, over: Partial<Event> = {}, source: Source = website) => {
      const [asking, filtered] = [
        destination('asking', { consent: ['Ads', 'Stats'] }),
        destination('filtered', { consent: ['Ads'], filter: { types: ['page'] } }),
      ];
      const all = [
        asking,
        filtered,
        destination('free'),
        destination('off', { enabled: false, consent: ['Ads'] }),
      ];
      const planned = new Router(all, DESTINATION_TYPES).plan({ ...event({}, context), ...over }, source);
      const nameOf = (id: number) => all.find((one) => one.id === id)!.name;
      const skips = skipsOf(planned).map(({ destination: id, reason }) => [nameOf(id), reason]);
      return { owed: planned.owed.map(({ name }) => name), ...Object.fromEntries(skips) };
    };
    const consent = (categoryPreferences: unknown) => ({ consent: { categoryPreferences } as JsonObject });
    const NOTHING = { owed: ['free'], asking: 'consent', filtered: 'consent', off: 'destination_disabled' };
    const ALL = { owed: ['asking', 'free'], filtered: 'filtered', off: 'destination_disabled' };

    it.each<[string, JsonObject]>([
      ['text', { consent: 'yes' }],
      ['a list', { consent: ['Ads', 'Stats'] }],
      ['preferences as text', consent('all') as JsonObject],
      ['preferences as a list', consent(['Ads', 'Stats']) as JsonObject],
      ['values that are not quite true', consent({ Ads: 'true', Stats: 1 }) as JsonObject],
      ['names that every object inherits', consent({ __proto__: { Ads: true, Stats: true } }) as JsonObject],
    ])('takes %s for no consent', (_what, context) => {
      expect(reasons(context)).toEqual(NOTHING);
    });

    it.each<[string, JsonObject]>([
      ['null', { consent: null }],
      ['preferences of null', consent(null) as JsonObject],
      ['an empty list, as PHP writes an empty object', { consent: [] }],
    ])('takes %s for nothing said', (_what, context) => {
      expect(reasons(context)).toEqual(ALL);
    });

    it('withholds a call that says nothing where its source requires consent, and no call that consents', () => {
      const strict: Source = { ...website, consent: 'required' };
      expect(reasons({}, {}, strict)).toEqual(NOTHING);
      expect(reasons({ consent: {} }, {}, strict)).toEqual(NOTHING);
      expect(reasons(consent({ Ads: true, Stats: true }), {}, strict)).toEqual(ALL);
    });

    it('never withholds a delete notification', () => {
      const { owed } = reasons(consent({}), { type: 'delete' });
      expect(owed).toEqual(['asking', 'filtered', 'free']);
    });

    it('says so before the integrations object is asked, which can only take away', () => {
      const integrations = { All: false, asking: true, filtered: true };
      expect(reasons(consent({ Ads: true }), { integrations })).toEqual({
        ...{ owed: [], asking: 'consent', filtered: 'filtered', free: 'integrations' },
        off: 'destination_disabled',
      });
    });

    it('has no common plan for a source of which one destination asks for consent', () => {
      const all = [destination('crm'), destination('ads', { consent: ['Ads'] })];
      expect(new Router(all, DESTINATION_TYPES).commonPlan(website)).toBeUndefined();
      const routes = new Router(all, DESTINATION_TYPES);
      const said = (preferences: JsonObject) => routes.plan(event({}, consent(preferences)), website);
      expect(said({ Ads: true, x: 1 })).toBe(routes.plan(event({}), website));
      expect(said({ Ads: false })).toBe(said({ other: true }));
    });

    it('tells of single events whether they want for consent', () => {
      const isWithheld = withholding(destination('ads', { consent: ['Ads'] }), DESTINATION_TYPES)!;
      expect(isWithheld(event({}, consent({ Ads: true })), website)).toBe(false);
      expect(isWithheld(event({}, consent({})), website)).toBe(true);
      expect(isWithheld({ ...event({}, consent({})), type: 'delete' }, website)).toBe(false);
      expect(isWithheld(event({}), undefined)).toBe(false);
      expect(isWithheld(event({}), { consent: 'required' })).toBe(true);
      expect(withholding(destination('free'), DESTINATION_TYPES)).toBeUndefined();
    });
  });

  it('sends an event of either of two sources to the destination of both', () => {
    const both = destination('both', { sources: ['app', 'website'] });
    const app: Source = { ...website, id: 2, name: 'app', writeKeys: ['a'] };
    const routes = new Router([both, destination('crm')], DESTINATION_TYPES);
    expect(routes.plan(event({}), website).owed.map(({ name }) => name)).toEqual(['both', 'crm']);
    expect(routes.plan(event({}), app).owed.map(({ name }) => name)).toEqual(['both']);
  });

  it('owes an event once for each endpoint where each of them is a delivery of its own', () => {
    const endpoints = [1, 2, 3].map((n) => ({ url: `http://e${n}/`, headers: {} }));
    const settings = { endpoints, format: 'documented' } as const;
    const fan = destination('fan', { settings, success: 'each' });
    const { owed } = plan([fan], event({}));
    expect(owed.map(({ id }) => id)).toEqual(laneIdsIn(fan));
    expect(new Set(owed.map(({ id }) => id)).size).toBe(3);
    expect(owed.map(({ id }) => destinationOfLane(id))).toEqual([fan.id, fan.id, fan.id]);
    // Skipped is said of the destination, once.
    expect(plan([fan], event({ fan: false })).skipped).toEqual([
      { destination: fan.id, reason: 'integrations' },
    ]);
  });

  it.each<[string, EventFilter, Partial<Event>, boolean]>([
    ['its type is wanted', { types: ['track', 'page'] }, { type: 'page' }, true],
    ['its type is not wanted', { types: ['track', 'page'] }, { type: 'identify' }, false],
    ['its name is wanted', { events: ['Order Placed'] }, { event: 'Order Placed' }, true],
    ['its name is not wanted', { events: ['Order Placed'] }, { event: 'order placed' }, false],
    ['its name begins as wanted', { events: ['A', 'Order *'] }, { event: 'Order Placed' }, true],
    ['it begins otherwise', { events: ['A', 'Order *'] }, { event: 'Orders' }, false],
    ['any name is wanted', { events: ['*'] }, { event: 'x' }, true],
    ['it has no such name, being no track call', { events: ['A'] }, { type: 'page', name: 'B' }, true],
    ['its name is wanted and its type is not', { types: ['page'], events: ['A'] }, { event: 'A' }, false],
    ['the filter says nothing', {}, { event: 'A' }, true],
  ])('with a filter, when %s', (_situation, filter, of, owed) => {
    const picky = destination('picky', { filter });
    expect(plan([picky], { ...event({}), ...of })).toEqual(
      owed
        ? { owed: [laneOf(picky)], skipped: [] }
        : { owed: [], skipped: [{ destination: picky.id, reason: 'filtered' }] },
    );
  });

  it('shares what kinds of destinations skip, also where there are hundreds of kinds', () => {
    const many = Array.from({ length: 300 }, (_, n) =>
      destination(`d${n}`, { integrationNames: [`Former ${n}`, 'All of them'] }),
    );
    const routes = new Router(many, DESTINATION_TYPES);
    const planned = (integrations: JsonObject) => routes.plan(event(integrations), website);
    expect(planned({ All: false, 'All of them': true }).owed).toHaveLength(300);
    expect(planned({ 'All of them': false }).owed).toEqual([]);
    const one = planned({ All: false, 'Former 7': true, 'Former 8': {} });
    expect(one.owed.map(({ name }) => name)).toEqual(['d7', 'd8']);
    expect(planned({ 'Former 8': true, nobody: 1, All: false, 'Former 7': true })).toBe(one);
    expect(planned({ 'All of them': true, 'Former 9': false }).owed).toHaveLength(299);
  });

  describe('with a thousand filters', () => {
    const many = Array.from({ length: 1000 }, (_, n) =>
      destination(`d${n}`, { filter: { events: [`Event ${n}`] } }),
    );
    const routes = new Router(many, DESTINATION_TYPES);
    const named = (name: string, integrations: JsonObject = {}) =>
      routes.plan({ ...event(integrations), event: name }, website);

    it('plans events with the same takers once, and all of them share what the others skip', () => {
      const plans = Array.from({ length: 2000 }, (_, n) => named(`Event ${n}`));
      expect(new Set(plans).size).toBe(1001);
      expect(new Set(plans.map(({ skipSet }) => skipSet)).size).toBe(1);
      expect(plans[17]!.owed).toEqual([laneOf(many[17]!)]);
      expect(skipsOf(plans[17]!)).toHaveLength(999);
      expect(named('Event 17')).toBe(plans[17]);
      expect(skipsOf(plans[1500]!)).toHaveLength(1000);
    });

    it('makes no plan for a name of its own, nor for an integrations object that names nobody', () => {
      const [first, ...others] = Array.from({ length: 1000 }, (_, n) =>
        named(`__proto__ ${n}`, { [`elsewhere ${n}`]: false, All: true }),
      );
      expect(others.every((one) => one === first)).toBe(true);
    });

    it('lets an integrations object switch single destinations off and on', () => {
      const off = named('Event 17', { d17: false, d18: false });
      expect(off.owed).toEqual([]);
      expect(skipsOf(off).filter(({ reason }) => reason === 'integrations')).toEqual(
        [17, 18].map((n) => ({ destination: many[n]!.id, reason: 'integrations' })),
      );
      expect(named('Event 17', { d18: false, d17: false })).toBe(off);
      const on = named('Event 17', { All: false, d17: true, d18: true });
      expect(on.owed).toEqual([laneOf(many[17]!)]);
      expect(skipsOf(on).filter(({ reason }) => reason === 'filtered')).toEqual([
        { destination: many[18]!.id, reason: 'filtered' },
      ]);
      expect(skipsOf(on)).toHaveLength(999);
    });

    it('agrees with each filter and integrations object taken by itself', () => {
      const pieces = ['', '__proto__', 'constructor', 'A', 'AB', 'ABC', 'B', 'A*', 'AB*', '*', 'A*B'];
      const pick = seeded(7);
      const some = <Value>(values: readonly Value[]) => values.filter(() => pick(3) === 0);
      for (let round = 0; round < 300; round++) {
        const picky = Array.from({ length: 5 }, (_, n) => {
          const events = pick(3) > 0 ? { events: some(pieces) } : {};
          const types = pick(2) > 0 ? { types: some(['track', 'page'] as const) } : {};
          const filter = pick(4) > 0 ? { ...events, ...types } : undefined;
          const name = ['a', '__proto__', 'All', 'Webhooks', 'e'][n]!;
          const named = pick(2) > 0 ? { integrationNames: some(['x', 'Webhook', 'a', '__proto__']) } : {};
          return destination(name, {
            ...named,
            ...(filter === undefined ? {} : { filter }),
            enabled: pick(5) > 0,
          });
        });
        const integrations = JSON.parse(
          `{${some(['a', '__proto__', 'All', 'Webhooks', 'Webhook', 'all', 'x'])
            .map((name) => `"${name}":${[true, false, null, '{}'][pick(4)]}`)
            .join()}}`,
        ) as JsonObject;
        const type = pick(3) > 0 ? 'track' : 'page';
        const of = { ...event(integrations), type, event: pieces[pick(pieces.length)]! } as const;
        const together = plan(picky, of);
        // Beside the others, whose names are theirs alone.
        const others = picky.map((one): Destination => ({ ...one, sources: ['app'] }));
        const alone = picky.map((one, n) => plan(others.with(n, one), of));
        expect(together.owed).toEqual(alone.flatMap(({ owed }) => owed));
        expect(together.skipped).toEqual(alone.flatMap(({ skipped }) => skipped));
        for (const [n, one] of picky.entries())
          expect(alone[n]!.skipped.map(({ reason }) => reason)).toEqual(reasonsOf(one, picky, of));
      }
    });
  });

  it('plans nothing for a source without destinations', () => {
    expect(plan([], event({}))).toEqual({ owed: [], skipped: [] });
  });
});

describe('an event of an audience', () => {
  const audiences = sourceWith({ name: 'audiences', writeKeys: [] });
  const all = [
    destination('crm', { sources: [] }),
    destination('warehouse'),
    destination('erp', { sources: ['audiences'] }),
  ];
  const vips: AudienceDefinition = {
    ...{ id: 4, version: 1, kind: 'audience', name: 'VIPs', key: 'vips', text: '' },
    definition: { op: 'group', id: 'g' },
    ...{ destinations: ['crm', 'gone'], enabled: true, includeAnonymous: false },
  };
  const entered: Event = { ...event({}, { personas: { computation_id: 'aud_4' } }), type: 'identify' };
  const planned = (
    {
      destinations = all,
      computation = vips,
    }: { destinations?: Destination[]; computation?: AudienceDefinition },
    of = entered,
  ) => {
    const routes = new Router(destinations, DESTINATION_TYPES, [computation]);
    const planned = routes.plan(of, audiences);
    const nameOf = (id: number) => destinations.find((one) => one.id === id)!.name;
    const skips = skipsOf(planned).map(({ destination: id, reason }) => [nameOf(id), reason]);
    return [planned.owed.map(({ name }) => name), skips];
  };

  it('goes to the destinations of the audience and to no other', () => {
    expect(planned({})).toEqual([['crm'], []]);
  });

  it('heeds what any event does: enabled, integrations, filter', () => {
    const crm = destination('crm', { sources: [] });
    const filter: EventFilter = { types: ['track'] };
    const filtered = { ...crm, filter };
    expect(planned({ destinations: [filtered] })).toEqual([[], [['crm', 'filtered']]]);
    expect(planned({ destinations: [{ ...crm, enabled: false }] })).toEqual([
      [],
      [['crm', 'destination_disabled']],
    ]);
    const only = { ...entered, integrations: { All: false, erp: true } };
    const both = { ...vips, destinations: ['crm', 'erp'] };
    expect(planned({ computation: both }, only)).toEqual([['erp'], [['crm', 'integrations']]]);
  });

  it('goes nowhere when its audience is disabled or gone, or when it names none', () => {
    expect(planned({ computation: { ...vips, enabled: false } })).toEqual([[], []]);
    expect(planned({ computation: { ...vips, id: 5 } })).toEqual([[], []]);
    expect(planned({}, event({}, { personas: 'x' }))).toEqual([[], []]);
  });
});
