import { expect, it } from 'vitest';
import { splitReport } from './splits.ts';

const ann = { userId: 'ann', formerUserIds: [], anonymousIds: ['phone'], externalIds: {}, events: 3 };

it('says which profiles come of a split, and what destinations hear', () => {
  const told = [
    { userId: 'ann', key: 'buyers', value: true },
    { userId: 'bob', key: 'orders', value: 2, destinations: ['crm'] },
  ];
  const profiles = [ann, { ...ann, userId: 'bob', anonymousIds: [], events: 1 }];
  expect(splitReport({ profiles, told, poorer: true }).split('\n')).toEqual([
    'ann: 3 stored events, with phone',
    'bob: 1 stored event',
    'every destination of it hears: ann buyers true',
    'crm hears: bob orders 2',
    'Some events of the profile are not stored any more: what only those said is lost.',
    '',
  ]);
});

it('says that nothing changes where they are two already', () => {
  expect(splitReport({ profiles: [], told: [], poorer: false })).toBe(
    'They are ids of two profiles already, and stay so.\nNo destination hears anything.\n',
  );
});
