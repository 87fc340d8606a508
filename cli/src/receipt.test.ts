import { expect, it } from 'vitest';
import { foreseenLines, receiptLines, type ShownRegulation, subjectLines } from './receipt.ts';

const regulation: ShownRegulation = {
  ...{ id: 'r1', type: 'DELETE_ONLY', overallStatus: 'FINISHED', by: 'admin', subjects: 1, streamStatus: [] },
  ...{ createdAt: '2026-03-04T05:06:07.000Z', erasedAt: '2026-03-04T05:06:08.000Z' },
  erased: { events: 2, deliveries: 0, deadLetters: 0 },
};

it('says from what it was erased, and what a database keeps for a while', () => {
  const gone = (erasedFrom: ShownRegulation['erasedFrom']) =>
    receiptLines({ ...regulation, ...(erasedFrom === undefined ? {} : { erasedFrom }) }).slice(3);
  expect(gone('files')).toEqual(['  gone from the files: 2026-03-04T05:06:08.000Z']);
  expect(gone('tables')).toEqual([
    '  gone from the tables of the database: 2026-03-04T05:06:08.000Z',
    '  its write-ahead log, archives, standbys and base backups keep copies until they are recycled or removed',
  ]);
  // An earlier version does not say it, and kept everything in files.
  expect(gone(undefined)).toEqual(gone('files'));
});

it('counts the joined ids by what joined them, and those that were left out', () => {
  const joined = [
    { rule: 'alias', source: 'backend', ids: 2 },
    { rule: null, source: null, ids: 1 },
  ];
  expect(receiptLines({ ...regulation, joined, leftOut: 1 }).slice(2, 4)).toEqual([
    '  with 3 joined ids: 2 by alias of backend, 1 by an event that is gone',
    '  left out: 1 userId that client sources alone have joined (--confirm takes them along)',
  ]);
});

it('says whom nobody tells', () => {
  expect(receiptLines({ ...regulation, silent: true }).at(-1)).toBe(
    '  no destination is told: it was asked to be silent',
  );
  expect(receiptLines({ ...regulation, untold: ['tee'] }).at(-1)).toBe(
    '  tee only passes calls on and is not told: delete them in the service behind it too',
  );
});

it('names whom a regulation would take, with what joined each id', () => {
  const join = {
    ...{ kind: 'anonymous', value: 'd1', rule: 'identify', source: 'website' },
    ...{ messageId: 'm1', at: '2026-03-04T05:06:07.000Z' },
  };
  const unknown = { ...join, rule: null, source: null, messageId: null, at: null };
  expect(
    subjectLines([
      {
        userId: 'ann',
        joins: [join, unknown],
        leftOut: [{ ...join, kind: 'user', value: 'bob' }],
        unknown: false,
      },
      { anonymousId: 'd2', joins: [], leftOut: [], outcome: 'belongs_to_a_user', unknown: false },
      { userId: 'eve', joins: [], leftOut: [], unknown: true },
    ]),
  ).toEqual([
    'ann',
    '  with anonymous d1, joined by identify of website at 2026-03-04T05:06:07.000Z, event m1',
    '  with anonymous d1, joined by an event that is gone',
    '  left out, because client sources alone have joined it (--confirm): user bob, joined by identify of website at 2026-03-04T05:06:07.000Z, event m1',
    'anonymous d2: belongs to a user, so nothing is done of it',
    'eve: names nobody',
  ]);
});

it('says what a deletion would erase and tell, where the server says it', () => {
  const foreseen = { found: [], events: 3, profiles: 1, destinations: ['crm', 'lake'] };
  expect(foreseenLines(foreseen)).toEqual(['would erase 3 events and 1 profile', 'would tell crm, lake']);
  expect(foreseenLines({ ...foreseen, destinations: [] }).at(-1)).toBe('would tell no destination');
  expect(foreseenLines({ found: [] })).toEqual([]);
});
