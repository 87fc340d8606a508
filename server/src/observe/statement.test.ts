import { describe, expect, it } from 'vitest';
import type { DestinationCounts, Ledger, SourceCounts } from '../model/ledger.ts';
import type { SettingsSnapshot } from '../ports/settings.ts';
import { statementOf } from './statement.ts';

const settings = (sources: readonly string[], destinations: readonly string[]): SettingsSnapshot => ({
  sources: sources.map((name, place) => ({
    id: place + 1,
    name,
    writeKeys: [`wk_${place}`],
    enabled: true,
    mode: 'standard',
    whenDisabled: 'refuse',
  })),
  destinations: destinations.map((name, place) => ({
    id: place + 1,
    name,
    type: 'webhooks',
    sources: [...sources],
    enabled: true,
    settings: { endpoints: [], format: 'documented', success: 'any' },
    version: 1,
  })),
  tokens: [],
  replays: [],
  gone: { sources: [], destinations: [] },
});

const SOURCE: SourceCounts = {
  received: 10,
  accepted: 6,
  duplicates: 1,
  discarded: { no_user_anon_id: 2, id_not_string: 1 },
};
const DESTINATION: DestinationCounts = {
  owed: 15,
  delivered: 4,
  pending: 5,
  dead: { status_410: 2, retry_window_over: 1 },
  erased: 3,
  skipped: { integrations: 7 },
};

const ledger = (
  sources: readonly (readonly [number, SourceCounts])[],
  destinations: readonly (readonly [number, DestinationCounts])[],
): Ledger => ({ sources: new Map(sources), destinations: new Map(destinations) });

describe('the statement of a ledger', () => {
  it('has every count under its name, with the balance of each destination', () => {
    const statement = statementOf(ledger([[1, SOURCE]], [[1, DESTINATION]]), settings(['web'], ['crm']));
    expect(statement).toEqual({
      sources: { web: SOURCE },
      destinations: { crm: { ...DESTINATION, balance: 0 } },
      balanced: true,
      differences: [],
    });
    // In the order of contract.md section 4, for those who read the bytes.
    expect(Object.keys(statement.sources['web']!)).toEqual([
      'received',
      'accepted',
      'discarded',
      'duplicates',
    ]);
    expect(Object.keys(statement.destinations['crm']!).at(-1)).toBe('balance');
  });

  it('has zeros for what never counted anything, in the order of the settings', () => {
    const { sources, destinations, balanced } = statementOf(
      ledger([[2, SOURCE]], []),
      settings(['web', 'app'], ['crm', 'mail']),
    );
    expect(Object.keys(sources)).toEqual(['web', 'app']);
    expect(sources['web']).toEqual({ received: 0, accepted: 0, duplicates: 0, discarded: {} });
    const none = { owed: 0, delivered: 0, pending: 0, dead: {}, erased: 0, skipped: {}, balance: 0 };
    expect(destinations).toEqual({ crm: none, mail: none });
    expect(balanced).toBe(true);
  });

  it.each([
    ['a call that was received and is nowhere', { received: 11 }, 1],
    ['a call that was counted twice', { accepted: 7 }, -1],
    ['a discard too many', { discarded: { no_user_anon_id: 4 } }, -1],
  ])('names a source with %s', (_, change, difference) => {
    const { balanced, differences } = statementOf(
      ledger([[1, { ...SOURCE, ...change }]], [[1, DESTINATION]]),
      settings(['web'], ['crm']),
    );
    expect(balanced).toBe(false);
    expect(differences).toEqual([expect.objectContaining({ source: 'web', difference })]);
  });

  it.each([
    ['owed', { owed: 17 }, 2],
    ['delivered', { delivered: 5 }, -1],
    ['pending', { pending: 0 }, 5],
    ['dead', { dead: { status_410: 2 } }, 1],
    ['erased', { erased: 0 }, 3],
  ])('names a destination whose %s does not fit the rest', (_, change, difference) => {
    const { balanced, differences, destinations } = statementOf(
      ledger([[1, SOURCE]], [[1, { ...DESTINATION, ...change }]]),
      settings(['web'], ['crm']),
    );
    expect(balanced).toBe(false);
    expect(destinations['crm']!.balance).toBe(difference);
    expect(differences).toEqual([expect.objectContaining({ destination: 'crm', difference })]);
  });

  it('gives a difference with every term of its sum', () => {
    const { differences } = statementOf(
      ledger([[1, { ...SOURCE, received: 9 }]], [[1, { ...DESTINATION, owed: 16 }]]),
      settings(['web'], ['crm']),
    );
    expect(differences).toEqual([
      { source: 'web', difference: -1, received: 9, accepted: 6, duplicates: 1, discarded: 3 },
      { destination: 'crm', difference: 1, owed: 16, delivered: 4, pending: 5, dead: 3, erased: 3 },
    ]);
  });

  it('keeps the name of a record that was removed with its counts, and has none of its zeros', () => {
    const before = settings(['web'], ['crm', 'mail']);
    const [crm, mail] = before.destinations;
    const after = { ...before, destinations: [], gone: { sources: [], destinations: [crm!, mail!] } };
    const { destinations, balanced } = statementOf(ledger([], [[1, DESTINATION]]), after);
    expect(destinations).toEqual({ crm: { ...DESTINATION, balance: 0 } });
    expect(balanced).toBe(true);
  });

  it('does not hide counts that no record names', () => {
    const { destinations, differences } = statementOf(
      ledger([], [[7, { ...DESTINATION, owed: 16 }]]),
      settings([], []),
    );
    expect(destinations['#7']).toMatchObject({ owed: 16, balance: 1 });
    expect(differences).toMatchObject([{ destination: '#7', difference: 1 }]);
  });

  it('keeps a name that is special to JavaScript', () => {
    const statement = statementOf(ledger([[1, SOURCE]], []), settings(['__proto__'], ['constructor']));
    const read = JSON.parse(JSON.stringify(statement));
    expect(Object.entries(read.sources)).toEqual([['__proto__', SOURCE]]);
    expect(Object.keys(read.destinations)).toEqual(['constructor']);
  });
});
