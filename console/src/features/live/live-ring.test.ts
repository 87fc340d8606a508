import { describe, expect, it } from 'vitest';
import { LiveRing } from './live-ring.ts';

const at = '2026-11-20T14:32:07.386Z';
const event = (messageId: string) => ({ messageId, type: 'track', userId: 'u1', event: 'Order Placed' });
const call = (messageId: string) => ({ at, source: 'website', event: event(messageId) });
const settled = (messageId: string, destination: string, state: 'delivered' | 'retrying' | 'dead') => ({
  ...call(messageId),
  destination,
  state,
});

describe('the rows of the live page', () => {
  it('stand the newest first, and deliveries settle in the row of their event', () => {
    const ring = new LiveRing();
    ring.take('accepted', call('a'), 0);
    ring.take('accepted', call('b'), 0);
    ring.take('settled', settled('a', 'crm', 'retrying'), 0);
    ring.take('settled', settled('a', 'crm', 'delivered'), 0);
    ring.take('settled', settled('a', 'ads', 'dead'), 0);
    expect(ring.rows().map((row) => [row.event?.messageId, row.deliveries])).toEqual([
      ['b', []],
      [
        'a',
        [
          { destination: 'crm', state: 'delivered' },
          { destination: 'ads', state: 'dead' },
        ],
      ],
    ]);
  });

  it('gives a delivery whose event was not seen a row of its own', () => {
    const ring = new LiveRing();
    ring.take('settled', settled('old', 'crm', 'dead'), 0);
    expect(ring.rows()).toMatchObject([{ verdict: 'settled', event: { messageId: 'old' } }]);
  });

  it('keeps the last 500, and the places of deliveries among them', () => {
    const ring = new LiveRing();
    for (let index = 0; index < 5_003; index += 1) ring.take('accepted', call(`m${index}`), 0);
    for (const id of ['m5002', 'm4600', 'm1']) ring.take('settled', settled(id, 'crm', 'delivered'), 0);
    const rows = ring.rows();
    expect(rows).toHaveLength(500);
    expect(rows[0]).toMatchObject({ verdict: 'settled', event: { messageId: 'm1' } });
    expect(rows[1]).toMatchObject({ event: { messageId: 'm5002' }, deliveries: [{ state: 'delivered' }] });
    expect(rows.find((row) => row.event?.messageId === 'm4600')?.deliveries).toHaveLength(1);
    expect(ring.count).toBe(5_004);
  });

  it('leaves a delivery out of the row of a duplicate', () => {
    const ring = new LiveRing();
    ring.take('accepted', call('a'), 0);
    ring.take('duplicate', call('a'), 0);
    ring.take('settled', settled('a', 'crm', 'delivered'), 0);
    expect(ring.rows().map(({ verdict, deliveries }) => [verdict, deliveries.length])).toEqual([
      ['duplicate', 0],
      ['accepted', 1],
    ]);
  });

  it('counts what came and what was left out in the last second', () => {
    const ring = new LiveRing();
    for (let now = 0; now < 2_000; now += 100) {
      ring.take('accepted', call(`m${now}`), now);
      ring.take('lost', { at, count: 10 }, now);
    }
    expect(ring.flow(1_950)).toEqual({ shown: 10, passed: 100 });
    expect(ring.flow(5_000)).toEqual({ shown: 0, passed: 0 });
  });
});
