import { describe, expect, it } from 'vitest';
import { recordFaults } from './record-faults.ts';

describe('a record that is checked alone', () => {
  it('has no faults where a file with it could be applied', () => {
    expect(recordFaults('source', { name: 'site', writeKeys: ['wk'] })).toEqual([]);
    expect(recordFaults('endpoint', { url: 'https://a.example', headers: { 'X-Team': 'a' } })).toEqual([]);
    expect(recordFaults('trait', { name: 'n', definition: "event('A').count()" })).toEqual([]);
  });

  it('has its faults with their places, in the words of the file', () => {
    expect(recordFaults('endpoint', { url: 'ftp://a.example', headers: { Host: 'x' } })).toEqual([
      { path: ['url'], message: 'must be an absolute http or https URL' },
      {
        path: ['headers', 'Host'],
        message: expect.stringMatching(/^is a reserved header; reserved are Host/),
      },
    ]);
    expect(recordFaults('source', { name: ' ', writeKeys: ['a b'] })).toMatchObject([
      { path: ['name'] },
      { path: ['writeKeys', 0] },
    ]);
    expect(recordFaults('audience', { name: 'a', definition: "event('A').count() >= 0" })).toMatchObject([
      { path: ['definition'], message: expect.stringMatching(/always at least 0/) },
    ]);
    expect(
      recordFaults('destination', { name: 'All', type: 'webhooks', sources: [], settings: {} }),
    ).toMatchObject([{ path: ['name'] }, { path: ['settings', 'endpoints'] }]);
  });
});
