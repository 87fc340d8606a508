import { expect, it } from 'vitest';
import { unknownName } from './unknown-name.ts';

const RECORDS = ['crm', 'warehouse', 'warehouse-eu', 'Newsletter'].map((name) => ({ name }));
const hintFor = (name: string) => unknownName(name, 'destination', RECORDS).hint;

it.each([
  ['crn', 'crm'],
  ['CRM', 'crm'],
  ['warehose', 'warehouse'],
  ['newsletter', 'Newsletter'],
])('takes %s for %s', (name, meant) => {
  expect(hintFor(name)).toBe(`"${name}" is no destination; the nearest name is "${meant}".`);
});

it.each(['lake', 'x', 'house', 'w'.repeat(33)])(
  'says where all names are listed when none is like %s',
  (name) => {
    expect(hintFor(name)).toBe(`"${name}" is no destination; GET /api/v1/destinations lists them.`);
  },
);
