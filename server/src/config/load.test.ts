import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { describe, expect, it } from 'vitest';
import { DAY } from '../model/time.ts';
import { ConfigError, type ConfigInputs, isAdminExposed, loadConfig } from './load.ts';

/** The file of spec/contract.md, "Configuration file". */
const CONTRACT = (() => {
  const page = readFileSync(new URL('../../../spec/contract.md', import.meta.url), 'utf8');
  const [, yaml] = /^## Configuration file\n\n```yaml\n([\s\S]*?)^```$/m.exec(page) ?? [];
  if (yaml === undefined) throw new Error('spec/contract.md shows no configuration file');
  return yaml;
})();

function load(text?: string, rest: Partial<ConfigInputs> = {}) {
  const file = text === undefined ? {} : { file: { path: 'millrace.yaml', text } };
  return loadConfig({ ...file, env: {}, flags: {}, defaults: { host: '127.0.0.1' }, ...rest });
}

/** The lines of the refusal; fails when the configuration is accepted. */
function refusal(text?: string, rest: Partial<ConfigInputs> = {}): string[] {
  try {
    load(text, rest);
  } catch (error) {
    if (error instanceof ConfigError) return error.message.split('\n');
    throw error;
  }
  throw new Error('the configuration was accepted');
}

const MB = 1024 ** 2;
const USERS = {
  alerts: [],
  audiences: [],
  traits: [],
  threads: 'auto',
  profiles: 'auto',
  identities: {
    externalIds: [],
    blocked: ['null', 'undefined', 'anonymous', '-1', '0'],
    limits: { anonymousIds: 900, externalIds: 100 },
    alias: 'join',
  },
};

const LIMITS = { connections: 16_000, requests: 10_000, requestBytes: 64 * MB };

const source = (more = '') => `sources:\n  - name: web\n    writeKeys: [wk]\n${more}`;

describe('a configuration file', () => {
  it('loads the example of the contract exactly', () => {
    const env = { MILLRACE_ADMIN_TOKEN: 'token-of-the-admin', CRM_SECRET: 's3cret' };
    const { config } = load(CONTRACT, { env });
    expect(config).toStrictEqual({
      host: '0.0.0.0',
      node: hostname(),
      port: 8080,
      data: './data',
      admin: { token: 'token-of-the-admin', hosts: [] },
      retention: {
        events: 7 * DAY,
        deadLetters: 30 * DAY,
        profiles: { anonymous: 90 * DAY, known: 'off' },
        audit: 365 * DAY,
        regulations: 365 * DAY,
      },
      unknownWriteKeys: 'refuse',
      egress: { allow: ['10.20.0.0/16'] },
      trustedProxies: [],
      metrics: { public: false },
      limits: LIMITS,
      log: 'info',
      ...USERS,
      secrets: { previousKeys: [] },
      sources: [
        {
          name: 'website',
          writeKeys: ['wk_web_1'],
          enabled: true,
          mode: 'standard',
          whenDisabled: 'refuse',
          ip: 'keep',
          trust: 'client',
          projectId: '8Gjk2lq',
        },
      ],
      destinations: [
        {
          name: 'crm',
          type: 'webhooks',
          sources: ['website'],
          enabled: true,
          settings: {
            endpoints: [{ url: 'https://example.com/hook', headers: { 'X-Team': 'growth' } }],
            sharedSecret: 's3cret',
            format: 'documented',
            userAgent: 'Segment.io/1.0',
          },
          success: 'any',
        },
      ],
    });
  });

  it.each([
    ['no file', undefined],
    ['an empty file', ''],
    ['a file of comments', '# nothing yet\n---\n# really\n'],
  ])('has a default for everything: %s', (_, text) => {
    expect(load(text)).toEqual({
      config: {
        host: '127.0.0.1',
        node: hostname(),
        port: 8080,
        data: './data',
        admin: { hosts: [] },
        retention: { events: 7 * DAY, deadLetters: 30 * DAY, profiles: {} },
        unknownWriteKeys: 'refuse',
        egress: { allow: [] },
        trustedProxies: [],
        metrics: { public: false },
        limits: LIMITS,
        log: 'info',
        ...USERS,
        secrets: { previousKeys: [] },
        sources: [],
        destinations: [],
      },
      warnings: [],
      lineAt: expect.any(Function),
    });
  });

  it('takes every duration and size, sizes in steps of 1024', () => {
    const durations = { '250ms': 250, '5s': 5000, '10m': 600_000, '4h': 14_400_000, '7d': 604_800_000 };
    for (const [written, expected] of Object.entries(durations)) {
      expect(load(`retention: { events: ${written} }`).config.retention.events).toBe(expected);
    }
    expect(load('limits: { disk: 32KB }').config.limits.disk).toBe(32_768);
    expect(load('limits: { disk: 10GB }').config.limits.disk).toBe(10 * 1024 ** 3);
  });

  it.each([
    ['90d', 90 * DAY],
    ['1y', 365 * DAY],
    ['12h', DAY / 2],
    ['off', 'off'],
  ])('takes %s as how long profiles, the audit trail and receipts stay', (written, expected) => {
    const { retention } = load(`retention: { profiles: { known: ${written} }, audit: ${written} }`).config;
    expect(retention).toMatchObject({ profiles: { known: expected }, audit: expected });
    expect(retention.regulations).toBeUndefined();
  });

  it.each(['0d', 'never', '1w', '90', 'true'])('refuses %s there', (written) => {
    const rule = /must be a duration such as 12h, 90d or 1y, or off/;
    expect(() => load(`retention: { audit: ${written} }`)).toThrow(rule);
    expect(() => load(`retention: { profiles: { anonymous: ${written} } }`)).toThrow(rule);
  });

  it('takes IPv4 and IPv6 ranges, and 0 as the port', () => {
    const { config } = load('port: 0\negress: { allow: [0.0.0.0/0, 10.0.0.5/32, "::1/128", "fd00::/8"] }');
    expect(config.egress.allow).toEqual(['0.0.0.0/0', '10.0.0.5/32', '::1/128', 'fd00::/8']);
    expect(config.port).toBe(0);
  });

  it('lets an anchor stand for what it names', () => {
    const endpoints =
      '[{ url: https://a.example, headers: &h { X-A: "1" } }, { url: https://b.example, headers: *h }]';
    const { config } = load(
      `destinations: [{ name: d, type: webhooks, sources: [], settings: { endpoints: ${endpoints} } }]`,
    );
    expect(config.destinations[0]?.settings).toMatchObject({ endpoints: [{}, { headers: { 'X-A': '1' } }] });
  });
});

describe('the key of the secrets', () => {
  const HEX = 'ab'.repeat(32);
  const BASE64 = Buffer.from(HEX, 'hex').toString('base64');

  it('is written in base64 or hexadecimal digits, or in a file, in the file or the environment', () => {
    const files = (path: string) => ({ key: { file: path }, previousKeys: [] });
    expect(load(`secrets: { key: ${BASE64} }`).config.secrets).toEqual({ key: BASE64, previousKeys: [] });
    expect(load(`secrets: { key: ${HEX}, previousKeys: [{ file: /k }] }`).config.secrets).toEqual({
      key: HEX,
      previousKeys: [{ file: '/k' }],
    });
    expect(load('secrets: { key: { file: /run/key } }').config.secrets).toEqual(files('/run/key'));
    expect(load('', { env: { MILLRACE_SECRETS_KEY: HEX } }).config.secrets.key).toBe(HEX);
    const env = { MILLRACE_SECRETS_KEY_FILE: '/run/other' };
    expect(load(`secrets: { key: ${HEX} }`, { env }).config.secrets).toEqual(files('/run/other'));
  });

  it('has 32 bytes, and is in no message', () => {
    for (const wrong of ['hunter2', 'ab'.repeat(31), `${BASE64}=`, 'a'.repeat(44)]) {
      const rule =
        'must be 32 bytes in base64, as `openssl rand -base64 32` prints them, or in 64 hexadecimal digits';
      expect(refusal(`secrets: { key: ${wrong} }`)).toEqual([`millrace.yaml:1:17  secrets.key  ${rule}`]);
      expect(refusal('', { env: { MILLRACE_SECRETS_KEY: wrong } })).toEqual([
        `MILLRACE_SECRETS_KEY  ${rule}`,
      ]);
    }
    const env = { MILLRACE_SECRETS_KEY: HEX, MILLRACE_SECRETS_KEY_FILE: '/k' };
    expect(refusal('', { env })).toEqual([
      'MILLRACE_SECRETS_KEY_FILE  cannot be set beside MILLRACE_SECRETS_KEY: leave one of them out',
    ]);
  });
});

describe('environment and flags', () => {
  const env = {
    MILLRACE_HOST: '10.0.0.1',
    MILLRACE_PORT: '9001',
    MILLRACE_DATA: '/env',
    MILLRACE_LOG: 'warn',
    MILLRACE_ADMIN_TOKEN: 'token-from-the-environment',
  };
  const file =
    'host: 10.0.0.9\nport: 9009\ndata: /file\nlog: error\nadmin: { token: token-from-the-file, port: 9010 }\n';

  it('stand above the file in this order', () => {
    expect(load(file).config).toMatchObject({ host: '10.0.0.9', port: 9009, data: '/file', log: 'error' });
    const over = load(file, { env }).config;
    expect(over).toMatchObject({ host: '10.0.0.1', port: 9001, data: '/env', log: 'warn' });
    expect(over.admin).toEqual({ token: 'token-from-the-environment', port: 9010, hosts: [] });
    const flags = { host: '::1', port: 0, data: '/flag', log: 'debug' };
    expect(load(file, { env, flags }).config).toMatchObject(flags);
    expect(load(file, { env, flags: { port: 1 } }).config).toMatchObject({ host: '10.0.0.1', port: 1 });
  });

  it('name the proxies in front, with commas between them', () => {
    const above = load('trustedProxies: [10.0.0.0/8]', {
      env: { MILLRACE_TRUSTED_PROXIES: '172.30.77.10/32, fd00::/8' },
    });
    expect(above.config.trustedProxies).toEqual(['172.30.77.10/32', 'fd00::/8']);
    expect(load('trustedProxies: [10.0.0.0/8]').config.trustedProxies).toEqual(['10.0.0.0/8']);
    expect(refusal('', { env: { MILLRACE_TRUSTED_PROXIES: '10.0.0.1' } })).toEqual([
      'MILLRACE_TRUSTED_PROXIES  must be an address range such as 10.20.0.0/16, 192.0.2.7/32 or fd00::/8, found "10.0.0.1"',
    ]);
  });

  it('are refused by the name of the variable or flag, even where something else hides the value', () => {
    const bad = {
      MILLRACE_HOST: '',
      MILLRACE_PORT: '80a',
      MILLRACE_DATA: '',
      MILLRACE_LOG: 'loud',
      MILLRACE_ADMIN_TOKEN: 'with space',
    };
    const flags = { host: 'h', port: 65_536, data: 'd', log: 'quiet' };
    expect(refusal('port: 1.5\n', { env: bad, flags })).toEqual([
      'millrace.yaml:1:7  port  must be a whole number from 0 to 65535, found the number 1.5',
      'MILLRACE_HOST  must be an address or a host name, found ""',
      'MILLRACE_PORT  must be a whole number from 0 to 65535, found "80a"',
      'MILLRACE_DATA  must be text: the path of a file or folder, found ""',
      'MILLRACE_LOG  must be debug, info, warn or error, found "loud"',
      'MILLRACE_ADMIN_TOKEN  must be text of visible ASCII characters',
      '--port  must be a whole number from 0 to 65535, found the number 65536',
      '--log  must be debug, info, warn or error, found "quiet"',
    ]);
  });
});

describe('admin.port', () => {
  it('is not that of the receiving API, wherever that comes from', () => {
    const text = 'admin: { port: 9000 }';
    const problem = 'millrace.yaml:1:16  admin.port  must differ from port 9000, on which calls are taken';
    expect(() => load(`port: 9000\n${text}`)).toThrow(problem.replace(':1:', ':2:'));
    expect(() => load(text, { env: { MILLRACE_PORT: '9000' } })).toThrow(problem);
  });

  it('may be any free one, as may the other', () => {
    expect(load('port: 0\nadmin: { port: 0 }').config.admin.port).toBe(0);
  });

  it('may be set by the environment, with its address, and is judged as in the file', () => {
    const env = { MILLRACE_ADMIN_PORT: '8081', MILLRACE_ADMIN_HOST: '10.0.0.7' };
    const file = 'admin: { host: 127.0.0.1, port: 9010 }';
    expect(load(file, { env }).config.admin).toEqual({ port: 8081, host: '10.0.0.7', hosts: [] });
    expect(refusal('', { env: { MILLRACE_ADMIN_PORT: '8080' } })).toEqual([
      'MILLRACE_ADMIN_PORT  must differ from port 8080, on which calls are taken',
    ]);
    expect(refusal('', { env: { MILLRACE_ADMIN_PORT: 'x' } })).toEqual([
      'MILLRACE_ADMIN_PORT  must be a whole number from 0 to 65535, found "x"',
    ]);
  });

  it('is what admin.host is for', () => {
    const message = 'is of no use without admin.port: set that too, or leave it out';
    expect(refusal('admin: { host: 127.0.0.1 }')).toEqual([`millrace.yaml:1:16  admin.host  ${message}`]);
    expect(refusal('', { env: { MILLRACE_ADMIN_HOST: '::1' } })).toEqual([`MILLRACE_ADMIN_HOST  ${message}`]);
  });

  it('parts operators from calls of other machines', () => {
    const exposed = (text: string) => isAdminExposed(load(text).config);
    expect(['host: 0.0.0.0', 'host: 10.0.0.7', 'host: web.internal'].map(exposed)).toEqual([
      true,
      true,
      true,
    ]);
    expect(['', 'host: localhost', 'host: 0.0.0.0\nadmin: { port: 8081 }'].map(exposed)).toEqual([
      ...[false, false, false],
    ]);
  });
});

describe('admin.hosts', () => {
  it('are names alone', () => {
    const names = ['console.example.com', 'A_b', 'a', 'console.'];
    expect(load(`admin: { hosts: [${names.join(', ')}] }`).config.admin.hosts).toEqual(names);
    for (const wrong of ['https://a.example', 'a.example:8081', 'a/b', '-a', '.', 'ä.example', '"a b"'])
      expect([wrong, refusal(`admin: { hosts: [${wrong}] }`)[0]]).toEqual([
        wrong,
        expect.stringContaining('must be a host name without scheme and port'),
      ]);
  });
});

describe('a node', () => {
  it('has the name of its host, unless file or environment name it', () => {
    expect(load('port: 1').config.node).toBe(hostname());
    expect(load('node: a').config.node).toBe('a');
    expect(load('node: a', { env: { MILLRACE_NODE: 'b' } }).config.node).toBe('b');
    expect(() => load('node: a b')).toThrow('must be a name of letters, digits, dots');
  });

  it('has roles only where a database is shared', () => {
    const roles = 'roles: [ingest, deliver]';
    const { config } = load(`${roles}\ndatabase: postgres://db/millrace`);
    expect(config.roles).toEqual(['ingest', 'deliver']);
    expect(load(roles, { env: { MILLRACE_DATABASE: 'postgres://db/millrace' } }).config.roles).toHaveLength(
      2,
    );
    expect(() => load(roles)).toThrow('millrace.yaml:1:8  roles  needs a database that several nodes share');
    expect(() => load('roles: [sleep]\ndatabase: postgres://db/m')).toThrow(
      'must be ingest, deliver, users or control',
    );
  });

  it('never quotes the address of the database, which may hold a password', () => {
    const refused = () => load('port: 1', { env: { MILLRACE_DATABASE: 'mysql://u:s3cret@db/x' } });
    expect(refused).toThrow('MILLRACE_DATABASE  must be a postgres:// address');
    expect(refused).not.toThrow('s3cret');
  });
});

describe('warnings', () => {
  it('are silent about values that change nothing', () => {
    const text = `${source('    mode: standard\n')}
destinations:
  - { name: d, type: webhooks, sources: [web], settings: { endpoints: [{ url: http://a }], success: any } }
`;
    expect(load(text).warnings).toEqual([]);
  });

  it('say nothing of an admin token, wherever it comes from', () => {
    const env = { MILLRACE_ADMIN_TOKEN: 'secret-token' };
    expect(load(undefined, { env }).warnings).toEqual([]);
    expect(load('admin: { token: other }', { env }).warnings).toEqual([]);
  });

  it('name a variable that is nearly a setting, and none that a system sets for a service of this name', () => {
    const env = {
      MILLRACE_DATABSE: 'postgres://db/events',
      MILLRACE_URL: 'http://localhost:8080',
      MILLRACE_SERVICE_HOST: '10.0.0.1',
      MILLRACE_SERVICE_PORT: '8080',
      MILLRACE_PORT_8080_TCP: 'tcp://10.0.0.1:8080',
      MILLRACE_TEST_DATABASE: 'postgres',
    };
    expect(load(undefined, { env }).warnings).toEqual([
      'MILLRACE_DATABSE  is no setting, and has no effect; did you mean MILLRACE_DATABASE?',
    ]);
  });

  it('name a shared secret that could be guessed, where it stands, without saying it', () => {
    const destination = (name: string, secret: string) =>
      `  - { name: ${name}, type: webhooks, sources: [web], settings: { endpoints: [{ url: http://a }], sharedSecret: ${secret} } }`;
    const text = `${source()}\ndestinations:\n${destination('a', 'fifteen-letters')}\n${destination('b', 'sixteen--letters')}\n`;
    expect(load(text).warnings).toEqual([
      'millrace.yaml:6:92  destinations[0].settings.sharedSecret  has fewer than 16 characters, and could be guessed from one signed request; take a longer one if the receiver can',
    ]);
  });
});

describe('an admin token of fewer than 16 characters', () => {
  it('is refused where others can reach the server, by the name of its key, variable or flag, and never quoted', () => {
    const message = 'must have at least 16 characters where the server listens on';
    const open = { defaults: { host: '0.0.0.0' } };
    expect(refusal('admin: { token: fifteen-letters }', open)).toEqual([
      `millrace.yaml:1:17  admin.token  ${message} 0.0.0.0, or leave it out: a start then makes one`,
    ]);
    expect(refusal('host: 10.0.0.9\n', { env: { MILLRACE_ADMIN_TOKEN: 'short' } })).toEqual([
      `MILLRACE_ADMIN_TOKEN  ${message} 10.0.0.9, or leave it out: a start then makes one`,
    ]);
    expect(load('admin: { token: sixteen--letters }', open).warnings).toEqual([]);
  });

  it('is judged by where the control API listens', () => {
    const admin = 'admin: { token: short, port: 8081, host: 127.0.0.1 }';
    expect(load(`host: 0.0.0.0\n${admin}`).config.admin.token).toBe('short');
    const other = 'admin: { token: short, port: 8081, host: 10.0.0.7 }';
    expect(refusal(other)[0]).toContain('where the server listens on 10.0.0.7');
  });

  it.each(['127.0.0.1', '127.3.4.5', '::1', 'localhost'])('is taken on %s', (host) => {
    expect(load('admin: { token: short }', { flags: { host } }).config.admin.token).toBe('short');
  });
});

describe('millrace.example.yaml', () => {
  const text = readFileSync(new URL('../../../millrace.example.yaml', import.meta.url), 'utf8');
  const env = { CRM_SECRET: 'a secret of the crm', CRM_TOKEN: 't' };

  it('loads as it is, without a warning', () => {
    expect(load(text, { env }).warnings).toEqual([]);
  });

  it('loads with everything switched on', () => {
    const everything = text.replace(/^( *)#((?: {2})*(?:- )?[a-zA-Z]+:)/gm, '$1$2');
    const { config, warnings } = load(everything, {
      env: {
        ...env,
        MILLRACE_ADMIN_TOKEN: 'a-token-of-the-admin',
        ALERT_SECRET: `whsec_${'c2VjcmV0'.repeat(4)}`,
        SMTP_PASSWORD: 'password of the mail server',
      },
    });
    expect(warnings).toEqual([]);
    expect(config).toMatchObject({
      admin: { token: 'a-token-of-the-admin', port: 8081 },
      limits: { disk: 10 * 1024 ** 3 },
    });
  });

  it('shows every key there is', () => {
    const schema = readFileSync(new URL('../../../spec/config.schema.json', import.meta.url), 'utf8');
    const keys = propertyNames(JSON.parse(schema));
    expect(keys).toContain('whenDisabled');
    expect(keys.filter((key) => !new RegExp(`(^|[ #{])${key}:`, 'm').test(text))).toEqual([]);
  });
});

/** The names under every `properties` of a JSON Schema. */
function propertyNames(schema: unknown): string[] {
  if (typeof schema !== 'object' || schema === null) return [];
  return Object.entries(schema).flatMap(([key, value]: [string, unknown]) => [
    ...(key === 'properties' && typeof value === 'object' && value !== null ? Object.keys(value) : []),
    ...propertyNames(value),
  ]);
}
