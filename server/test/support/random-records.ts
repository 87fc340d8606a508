// biome-ignore-all lint/suspicious/noTemplateCurlyInString: ${NAME} in a plain string is what this file is about.
import fc from 'fast-check';
import { CALL_TYPES } from '../../src/model/event.ts';
import { ADDRESS_RULES, TRUSTS } from '../../src/model/settings.ts';

/**
 * Random sources and destinations for a configuration file, all valid, with names and texts that are hard for
 * files and shells.
 */

const ODD_TEXTS = [
  ...[
    'yes',
    'No',
    'on',
    'null',
    '~',
    'true',
    '1e3',
    '0x1F',
    '0o7',
    '.inf',
    '12:30:45',
    '2026-11-21',
    '-',
    '-1',
  ],
  ...['- x', '? x', ': x', 'a: b', 'a #b', '#', '&a', '*a', '!tag', '|', '>', '%', '@x', '`x`', '---', '...'],
  ...[
    '"',
    "'",
    '"a"',
    "it's",
    '\\',
    '\\n',
    '{a}',
    '[a]',
    'a, b',
    '{}',
    '[]',
    '<<',
    '=',
    ',',
    'a:',
    ':a',
    '0',
  ],
  ...['$', '$$', '${', '$${', '$$${', '${HOME}', '$${HOME}', '${ }', '${a b}', '$}', '{$}', '${}', '${"'],
  ...[
    'ünd',
    '1a b',
    '日本',
    '🚀',
    'e\u0301',
    '\u202eevil',
    'a\u00a0b',
    '\ufdd0',
    '\ufdd1x\ufdd0',
    '$\ufdd0x\ufdd1',
  ],
  ...[
    'crm',
    'CRM',
    'Crm',
    'crm-',
    'crm header 1',
    'constructor',
    '__proto__',
    'Order Placed',
    'a/b?c#d',
    'ﬀ',
  ],
];

const anyText = fc.oneof(
  { weight: 3, arbitrary: fc.constantFrom(...ODD_TEXTS) },
  { weight: 2, arbitrary: fc.stringMatching(/^[a-z][a-z0-9 _-]{0,10}$/) },
  { weight: 1, arbitrary: fc.string({ unit: 'binary', maxLength: 12 }) },
  {
    weight: 1,
    arbitrary: fc.tuple(fc.constantFrom(...ODD_TEXTS), fc.constantFrom(...ODD_TEXTS)).map(joined),
  },
);

function joined(parts: readonly string[]): string {
  return parts.join('');
}

const name = anyText
  .map((text) => text.replace(/\p{Cc}/gu, '').trim())
  .filter((text) => text !== '' && !['Webhooks', 'All', 'all'].includes(text));

/** Visible ASCII without a colon. */
const writeKey = anyText.map((text) => text.replace(/[^!-9;-~]/g, '')).filter((text) => text !== '');

const duration = fc
  .tuple(fc.integer({ min: 1, max: 9_999_999 }), fc.constantFrom('ms', 's', 'm', 'h', 'd'))
  .map(([amount, unit]) => `${amount}${unit}`);

const rate = fc.integer({ min: 1, max: 100_000 });

const source = fc.record(
  {
    name,
    writeKeys: fc.uniqueArray(writeKey, { minLength: 1, maxLength: 3 }),
    enabled: fc.boolean(),
    mode: fc.constantFrom('standard', 'strict'),
    whenDisabled: fc.constantFrom('refuse', 'discard'),
    dedupeWindow: duration,
    rateLimit: rate,
    ip: fc.constantFrom(...ADDRESS_RULES),
    projectId: writeKey,
    trust: fc.constantFrom(...TRUSTS),
    consent: fc.constant('required'),
  },
  // A stored source always has a rule for addresses.
  { requiredKeys: ['name', 'writeKeys', 'ip', 'trust'] },
);

const headerName = fc.oneof(
  fc.constantFrom(
    'Authorization',
    'X-Api-Key',
    'x-team',
    'Cookie',
    'X-Token',
    'yes',
    'null',
    '1e3',
    '~',
    '!',
    '#',
  ),
  fc.stringMatching(/^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,8}$/),
);
const RESERVED =
  /^(te|trailer|host|expect|upgrade|connection|keep-alive|user-agent|x-signature|__proto__|(content|proxy|webhook)-.*)$/i;

/** Latin-1 without control characters. */
const headerValue = anyText.map((text) => text.replace(/[^\u0020-\u007e\u00a0-\u00ff]/g, ''));

const headers = fc
  .uniqueArray(fc.tuple(headerName, headerValue), { maxLength: 3, selector: ([key]) => key.toLowerCase() })
  .map((pairs) => Object.fromEntries(pairs.filter(([key]) => !RESERVED.test(key))));

const url = fc
  .tuple(
    fc.constantFrom(
      'http://1.1.1.1',
      'https://9.9.9.9:8443',
      'HTTPS://ünd.example',
      'http://[2606:4700::1]:80',
    ),
    fc.constantFrom(
      '',
      '/',
      '/hook',
      '/a:',
      '/a:b,c',
      "/it's",
      '/?a={b}&c=[d]',
      '/${x}',
      '/$${',
      '/ünd?ü=🚀',
      '/?yes,',
      '/?token=${x}&token=$${y}&S3CRET&empty=',
    ),
  )
  .map(joined);

const signingSecret = fc
  .uint8Array({ minLength: 24, maxLength: 64 })
  .map((bytes) => `whsec_${Buffer.from(bytes).toString('base64')}`);

const settings = fc.record(
  {
    endpoints: fc.array(fc.record({ url, headers }, { requiredKeys: ['url'] }), {
      minLength: 1,
      maxLength: 2,
    }),
    sharedSecret: anyText.filter((text) => text !== '' && !text.includes('\0')),
    signingSecrets: fc.array(signingSecret, { minLength: 1, maxLength: 2 }),
    format: fc.constantFrom('documented', 'canonical', 'segment'),
    userAgent: fc.constantFrom('Segment.io/1.0', 'a', '~ ~'),
    success: fc.constantFrom('any', 'each'),
    filter: fc.record(
      {
        types: fc.uniqueArray(fc.constantFrom(...CALL_TYPES), { minLength: 1 }),
        events: fc.array(
          anyText.map((text) => text.replace(/\*(?!$)/gs, '-')).filter((text) => text !== ''),
          { minLength: 1, maxLength: 3 },
        ),
      },
      { requiredKeys: [] },
    ),
    integrationNames: fc.uniqueArray(name, { maxLength: 3 }),
    consent: fc.uniqueArray(name, { minLength: 1, maxLength: 3 }),
    computations: fc.record(
      {
        as: fc.constantFrom('track', 'both'),
        ...{ space: name, enteredEvent: name, exitedEvent: name, traitEvent: name, email: fc.boolean() },
        traits: fc.uniqueArray(name, { minLength: 1, maxLength: 3 }),
      },
      { requiredKeys: ['as'] },
    ),
    rateLimit: rate,
    concurrency: fc.integer({ min: 1, max: 256 }),
  },
  { requiredKeys: ['endpoints'] },
);

const destination = fc.record(
  {
    name,
    type: fc.constant('webhooks'),
    sources: fc.uniqueArray(name, { maxLength: 3 }),
    enabled: fc.boolean(),
    paused: fc.constant(true),
    settings,
  },
  { requiredKeys: ['name', 'type', 'sources', 'settings'] },
);

/**
 * The values of `sources` and `destinations`, secrets written out. Destinations name sources that there are.
 */
export const randomRecords = fc
  .record({
    sources: fc.uniqueArray(source, { maxLength: 3, selector: (one) => one.name }).map((sources) => {
      const seen = new Set<string>();
      return sources
        .map((one) => ({ ...one, writeKeys: one.writeKeys.filter((key) => !seen.has(key) && seen.add(key)) }))
        .filter((one) => one.writeKeys.length > 0);
    }),
    destinations: fc.uniqueArray(destination, { maxLength: 3, selector: (one) => one.name }),
  })
  .map(({ sources, destinations }) => {
    const names = sources.map(({ name }) => name);
    return {
      sources,
      destinations: destinations.map((one) => ({ ...one, sources: names.slice(one.sources.length) })),
    };
  });
