import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { Computation } from '../../model/definition.ts';
import type { Event } from '../../model/event.ts';
import type { Json } from '../../model/json.ts';
import { computationEvent } from './computation-event.ts';

const FIXTURES = join(import.meta.dirname, '../../../../spec/fixtures/webhook');
const NOW = Date.UTC(2026, 0, 2, 3, 4, 5, 678);

const AUDIENCE: Computation = {
  ...{ id: 12, version: 3, kind: 'audience', name: 'VIP Users', key: 'vip_users', text: '' },
  definition: { op: 'group', id: 'g' },
  ...{ destinations: ['crm'], enabled: true, includeAnonymous: false },
};

const TRAIT: Computation = {
  ...{ id: 7, version: 1, kind: 'trait', name: 'Total spent', key: 'total_spent', text: '' },
  definition: { op: 'event', type: 'track', name: 'Order', reduce: { op: 'sum', property: 'total' } },
  ...{ destinations: ['crm'], enabled: true },
};

/** The event of a fixture, as it is stored. */
function fixture(name: string): string {
  const text = readFileSync(join(FIXTURES, `${name}.canonical.json`), 'utf8');
  return JSON.stringify((JSON.parse(text) as { event: Event }).event);
}

describe('the event of a change', () => {
  it.each<[string, Computation, Json, string]>([
    ['audience-entered', AUDIENCE, true, '1.845.1'],
    ['audience-left', AUDIENCE, false, '1.845.2'],
    ['computed-trait', TRAIT, 129.5, '1.845.9'],
  ])('is the one of the fixture %s', (name, computation, value, number) => {
    const recipient = { userId: 'u-1' };
    const event = computationEvent({
      computation,
      recipient,
      value,
      at: NOW,
      now: NOW,
      sequence: NOW,
      number,
    });
    expect(JSON.stringify(event)).toBe(fixture(name));
  });

  it('names the destinations that alone get it', () => {
    const only = ['crm', 'All'];
    const change = {
      computation: AUDIENCE,
      recipient: { anonymousId: 'a' },
      value: true,
      at: NOW,
      now: NOW,
      sequence: NOW,
    };
    expect(computationEvent({ ...change, number: '1', only })).toMatchObject({
      anonymousId: 'a',
      integrations: { crm: true },
    });
  });
});
