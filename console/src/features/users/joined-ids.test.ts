import { expect, it } from 'vitest';
import { foreseenText, joinedText, joinText, leftOutIn, type Subject, subjectTitle } from './joined-ids.ts';

const join = {
  kind: 'anonymous',
  value: 'd1',
  rule: 'alias',
  source: 'website',
  messageId: 'm2',
  at: null,
} as const;
const subject: Subject = {
  ...{ userId: 'ann', formerUserIds: [], anonymousIds: ['d1'], joins: [join], leftOut: [], unknown: false },
};

it('says what joined an id, as far as it is known', () => {
  expect(joinText(join)).toBe('an alias from website, event m2');
  expect(joinText({ ...join, source: null })).toBe('an alias, event m2');
  expect(joinText({ ...join, rule: null, source: null, messageId: null })).toBe(
    'an event that is not stored any more',
  );
});

it('says of everybody what is taken along, and of whom nothing is done', () => {
  expect(subjectTitle(subject)).toBe('ann, with 1 joined id');
  expect(subjectTitle({ ...subject, joins: [], unknown: true })).toBe('ann: names nobody');
  expect(subjectTitle({ ...subject, outcome: 'belongs_to_a_user' })).toContain('belongs to a user');
  expect(leftOutIn([subject, { ...subject, leftOut: [join, join] }])).toBe(2);
});

it('counts the joined ids of a receipt by what joined them', () => {
  const joined = [
    { rule: 'identify', source: 'website', ids: 1200 },
    { rule: null, source: null, ids: 1 },
  ] as const;
  expect(joinedText({ joined: [...joined] })).toBe(
    '1,200 by an event with both ids from website, 1 by an event that is not stored any more',
  );
  expect(joinedText({})).toBe('');
});

it('says what a deletion would erase, and who would be told', () => {
  const foreseen = { found: [], events: 1200, profiles: 1, destinations: ['crm', 'lake'] };
  expect(foreseenText(foreseen)).toBe('1,200 stored events and 1 profile would be erased. Told: crm, lake.');
  expect(foreseenText({ ...foreseen, destinations: [] })).toContain('No destination is told.');
});
