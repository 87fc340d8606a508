import { describe, expect, it } from 'vitest';
import { isWhole, type Outage, outagesOf, outagesUntil, outageText, shadesOf } from './failures.ts';

const MINUTE = 60_000;
const BEGIN = Date.UTC(2026, 10, 20, 14);
const at = (minute: number) => BEGIN + minute * MINUTE;
const timeOf = (time: number) => new Date(time).toISOString().slice(11, 16);

const outage = (destination: string, from: number, to: number, isOpen = false): Outage => ({
  destination,
  from: at(from),
  to: at(to),
  isOpen,
});

describe('outages', () => {
  const outagesFrom = (delivered: (number | null)[], failed: (number | null)[]) =>
    outagesOf({
      from: new Date(BEGIN).toISOString(),
      to: new Date(at(delivered.length)).toISOString(),
      step: 60,
      groups: [{ destination: 'crm', totals: {}, series: { delivered, failed }, now: {}, reasons: {} }],
    });

  it('begin with a failed request and end with a delivery', () => {
    expect(outagesFrom([5, 0, 0, 5, 5], [0, 3, 3, 0, 0])).toEqual([outage('crm', 1, 3)]);
  });

  it('go on over steps without a request, and over a stop of the server', () => {
    expect(outagesFrom([0, 0, null, 0, 5], [3, 0, null, 1, 0])).toEqual([outage('crm', 0, 4)]);
  });

  it('end with their last failed request where nothing was tried afterwards, and stay open', () => {
    expect(outagesFrom([5, 0, 0, 0], [0, 3, 0, 0])).toEqual([outage('crm', 1, 2, true)]);
  });

  it('are none where some requests failed and events were delivered all the same', () => {
    expect(outagesFrom([5, 4, 5], [1, 2, 0])).toEqual([]);
  });

  it('last until the end of the range while their destination still fails', () => {
    const found = [outage('crm', 1, 2, true), outage('lake', 1, 2, true), outage('crm', 0, 1)];
    expect(outagesUntil(found, { begin: at(0), end: at(9), failing: new Map([['crm', at(1)]]) })).toEqual([
      outage('crm', 1, 9, true),
      outage('lake', 1, 2),
      outage('crm', 0, 1),
    ]);
  });
});

describe('an outage of a destination that fails for long', () => {
  it('begins when it began to fail, however seldom it is asked', () => {
    const failing = new Map([['crm', at(-600)]]);
    const [found] = outagesUntil([outage('crm', 7, 8, true)], { begin: at(0), end: at(9), failing });
    expect(found).toEqual(outage('crm', 0, 9, true));
  });

  it('is told from one that has a begin or an end in the range', () => {
    const range = { begin: at(0), end: at(60) };
    expect(isWhole(outage('crm', 0, 60, true), range)).toBe(true);
    expect(isWhole(outage('crm', 5, 60, true), range)).toBe(false);
    expect(isWhole(outage('crm', 0, 40), range)).toBe(false);
  });
});

describe('the shades of a chart', () => {
  it('are one for outages that overlap, and name a single destination', () => {
    expect(shadesOf([outage('crm', 8, 9), outage('lake', 2, 5), outage('crm', 1, 3)])).toEqual([
      { from: at(1), to: at(5), label: '2 destinations fail' },
      { from: at(8), to: at(9), label: 'crm fails' },
    ]);
  });

  it('show what a long or hostile name hides, and cut it', () => {
    const [shade] = shadesOf([outage(`\u202e${'x'.repeat(10_000)}`, 1, 2)]);
    expect(shade?.label).toMatch(/^⟨U\+202E⟩x+… fails$/);
    expect(shade?.label.length).toBeLessThan(40);
  });
});

describe('outages in words', () => {
  it('name the last outage of each destination, the latest first', () => {
    const told = [outage('crm', 1, 3), outage('crm', 18, 30, true), outage('lake', 2, 5)];
    expect(outageText(told, timeOf)).toBe('crm from 14:18 on and once before; lake 14:02 – 14:05');
  });

  it('count the destinations beyond four', () => {
    const told = ['a', 'b', 'c', 'd', 'e', 'f'].map((name, nth) => outage(name, nth, 20 - nth));
    expect(outageText(told, timeOf)).toMatch(/^a 14:00 – 14:20; .*; d 14:03 – 14:17; 2 others$/);
    expect(outageText(told.slice(0, 5), timeOf)).toMatch(/; one other$/);
    expect(outageText([], timeOf)).toBe('');
  });
});
