import { expect, it } from 'vitest';
import { comparisonLines, type ShownComparison } from './comparison.ts';

const PLAIN = { columns: undefined, dim: (text: string) => text } as never;

const shown: ShownComparison = {
  ...{
    there: 'incumbent',
    here: 'website',
    from: '2026-03-04T00:00:00.000Z',
    to: '2026-03-05T00:00:00.000Z',
  },
  ...{
    equal: 9998,
    different: 1,
    missing: { there: 0, here: 1 },
    waiting: 2,
    unreadable: 0,
    truncated: false,
  },
  apart: { computed: 3, suppressed: 0, protocols: 0 },
  differences: [
    {
      ...{ event: 'track Order Placed', field: 'properties.price', count: 1 },
      examples: [{ messageId: 'm-1', there: 10, here: '10' }],
    },
  ],
  absences: [{ event: 'page', missing: 'here', count: 1, messageIds: ['m-2'] }],
  rules: [
    { name: 'nulls', on: false },
    { name: 'waiting', on: true },
  ],
};

it('shows the counts, the rules that are off, and one example of each kind', () => {
  expect(comparisonLines(shown, PLAIN)).toEqual([
    'incumbent (there) and website (here), 2026-03-04T00:00:00.000Z to 2026-03-05T00:00:00.000Z',
    '      9,998  equal',
    '          1  different',
    '          0  missing in incumbent',
    '          1  missing in website',
    '          2  may still come',
    '          3  of audiences and traits',
    '  without the rules nulls',
    '',
    'calls  event               differs in          there  here  such as',
    '    1  track Order Placed  properties.price    10     "10"  m-1',
    '    1  page                missing in website               m-2',
  ]);
});
