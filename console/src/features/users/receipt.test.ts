import { describe, expect, it } from 'vitest';
import { confirmationsOf, type Regulation, receiptText, titleOf } from './receipt.ts';

const REGULATION: Regulation = {
  id: 'reg-1',
  type: 'SUPPRESS_WITH_DELETE',
  overallStatus: 'RUNNING',
  createdAt: '2026-11-20T09:04:09.120Z',
  by: 'mara',
  subjects: 1,
  unknown: 0,
  erased: { events: 6, deliveries: 9, deadLetters: 2 },
  profiles: 1,
  streamStatus: [
    {
      source: 'website',
      destination: 'crm',
      endpoint: 'https://a.example/in',
      status: 'FINISHED',
      sent: 1,
      confirmed: 1,
      confirmedAt: '2026-11-20T09:04:11.000Z',
    },
    {
      source: 'website',
      destination: 'lake',
      endpoint: 'https://b.example/in',
      status: 'RUNNING',
      sent: 2,
      confirmed: 1,
    },
  ],
};

describe('a receipt of erasure', () => {
  it('says what was erased, and who has confirmed', () => {
    const text = receiptText(REGULATION);
    expect(text).toContain('Events erased: 6\n');
    expect(text).toContain('Endpoints that confirmed: 1 of 2\n');
    expect(text).toContain('  crm (website): https://a.example/in confirmed 2026-11-20T09:04:11.000Z\n');
    expect(text).toContain('  lake (website): https://b.example/in running\n');
    expect(text).not.toContain('Finished');
  });

  it('says that a database keeps copies of its tables for a while', () => {
    const erasedAt = '2026-11-20T09:04:10.000Z';
    expect(receiptText({ ...REGULATION, erasedAt, erasedFrom: 'files' })).toContain(`Erased: ${erasedAt}\n`);
    expect(receiptText({ ...REGULATION, erasedAt, erasedFrom: 'tables' })).toContain(
      `Erased: ${erasedAt}, from the tables of the database; its write-ahead log, archives`,
    );
  });

  it('counts the joined ids by what joined them, and those that were left out', () => {
    const joined = [{ rule: 'alias', source: 'website', ids: 3 } as const];
    const text = receiptText({ ...REGULATION, joined, leftOut: 1 });
    expect(text).toContain('Joined ids: 3 by an alias from website\n');
    expect(text).toContain('UserIds left out, because client sources alone have joined them: 1\n');
    expect(receiptText(REGULATION)).not.toMatch(/Joined|left out/);
  });

  it('counts an endpoint only when it has confirmed everything', () => {
    expect(confirmationsOf(REGULATION)).toEqual({ confirmed: 1, all: 2 });
  });

  it.each([
    [1, 'Delete and suppress 1 user'],
    [1200, 'Delete and suppress 1,200 users'],
  ])('is titled by its kind and its %i users', (subjects, title) => {
    expect(titleOf({ ...REGULATION, subjects })).toBe(title);
  });
});
