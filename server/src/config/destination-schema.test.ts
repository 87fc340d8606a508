import { describe, expect, it } from 'vitest';
import { RESERVED_HEADERS, urlProblem } from '../destinations/http/settings.ts';
import { webhooks } from '../destinations/webhooks/destination.ts';
import { findOversizedPart } from '../destinations/webhooks/settings.ts';
import { writtenSettings } from './destination-schema.ts';

const SETTINGS = writtenSettings(webhooks);

/** Path and message of everything that is wrong with these settings. */
function problemsIn(settings: unknown): { path: string; message: string }[] {
  const issues = SETTINGS.safeParse(settings).error?.issues ?? [];
  return issues.map(({ path, message }) => ({ path: path.join('.'), message }));
}

const one = (headers: Record<string, unknown>) => ({ endpoints: [{ url: 'https://example.com/', headers }] });

describe('settings of a webhooks destination', () => {
  it('need only one endpoint and have defaults for the rest', () => {
    expect(SETTINGS.parse({ endpoints: [{ url: 'https://example.com/hook' }] })).toEqual({
      endpoints: [{ url: 'https://example.com/hook', headers: {} }],
      format: 'documented',
      success: 'any',
    });
  });

  it('keep everything that is given', () => {
    const settings = {
      endpoints: [
        { url: 'http://a.example:8080/x?y=1', headers: { Authorization: 'Bearer t', 'X-Team': 'growth' } },
        { url: 'https://b.example', headers: {} },
      ],
      sharedSecret: 's',
      format: 'canonical',
      success: 'each',
    };
    expect(SETTINGS.parse(settings)).toEqual(settings);
  });

  it('take 1 to 5 endpoints and still look into each of too many', () => {
    const endpoints = (count: number) =>
      Array.from({ length: count }, () => ({ url: 'https://example.com' }));
    const message = 'must be a list of 1 to 5 endpoints';
    expect(problemsIn({ endpoints: endpoints(5) })).toEqual([]);
    expect(problemsIn({ endpoints: [] })).toEqual([{ path: 'endpoints', message }]);
    expect(problemsIn({})).toEqual([{ path: 'endpoints', message }]);
    expect(problemsIn({ endpoints: [...endpoints(5), { url: 'x' }] })).toEqual([
      { path: 'endpoints.5.url', message: 'must be an absolute http or https URL' },
      { path: 'endpoints', message },
    ]);
  });

  it('take URLs of 2,048 characters and values of headers of 8,192, and no longer ones', () => {
    const url = (length: number) => 'https://example.com/'.padEnd(length, 'x');
    const value = (length: number) => one({ 'X-Long': 'x'.repeat(length) });
    expect(problemsIn({ endpoints: [{ url: url(2048) }] })).toEqual([]);
    expect(problemsIn({ endpoints: [{ url: url(2049) }] })).toEqual([
      {
        path: 'endpoints.0.url',
        message: 'must be an absolute http or https URL of at most 2048 characters',
      },
    ]);
    expect(problemsIn(value(8192))).toEqual([]);
    expect(problemsIn(value(8193))).toEqual([
      { path: 'endpoints.0.headers.X-Long', message: 'must be text of at most 8192 characters' },
    ]);
  });

  it('do not take port 0, which nothing can listen on', () => {
    for (const url of ['http://example.com:0', 'https://[2606:4700::1]:00000/x'])
      expect(problemsIn({ endpoints: [{ url }] })).toEqual([
        {
          path: 'endpoints.0.url',
          message: 'must be an absolute http or https URL with a port from 1 to 65535',
        },
      ]);
  });

  it('take a * in the names of a filter only at their end', () => {
    const filter = (...events: string[]) => ({ ...one({}), filter: { events } });
    expect(problemsIn(filter('Order *', '*', 'Order'))).toEqual([]);
    const message = 'must have no * but one at its end, which stands for any rest';
    expect(problemsIn(filter('* Placed', 'a*b', 'a**', '**', 'a*')).map(({ path }) => path)).toEqual([
      'filter.events.0',
      'filter.events.1',
      'filter.events.2',
      'filter.events.3',
    ]);
    expect(problemsIn(filter('*a'))).toEqual([{ path: 'filter.events.0', message }]);
  });

  it('take names of elsewhere as they are, and neither All nor too many', () => {
    const names = (...integrationNames: unknown[]) => problemsIn({ ...one({}), integrationNames });
    expect(names()).toEqual([]);
    expect(names('Webhooks', 'Score Leads (North Shop)', '__proto__', 'n'.repeat(255))).toEqual([]);
    const messages = names('All', 'all', '', ' a', 'a\n', 'n'.repeat(256), 7, '\ud800').map(
      ({ message }) => message,
    );
    const text =
      'must be text of 1 to 255 characters, without control characters, not starting or ending with a space';
    expect(messages).toEqual([
      ...Array.from({ length: 2 }, () => 'must not be All or all, which every destination answers to last'),
      ...Array.from({ length: 5 }, () => text),
      'must be whole Unicode characters',
    ]);
    expect(names('a', 'b', 'a')).toEqual([
      { path: 'integrationNames.2', message: 'is named twice in this list' },
    ]);
    expect(names(...Array.from({ length: 21 }, (_, n) => `n${n}`))).toEqual([
      { path: 'integrationNames', message: 'must be a list of at most 20 names' },
    ]);
    expect(problemsIn({ ...one({}), integrationNames: 'Webhooks' })).toEqual([
      { path: 'integrationNames', message: 'must be a list of at most 20 names' },
    ]);
  });

  it('say which list is too long to be looked into', () => {
    const many = (count: number) => Array.from({ length: count }, () => ({ url: 7 }));
    const headers = (count: number) => Object.fromEntries(many(count).map((_, nth) => [`h${nth}`, 'x']));
    expect(findOversizedPart({ endpoints: many(20) })).toBe(undefined);
    expect(findOversizedPart({ endpoints: many(21) })?.path).toEqual(['endpoints']);
    expect(findOversizedPart(one(headers(20)))).toBe(undefined);
    expect(findOversizedPart({ endpoints: [{}, { headers: headers(21) }] })?.path).toEqual([
      'endpoints',
      1,
      'headers',
    ]);
    for (const other of [null, 7, [], {}, { endpoints: 'x' }, { endpoints: [null] }])
      expect(findOversizedPart(other)).toBe(undefined);
  });

  it('do not take an endpoint that is only a URL', () => {
    expect(problemsIn({ endpoints: ['https://example.com'] })).toEqual([
      { path: 'endpoints.0', message: 'must be a mapping with url and headers' },
    ]);
  });

  it('keep what is optional beside them', () => {
    const settings = {
      ...one({}),
      signingSecrets: [`whsec_${'A'.repeat(32)}`, `whsec_${Buffer.alloc(64, 1).toString('base64')}`],
      format: 'documented',
      success: 'any',
      filter: { types: ['track', 'page'], events: ['Order *'] },
      rateLimit: 100_000,
      concurrency: 1,
    };
    expect(SETTINGS.parse(settings)).toEqual(settings);
  });

  it.each([23, 65])('take no signing secret of %i bytes', (bytes) => {
    const secret = `whsec_${Buffer.alloc(bytes, 1).toString('base64')}`;
    expect(problemsIn({ ...one({}), signingSecrets: [secret] })).toEqual([
      {
        path: 'signingSecrets.0',
        message: 'must be whsec_ followed by the base64 of 24 to 64 bytes',
      },
    ]);
  });

  it.each(Array.from({ length: 41 }, (_, n) => n + 24))('take a signing secret of %i bytes', (bytes) => {
    const secret = `whsec_${Buffer.alloc(bytes, 255).toString('base64')}`;
    expect(problemsIn({ ...one({}), signingSecrets: [secret] })).toEqual([]);
  });

  it('say where and why the optional parts are wrong', () => {
    const wrong = {
      ...one({}),
      signingSecrets: ['a', 'b'],
      filter: { types: ['delete'], events: [], users: [] },
      rateLimit: 0.5,
      concurrency: 1000,
    };
    expect(problemsIn(wrong).map(({ path }) => path)).toEqual([
      'signingSecrets.0',
      'signingSecrets.1',
      'filter.types.0',
      'filter.events',
      'filter',
      'rateLimit',
      'concurrency',
    ]);
  });

  it('do not take an empty shared secret, nor other formats and ways to succeed', () => {
    expect(problemsIn({ ...one({}), sharedSecret: '', format: 'xml', success: 'all' })).toEqual([
      { path: 'sharedSecret', message: 'must be text of at least 1 character' },
      { path: 'format', message: 'must be documented, canonical or segment' },
      { path: 'success', message: 'must be any or each' },
    ]);
  });
});

describe('the URL of an endpoint', () => {
  it.each([
    'http://example.com',
    'https://example.com/hook?a=b&c=%20',
    'HTTPS://EXAMPLE.COM/',
    'http://127.0.0.1:4000/',
    'http://[::1]:4000/x',
    'https://münchen.example/pfad',
    'https://example.com/a@b',
    'https://example.com?x=1',
  ])('may be %s', (url) => {
    expect(urlProblem(url)).toBeUndefined();
  });

  it.each([
    '',
    'example.com/hook',
    '/hook',
    '//example.com/hook',
    'ftp://example.com',
    'https:example.com',
    'https:///hook',
    'https://',
    'https://exa mple.com/',
    'https://example.com/a b',
    ' https://example.com',
    'https://example.com/\n',
    'https://example.com:99999/',
    'https://[::1/',
    'https:\\\\example.com',
    'javascript:alert(1)',
  ])('must be absolute http or https, unlike %j', (url) => {
    expect(urlProblem(url)).toBe('must be an absolute http or https URL');
  });

  it.each([
    ['https://user:secret@example.com/', 'user name and password'],
    ['https://user@example.com/', 'user name and password'],
    ['https://@example.com/', 'user name and password'],
    ['https://example.com/#top', 'without a fragment'],
    ['https://example.com/#', 'without a fragment'],
  ])('carries nothing that is never sent, unlike %s', (url, part) => {
    expect(urlProblem(url)).toContain(part);
  });
});

describe('static headers', () => {
  it('may be 5, not 6, even if one of the 6 is wrong by itself', () => {
    expect(problemsIn(one({ a: '1', b: '2', c: '3', d: '4', e: '5' }))).toEqual([]);
    expect(
      problemsIn(one({ a: '1', b: '2', c: '3', d: '4', e: 5, Host: '6' })).map(({ message }) => message),
    ).toEqual([
      'must be text without control characters or characters beyond Latin-1',
      'must have at most 5 headers',
      expect.stringContaining('is a reserved header'),
    ]);
  });

  const examples = RESERVED_HEADERS.map((name) => name.replace('*', 'Anything'));
  it.each(examples.flatMap((name) => [name, name.toLowerCase(), name.toUpperCase()]))(
    'cannot be %s',
    (name) => {
      expect(problemsIn(one({ [name]: 'x' }))).toEqual([
        { path: `endpoints.0.headers.${name}`, message: expect.stringContaining('is a reserved header') },
      ]);
    },
  );

  it.each(['Authorization', 'X-Signature-2', 'Hosts', 'Contents', 'X-Content-Type', 'Webhook', 'X.Y_Z~1'])(
    'can be %s',
    (name) => {
      expect(problemsIn(one({ [name]: 'x' }))).toEqual([]);
    },
  );

  it.each(['', 'X Team', 'X:Team', 'X-Team\n', 'Größe', 'a(b)'])(
    'need a name that HTTP allows, unlike %j',
    (name) => {
      expect(problemsIn(one({ [name]: 'x' }))).toEqual([
        { path: `endpoints.0.headers.${name}`, message: expect.stringContaining('is not a header name') },
      ]);
    },
  );

  it('cannot repeat a name in another case', () => {
    expect(problemsIn(one({ 'X-Team': 'a', 'x-team': 'b' }))).toEqual([
      { path: 'endpoints.0.headers.x-team', message: 'is the same header as X-Team: case does not matter' },
    ]);
  });

  it.each(['a\nb', 'a\r\nX-Other: b', 'a\tb', '\u0000', 'a\u007f', 'snow \u2603', 5, true, null])(
    'need a value that HTTP can carry, unlike %j',
    (value) => {
      expect(problemsIn(one({ 'X-Team': value }))).toEqual([
        {
          path: 'endpoints.0.headers.X-Team',
          message: 'must be text without control characters or characters beyond Latin-1',
        },
      ]);
    },
  );

  it.each(['', 'a b', 'café', '"quoted"; q=1'])('can have the value %j', (value) => {
    expect(problemsIn(one({ 'X-Team': value }))).toEqual([]);
  });
});
