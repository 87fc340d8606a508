import { describe, expect, it } from 'vitest';
import { openRecord, sealRecord } from './sealed-records.ts';
import { SecretSeal } from './secret-seal.ts';

/** As versions stored it in which there was one type of destination. */
const DOCUMENT =
  '{"name":"crm","type":"webhooks","sources":["website"],"enabled":true,"settings":{"endpoints":[{"url":"https://crm.example/in",' +
  '"headers":{}}],"format":"documented","success":"each","filter":{"types":["track"]},"rateLimit":5}}';
const SEAL = new SecretSeal({ previous: [] });

describe('the stored document of a destination', () => {
  it('opens with its policy beside its settings, and is stored again as the same bytes', () => {
    const row = { kind: 'destination', name: 'crm', document: DOCUMENT };
    const record = openRecord(SEAL, row);
    expect(record).toMatchObject({ success: 'each', filter: { types: ['track'] }, rateLimit: 5 });
    expect(Object.keys(record.settings)).toEqual(['endpoints', 'format']);
    expect(sealRecord(SEAL, undefined, { ...row, record })).toBe(DOCUMENT);
  });

  it('leaves the settings of other records alone', () => {
    const document = '{"name":"ops","settings":{"url":"https://ops.example/","filter":"kept"}}';
    expect(openRecord(SEAL, { kind: 'alert', name: 'ops', document })).toEqual(JSON.parse(document));
  });
});
