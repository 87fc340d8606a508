import { describe, expect, it } from 'vitest';
import { ConfigError, loadConfig } from './load.ts';

/** Every problem of a file called `f`, as its line without the name. */
function problems(text: string, env: Record<string, string> = {}): string[] {
  try {
    loadConfig({ file: { path: 'f', text }, env, flags: {}, defaults: { host: 'localhost' } });
  } catch (error) {
    if (error instanceof ConfigError) return error.problems.map(lineWithoutFile);
    throw error;
  }
  throw new Error('the configuration was accepted');
}

function lineWithoutFile(problem: ConfigError['problems'][number]): string {
  expect(problem.file).toBe('f');
  return `${problem.line}:${problem.column}  ${problem.path}  ${problem.message}`;
}

describe('an unknown key', () => {
  it.each<[string, string, string]>([
    ['prot: 1', '1:1  prot', 'did you mean port?'],
    ['Port: 1', '1:1  Port', 'did you mean port?'],
    ['a: 1\n', '1:1  a', ''],
    ['retention: { dead_letters: 1d }', '1:14  retention.dead_letters', 'did you mean deadLetters?'],
    [
      'sources: [{ name: a, writeKeys: [k], enable: true }]',
      '1:38  sources[0].enable',
      'did you mean enabled?',
    ],
    [
      'destinations:\n  - { type: webhooks, settings: { endpoints: [{ url: http://a, header: {} }] } }',
      '2:64  destinations[0].settings.endpoints[0].header',
      'did you mean headers?',
    ],
    ['admin: { <<: 1 }', '1:10  admin["<<"]', ''],
  ])('is refused where it stands, with the key that was meant: %j', (text, place, hint) => {
    const line = problems(text).find((each) => each.includes('not a known key'));
    expect(line).toContain(`${place}  is not a known key; ${hint}${hint === '' ? '' : ' '}allowed here: `);
  });

  it('comes with all keys that are allowed there', () => {
    expect(problems('tls: { cert: a, key: b, kez: c }')).toEqual([
      '1:25  tls.kez  is not a known key; did you mean key? allowed here: cert, key',
    ]);
  });
});

describe('everything that is wrong', () => {
  const text = `port: http
hots: a
sources:
  - name: a
    writeKeys: [k, k, "\${UNSET}"]
destinations:
  - name: all
    type: webhooks
    sources: []
    settings:
      endpoints:
        - { url: example.com/hook, headers: { Host: a } }
      sharedSecret: ""
`;

  it('is reported at once, in the order of the file', () => {
    expect(problems(text).map((line) => line.split('  ').slice(0, 2).join(' '))).toEqual([
      '1:7 port',
      '2:1 hots',
      '5:20 sources[0].writeKeys[1]',
      '5:23 sources[0].writeKeys[2]',
      '7:11 destinations[0].name',
      '12:18 destinations[0].settings.endpoints[0].url',
      '12:47 destinations[0].settings.endpoints[0].headers.Host',
      '13:21 destinations[0].settings.sharedSecret',
    ]);
  });

  it('is one line each in the message of the error', () => {
    const file = { path: 'conf/millrace.yaml', text };
    const loading = () =>
      loadConfig({ file, env: { MILLRACE_LOG: 'x' }, flags: {}, defaults: { host: 'h' } });
    expect(loading).toThrow(ConfigError);
    expect(loading).toThrow(
      /^conf\/millrace\.yaml:1:7 {2}port {2}must be .*\n(conf\/millrace\.yaml:.*\n){7}MILLRACE_LOG {2}must be .*$/,
    );
  });

  it('never shows credentials', () => {
    const secret = 's3cr3t';
    const shown = problems(
      `admin: { token: "${secret} ä" }
database: ${secret}
sources: [{ name: a, writeKeys: ["${secret}:", "${secret}ä"] }]
destinations:
  - name: d
    type: webhooks
    sources: []
    settings:
      endpoints:
        - { url: "me:${secret}@example.com" }
        - { url: "https://me:${secret}@example.com/" }
        - { url: "example.com?token=${secret}" }
        - { url: "\${TARGET}", headers: { Authorization: "${secret}\\n", Host: "${secret}" } }
`,
      { TARGET: `nowhere/${secret}` },
    );
    expect(shown).toHaveLength(10);
    expect(shown.join('\n')).not.toContain(secret);
    expect(shown.join('\n')).toContain(
      `must be an absolute http or https URL, found the value of "\${TARGET}"`,
    );
  });
});

describe('a long list of problems', () => {
  it('is cut to the first twenty, and says that there are more', () => {
    const destinations = Array.from({ length: 500 }, () => '  - { u: 1 }').join('\n');
    const file = { path: 'f', text: `destinations:\n${destinations}\n` };
    const loading = () => loadConfig({ file, env: {}, flags: {}, defaults: { host: 'h' } });
    expect(loading).toThrow(/^(f:.*\n){20}These are the first 20 problems; there are more\.$/);
  });

  it.each<[string, string, string]>([
    [
      'records',
      `sources: [${'{}, '.repeat(1001)}]`,
      '1:10  sources  has 1001 entries, and at most 1000 are allowed',
    ],
    [
      'endpoints',
      `destinations: [{ settings: { endpoints: [${'{ u: 1 }, '.repeat(21)}] } }]`,
      '1:41  destinations[0].settings.endpoints  must be a list of 1 to 5 endpoints, found a list of 21',
    ],
    [
      'headers',
      `destinations: [{ settings: { endpoints: [{ headers: { ${Array.from({ length: 21 }, (_, nth) => `k${nth}: 1`).join(', ')} } }] } }]`,
      '1:53  destinations[0].settings.endpoints[0].headers  must have at most 5 headers, found a mapping of 21',
    ],
  ])('is counted before anything looks at it: %s', (_, text, problem) => {
    expect(problems(text)).toEqual([problem]);
  });
});
