import { describe, expect, it, test } from 'vitest';
import { AUDIENCES_SOURCE } from '../model/settings.ts';
import type { SettingsSnapshot } from '../ports/settings-store.ts';
import { ConfigError, checkRecords, loadConfig } from './load.ts';
import { readRecords } from './records.ts';

/** Every problem of a file, as its line. */
function problemsOf(text: string): string[] {
  try {
    loadConfig({ file: { path: 'f', text }, env: {}, flags: {}, defaults: { host: 'localhost' } });
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return error.message.split('\n');
  }
  throw new Error('the configuration was accepted');
}

const NOTHING = { sources: [], destinations: [], audiences: [], traits: [] };

type Stored = Pick<SettingsSnapshot, 'sources' | 'destinations' | 'audiences' | 'traits'>;

/** The stored settings after these records were applied. */
function stored(records: {
  readonly audiences?: object[];
  readonly traits?: object[];
  readonly destinations?: object[];
}): Stored {
  const checked = checkRecords({ ...NOTHING, ...records });
  if ('faults' in checked) throw new Error(JSON.stringify(checked.faults));
  let id = 0;
  const kept = <Of>(list: readonly Of[]) => list.map((one) => ({ ...one, id: ++id, version: 1 }));
  return {
    sources: kept([AUDIENCES_SOURCE]),
    destinations: kept(checked.destinations),
    audiences: kept(checked.audiences),
    traits: kept(checked.traits),
  };
}

/** The faults of records beside those of a server, each as `path message`. */
function faultsOf(records: object, known: Stored = stored({})): string[] {
  const checked = checkRecords({ ...NOTHING, ...records }, known);
  if (!('faults' in checked)) throw new Error('the records were accepted');
  return checked.faults.map(({ path, message, line, column }) => {
    const place = line === undefined ? '' : ` ${line}:${column}`;
    return `${path}${place} ${message}`;
  });
}

const audience = (name: string, definition: unknown = "group('g')", more = {}) => ({
  name,
  definition,
  ...more,
});
const crm = {
  name: 'crm',
  type: 'webhooks',
  sources: [],
  settings: { endpoints: [{ url: 'https://crm.example/in' }] },
};

const tee = {
  name: 'tee',
  type: 'segment',
  sources: [],
  settings: { host: 'https://api.segment.io', writeKey: 'wk' },
};

describe('an audience in a file', () => {
  it('is read with its defaults, its key, and its definition as a tree', () => {
    const { config } = loadConfig({
      file: { path: 'f', text: 'audiences: [{ name: VIP Users (US), definition: "group(\'vip\')" }]' },
      env: {},
      flags: {},
      defaults: { host: 'localhost' },
    });
    expect(config.audiences).toEqual([
      {
        kind: 'audience',
        name: 'VIP Users (US)',
        key: 'vip_users_us',
        text: "group('vip')",
        definition: { op: 'group', id: 'vip' },
        destinations: [],
        enabled: true,
        includeAnonymous: false,
      },
    ]);
  });

  it.each([
    ['one line', "audiences:\n  - name: a\n    definition: trait('x') wat 5\n", 'f:3:28'],
    ['quotes', 'audiences:\n  - name: a\n    definition: "trait(\'x\') wat 5"\n', 'f:3:29'],
    [
      'a block',
      "audiences:\n  - name: a\n    definition: |\n      group('g') and\n        trait('x') wat 5\n",
      'f:5:20',
    ],
    [
      'a block with a blank line',
      "audiences:\n  - name: a\n    definition: |\n\n      trait('x') wat 5\n",
      'f:5:18',
    ],
    [
      'lines that YAML folds',
      "audiences:\n  - name: a\n    definition: >\n      group('g') and\n      trait('x') wat 5\n",
      'f:3:17',
    ],
    ['escapes', 'audiences:\n  - name: a\n    definition: "trait(\'\\x78\') wat 5"\n', 'f:3:17'],
  ])('has a mistake where it stands in the file: %s', (_, text, place) => {
    expect(problemsOf(text)).toEqual([
      `${place}  audiences[0].definition  expected a comparison behind trait('x'), such as = 'pro' or exists, found wat`,
    ]);
  });

  it('has every mistake of its definition at its place', () => {
    const text =
      "audiences:\n  - name: a\n    definition: evnt('a') or tarit('b') exists\ntraits: [{ name: b, definition: group('x') }]\n";
    expect(problemsOf(text)).toEqual([
      'f:3:17  audiences[0].definition  evnt is not known; did you mean event?',
      'f:3:30  audiences[0].definition  tarit is not known; did you mean trait?',
      "f:4:33  traits[0].definition  a computed trait begins with event('Name'), page('Name') or screen('Name'), found group",
    ]);
  });

  it('keeps its place when a server finds the mistake', () => {
    const text = "audiences:\n  - name: a\n    definition: |\n      group('g') and\n      audience('b')\n";
    const { lineAt } = readRecords({ path: 'f', text }, {});
    expect(lineAt('audiences[0].definition', 'is wrong', { line: 2, column: 1 })).toBe(
      'f:5:7  audiences[0].definition  is wrong',
    );
  });
});

describe('refused is', () => {
  test.each<[string, object, string[]]>([
    [
      'a name without a letter or digit',
      { audiences: [audience('日本')] },
      [
        'audiences[0].name must have a letter from A to Z or a digit: the key that destinations get is made of these, found "日本"',
      ],
    ],
    [
      'a second audience of a name',
      { audiences: [audience('a'), audience('a')] },
      ['audiences[1].name is also the name of another audience'],
    ],
    [
      'a trait with the name of an audience',
      { audiences: [audience('a')], traits: [audience('a', "event('x').count()")] },
      ['traits[0].name is also the name of the audience "a"'],
    ],
    [
      'a key that two names have',
      { audiences: [audience('A B'), audience('A-B')] },
      [
        'audiences[1].name has the key a_b, which the audience "A B" has too: destinations could not tell them apart',
      ],
    ],
    [
      'a destination that does not exist',
      { audiences: [audience('a', "group('g')", { destinations: ['cmr'] })], destinations: [crm] },
      ['audiences[0].destinations[0] names the destination "cmr", which does not exist; did you mean "crm"?'],
    ],
    [
      'a destination that only passes calls on',
      { audiences: [audience('a', "group('g')", { destinations: ['tee'] })], destinations: [tee] },
      [
        'audiences[0].destinations[0] names the destination "tee", which only passes calls on: it hears of no audience or computed trait',
      ],
    ],
    [
      'an audience that does not exist',
      { audiences: [audience('a', "group('g') and\n audience('vpi')"), audience('vip')] },
      ['audiences[0].definition 2:2 names the audience "vpi", which does not exist; did you mean "vip"?'],
    ],
    [
      'a trait as an audience',
      { audiences: [audience('a', "audience('n')")], traits: [audience('n', "event('x').count()")] },
      ['audiences[0].definition 1:1 "n" is a computed trait: write computed(…) and a comparison'],
    ],
    [
      'an audience of itself',
      { audiences: [audience('a', "audience('a')")] },
      ['audiences[0].definition leads back to itself: "a" → "a"'],
    ],
    [
      'a circle',
      {
        audiences: [audience('a', "computed('n') > 1"), audience('b', "audience('a')")],
        traits: [
          audience('n', "event('x').where(computed('m') > 1).count()"),
          audience('m', "event('x').where(computed('n') > 1).count()"),
        ],
      },
      [
        'traits[0].definition leads back to itself: "n" → "m" → "n"',
        'traits[1].definition leads back to itself: "m" → "n" → "m"',
      ],
    ],
    [
      'a comparison that does not suit a trait',
      { audiences: [audience('a', "computed('n') = 'x'")], traits: [audience('n', "event('x').count()")] },
      ['audiences[0].definition 1:15 a number is compared with a number, not with a text'],
    ],
    [
      'a source of the reserved name',
      { sources: [{ name: 'audiences', writeKeys: ['k'] }] },
      [
        'sources[0].name must not be audiences: the server makes this source for the events of audiences and traits',
      ],
    ],
    [
      'the reserved source of a destination',
      { destinations: [{ ...crm, sources: ['audiences'] }] },
      [
        'destinations[0].sources[0] must not have audiences: an audience or computed trait names the destinations of its events itself',
      ],
    ],
    [
      'more than 500',
      { audiences: Array.from({ length: 501 }, (_, n) => audience(`a${n}`)) },
      ['audiences would be 501 audiences and computed traits together, and at most 500 are allowed'],
    ],
    [
      'JSON with a mistake, by its path',
      { audiences: [audience('a', { op: 'or', conditions: [{ op: 'group', id: 'x' }, { op: 'wat' }] })] },
      [
        'audiences[0].definition.conditions[1].op must be the op of a condition: one of and, or, not, =, !=, <, <=, >, >=, contains, starts_with, ends_with, in, exists, audience, group',
      ],
    ],
    [
      'JSON that names what does not exist, without a line',
      { audiences: [audience('a', { op: 'audience', name: 'x' })] },
      ['audiences[0].definition names the audience "x", which does not exist'],
    ],
    [
      'a definition that is a number',
      { audiences: [audience('a', 7)] },
      [
        'audiences[0].definition must be text: a definition, such as event(…) or trait(…), or its JSON form, found the number 7: put it in quotes',
      ],
    ],
  ])('%s', (_, records, faults) => {
    expect(faultsOf(records)).toEqual(faults);
  });

  it('what does not suit the records of the server', () => {
    const known = stored({
      audiences: [audience('big', "computed('orders') > 3")],
      traits: [audience('orders', "event('x').count()")],
    });
    expect(faultsOf({ traits: [audience('orders', "event('x').unique(property('p'))")] }, known)).toEqual([
      'traits[0].definition does not suit the audience "big", which compares it: a list is asked for one of its entries: write contains',
    ]);
    expect(faultsOf({ audiences: [audience('orders')] }, known)).toEqual([
      'audiences[0].name is also the name of the computed trait "orders"',
    ]);
    expect(
      faultsOf({ traits: [audience('orders', "event('x').where(computed('orders') > 1).count()")] }, known),
    ).toEqual(['traits[0].definition leads back to itself: "orders" → "orders"']);
  });

  it('an audience beside a source of the reserved name that an earlier version let pass', () => {
    const known = stored({});
    const { system: _, ...own } = known.sources[0]!;
    expect(faultsOf({ audiences: [audience('a')] }, { ...known, sources: [own] })).toEqual([
      'audiences need the name audiences for a source of their own: remove the source of that name first',
    ]);
  });
});

it('a name that is not in the file may be on the server', () => {
  const records = {
    ...NOTHING,
    audiences: [audience('a', "audience('b') and computed('c') > 1", { destinations: ['crm'] })],
  };
  expect(checkRecords(records)).toHaveProperty('audiences');
});

it('an audience keeps the name of a destination that was removed since', () => {
  const known = {
    ...stored({ destinations: [crm], audiences: [audience('a', "group('g')", { destinations: ['crm'] })] }),
    destinations: [],
  };
  const records = { ...NOTHING, audiences: [audience('a', "group('h')", { destinations: ['crm'] })] };
  expect(checkRecords(records, known)).toHaveProperty('audiences');
});
