import { describe, expect, it } from 'vitest';
import { ledgerVerdict, receivedRate } from './vital-signs.ts';

const reading = (second: number, received: number) => ({
  at: new Date(second * 1000).toISOString(),
  sources: { website: { received, accepted: received, discarded: {}, duplicates: 0 } },
});

describe('the top bar', () => {
  it('computes a rate by the clock of the server', () => {
    expect(receivedRate([reading(0, 100), reading(2, 150), reading(4, 300)])).toBe(50);
  });

  it('knows no rate from one reading, and none below zero', () => {
    expect(receivedRate([])).toBeUndefined();
    expect(receivedRate([reading(0, 100)])).toBeUndefined();
    expect(receivedRate([reading(0, 100), reading(2, 0)])).toBe(0);
  });

  it('says how many are lost, and that a sum is wrong where more came out than went in', () => {
    expect(ledgerVerdict({ balanced: true, differences: [] }).label).toBe('0 lost');
    const lost = ledgerVerdict({ balanced: false, differences: [{ difference: 2 }, { difference: -1 }] });
    expect(lost).toMatchObject({ isGood: false, label: '2 lost' });
    expect(ledgerVerdict({ balanced: false, differences: [{ difference: -1 }] }).label).toBe(
      'does not balance',
    );
  });
});
