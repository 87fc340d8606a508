// biome-ignore-all lint/suspicious/noTemplateCurlyInString: ${X} in a plain string is a hostile name here.
import { readRecords } from '@millrace/server/config';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  ACTIONS,
  type Body,
  CLASSIC,
  DESTINATION,
  filesThatApply,
  imported,
  lineOf,
  SOURCE,
  withSettings,
} from '../../test/exported-workspace.ts';

describe('names', () => {
  it('are unique, and never those of kinds', async () => {
    const named = (id: string, name: unknown) => ({ ...DESTINATION, id, name });
    const names = [
      null,
      'All',
      'Webhooks',
      'Webhook',
      'Mixpanel',
      'CRM',
      'CRM',
      'CRM',
      ' ',
      '..',
      'a\nb',
      `${'x'.repeat(200)}`,
      'Amplitude',
    ];
    const destinations = [
      ...names.map((name, nth) => named(`d${nth}`, name)),
      {
        ...DESTINATION,
        id: 'amp',
        metadata: { id: 'x', name: 'Amplitude', slug: 'amplitude', previousNames: ['Mixpanel'] },
      },
    ];
    const sources = [
      SOURCE,
      { ...SOURCE, id: 's2', writeKeys: ['k2'] },
      { ...SOURCE, id: 's3', name: 'audiences', writeKeys: ['k3'] },
    ];
    const result = await imported({ '/destinations': { destinations }, '/sources': { sources } });
    expect(result.records.sources.map((one) => one['name'])).toEqual(['Site', 'Source s2', 'Source s3']);
    expect(result.records.destinations.map((one) => one['name'])).toEqual([
      'Webhooks of Site',
      'All of Site',
      'Webhooks of Site 2',
      'Webhook of Site',
      'Mixpanel of Site',
      'CRM',
      'CRM of Site',
      'CRM of Site 2',
      'Webhooks of Site 3',
      '.. of Site',
      'a b',
      'x'.repeat(100),
      'Amplitude of Site',
    ]);
    filesThatApply(result);
  });
});

describe('sources', () => {
  it.each([
    [{ slug: 'javascript' }, 'client'],
    [{ name: 'Node.js', slug: 'node-js', categories: ['Server'] }, 'server'],
    [{ name: 'Python' }, 'server'],
    [{ name: 'Node.js', categories: ['Server', 'Website'] }, 'client'],
    [{ name: 'React Native' }, 'client'],
    [{ id: 'unknown' }, 'client'],
    [undefined, 'client'],
  ])('of the kind %s are trusted as %s', async (metadata, trust) => {
    const result = await imported({ '/sources': { sources: [{ ...SOURCE, metadata }] } });
    expect(result.records.sources).toMatchObject([{ trust }]);
    const isUnknown = metadata === undefined || 'id' in metadata;
    expect(/trust is client/.test(lineOf(result, 'source', 's')?.reason ?? '')).toBe(isUnknown);
    expect(result.report.asked.some(({ text }) => text.startsWith('trust of'))).toBe(isUnknown);
  });

  it('have no key that another one has, and ask for one when none is left', async () => {
    const sources = [
      SOURCE,
      { ...SOURCE, id: 's2', name: 'Two' },
      { ...SOURCE, id: 's3', name: 'Three', writeKeys: ['a b', 'ok'] },
    ];
    const result = await imported({ '/sources': { sources } });
    expect(result.records.sources.map((one) => one['writeKeys'])).toEqual([
      ['wk'],
      [{ set: true, variable: 'TWO_WRITE_KEY' }],
      ['ok'],
    ]);
    expect(lineOf(result, 'source', 's2')).toMatchObject({
      outcome: 'partly',
      reason: expect.stringMatching(/also one of another source/),
    });
    expect(lineOf(result, 'source', 's3')).toMatchObject({
      outcome: 'partly',
      reason: expect.stringMatching(/must be text of/),
    });
    filesThatApply(result);
  });
});

describe('audiences and computed traits', () => {
  const computed = (id: string, name: string, key: string, query: string, more: Body = {}) => ({
    id,
    name,
    key,
    enabled: true,
    definition: { query },
    ...more,
  });

  it('keep their keys, name each other by name, and are refused with those that they need', async () => {
    const result = await imported({
      '/spaces': { spaces: [{ id: 'sp' }] },
      '/spaces/sp/audiences': {
        audiences: [
          computed('a1', 'VIP Customers', 'vip_customers', "event('A').count() >= 1"),
          computed('a2', 'Both', 'both', "trait('vip_customers') = true and trait('spend') > 5"),
          computed('a3', 'Something', 'other_key', "trait('x') = '5'"),
          computed('a4', 'Lost', 'lost', "entity('o').count() >= 1"),
          computed('a5', 'Needs lost', 'needs_lost', "trait('lost') = true"),
          computed('a6', 'One', 'one', "trait('two') = true"),
          computed('a7', 'Two', 'two', "trait('one') = true"),
          computed('a8', 'Accounts', 'accounts', "trait('x') = 'y'", { audienceType: 'ACCOUNTS' }),
          computed('a9', 'VIP Customers', 'vip_customers', "trait('x') = 'y'"),
          computed('a10', 'Zero', 'zero', "event('A').count() >= 0"),
        ],
      },
      '/spaces/sp/computed-traits': {
        computedTraits: [computed('t1', 'Spend', 'spend', "event('A').sum(property('x'))")],
      },
    });
    const outcomes = result.report.things
      .filter(({ kind }) => kind === 'audience')
      .map(({ id, outcome }) => [id, outcome]);
    expect(Object.fromEntries(outcomes)).toEqual({
      a1: 'taken',
      a2: 'taken',
      a3: 'partly',
      a4: 'not',
      a5: 'not',
      a6: 'not',
      a7: 'not',
      a8: 'not',
      a9: 'not',
      a10: 'not',
    });
    expect(result.records.audiences).toMatchObject([
      { name: 'VIP Customers' },
      { name: 'Both', definition: "audience('VIP Customers') and computed('Spend') > 5" },
      { name: 'other_key' },
    ]);
    filesThatApply(result);
  });
});

describe('a large export', () => {
  it('is as many files as it needs, sources first, and lists of suppressed users as long as a request may be', async () => {
    const many = Array.from({ length: 2300 }, (_, nth) => nth);
    const sources = many.map((nth) => ({ ...SOURCE, id: `s${nth}`, writeKeys: [`k${nth}`] }));
    const destinations = many.map((nth) => ({ ...DESTINATION, id: `d${nth}`, sourceId: `s${nth}` }));
    const filters = Object.fromEntries(many.map((nth) => [`/destination/d${nth}/filters`, { filters: [] }]));
    const subjectIds = Array.from({ length: 12_000 }, (_, nth) => `u${nth}`);
    const result = await imported({
      '/sources': { sources },
      '/destinations': { destinations },
      ...filters,
      '/suppressions': {
        suppressed: [
          { subjectType: 'USER_ID', subjectIds },
          { subjectType: 'ANONYMOUS_ID', subjectIds: ['v'] },
          { subjectType: 'OBJECT_ID', subjectIds: ['o'] },
        ],
      },
    });
    const files = filesThatApply(result);
    expect(files.map(({ path, what }) => [path, what])).toEqual([
      ['millrace.yaml', 'sources 1000, destinations 0, audiences 0, traits 0'],
      ['millrace.2.yaml', 'sources 1000, destinations 0, audiences 0, traits 0'],
      ['millrace.3.yaml', 'sources 300, destinations 1000, audiences 0, traits 0'],
      ['millrace.4.yaml', 'sources 0, destinations 1000, audiences 0, traits 0'],
      ['millrace.5.yaml', 'sources 0, destinations 300, audiences 0, traits 0'],
      ['millrace.suppressed.txt', expect.stringMatching(/^5,000 users/)],
      ['millrace.suppressed.2.txt', expect.stringMatching(/^5,000 users/)],
      ['millrace.suppressed.3.txt', expect.stringMatching(/^2,000 users/)],
      ['millrace.suppressed.4.txt', expect.stringMatching(/^1 visitor/)],
    ]);
    expect(files.at(-1)?.command).toContain('--anonymous');
    expect(lineOf(result, 'suppression', 'o')).toMatchObject({ outcome: 'not' });
  });
});

describe('an export with long texts', () => {
  it('has no file that plan would find too long, and a file of its own for what no record is made of', async () => {
    const long = `event = "${'x'.repeat(50_000)}"`;
    const destinations = Array.from({ length: 100 }, (_, nth) => ({ ...DESTINATION, id: `d${nth}` }));
    const filters = destinations.map(({ id }) => [
      `/destination/${id}/filters`,
      { filters: [1, 2, 3].map((nth) => ({ id: `${id}-${nth}`, if: long })) },
    ]);
    const functions = Array.from({ length: 10 }, (_, nth) => ({ id: `f${nth}`, code: 'y'.repeat(60_000) }));
    const result = await imported({
      '/destinations': { destinations },
      '/functions': { functions },
      ...(Object.fromEntries(filters) as object),
    });
    const files = filesThatApply(result);
    expect(files.filter(({ path }) => path.endsWith('.yaml')).length).toBeGreaterThan(4);
    for (const { path, text } of files)
      if (path.endsWith('.yaml')) expect(text.length).toBeLessThan(4_000_000);
    expect(files.find(({ path }) => path === 'millrace.kept.txt')?.text).toContain('function f9');
  });
});

describe('a destination with more of anything than a person would read', () => {
  it('has some of it in front, and all of it in the report', async () => {
    const filters = Array.from({ length: 30_000 }, (_, nth) => ({ id: `f${nth}`, if: 'all' }));
    const hooks = Array.from({ length: 20_000 }, (_, nth) => ({ hook: `https://h${nth}.example` }));
    const result = await imported({ ...withSettings({ hooks }), '/destination/d/filters': { filters } });
    const [file] = filesThatApply(result);
    expect(file!.text).toMatch(/\n {2}# - and \d+ more\n/);
    expect(file!.text.length).toBeLessThan(1_000_000);
    expect(lineOf(result, 'destination', 'd')!.reason!.length).toBeLessThan(2000);
    expect(result.report.things.filter(({ kind }) => kind === 'filter')).toHaveLength(30_000);
  });
});

describe('a hostile export', () => {
  const odd = fc.oneof(
    fc.string(),
    fc.string({ unit: 'binary' }),
    fc.constantFrom(
      '__proto__',
      '${X}',
      '# x\n- y',
      '\u2028',
      '\ud800',
      '••••••••••',
      '…',
      'audiences',
      'All',
    ),
    fc.jsonValue() as fc.Arbitrary<never>,
  );
  const thing = (fields: Record<string, fc.Arbitrary<unknown>>) =>
    fc.record({ id: odd, name: odd, enabled: fc.oneof(fc.boolean(), odd), ...fields }, { requiredKeys: [] });

  it('always becomes a file that can be applied, with all of its things in the report', async () => {
    const source = thing({ writeKeys: fc.oneof(fc.array(odd), odd), metadata: odd, slug: odd });
    const settings = fc.oneof(
      odd,
      fc.record({
        globalHook: odd,
        hooks: fc.array(
          fc.record({
            hook: fc.oneof(odd, fc.webUrl()),
            headers: fc.array(fc.record({ key: odd, value: odd })),
          }),
        ),
        sharedSecret: odd,
      }),
    );
    const destination = thing({
      sourceId: fc.constantFrom('s', 'x'),
      metadata: fc.constantFrom<unknown>(CLASSIC, ACTIONS, { name: 'X' }, null),
      settings,
    });
    const audience = thing({
      key: odd,
      definition: fc.record({ query: fc.oneof(odd, fc.constant("trait('a') = 'x'")) }),
    });
    await fc.assert(
      fc.asyncProperty(
        fc.array(source),
        fc.array(destination),
        fc.array(audience),
        fc.array(thing({ code: odd, title: odd })),
        async (sources, destinations, audiences, functions) => {
          const result = await imported({
            '/sources': { sources: [SOURCE, ...sources] },
            '/destinations': { destinations },
            '/spaces': { spaces: [{ id: 'sp' }] },
            '/spaces/sp/audiences': { audiences },
            '/functions': { functions },
            '/transformations': { transformations: functions },
          });
          const [file] = filesThatApply(result);
          const env = Object.fromEntries(result.variables.map((name, nth) => [name, `value-${nth}`]));
          const read = readRecords({ path: 'f', text: file!.text }, env);
          expect(read.sources.map(({ name }) => name).sort()).toEqual(
            result.records.sources.map(({ name }) => name).sort(),
          );
          expect(read.destinations).toHaveLength(result.records.destinations.length);
          expect(result.report.things.filter(({ kind }) => kind === 'audience')).toHaveLength(
            audiences.length,
          );
        },
      ),
    );
  });
});
