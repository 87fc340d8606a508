import { describe, expect, it } from 'vitest';
import {
  ACTIONS,
  ANSWERS,
  type Body,
  CLASSIC,
  DESTINATION,
  destinationIn,
  filesThatApply,
  imported,
  lineOf,
  withMappings,
  withSettings,
  workspaceOf,
} from '../../test/exported-workspace.ts';
import { readPublicApi } from './public-api.ts';
import { StoredAnswers } from './public-api-files.ts';
import { readRudderStack } from './rudderstack.ts';
import { readGitSync } from './terraform.ts';
import { translate } from './translate.ts';

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

describe('a destination that needs consent in another form', () => {
  const hook = { id: 'r', name: 'Hook', enabled: true, destinationDefinition: { name: 'WEBHOOK' } };
  const consents = [{ consent: 'Ads' }, { consent: '' }];

  it.each([
    [false, {}],
    [false, { consentManagement: [], oneTrustCookieCategories: [{ oneTrustCookieCategory: '' }] }],
    [true, { consentManagement: [{ provider: 'oneTrust', consents }] }],
    [true, { oneTrustCookieCategories: [{ oneTrustCookieCategory: 'Ads' }] }],
    [true, { ketchConsentPurposes: [{ purpose: 'Ads' }] }],
  ])('is off: %s', (isOff, config) => {
    const destinations = [{ ...hook, config: { webhookUrl: 'https://a.example', ...config } }];
    const workspace = readRudderStack({
      workspaceId: 'w',
      sources: [{ id: 's', name: 'S', writeKey: 'k', enabled: true, destinations }],
    });
    const result = translate(workspace!, {});
    expect(destinationIn(result)).toMatchObject({ enabled: !isOff });
    expect(lineOf(result, 'destination', 'r')?.reason ?? '').toMatch(isOff ? /needs the consent Ads,/ : /^$/);
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
