import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { quoted } from '../../../clients/e2e/sentences/quoted.ts';
import { send, track } from '../support/calls.ts';
import { adminTokenOf, logOf, makePlace, type Place, type Program, startServer } from '../support/program.ts';

/** Every library that runs in a browser or on a phone, by its name. */
const CLIENT_LIBRARIES = [
  ...['analytics.js', 'analytics-next', '@segment/analytics-next', '@millrace/client/browser'],
  ...['RudderLabs JavaScript SDK', 'jitsu-js', 'analytics-ios', 'analytics-android', 'analytics-swift'],
  ...['analytics-kotlin', 'analytics-react-native', '@segment/analytics-react-native', 'analytics-flutter'],
  'analytics_flutter',
];

const CLIENT = { 'x-forwarded-for': '1.2.3.4, 203.0.113.44' };

/** The tests stand in for the proxy: they add what a proxy would add. */
describe('the address of the client', () => {
  let place: Place;
  let program: Program;
  let calls = 0;

  beforeAll(async () => {
    place = makePlace(`trustedProxies: [127.0.0.1/32]
sources:
  - { name: keeping, writeKeys: [wk_new] }
  - { name: shortening, writeKeys: [wk_shorten], ip: shorten }
  - { name: dropping, writeKeys: [wk_drop], ip: drop }
  - { name: asking, writeKeys: [wk_direct], ip: direct }
  - { name: limiting, writeKeys: [wk_limit], rateLimitPerAddress: 1 }
  - { name: public, writeKeys: [wk_public], rateLimitPerAddress: 1 }
  - { name: ours, writeKeys: [wk_ours], rateLimitPerAddress: 1, trust: server }
`);
    program = await startServer(place);
  });

  afterAll(async () => {
    await program.kill();
    place.remove();
  });

  const ask = async (path: string, init: { method?: string; body?: object } = {}) => {
    const response = await fetch(`${program.url}/api/v1/${path}`, {
      headers: { authorization: `Bearer ${adminTokenOf(place)}` },
      ...(init.method === undefined ? {} : { method: init.method, body: JSON.stringify(init.body) }),
    });
    return (await response.json()) as Record<string, unknown>;
  };

  async function storedAddress(messageId: string): Promise<unknown> {
    const { data } = (await ask(`events/${messageId}`)) as {
      data?: { event: { context: { ip?: unknown } } }[];
    };
    return data![0]!.event.context.ip;
  }

  /** The `context.ip` of the stored event of a call. */
  async function addressOf(
    context: object,
    { writeKey = 'wk_new', headers = CLIENT as Record<string, string>, path = '/v1/track', more = {} } = {},
  ): Promise<unknown> {
    const messageId = `m${++calls}`;
    const call = track(messageId, { context, ...more });
    const body = path === '/v1/track' ? call : { batch: [call] };
    expect((await send(program.url, path, body, { writeKey, headers })).status).toBe(200);
    return await storedAddress(messageId);
  }

  const library = (name: string) => ({ library: { name, version: '1.0.0' } });
  const BROWSER = library('analytics.js');

  it('that sends more than its source takes from one is asked to wait, and nobody else', async () => {
    const batch = (headers: Record<string, string>) =>
      send(
        program.url,
        '/v1/batch',
        { batch: Array.from({ length: 50 }, () => track(`m${++calls}`)) },
        { writeKey: 'wk_limit', headers },
      );
    expect((await batch(CLIENT)).status).toBe(200);
    const refused = await batch(CLIENT);
    expect([refused.status, Number(refused.headers.get('retry-after'))]).toEqual([429, 50]);
    expect(refused.answer).toMatchObject({ code: 'rate_limited' });
    // What the client itself wrote into the header is no address: the proxy names the last one.
    expect((await batch({ 'x-forwarded-for': '198.51.100.1, 203.0.113.44' })).status).toBe(429);
    expect((await batch({ 'x-forwarded-for': '203.0.113.45' })).status).toBe(200);
    // The proxy itself, at a loopback address, is not limited.
    expect((await batch({})).status).toBe(200);
    expect((await batch({})).status).toBe(200);
    const lines = logOf(program.out.stderr).filter(({ event }) => event === 'source.address_over_limit');
    expect(lines).toMatchObject([{ source: 'limiting', requests: 1, rateLimitPerAddress: 1 }]);
  });

  it('limits a public key by the path of another service too, unless that one signs', async () => {
    const hundred = Array.from({ length: 100 }, (_, nth) => track(`r-${nth}`));
    const post = async (path: string, body: object, key: string, address: string) => {
      const { status } = await fetch(`${program.url}${path}`, {
        method: 'POST',
        headers: { authorization: `Basic ${btoa(`${key}:`)}`, 'x-forwarded-for': address },
        body: JSON.stringify(body),
      });
      return status;
    };
    const forwarded = (key: string, address: string) => post('/v1/forwarded', hundred, key, address);
    expect(await forwarded('wk_public', '198.51.100.2')).toBe(200);
    expect(await forwarded('wk_public', '198.51.100.2')).toBe(503);
    // Another service sends the calls of everybody from a few addresses, with a key that only it has.
    expect(await forwarded('wk_ours', '198.51.100.3')).toBe(200);
    expect(await forwarded('wk_ours', '198.51.100.3')).toBe(200);
  });

  it(
    quoted(
      'A call without `context.ip`, or with `null` there, gets the address that it came from, by the rule `ip` of its source:',
    ),
    async () => {
      const rules = ['wk_new', 'wk_shorten', 'wk_drop', 'wk_direct'];
      const of = (context: object) => Promise.all(rules.map((writeKey) => addressOf(context, { writeKey })));
      for (const ip of [{}, { ip: null }])
        expect(await of({ ...BROWSER, ...ip })).toEqual(['203.0.113.44', '203.0.113.0', ip.ip, ip.ip]);
      const asked = { ...library('analytics-go'), direct: true };
      expect(await of(asked)).toEqual(['203.0.113.44', '203.0.113.0', undefined, '203.0.113.44']);
      expect(await of(library('@segment/analytics-node'))).toEqual(rules.map(() => undefined));
      expect(await of({})).toEqual(rules.map(() => undefined));
      const own = { ...BROWSER, ip: '198.51.100.9' };
      expect(await of(own)).toEqual(['198.51.100.9', '198.51.100.0', undefined, '198.51.100.9']);
    },
  );

  it(
    quoted(
      'A call comes straight from a browser or a phone if it is a pixel, or if `context.library.name` is `analytics.js`, `analytics-next`, `@segment/analytics-next`, `@millrace/client/browser`, `RudderLabs JavaScript SDK`, `jitsu-js`, `analytics-ios`, `analytics-android`, `analytics-swift`, `analytics-kotlin`, `analytics-react-native`, `@segment/analytics-react-native`, `analytics-flutter` or `analytics_flutter`.',
    ),
    async () => {
      for (const name of CLIENT_LIBRARIES)
        expect([name, await addressOf(library(name))]).toEqual([name, '203.0.113.44']);
      const pixel = `${program.url}/v1/pixel/track?writeKey=wk_new&userId=u1&event=Opened&messageId=pixel`;
      expect((await fetch(pixel, { headers: CLIENT })).status).toBe(200);
      expect(await storedAddress('pixel')).toBe('203.0.113.44');
    },
  );

  it(quoted('The channel of a call does not matter.'), async () => {
    expect(await addressOf({}, { more: { channel: 'browser' } })).toBe(undefined);
    expect(await addressOf(BROWSER, { more: { channel: 'server' } })).toBe('203.0.113.44');
  });

  it(
    quoted(
      'Behind a proxy the address is the one in `X-Forwarded-For`, but only if the proxy is one of `trustedProxies`.',
    ),
    async () => {
      // The proxies between are not trusted, so that the last of them is the sender.
      const headers = { 'x-forwarded-for': '192.0.2.55, 198.51.100.1' };
      expect(await addressOf(BROWSER, { headers })).toBe('198.51.100.1');
    },
  );

  it(
    quoted(
      'An address that means something in one network alone is never filled in: a private, shared, loopback or link-local one.',
    ),
    async () => {
      expect(await addressOf(BROWSER, { headers: {} })).toBe(undefined);
      for (const address of ['10.1.1.1', '100.64.0.1', '169.254.3.4', 'fd00::1'])
        expect(await addressOf({ direct: true }, { headers: { 'x-forwarded-for': address } })).toBe(
          undefined,
        );
    },
  );

  it(
    quoted(
      'The calls of a batch at `/v1/imported` were made elsewhere, and none of them gets the address of whoever passes them on.',
    ),
    async () => {
      expect(await addressOf(BROWSER, { path: '/v1/import' })).toBe('203.0.113.44');
      expect(await addressOf(BROWSER, { path: '/v1/imported' })).toBe(undefined);
      expect(await addressOf({ direct: true }, { path: '/v1/imported' })).toBe(undefined);
      expect(await addressOf({ ip: '198.51.100.9' }, { path: '/v1/imported' })).toBe('198.51.100.9');
    },
  );

  it(
    quoted(
      'A shortened IPv4 address ends in 0 in place of its last number, and of an IPv6 address only the first 48 bits are kept.',
      "What is shortened or removed of a client's own is counted (`shortened_addresses`, `dropped_addresses`).",
    ),
    async () => {
      const counts = async () => {
        const { changedValues } = (await ask('status')) as {
          changedValues: Record<string, { counts: object }>;
        };
        return [changedValues['shortening']?.counts, changedValues['dropping']?.counts];
      };
      const before = (await counts()) as Record<string, number>[];
      const headers = { 'x-forwarded-for': '2001:db8:1:2:3::4' };
      expect(await addressOf(BROWSER, { writeKey: 'wk_shorten', headers })).toBe('2001:db8:1::');
      expect(await addressOf(BROWSER, { writeKey: 'wk_shorten' })).toBe('203.0.113.0');
      expect(await addressOf({ ip: '2001:db8:9:8::7' }, { writeKey: 'wk_shorten' })).toBe('2001:db8:9::');
      expect(await addressOf({ ip: 'unknown' }, { writeKey: 'wk_shorten' })).toBe(undefined);
      expect(await addressOf({ ip: '198.51.100.9' }, { writeKey: 'wk_drop' })).toBe(undefined);
      const [shortening, dropping] = before;
      expect(await counts()).toEqual([
        {
          shortened_addresses: (shortening?.['shortened_addresses'] ?? 0) + 1,
          dropped_addresses: (shortening?.['dropped_addresses'] ?? 0) + 1,
        },
        { dropped_addresses: (dropping?.['dropped_addresses'] ?? 0) + 1 },
      ]);
    },
  );

  it('each call of a batch goes by its own context over that of the batch', async () => {
    const batch = [
      track('own-library', { context: BROWSER }),
      track('shared-library'),
      track('own-address', { context: { ip: '198.51.100.9' } }),
      track('other-source', { context: BROWSER, writeKey: 'wk_direct' }),
    ];
    const addresses = async (context: object) => {
      const named = batch.map((call) => ({ ...call, messageId: `${call.messageId}-${calls++}` }));
      await send(
        program.url,
        '/v1/batch',
        { batch: named, context },
        { writeKey: 'wk_new', headers: CLIENT },
      );
      return await Promise.all(named.map(({ messageId }) => storedAddress(messageId)));
    };
    const [here, own] = ['203.0.113.44', '198.51.100.9'];
    expect(await addresses(library('analytics-java'))).toEqual([here, undefined, own, undefined]);
    expect(await addresses(library('analytics-ios'))).toEqual([here, here, own, undefined]);
    expect(await addresses({ direct: true })).toEqual([here, here, own, here]);
  });

  const askFrom = (forwardedFor: string, path: string, token: string) =>
    fetch(`${program.url}/api/v1/${path}`, {
      headers: { authorization: `Bearer ${token}`, 'x-forwarded-for': forwardedFor },
    });

  it('a call with context.direct has the address of its client', async () => {
    const headers = { 'x-forwarded-for': '1.2.3.4, 203.0.113.9' };
    const direct = track('m-direct', { context: { direct: true } });
    expect(await send(program.url, '/v1/track', direct, { writeKey: 'wk_new', headers })).toMatchObject({
      status: 200,
    });
    const answer = await askFrom('203.0.113.9', 'events/m-direct', adminTokenOf(place));
    const { data } = (await answer.json()) as { data: { event: { context: unknown } }[] };
    expect(data[0]!.event.context).toEqual({ direct: true, ip: '203.0.113.9' });
  });

  it('a client that guesses tokens has to wait, and no other client behind the same proxy', async () => {
    const statusAt = async (from: string, token: string) => (await askFrom(from, 'ledger', token)).status;
    const guess = () => statusAt('203.0.113.66', 'wrong');
    for (let nth = 0; nth < 20; nth++) expect(await guess()).toBe(401);
    expect(await guess()).toBe(429);
    expect(await statusAt('203.0.113.9', 'wrong')).toBe(401);
    // Nobody is kept out by the mistakes of others at the same address.
    expect(await statusAt('203.0.113.66', adminTokenOf(place))).toBe(200);
  });

  it(quoted('A file or a request without `ip` leaves a source the rule that it has.'), async () => {
    expect(await ask('sources/keeping')).toMatchObject({ ip: 'keep' });
    const patch = (body: object) => ask('sources/keeping', { method: 'PATCH', body });
    expect(await patch({ ip: 'shorten' })).toMatchObject({ ip: 'shorten' });
    expect(await patch({ mode: 'strict' })).toMatchObject({ ip: 'shorten', mode: 'strict' });
    await program.stop();
    program = await startServer(place);
    expect(await ask('sources/keeping')).toMatchObject({ ip: 'shorten', mode: 'standard' });
    expect(await patch({ ip: null })).toMatchObject({ ip: 'keep' });
    const refused = {
      errors: [{ path: 'body.ip', message: 'must be keep, shorten, drop or direct, found "hide"' }],
    };
    expect(await patch({ ip: 'hide' })).toMatchObject(refused);
    expect(await ask('sources', { method: 'POST', body: { name: 'made' } })).toMatchObject({ ip: 'keep' });
  });
});
