import { describe, expect, it } from 'vitest';
import { ledgerTerms, rangeTerms } from './ledger-terms.ts';

describe('the sums under the race', () => {
  it('add up sources, destinations and reasons', () => {
    const source = { received: 10, accepted: 6, duplicates: 1, discarded: { a: 2, b: 1 } };
    const destination = {
      owed: 6,
      delivered: 3,
      pending: 1,
      dead: { x: 1 },
      dropped: {},
      erased: 1,
      skipped: {},
      balance: 0,
    };
    expect(
      ledgerTerms({
        sources: { web: source, app: source },
        destinations: { crm: destination, ads: destination },
      }),
    ).toEqual({
      calls: { received: 20, terms: { accepted: 12, duplicate: 2, discarded: 6 } },
      deliveries: { owed: 12, terms: { delivered: 6, pending: 2, dead: 2, erased: 2 } },
    });
  });

  it('have a term for what was dropped where anything was', () => {
    const dropping = {
      owed: 5,
      delivered: 3,
      pending: 0,
      dead: {},
      dropped: { not_applicable: 2 },
      erased: 0,
    };
    const destinations = { crm: { ...dropping, skipped: {}, balance: 0 } };
    expect(ledgerTerms({ sources: {}, destinations }).deliveries.terms).toMatchObject({
      delivered: 3,
      dropped: 2,
    });
    expect(rangeTerms({ owed: 5, delivered: 3, dropped: 2 }).deliveries.terms).toEqual({
      ...{ delivered: 3, dead: 0, dropped: 2, erased: 0, 'more pending': 0 },
    });
  });

  it('come out in a range too: what is not settled waits, and what waited may be settled', () => {
    const calls = { received: 5, accepted: 4, duplicates: 1, discarded: 0 };
    expect(rangeTerms({ ...calls, owed: 8, delivered: 5, dead: 1, erased: null }).deliveries).toEqual({
      owed: 8,
      terms: { delivered: 5, dead: 1, erased: 0, 'more pending': 2 },
    });
    expect(rangeTerms({ ...calls, owed: 1, delivered: 3, dead: 0, erased: 0 }).deliveries.terms).toEqual({
      ...{ delivered: 3, dead: 0, erased: 0 },
      'fewer pending': -2,
    });
  });
});
