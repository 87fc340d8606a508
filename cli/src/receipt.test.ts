import { expect, it } from 'vitest';
import { receiptLines, type ShownRegulation } from './receipt.ts';

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
