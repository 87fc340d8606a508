import { describe, expect, it } from 'vitest';
import { builderOf, type Group, jsonOf, NEW_GROUP, scalarOf } from './model.ts';

const count = { op: 'count' };
const orders = { op: 'event', type: 'track', name: 'Order Completed', reduce: count };
const total = { op: 'property', name: 'total' };
const country = { op: 'trait', name: 'country' };

const SHOWN: readonly (readonly [string, object])[] = [
  ['a count', { op: '>=', value: orders, to: 1 }],
  ['a window', { op: '>=', value: { ...orders, within: 30 * 86_400_000 }, to: 2 }],
  ['a window of minutes', { op: '>=', value: { ...orders, within: 90 * 60_000 }, to: 2 }],
  ['one where', { op: '>=', value: { ...orders, where: { op: '>', value: total, to: 20.5 } }, to: 2 }],
  [
    'several where',
    {
      op: '>=',
      value: {
        ...orders,
        where: {
          op: 'and',
          conditions: [
            { op: 'exists', value: total },
            { op: 'in', value: { op: 'property', name: 'currency' }, to: ['EUR', 'a, b', "it's"] },
          ],
        },
      },
      to: 2,
    },
  ],
  ['a reducer', { op: '>', value: { ...orders, reduce: { op: 'sum', property: 'total' } }, to: 100 }],
  ['a text that looks like a number', { op: '=', value: country, to: '20' }],
  ['a text that looks like a truth', { op: 'in', value: country, to: ['true', true, 'DE'] }],
  ['a text with spaces around', { op: '=', value: country, to: ' DE ' }],
  ['a text in quotes', { op: '=', value: country, to: "'DE'" }],
  ['a computed trait', { op: '<=', value: { op: 'computed', name: 'Total Spent' }, to: -1.5 }],
  ['not', { op: 'not', condition: { op: 'audience', name: 'Staff' } }],
  [
    'groups in groups',
    {
      op: 'or',
      conditions: [
        { op: 'group', id: 'acme' },
        {
          op: 'and',
          conditions: [
            { op: 'not', condition: { op: '>=', value: orders, to: 1 } },
            { op: '=', value: country, to: true },
          ],
        },
      ],
    },
  ],
];

describe('the builder', () => {
  it.each(SHOWN)('shows %s, and writes the same definition again', (_, json) => {
    const group = builderOf(json as Record<string, unknown>);
    expect(group).toBeTypeOf('object');
    expect(jsonOf(group as Group)).toEqual(json);
  });

  it.each([
    ['a not around several conditions', { op: 'not', condition: SHOWN.at(-1)![1] }],
    [
      'an or, a not or a trait inside where',
      { op: '>=', value: { ...orders, where: { op: '=', value: country, to: 'DE' } }, to: 1 },
    ],
    ['the op event', orders],
    ['a not inside a not', { op: 'not', condition: { op: 'not', condition: { op: 'group', id: 'acme' } } }],
  ])('says that it cannot show %s', (what, json) => {
    expect(builderOf(json)).toBe(what);
  });

  it('makes no definition while something is missing', () => {
    const [row] = NEW_GROUP.rows as [(typeof NEW_GROUP)['rows'][number]];
    expect(jsonOf(NEW_GROUP)).toBeUndefined();
    expect(jsonOf({ join: 'and', rows: [] })).toBeUndefined();
    const named = { ...row, name: 'Order Completed' };
    for (const part of [{ to: ' ' }, { within: '0' }, { within: 'x' }, { reduce: 'sum' as const }])
      expect(jsonOf({ join: 'and', rows: [{ ...named, ...part } as typeof row] })).toBeUndefined();
    expect(jsonOf({ join: 'and', rows: [named] })).toMatchObject({ op: '>=', to: 1 });
  });

  it('reads what is typed as it looks', () => {
    expect([' 20 ', '-1.5', '1e6', '20a', 'true', "'20'", "'it''s'", "it's"].map(scalarOf)).toEqual([
      ...[20, -1.5, 1e6, '20a', true, '20'],
      ...["it's", "it's"],
    ]);
  });
});
