import { describe, expect, it } from 'vitest';
import { isSealedBy, openRecord, sealRecord } from './sealed-records.ts';
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

  it('keeps secret what the type says is secret, with any key and without one', () => {
    const places = {
      warehouse: {
        addresses: ['base'],
        secrets: ['keys[]'],
        credentials: ['login.token'],
        headers: ['extra'],
      },
    };
    const settings = {
      ...{ base: 'https://w.example/in?k=S3CRET', keys: ['S3CRET-1', 'S3CRET-2'] },
      ...{ login: { user: 'ann', token: 'S3CRET-3' }, extra: { sealed: 'S3CRET-4' }, batch: 5 },
    };
    const record = { name: 'w', type: 'warehouse', sources: [], enabled: true, success: 'each', settings };
    const seal = new SecretSeal({ current: Buffer.alloc(32, 7), previous: [], places });
    const row = {
      kind: 'destination',
      name: 'w',
      document: sealRecord(seal, seal.current, { kind: 'destination', name: 'w', record }),
    };
    expect(row.document).not.toContain('S3CRET');
    expect(row.document).toContain('"user":"ann"');
    expect(openRecord(seal, row)).toEqual(record);
    expect(isSealedBy(seal, row)).toBe(true);
    const plain = { ...row, document: sealRecord(SEAL, undefined, { ...row, record }) };
    expect(isSealedBy(seal, plain)).toBe(false);
    expect(isSealedBy(SEAL, plain)).toBe(true);
  });

  it('leaves the settings of other records alone', () => {
    const document = '{"name":"ops","settings":{"url":"https://ops.example/","filter":"kept"}}';
    expect(openRecord(SEAL, { kind: 'alert', name: 'ops', document })).toEqual(JSON.parse(document));
  });
});
