import { describe, expect, it } from 'vitest';
import { ConfigError, loadConfig } from './load.ts';

const load = (text: string) =>
  loadConfig({ file: { path: 'f.yaml', text }, env: {}, flags: {}, defaults: { host: 'h' } });

function problem(text: string): string {
  try {
    load(text);
  } catch (error) {
    if (error instanceof ConfigError) return error.message;
    throw error;
  }
  return 'none';
}

describe('the keys of the listener', () => {
  it('may be several public addresses', () => {
    const { config } = load('publicUrl: [https://a.example, http://b.example/in]');
    expect(config.publicUrl).toEqual(['https://a.example', 'http://b.example/in']);
    expect(problem('publicUrl: []')).toMatch(/1:12 {2}publicUrl/);
    expect(problem('publicUrl: [a.example]')).toMatch(/must be an absolute http or https URL/);
  });

  it('are taken as they are written', () => {
    const { config, warnings } = load(`
publicUrl: https://example.com/events
trustedProxies: [127.0.0.1/32, fd00::/8]
tls: { cert: a.pem, key: b.pem }
threads: 3
limits: { connections: 10, requests: 20, requestBytes: 3MB, dedupeMemory: 5MB }
sources: [{ name: web, writeKeys: [wk], rateLimit: 50 }]
`);
    expect(warnings).toEqual([]);
    expect(config).toMatchObject({
      publicUrl: 'https://example.com/events',
      trustedProxies: ['127.0.0.1/32', 'fd00::/8'],
      tls: { cert: 'a.pem', key: 'b.pem' },
      threads: 3,
      limits: { connections: 10, requests: 20, requestBytes: 3 * 1024 ** 2, dedupeMemory: 5 * 1024 ** 2 },
      sources: [{ rateLimit: 50 }],
    });
  });

  const THREADS = 'must be auto or a whole number from 0 to 16';
  const COUNT = 'must be a whole number from 1 to 1000000';
  const URL =
    'must be an absolute http or https URL without a query, such as https://collect.example.com, or a list of such';

  it.each([
    ['limits: { requests: 0 }', `1:21  limits.requests  ${COUNT}, found the number 0`],
    ['limits: { connections: 1.5 }', `1:24  limits.connections  ${COUNT}, found the number 1.5`],
    [
      'limits: { requestBytes: 64 }',
      '1:25  limits.requestBytes  must be a size such as 64MB, found the number 64',
    ],
    [
      'trustedProxies: [10.0.0.1]',
      '1:18  trustedProxies[0]  must be an address range such as 10.20.0.0/16, 192.0.2.7/32 or fd00::/8, found "10.0.0.1"',
    ],
    ['threads: 17', `1:10  threads  ${THREADS}, found the number 17`],
    ['threads: many', `1:10  threads  ${THREADS}, found "many"`],
    ['publicUrl: example.com', `1:12  publicUrl  ${URL}, found "example.com"`],
    ['publicUrl: "https://example.com/?a=b"', `1:12  publicUrl  ${URL}, found "https://example.com/?…"`],
    [
      'sources: [{ name: web, writeKeys: [wk], rateLimit: 10/s }]',
      `1:52  sources[0].rateLimit  ${COUNT}, found "10/s"`,
    ],
  ])('are refused with their place when wrong: %s', (text, message) => {
    expect(problem(text)).toBe(`f.yaml:${message}`);
  });
});

/** Every problem of a file called `f`, as its line without the name. */
function problems(text: string, env: Record<string, string> = {}): string[] {
  try {
    loadConfig({ file: { path: 'f', text }, env, flags: {}, defaults: { host: 'localhost' } });
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return error.problems.map(({ line, column, path, message }) => `${line}:${column}  ${path}  ${message}`);
  }
  throw new Error('the configuration was accepted');
}

const NAME =
  'must be text of 1 to 100 characters, without control characters, not starting or ending with a space';
const KEY = 'must be text of 1 to 100 visible ASCII characters without a colon';
const RANGE = 'must be an address range such as 10.20.0.0/16, 192.0.2.7/32 or fd00::/8';
const DURATION = 'must be a duration such as 250ms, 5s, 10m, 4h or 7d';
const VALUE = 'must be text without control characters or characters beyond Latin-1';
const PORT = 'must be a whole number from 0 to 65535';
const WEB = 'must be an absolute http or https URL';
const RESERVED =
  'Host, Content-*, Transfer-Encoding, Connection, Keep-Alive, TE, Trailer, Upgrade, Expect, Proxy-*, User-Agent, ' +
  'X-Signature, X-Signature-Next, X-Replay-Id, Webhook-*';
const TAKEN = 'must not be Webhooks, All or all: in an integrations object these stand for many destinations';
const LONG = 'n'.repeat(101);

/** A destination on one line; what is wrong stands at the end of its line. */
const destination = (keys: string) =>
  `destinations:\n  - name: d\n    type: webhooks\n    sources: []\n    settings:\n      ${keys}`;
const endpoint = (keys: string) => destination(`endpoints:\n        - ${keys}`);
const at = 'destinations[0].settings';

describe('each rule of the configuration names line, column, path, what is allowed and what was found', () => {
  it.each<[string, string, string]>([
    ['port too large', 'port: 65536', `1:7  port  ${PORT}, found the number 65536`],
    ['port below 0', 'port: -1', `1:7  port  ${PORT}, found the number -1`],
    ['port as text', 'port: "80"', `1:7  port  ${PORT}, found "80"`],
    [
      'host with a scheme',
      'host: http://x',
      '1:7  host  must be an address or a host name, found "http://x"',
    ],
    ['empty key', 'port: 1\ndata:', '2:6  data  must be text: the path of a file or folder, found nothing'],
    ['log level', 'log: loud', '1:6  log  must be debug, info, warn or error, found "loud"'],
    ['database', 'database: mysql://secret', '1:11  database  must be a postgres:// address'],
    ['admin port', 'admin: { port: x }', `1:16  admin.port  ${PORT}, found "x"`],
    [
      'admin token',
      'admin:\n  token: ""',
      '2:10  admin.token  must be text of visible ASCII characters, found ""',
    ],
    [
      'duration without unit',
      'retention: { events: 7 }',
      `1:22  retention.events  ${DURATION}, found the number 7`,
    ],
    [
      'duration of 0',
      'retention: { deadLetters: 0d }',
      `1:27  retention.deadLetters  ${DURATION}, found "0d"`,
    ],
    ['duration unit', 'retention: { events: 1w }', `1:22  retention.events  ${DURATION}, found "1w"`],
    [
      'size',
      'limits: { disk: 10 gb }',
      '1:17  limits.disk  must be a size such as 500MB or 10GB, found "10 gb"',
    ],
    [
      'unknown write keys',
      'unknownWriteKeys: no',
      '1:19  unknownWriteKeys  must be refuse or discard, found "no"',
    ],
    ['metrics', 'metrics: { public: yes }', '1:20  metrics.public  must be true or false, found "yes"'],
    [
      'tls without key',
      'tls:\n  cert: a',
      '2:3  tls.key  is missing: must be text: the path of a file or folder',
    ],
    ['proxy', 'egress: { proxy: u:pw@p }', `1:18  egress.proxy  ${WEB}, found "…@p"`],
    [
      'address without length',
      'egress: { allow: [10.0.0.1] }',
      `1:19  egress.allow[0]  ${RANGE}, found "10.0.0.1"`,
    ],
    [
      'length too large',
      'egress: { allow: [10.0.0.0/33] }',
      `1:19  egress.allow[0]  ${RANGE}, found "10.0.0.0/33"`,
    ],
    ['short address', 'egress: { allow: [10.0/8] }', `1:19  egress.allow[0]  ${RANGE}, found "10.0/8"`],
    [
      'octal address',
      'egress: { allow: [010.0.0.0/8] }',
      `1:19  egress.allow[0]  ${RANGE}, found "010.0.0.0/8"`,
    ],
    [
      'IPv6 zone',
      'egress: { allow: ["fe80::%1/64"] }',
      `1:19  egress.allow[0]  ${RANGE}, found "fe80::%1/64"`,
    ],
    ['not a list', 'sources: web', '1:10  sources  must be a list of sources, found text'],
    ['not a mapping', '- a\n- b', '1:1    must be a mapping of settings, found a list of 2'],
  ])('settings of the server: %s', (_, text, line) => {
    expect(problems(text)).toEqual([line]);
  });

  it.each<[string, string, string]>([
    ['no name', 'sources:\n  - writeKeys: [a]', `2:5  sources[0].name  is missing: ${NAME}`],
    ['empty name', 'sources:\n  - { name: "", writeKeys: [a] }', `2:13  sources[0].name  ${NAME}, found ""`],
    [
      'long name',
      `sources:\n  - { name: ${LONG}, writeKeys: [a] }`,
      `2:13  sources[0].name  ${NAME}, found "${'n'.repeat(79)}…"`,
    ],
    [
      'number as name',
      'sources:\n  - { name: 5, writeKeys: [a] }',
      `2:13  sources[0].name  ${NAME}, found the number 5: put it in quotes`,
    ],
    [
      'no write key',
      'sources:\n  - { name: a, writeKeys: [] }',
      '2:27  sources[0].writeKeys  must have at least 1 write key, found an empty list',
    ],
    [
      'no list of write keys',
      'sources:\n  - { name: a }',
      '2:5  sources[0].writeKeys  is missing: must be a list of write keys',
    ],
    [
      'write key with a colon',
      'sources:\n  - { name: a, writeKeys: ["a:b"] }',
      `2:28  sources[0].writeKeys[0]  ${KEY}`,
    ],
    [
      'write key with an umlaut',
      'sources:\n  - { name: a, writeKeys: [ä] }',
      `2:28  sources[0].writeKeys[0]  ${KEY}`,
    ],
    [
      'empty write key',
      'sources:\n  - { name: a, writeKeys: [""] }',
      `2:28  sources[0].writeKeys[0]  ${KEY}, found ""`,
    ],
    [
      'long write key',
      `sources:\n  - { name: a, writeKeys: [${LONG}] }`,
      `2:28  sources[0].writeKeys[0]  ${KEY}`,
    ],
    [
      'number as write key',
      'sources:\n  - { name: a, writeKeys: [12345] }',
      `2:28  sources[0].writeKeys[0]  ${KEY}, found a number: put it in quotes`,
    ],
    [
      'name twice',
      'sources:\n  - { name: a, writeKeys: [x] }\n  - { name: a, writeKeys: [y] }',
      '3:13  sources[1].name  is also the name of sources[0]',
    ],
    [
      'write key twice',
      'sources:\n  - { name: a, writeKeys: [x] }\n  - { name: b, writeKeys: [y, x] }',
      '3:31  sources[1].writeKeys[1]  is also a write key of sources[0]',
    ],
    [
      'mode',
      'sources:\n  - { name: a, writeKeys: [x], mode: lax }',
      '2:38  sources[0].mode  must be standard or strict, found "lax"',
    ],
    [
      'whenDisabled',
      'sources:\n  - { name: a, writeKeys: [x], whenDisabled: 1 }',
      '2:46  sources[0].whenDisabled  must be refuse or discard, found the number 1',
    ],
  ])('sources: %s', (_, text, line) => {
    expect(problems(text)).toEqual([line]);
  });

  it.each<[string, string, string]>([
    [
      'no endpoints',
      destination('format: canonical'),
      `6:7  ${at}.endpoints  is missing: must be a list of 1 to 5 endpoints`,
    ],
    [
      'empty list',
      destination('endpoints: []'),
      `6:18  ${at}.endpoints  must be a list of 1 to 5 endpoints, found an empty list`,
    ],
    [
      'six endpoints',
      destination(`endpoints: [${Array.from({ length: 6 }, () => '{ url: http://a }').join(', ')}]`),
      `6:18  ${at}.endpoints  must be a list of 1 to 5 endpoints, found a list of 6`,
    ],
    [
      'URL alone',
      endpoint('http://a'),
      `7:11  ${at}.endpoints[0]  must be a mapping with url and headers, found text`,
    ],
    [
      'relative URL',
      endpoint('url: example.com/hook'),
      `7:16  ${at}.endpoints[0].url  ${WEB}, found "example.com/hook"`,
    ],
    [
      'URL with credentials',
      endpoint('url: http://u:p@a/x'),
      `7:16  ${at}.endpoints[0].url  ${WEB} without user name and password; use an Authorization header, found "…@a/x"`,
    ],
    [
      'URL with fragment',
      endpoint('url: http://a/?key=1#x'),
      `7:16  ${at}.endpoints[0].url  ${WEB} without a fragment (the part from # on), which is never sent, found "http://a/?…"`,
    ],
    [
      'reserved header',
      endpoint('{ url: http://a, headers: { x: y, content-type: z } }'),
      `7:45  ${at}.endpoints[0].headers.content-type  is a reserved header; reserved are ${RESERVED}`,
    ],
    [
      'header name',
      endpoint('{ url: http://a, headers: { "a b": z } }'),
      `7:39  ${at}.endpoints[0].headers["a…"]  is not a header name: letters, digits and !#$%&'*+-.^_\`|~ are allowed`,
    ],
    [
      'header name twice',
      endpoint('{ url: http://a, headers: { X-A: z, x-a: y } }'),
      `7:47  ${at}.endpoints[0].headers.x-a  is the same header as X-A: case does not matter`,
    ],
    [
      'six headers',
      endpoint('{ url: http://a, headers: { a: z, b: z, c: z, d: z, e: z, f: z } }'),
      `7:37  ${at}.endpoints[0].headers  must have at most 5 headers, found a mapping of 6`,
    ],
    [
      'header value',
      endpoint('{ url: http://a, headers: { a: "b\\nc" } }'),
      `7:42  ${at}.endpoints[0].headers.a  ${VALUE}`,
    ],
    [
      'number as header value',
      endpoint('{ url: http://a, headers: { a: 1 } }'),
      `7:42  ${at}.endpoints[0].headers.a  ${VALUE}, found a number: put it in quotes`,
    ],
    [
      'empty secret',
      destination('{ endpoints: [{ url: http://a }], sharedSecret: "" }'),
      `6:55  ${at}.sharedSecret  must be text of at least 1 character, found ""`,
    ],
    [
      'signing secret, which is not shown',
      destination('{ endpoints: [{ url: http://a }], signingSecrets: [geheim] }'),
      `6:58  ${at}.signingSecrets[0]  must be whsec_ followed by the base64 of 24 to 64 bytes`,
    ],
    [
      'type in a filter',
      destination('{ endpoints: [{ url: http://a }], filter: { types: [delete] } }'),
      `6:59  ${at}.filter.types[0]  must be one of identify, track, page, screen, group, alias, found "delete"`,
    ],
    [
      'rate limit',
      destination('{ endpoints: [{ url: http://a }], rateLimit: 0.5 }'),
      `6:52  ${at}.rateLimit  must be a whole number of requests a second, from 1 to 100000, found the number 0.5`,
    ],
    [
      'format',
      destination('{ endpoints: [{ url: http://a }], format: xml }'),
      `6:49  ${at}.format  must be documented, canonical or segment, found "xml"`,
    ],
    [
      'success',
      destination('{ endpoints: [{ url: http://a }], success: all }'),
      `6:50  ${at}.success  must be any or each, found "all"`,
    ],
  ])('settings of a destination: %s', (_, text, line) => {
    expect(problems(text)).toEqual([line]);
  });

  const rest = 'type: webhooks, sources: [], settings: { endpoints: [{ url: http://a }] }';
  it.each<[string, string, string]>([
    ...['Webhooks', 'All', 'all'].map((name): [string, string, string] => [
      `the name ${name}`,
      `destinations:\n  - { name: ${name}, ${rest} }`,
      `2:13  destinations[0].name  ${TAKEN}`,
    ]),
    [
      'name twice',
      `destinations:\n  - { name: a, ${rest} }\n  - { name: a, ${rest} }`,
      '3:13  destinations[1].name  is also the name of destinations[0]',
    ],
    [
      'type',
      'destinations:\n  - { name: a, type: ftp, sources: [], settings: { endpoints: [{ url: http://a }] } }',
      '2:22  destinations[0].type  must be webhooks or segment, found "ftp"',
    ],
    [
      'source named twice',
      'destinations:\n  - { name: a, type: webhooks, sources: [s, s], settings: { endpoints: [{ url: http://a }] } }',
      '2:45  destinations[0].sources[1]  is named twice in this list',
    ],
    [
      'enabled',
      `destinations:\n  - { name: a, enabled: 1, ${rest} }`,
      '2:25  destinations[0].enabled  must be true or false, found the number 1',
    ],
  ])('destinations: %s', (_, text, line) => {
    expect(problems(text)).toEqual([line]);
  });
});
