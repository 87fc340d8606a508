import { describe, expect, it } from 'vitest';
import type { Destination, Status } from '../../api/queries.ts';
import { filterRows, rowsOf } from './rows.ts';

const destination = (name: string, change: Partial<Pick<Destination, 'enabled'>> = {}): Destination => ({
  name,
  type: 'webhooks',
  sources: ['website'],
  enabled: true,
  settings: {
    endpoints: [{ url: `https://${name}.example/in`, headers: {} }],
    format: 'documented',
    success: 'any',
  },
  ...change,
});

const status = {
  lanes: { crm: { state: 'failing', failingSince: '2026-11-22T21:00:00.000Z' }, ads: { state: 'healthy' } },
  destinations: { crm: { delivered: 3, pending: 7, dead: { status_410: 2, timeout: 1 } } },
} as unknown as Status;

describe('rows of destinations', () => {
  const rows = rowsOf(
    [
      destination('ads'),
      destination('zoo', { enabled: false }),
      destination('crm'),
      destination('constructor'),
    ],
    status,
  );

  it('begin with those in trouble and end with disabled ones', () => {
    expect(rows.map(({ name, state }) => `${name} ${state}`)).toEqual([
      'crm failing',
      'ads healthy',
      'constructor never_asked',
      'zoo disabled',
    ]);
  });

  it('have the numbers of the ledger, and none where it has none', () => {
    expect(rows[0]).toMatchObject({ delivered: 3, pending: 7, dead: 3, host: 'crm.example/in' });
    expect(rows[2]).toMatchObject({ delivered: 0, pending: 0, dead: 0 });
  });

  it('are found by name, URL and source', () => {
    const names = (q: string) => filterRows(rows, { q }).map(({ name }) => name);
    expect(names('CRM.ex')).toEqual(['crm']);
    expect(names('websi')).toHaveLength(4);
    expect(filterRows(rows, { state: 'disabled', q: '' })).toHaveLength(1);
  });
});
