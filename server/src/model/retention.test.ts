import { expect, test } from 'vitest';
import { retentionPeriods } from './retention.ts';
import { DAY } from './time.ts';

test('a new installation lets go of visitors after 90 days, and of the audit trail and receipts after a year', () => {
  const { periods, advised } = retentionPeriods({ profiles: {} }, true);
  expect(periods).toEqual({ anonymous: 90 * DAY, audit: 365 * DAY, regulations: 365 * DAY });
  expect(advised).toEqual({});
});

test('an installation of an earlier version keeps everything, and learns what would go', () => {
  const { periods, advised } = retentionPeriods({ profiles: {} }, false);
  expect(periods).toEqual({});
  expect(advised).toEqual({ anonymous: 90 * DAY, audit: 365 * DAY, regulations: 365 * DAY });
});

test('what the file says holds in both', () => {
  const choice = { profiles: { anonymous: 'off', known: 400 * DAY }, audit: 7 * DAY } as const;
  for (const isBounded of [true, false]) {
    const { periods, advised } = retentionPeriods({ ...choice, regulations: 'off' }, isBounded);
    expect(periods).toEqual({ known: 400 * DAY, audit: 7 * DAY });
    expect(advised).toEqual({});
  }
});
