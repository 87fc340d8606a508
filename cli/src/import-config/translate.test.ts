// biome-ignore-all lint/suspicious/noTemplateCurlyInString: ${X} in a plain string is a hostile name here.
import { readRecords } from '@millrace/server/config';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { filesOf } from './files.ts';
import { readPublicApi } from './public-api.ts';
import { StoredAnswers } from './public-api-files.ts';
import { readGitSync } from './terraform.ts';
import { type Translated, translate } from './translate.ts';
import type { Workspace } from './workspace.ts';

type Body = Readonly<Record<string, unknown>>;

const SOURCE = {
  id: 's',
  name: 'Site',
  enabled: true,
  writeKeys: ['wk'],
  metadata: { slug: 'javascript', categories: ['Website'] },
};
const CLASSIC = { id: '54521fdc25e721e32a72ef04', name: 'Webhooks', slug: 'webhooks' };
const ACTIONS = { id: '614a3c7d791c91c41bae7599', name: 'Webhooks (Actions)', slug: 'actions-webhook' };
const DESTINATION = {
  id: 'd',
  name: 'CRM',
  enabled: true,
  sourceId: 's',
  metadata: CLASSIC,
  settings: { globalHook: 'https://a.example', hooks: [], sharedSecret: 'secret-secret-secret' },
};

/** All answers that are needed for a workspace in which nothing stands between a source and a destination. */
const ANSWERS: Readonly<Record<string, Body>> = {
  '/': { workspace: { id: 'w', name: 'Shop' } },
  '/sources': { sources: [SOURCE] },
  '/destinations': { destinations: [DESTINATION] },
  '/destination/d/filters': { filters: [] },
  '/tracking-plans': { trackingPlans: [] },
  '/functions': { functions: [] },
  '/insert-function-instances': { insertFunctionInstances: [] },
  '/transformations': { transformations: [] },
  '/spaces': { spaces: [] },
  '/suppressions': { suppressed: [] },
};

/** `more`: answers in place of those, or beside them; one that is undefined is not there. */
async function workspaceOf(
  more: Readonly<Record<string, Body | undefined>> = {},
  none: readonly string[] = [],
): Promise<Workspace> {
  const answers = new StoredAnswers();
  for (const [path, data] of Object.entries({ ...ANSWERS, ...more }))
    if (data !== undefined) answers.add(`GET ${path}`, { data });
  return await readPublicApi(answers, none);
}

async function imported(more: Readonly<Record<string, Body | undefined>> = {}): Promise<Translated> {
  return translate(await workspaceOf(more), {});
}

const withSettings = (settings: Body) => ({
  '/destinations': { destinations: [{ ...DESTINATION, settings }] },
});

const withMappings = (...mappings: readonly Body[]) => ({
  '/destinations': { destinations: [{ ...DESTINATION, metadata: ACTIONS, settings: {} }] },
  '/destinations/d/subscriptions': {
    subscriptions: mappings.map((settings, nth) => ({
      id: `m${nth}`,
      enabled: true,
      trigger: 'type = "track"',
      ...settings,
    })),
  },
});

function lineOf({ report }: Translated, kind: string, id: string) {
  return report.things.find((one) => one.kind === kind && one.id === id);
}

/** The only destination, as a file has it. */
function destinationIn(result: Translated) {
  return result.records.destinations[0] as never as
    | {
        name: string;
        enabled: boolean;
        sources: string[];
        settings: {
          endpoints: { url: string; headers: object }[];
          success: string;
          filter?: object;
          userAgent?: string;
        };
      }
    | undefined;
}

/** Throws where `plan` would refuse a file. */
const filesThatApply = (result: Translated) => filesOf(result, 'millrace.yaml');

describe('a destination of which all could be read', () => {
  it('is as it was there', async () => {
    const result = await imported();
    expect(destinationIn(result)).toEqual({
      name: 'CRM',
      type: 'webhooks',
      sources: ['Site'],
      enabled: true,
      settings: {
        endpoints: [{ url: 'https://a.example', headers: {} }],
        sharedSecret: 'secret-secret-secret',
        format: 'segment',
        success: 'any',
        integrationNames: ['Webhooks'],
      },
    });
    expect(lineOf(result, 'destination', 'd')).toMatchObject({ outcome: 'taken' });
    filesThatApply(result);
  });
});

describe('a destination of which a part could not be read', () => {
  const error = { errors: [{ type: 'forbidden', message: 'no right' }] };

  it.each([
    [
      'its filters are not there',
      { '/destination/d/filters': undefined },
      /its filters: GET .* is not among the answers/,
    ],
    [
      'a later page of them is missing',
      { '/destination/d/filters': { filters: [], pagination: { current: 'MA==', next: 'MQ==' } } },
      /a page of it is missing/,
    ],
    [
      'their first page is missing',
      { '/destination/d/filters': { filters: [], pagination: { current: 'MQ==' } } },
      /its first page is missing/,
    ],
    [
      'there are more of them',
      { '/destination/d/filters': { filters: [], pagination: { current: 'MA==', totalEntries: 2 } } },
      /has 0 of 2 entries/,
    ],
    ['the answer is another one', { '/destination/d/filters': { other: [] } }, /has no list filters/],
    [
      'mappings are not there',
      { '/destinations': { destinations: [{ ...DESTINATION, metadata: ACTIONS }] } },
      /no URL/,
    ],
    [
      'transformations are not there',
      { '/transformations': undefined },
      /the transformations: GET \/transformations is not/,
    ],
    [
      'functions in front are not there',
      { '/insert-function-instances': undefined },
      /the functions between/,
    ],
    ['tracking plans are not there', { '/tracking-plans': undefined }, /which events tracking plans block/],
    [
      'sources of a plan are not there',
      { '/tracking-plans': { trackingPlans: [{ id: 'p' }] } },
      /tracking-plans\/p\/sources is not/,
    ],
    [
      'what a plan blocks is not there',
      {
        '/tracking-plans': { trackingPlans: [{ id: 'p' }] },
        '/tracking-plans/p/sources': { sources: [{ id: 's' }] },
        '/tracking-plans/p/rules': { rules: [] },
      },
      /what its tracking plan blocks/,
    ],
  ])('is off when %s', async (_, more, reason) => {
    const result = await imported(more);
    expect(destinationIn(result)?.enabled ?? false).toBe(false);
    const line = lineOf(result, 'destination', 'd');
    expect(line?.outcome).not.toBe('taken');
    expect(line?.reason).toMatch(reason);
    filesThatApply(result);
  });

  it('is off when the answer is an error', async () => {
    const answers = new StoredAnswers();
    for (const [path, data] of Object.entries(ANSWERS)) answers.add(path, { data });
    answers.add('/destination/d/filters', error);
    const result = translate(await readPublicApi(answers), {});
    expect(destinationIn(result)).toMatchObject({ enabled: false });
    expect(lineOf(result, 'answer', 'GET /destination/d/filters')?.reason).toBe('is an error: no right');
  });

  const tf = (type: string, id: string, body: string) =>
    `import {\n to = ${type}.x\n id = "${id}"\n}\nresource "${type}" "x" {\n${body}\n}`;
  const settings = '"{\\"globalHook\\":\\"https://a.example\\"}"';
  const FILES = [
    { path: 'sources/s.tf', text: tf('segment_source', 's', 'name = "Site"') },
    ...['d', 'd_2'].map((id) => ({
      path: `destinations/${id}.tf`,
      text: tf(
        'segment_destination',
        id,
        `name = "${id}"\nsource_id = "s"\nsettings = ${settings}\nmetadata = { id = "${CLASSIC.id}" }`,
      ),
    })),
  ];

  it.each([
    [undefined, { d: true, d_2: true }],
    ['destination_filters/d_2_f.tf', { d: true, d_2: false }],
    ['destination_filters/other.tf', { d: false, d_2: false }],
    ['transformations/t.tf', { d: false, d_2: false }],
    ['tracking_plans/p.tf', { d: true, d_2: true }],
  ])('is off when the file %s cannot be read and may be about it', (path, expected) => {
    const broken = path === undefined ? [] : [{ path, text: 'resource "x" {' }];
    const result = translate(readGitSync([...FILES, ...broken]), { SITE_WRITE_KEY: 'k' });
    const enabled = result.records.destinations.map((one) => [one['name'], one['enabled']]);
    expect(Object.fromEntries(enabled)).toEqual(expected);
    if (path !== undefined) expect(lineOf(result, 'answer', path)?.reason).toMatch(/^cannot be read: line/);
  });
});

describe('parts that somebody has looked for in vain', () => {
  const missing = { '/transformations': undefined, '/tracking-plans': undefined };

  it('hold back nothing, and are said in the report', async () => {
    const result = translate(await workspaceOf(missing, ['transformations', 'tracking-plans']), {});
    expect(destinationIn(result)).toMatchObject({ enabled: true });
    expect(lineOf(result, 'answer', 'GET /transformations')?.reason).toBe(
      'is not among the answers; there are none, by --none',
    );
  });

  it('hold back where there are some after all', async () => {
    const some = { transformations: [{ id: 't', sourceId: 'x' }], pagination: { next: 'MQ==' } };
    const result = translate(await workspaceOf({ '/transformations': some }, ['transformations']), {});
    expect(destinationIn(result)).toMatchObject({ enabled: false });
  });
});

describe('a destination with something in front of it', () => {
  const plan = {
    '/tracking-plans': { trackingPlans: [{ id: 'p' }] },
    '/tracking-plans/p/sources': { sources: [{ id: 's' }] },
    '/tracking-plans/p/rules': { rules: [] },
  };

  it.each([
    ['a filter', { '/destination/d/filters': { filters: [{ id: 'f', if: 'all', enabled: true }] } }],
    [
      'a filter that cannot be read',
      { '/destination/d/filters': { filters: [{ id: 'f', if: '"', enabled: true }] } },
    ],
    ['a filter without a word on whether it is on', { '/destination/d/filters': { filters: [{ id: 'f' }] } }],
    [
      'a transformation of its source',
      { '/transformations': { transformations: [{ id: 't', sourceId: 's', enabled: true }] } },
    ],
    [
      'one of its kind',
      {
        '/transformations': {
          transformations: [{ id: 't', sourceId: 's', destinationMetadataId: CLASSIC.id }],
        },
      },
    ],
    ['one of everything', { '/transformations': { transformations: [{ id: 't' }] } }],
    [
      'a function',
      { '/insert-function-instances': { insertFunctionInstances: [{ id: 'i', integrationId: 'd' }] } },
    ],
    [
      'a function of its source',
      { '/insert-function-instances': { insertFunctionInstances: [{ id: 'i', integrationId: 's' }] } },
    ],
    [
      'a function of nobody knows whom',
      { '/insert-function-instances': { insertFunctionInstances: [{ id: 'i', integrationId: 'other' }] } },
    ],
    ['a plan that blocks', { ...plan, '/sources/s/settings': { track: { allowUnplannedEvents: false } } }],
    [
      'a source that blocks without a plan',
      { '/sources/s/settings': { track: { allowUnplannedEvents: false } } },
    ],
    [
      'a plan that blocks on violations',
      { ...plan, '/sources/s/settings': { identify: { commonEventOnViolations: 'BLOCK' } } },
    ],
  ])('is off: %s', async (_, more) => {
    expect(destinationIn(await imported(more))).toMatchObject({ enabled: false });
  });

  it.each([
    ['a filter', { '/destination/d/filters': { filters: [{ id: 'f', if: 'all', enabled: false }] } }],
    [
      'a transformation',
      { '/transformations': { transformations: [{ id: 't', sourceId: 's', enabled: false }] } },
    ],
    [
      'one of another kind',
      { '/transformations': { transformations: [{ id: 't', sourceId: 's', destinationMetadataId: 'x' }] } },
    ],
    ['one of another source', { '/transformations': { transformations: [{ id: 't', sourceId: 'x' }] } }],
    [
      'a function',
      {
        '/insert-function-instances': {
          insertFunctionInstances: [{ id: 'i', integrationId: 'd', enabled: false }],
        },
      },
    ],
    [
      'a plan that lets all through',
      {
        ...plan,
        '/sources/s/settings': { track: { allowUnplannedEvents: true, commonEventOnViolations: 'ALLOW' } },
      },
    ],
  ])('is on when that does nothing: %s', async (_, more) => {
    expect(destinationIn(await imported(more))).toMatchObject({ enabled: true });
  });
});

describe('URLs and headers of an export', () => {
  const url = 'https://a.example';
  const bare = { url, headers: {} };
  const row = (key: string, value: string) => [{ hook: url, headers: [{ key, value }] }];

  it.each([
    ['an empty header row', { hooks: row('', '') }, [bare], undefined],
    [
      'a URL in both places',
      { globalHook: url, hooks: row('X-A', '1') },
      [{ url, headers: { 'X-A': '1' } }],
      undefined,
    ],
    ['the same, without headers', { globalHook: url, hooks: [{ hook: url }] }, [bare], undefined],
    [
      'a Content-Type that is so anyway',
      { hooks: row('content-type', 'application/json; charset=utf-8') },
      [bare],
      undefined,
    ],
    ['an agent', { globalHook: '', hooks: row('User-Agent', 'Me/1') }, [bare], 'Me/1'],
    ['a fragment', { globalHook: `${url}#top` }, [bare], undefined],
    [
      'a user name',
      { globalHook: 'https://me:p%40ss@a.example' },
      [{ url, headers: { Authorization: 'Basic bWU6cEBzcw==' } }],
      undefined,
    ],
  ])('are mended where no request changes: %s', async (_, settings, endpoints, userAgent) => {
    const result = await imported(withSettings(settings));
    const made = destinationIn(result);
    expect(made).toMatchObject({ enabled: true, settings: { endpoints } });
    expect(made?.settings.userAgent).toBe(userAgent);
    expect(lineOf(result, 'destination', 'd')).toMatchObject({ outcome: 'taken' });
    filesThatApply(result);
  });

  it.each([
    [
      'no scheme',
      { globalHook: 'a.example/in' },
      /has no scheme there: it is taken for https:\/\/a\.example\/in/,
    ],
    [
      'another scheme',
      { globalHook: 'ftp://a.example', hooks: [{ hook: 'https://b.example' }] },
      /must be an absolute http or https URL/,
    ],
    [
      'a reserved header',
      { hooks: [{ hook: 'https://a.example', headers: [{ key: 'Content-Type', value: 'text/xml' }] }] },
      /the header Content-Type is a reserved header/,
    ],
    [
      'a header that is none',
      { hooks: [{ hook: 'https://a.example', headers: [{ key: 'X A', value: '1' }] }] },
      /the header X A is not a header name/,
    ],
    [
      'a value with a line break',
      { hooks: [{ hook: 'https://a.example', headers: [{ key: 'X-A', value: 'a\r\nX-B: c' }] }] },
      /the header X-A must be text without control/,
    ],
    [
      'a masked value',
      {
        hooks: [{ hook: 'https://a.example', headers: [{ key: 'Authorization', value: '••••••••••3af1' }] }],
      },
      /the value of the header Authorization is masked/,
    ],
    [
      'one header twice',
      {
        hooks: [
          {
            hook: 'https://a.example',
            headers: [
              { key: 'X-A', value: '1' },
              { key: 'x-a', value: '2' },
            ],
          },
        ],
      },
      /the header x-a is given twice/,
    ],
    [
      'six headers',
      {
        hooks: [
          {
            hook: 'https://a.example',
            headers: [1, 2, 3, 4, 5, 6].map((nth) => ({ key: `X-${nth}`, value: '1' })),
          },
        ],
      },
      /the header X-6 is left out/,
    ],
    [
      'six URLs',
      { hooks: [1, 2, 3, 4, 5, 6].map((nth) => ({ hook: `https://${nth}.example` })) },
      /https:\/\/6\.example is left out/,
    ],
    [
      'agents that differ',
      {
        hooks: [
          { hook: 'https://a.example', headers: [{ key: 'User-Agent', value: 'a' }] },
          { hook: 'https://b.example' },
        ],
      },
      /its User-Agent/,
    ],
    [
      'a masked secret',
      { globalHook: 'https://a.example', sharedSecret: '••••••••••3af1' },
      /the secret is masked in the export: set CRM_SECRET/,
    ],
  ])('leave their destination off where a request would be another: %s', async (_, settings, reason) => {
    const result = await imported(withSettings(settings));
    expect(destinationIn(result)).toMatchObject({ enabled: false });
    expect(lineOf(result, 'destination', 'd')).toMatchObject({
      outcome: 'partly',
      reason: expect.stringMatching(reason),
    });
    filesThatApply(result);
  });

  it.each([
    ['none', {}],
    ['an empty one', { globalHook: ' ' }],
    ['one that is none', { globalHook: 'https://' }],
    ['one that is an object', { globalHook: { a: 1 } }],
  ])('make nothing of a destination with %s', async (_, settings) => {
    const result = await imported(withSettings(settings));
    expect(destinationIn(result)).toBeUndefined();
    expect(lineOf(result, 'destination', 'd')).toMatchObject({
      outcome: 'not',
      reason: expect.stringMatching(/no URL/),
    });
  });
});

describe('mappings', () => {
  const to = (url: string, more: Body = {}) => ({
    settings: { url, method: 'POST', data: { '@path': '$.' }, ...more },
  });

  it('are a destination that is on, where all ask for the same events as they are', async () => {
    const result = await imported(withMappings(to('https://a.example'), to('https://b.example')));
    expect(destinationIn(result)).toMatchObject({
      enabled: true,
      settings: {
        endpoints: [{ url: 'https://a.example' }, { url: 'https://b.example' }],
        success: 'each',
        filter: { types: ['track'] },
      },
    });
    expect(lineOf(result, 'subscription', 'm1')).toMatchObject({ outcome: 'taken' });
  });

  it('to the same URL are one URL', async () => {
    const result = await imported(withMappings(to('https://a.example'), to('https://a.example')));
    expect(destinationIn(result)).toMatchObject({
      enabled: true,
      settings: { endpoints: { length: 1 }, success: 'any' },
    });
    expect(lineOf(result, 'destination', 'd')?.reason).toMatch(/stands there more than once/);
  });

  it('to the same URL with other headers are two', async () => {
    const result = await imported(
      withMappings(
        to('https://a.example', { headers: { 'X-A': '1' } }),
        to('https://a.example', { headers: { 'X-A': '2' } }),
      ),
    );
    expect(destinationIn(result)).toMatchObject({ settings: { endpoints: { length: 2 }, success: 'each' } });
  });

  it.each([
    ['a body', to('https://a.example', { data: { '@path': '$.traits' } }), 'with shaping: its body'],
    ['a method', to('https://a.example', { method: 'put' }), 'with shaping: its method PUT'],
    ['batches', to('https://a.example', { enable_batching: true }), 'with shaping: its batches'],
    ['a trigger', { ...to('https://a.example'), trigger: 'properties.a = 1' }, 'with shaping: its trigger'],
    ['no trigger', { ...to('https://a.example'), trigger: undefined }, 'with shaping: its trigger'],
    ['another action', { ...to('https://a.example'), actionSlug: 'upload' }, 'with shaping: its body'],
  ])('with %s leave their destination off', async (_, mapping, reason) => {
    const result = await imported(withMappings(mapping));
    expect(destinationIn(result)).toMatchObject({ enabled: false });
    expect(lineOf(result, 'subscription', 'm0')).toMatchObject({ outcome: 'not', reason });
  });

  it.each([
    ['a computed URL', { settings: { url: { '@path': '$.x' } } }, /its URL/],
    ['reverse ETL', { ...to('https://a.example'), modelId: 'x' }, /reverse ETL/],
    ['being disabled', { ...to('https://a.example'), enabled: false }, /disabled there/],
  ])('with %s make no destination alone', async (_, mapping, reason) => {
    const result = await imported(withMappings(mapping));
    expect(destinationIn(result)).toBeUndefined();
    expect(lineOf(result, 'subscription', 'm0')).toMatchObject({
      outcome: 'not',
      reason: expect.stringMatching(reason),
    });
  });
});

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
