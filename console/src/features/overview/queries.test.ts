import { describe, expect, it } from 'vitest';
import { numbersOf, ofPast, perSecond } from './queries.ts';

const BEGIN = Date.UTC(2026, 10, 20, 14);
const report = (values: (number | null)[]) => ({
  from: new Date(BEGIN).toISOString(),
  to: new Date(BEGIN + values.length * 60_000).toISOString(),
  step: 60,
  groups: [{ totals: { received: 130 }, series: { received: values }, now: { received: 2 }, reasons: {} }],
});

describe('numbers over time', () => {
  it('leave a step that has not ended out of the lines, and in the totals', () => {
    const { times, series, totals } = numbersOf(report([60, 60, 10]), BEGIN + 130_000);
    expect(times).toEqual([BEGIN, BEGIN + 60_000]);
    expect(series).toEqual({ received: [60, 60] });
    expect(totals).toEqual({ received: 130 });
  });

  it('are all there when the range is over', () => {
    expect(numbersOf(report([60, 60, 10]), BEGIN + 3_600_000).series['received']).toEqual([60, 60, 10]);
  });

  it('are none before there is a group', () => {
    expect(numbersOf({ ...report([]), groups: [] }, BEGIN)).toMatchObject({
      times: [],
      series: {},
      totals: {},
    });
  });

  it('of the past have the rates of then, and not those of now', () => {
    const past = ofPast(numbersOf(report([60, 60, 10]), BEGIN + 3_600_000), report([60, 60, 10]));
    expect(past.rates).toEqual({ received: 130 / 180 });
  });

  it('become rates by their step, and what is not known stays so', () => {
    expect(perSecond([60, null, 0], 60)).toEqual([1, null, 0]);
    expect(perSecond(undefined, 60)).toEqual([]);
  });
});
