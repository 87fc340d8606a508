import { describe, expect, it } from 'vitest';
import { checkRecords, loadConfig, readRecords } from './load.ts';

const CORE = 'S3CRETcore';

/** Realistic secrets, with characters that break YAML at their start, inside and at their end. */
const SECRETS = [
  ...['', '!', '*', '&', '@', '`', '%', '|', '>', '"', "'", '#', '{', '[', '- ', '? ', ': ', ', ', '$'].map(
    (start) => start + CORE,
  ),
  ...[
    `a: ${CORE}`,
    `a${CORE}: b`,
    `${CORE}"`,
    `'${CORE}`,
    `${CORE}}`,
    `a ${CORE}`,
    `a=${CORE}`,
    `${CORE}\tx`,
  ],
  ...[
    `!!a ${CORE}`,
    `<<: *${CORE}`,
    `\${${CORE}`,
    `\${a ${CORE}}`,
    `"\\x${CORE}"`,
    `"\\u12${CORE}"`,
    `--- ${CORE}`,
  ],
  ...[`wk_${CORE}`, `${CORE}.${CORE}.${CORE}`, `${CORE}ä`, `\u202e${CORE}`],
];

const DESTINATION = 'name: d, type: webhooks, sources: []';
const ENDPOINT = (text: string) => `destinations: [{ ${DESTINATION}, settings: { endpoints: [${text}] } }]`;
const SETTINGS = (text: string) =>
  `destinations: [{ ${DESTINATION}, settings: { endpoints: [{ url: http://a }], ${text} } }]`;
const SOURCE = (text: string) => `sources: [{ name: s, ${text} }]`;

/** Places where an operator may write a secret, rightly or by mistake; `X` stands for it. */
const SHAPES = [
  ...['admin: token X', 'admin: X', 'admin: [X]', 'admin: [{ token: X }]', 'admin: { token: { a: X } }'],
  ...[
    'admin: { token: [X] }',
    'admin: { X }',
    'admin: { token X }',
    'admin: { token=X }',
    'admin: { token: X',
  ],
  ...['admin:\n  token = X', 'admin:\n  - token: X', 'admin:\n  token: X', 'admin: { tokne: X }', 'token: X'],
  ...[
    'admin: { token: X, token: X }',
    'admin:\n  token X\n',
    'admin:\n token: X\n  port: 1',
    'X',
    '- X',
    'token X',
  ],
  ...['admin: { token: X, port: X }'.replace('port: X', 'port: a'), 'database: { url: X }', 'database: [X]'],
  ...['database: X', 'database: "mysql://u:X@db/x"', 'egress: { proxy: "socks://u:X@p" }', 'egress: proxy X'],
  ...['egress: { proxy: "u:X@p" }', 'egress: { proxy: { a: X } }', 'egress: { proxy: [X] }', 'egress: X'],
  ...[
    'secrets: { key: X }',
    'secrets: X',
    'secrets: { key: { a: X } }',
    'secrets: { key: [X] }',
    'secrets: { kye: X }',
  ],
  ...[
    'secrets: { previousKeys: X }',
    'secrets: { previousKeys: [X] }',
    'secrets: { X }',
    'secrets:\n  - key: X',
  ],
  ...['sharedSecret X', 'sharedSecret: { a: X }', 'sharedSecret: [X]', 'signingSecrets: X'].map(SETTINGS),
  ...['signingSecrets: [X]', 'signingSecrets: { a: X }', 'signingSecrets: [[X]]', 'X'].map(SETTINGS),
  ...['sharedSecrt: X', 'sharedSecret: X, sharedSecret: X', 'headers: { Authorization: X }'].map(SETTINGS),
  ...[
    '{ url: http://a, headers: X }',
    '{ url: http://a, headers: [X] }',
    '{ url: http://a, headers: { X } }',
  ].map(ENDPOINT),
  ...[
    '{ url: http://a, headers: { Authorization X } }',
    '{ url: http://a, headers: { "Authorization: X": 1 } }',
  ].map(ENDPOINT),
  ...['{ url: http://a, headers: { Host: X } }', '{ url: http://a, headers: { A: { b: X } } }', 'X'].map(
    ENDPOINT,
  ),
  ...[
    '{ url: "http://u:X@a" }',
    '{ url: "ftp://a/?t=X" }',
    '{ url: "http://a/#X" }',
    '{ url: "//u:X@a" }',
  ].map(ENDPOINT),
  ...[`destinations: [{ ${DESTINATION}, settings: X }]`, `destinations: [{ ${DESTINATION}, settings: [X] }]`],
  ...['destinations: [X]', 'destinations: X', 'destinations: { d: X }', 'sources: X', 'sources: [X]'],
  ...[
    'writeKeys: X',
    'writeKeys: [[X]]',
    'writeKeys: { a: X }',
    'writeKeys: ["X:", "X:"]',
    'X',
    'writeKey: X',
  ].map(SOURCE),
];

function saidOf(read: () => unknown): string {
  try {
    return JSON.stringify(read()) === undefined ? '' : '';
  } catch (error) {
    const { message, stack = '' } = error as Error;
    return message + stack;
  }
}

describe('a secret in a configuration that cannot be read', () => {
  it.each(SHAPES)('appears in no message, in any form and at any place: %s', (shape) => {
    let refused = 0;
    for (const secret of SECRETS) {
      const text = shape.replaceAll('X', () => secret);
      const file = { path: 'millrace.yaml', text };
      const said =
        saidOf(() => loadConfig({ file, env: {}, flags: {}, defaults: { host: 'h' } })) +
        saidOf(() => readRecords(file, {}));
      if (said !== '') refused++;
      expect([text, said]).toEqual([text, expect.not.stringContaining(CORE)]);
    }
    expect(refused).toBeGreaterThan(0);
  });

  it('stands in no answer of the control API, and in no message about the environment', () => {
    const wrong: readonly unknown[] = [CORE, [CORE], { a: CORE }, { [`token ${CORE}`]: null }, `u:${CORE}@h`];
    for (const value of wrong) {
      const settings = { endpoints: [{ url: 'http://a', headers: value }], sharedSecret: value };
      const documents = [
        ...[{ sources: [value] }, { sources: [{ name: 's', writeKeys: value }] }, { destinations: [value] }],
        { destinations: [{ name: 'd', type: 'webhooks', sources: [], settings: value }] },
        { destinations: [{ name: 'd', type: 'webhooks', sources: [], settings }] },
      ];
      for (const document of documents) {
        const checked = checkRecords({ sources: [], destinations: [], ...document } as never);
        expect(JSON.stringify('faults' in checked ? checked.faults : [])).not.toContain(CORE);
      }
    }
    const env = { MILLRACE_ADMIN_TOKEN: `${CORE} x` };
    expect(saidOf(() => loadConfig({ env, flags: {}, defaults: { host: 'h' } }))).toMatch(
      /^(?!.*S3CRETcore).*MILLRACE_ADMIN_TOKEN/s,
    );
  });

  it('leaves the rest of a message as helpful as it is', () => {
    const messageOf = (text: string) =>
      saidOf(() => loadConfig({ file: { path: 'f', text }, env: {}, flags: {}, defaults: { host: 'h' } }));
    expect(messageOf('admin: token S3CRET')).toContain(
      'f:1:8  admin  must be a mapping of token, host, port and hosts, found text',
    );
    expect(messageOf('admin: { token S3CRET }')).toContain('f:1:10  admin["token…"]  is not a known key');
    expect(messageOf('admin: { tokne: S3CRET }')).toContain(
      'admin.tokne  is not a known key; did you mean token?',
    );
    expect(messageOf('port: http')).toContain('port  must be a whole number from 0 to 65535, found "http"');
  });
});
