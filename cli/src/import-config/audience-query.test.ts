import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { recordFaults } from '@millrace/server/config';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type KnownKeys, translateQuery } from './audience-query.ts';

interface Case {
  readonly id: string;
  readonly segment: string;
  readonly millrace?: string;
  readonly cannot?: string;
  readonly note?: string;
}

const { cases } = JSON.parse(
  readFileSync(
    join(import.meta.dirname, '../../../spec/fixtures/import-config/audience-queries.json'),
    'utf8',
  ),
) as { cases: readonly Case[] };

const KNOWN: KnownKeys = {
  audiences: new Map([['vip_customers', 'VIP Customers']]),
  traits: new Map([['spend_30d', 'Spend 30d']]),
};

const translated = (query: string, kind: 'audience' | 'trait' = 'audience') => {
  const made = translateQuery(kind, query, KNOWN);
  return 'text' in made ? made.text : `cannot: ${made.cannot}`;
};

describe('a query there', () => {
  it.each(cases)('$id: $segment', ({ segment, millrace, cannot, note }) => {
    const kind = note === 'a computed trait' ? 'trait' : 'audience';
    expect(translated(segment, kind)).toBe(millrace ?? `cannot: ${cannot}`);
  });

  it.each([
    ["event('A').count().at_least(5)", "event('A').count() >= 5"],
    ["event('A').sum(property('x')).at_most(1.5)", "event('A').sum(property('x')) <= 1.5"],
    ["event('A')", "event('A').count() >= 1"],
    ["event('A').within(2 weeks).count() > 1", "event('A').within(14 days).count() > 1"],
    ["event('A').unique(property('x')).count() >= 3", "event('A').unique_count(property('x')) >= 3"],
    ["page('Pricing').count() = 0", "page('Pricing').count() = 0"],
    [
      "trait('email').omits('@a', '@b')",
      "not (trait('email') contains '@a' or trait('email') contains '@b')",
    ],
    [
      "trait('a') = 'x' OR trait('b') = 'y' AND trait('c').exists()",
      "trait('a') = 'x' or trait('b') = 'y' and trait('c') exists",
    ],
    [
      "(trait('a') = 'x' OR trait('b') = 'y') AND trait('c') = true",
      "(trait('a') = 'x' or trait('b') = 'y') and trait('c') = true",
    ],
    ["NOT NOT trait('a').starts_with('x')", "not not trait('a') starts_with 'x'"],
    ['trait("a") = "it\'s"', "trait('a') = 'it''s'"],
    ["trait('a') = 'it\\'s'", "trait('a') = 'it''s'"],
    ["(trait('vip_customers') = true)", "audience('VIP Customers')"],
    [
      "trait('vip_customers').equals(true) AND trait('a') = 1",
      "audience('VIP Customers') and trait('a') = 1",
    ],
    ["trait('spend_30d') > 5", "computed('Spend 30d') > 5"],
    [
      "event('A').where(trait('plan') = 'pro').count() >= 1",
      "event('A').where(trait('plan') = 'pro').count() >= 1",
    ],
  ])('%s becomes %s', (query, text) => {
    expect(translated(query)).toBe(text);
    expect(recordFaults('audience', { name: 'a', definition: text })).toEqual([]);
  });

  it.each([
    ["event('A').count() >= 1 extra", 'extra was not expected'],
    ["trait('d').before_date('2026-01-01')", 'dates'],
    ["trait('d').within_last(5 days)", 'dates'],
    ["event('A').mode(property('x'), 5) = 'y'", 'mode with a least frequency'],
    ["event('A').sum(trait('x')) > 5", 'sum of something else than a property'],
    ["trait('x') as number > 5", 'a change of type'],
    ["ALL event('A').count() >= 1", 'accounts'],
    [
      "trait('vip_customers') = false",
      'vip_customers is the key of an audience in the same export: write audience(...) by name',
    ],
    ["trait('a') = trait('b')", 'a comparison of two values'],
    ["trait('a').at_least(1, 2)", 'at_least with several values'],
    ["event('A').where(event('B').count() >= 1)", 'a second event that depends on the first'],
    ['', 'the end is not known'],
    ["trait('a'", 'expected ), found the end'],
    ['#', '# is not known'],
    [`${'('.repeat(60)}trait('a') = 1${')'.repeat(60)}`, 'is nested more than 50 levels deep'],
    [`trait('${'x'.repeat(60_000)}') = 1`, 'has more than 50000 characters'],
  ])('%s cannot be said here: %s', (query, reason) => {
    expect(translated(query)).toBe(`cannot: ${reason}`);
  });

  it('is a value of events for a computed trait, and nothing else', () => {
    expect(translated("event('A').count()", 'trait')).toBe("event('A').count()");
    expect(translated("trait('a') = 1", 'trait')).toBe('cannot: is not a value of events');
    expect(translated("event('A')", 'trait')).toBe('cannot: is a condition, and not a value of events');
    expect(translated("event('A').count() > 5", 'trait')).toBe('cannot: > was not expected');
  });

  it('names the texts that were equal to numbers there', () => {
    const query = "trait('a') = '5' AND trait('b').one_of('x', 'true') AND trait('c').starts_with('7')";
    expect(translateQuery('audience', query, KNOWN)).toMatchObject({ looseTexts: ['5', 'true'] });
  });

  it('is never an error of this program, whatever it is', () => {
    const words = [
      "event('A')",
      "trait('a')",
      '.where(',
      '.within(',
      '7 days',
      ')',
      '(',
      '.count()',
      '= 1',
      'AND',
      'NOT',
      "'x'",
      '.',
      ',',
      'ANY',
      ".one_of('a')",
      '\\',
    ];
    const query = fc.array(fc.constantFrom(...words), { maxLength: 12 }).map((parts) => parts.join(' '));
    fc.assert(
      fc.property(fc.oneof(query, fc.string()), (text) => {
        const made = translateQuery('audience', text, KNOWN);
        expect('text' in made || made.cannot !== '').toBe(true);
      }),
    );
  });
});
