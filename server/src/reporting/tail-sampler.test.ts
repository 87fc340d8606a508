import { beforeEach, describe, expect, test } from 'vitest';
import { lineOf } from '../model/serialized-event.ts';
import { sampleKeyOf, sampleKeyOfLine, TailSampler } from './tail-sampler.ts';

let seconds = 0;
let sampler: TailSampler;

beforeEach(() => {
  sampler = new TailSampler(50);
});

/**
 * A second of so many calls with two deliveries each; gives those that were shown, and the count of the
 * others.
 */
function second(calls: number, failures = 0) {
  const shown = { call: 0, delivery: 0, failure: 0, strays: 0, passed: 0 };
  seconds++;
  for (let n = 0; n < calls; n++) {
    const key = sampleKeyOf(`${seconds}-message-${n}`);
    const isShown = sampler.take(key, 'call');
    if (isShown) shown.call++;
    for (let nth = 0; nth < 2; nth++) {
      if (!sampler.take(key, 'delivery')) continue;
      shown.delivery++;
      if (!isShown) shown.strays++;
    }
    if (n < failures && sampler.take(key, 'failure')) shown.failure++;
  }
  shown.passed = sampler.nextSecond();
  return shown;
}

test('everything is shown while there are few', () => {
  const all = { call: 40, delivery: 80, failure: 10, strays: 0, passed: 0 };
  for (let n = 0; n < 3; n++) expect(second(40, 10)).toEqual(all);
});

test('at ten thousand a second about as many as asked for are shown, with their deliveries', () => {
  expect(second(10_000)).toMatchObject({ call: 50, passed: 9950 });
  for (let n = 0; n < 5; n++) {
    const { call, delivery, strays, passed } = second(10_000);
    expect(call).toBeGreaterThan(20);
    expect(call).toBeLessThanOrEqual(50);
    expect(delivery).toBeGreaterThanOrEqual(2 * call);
    // The cut of a second that has more than its share.
    expect(strays).toBeLessThan(60);
    expect(passed).toBe(10_000 - call);
  }
});

test('failures are shown whatever the rate, up to the number, and the others counted', () => {
  second(10_000);
  const { call, failure, passed } = second(10_000, 200);
  expect(failure).toBe(50);
  expect(passed).toBe(10_000 - call + 150);
});

test('after a quiet second everything is shown again', () => {
  second(10_000);
  second(0);
  expect(second(40).call).toBe(40);
});

test('asking changes nothing', () => {
  for (let n = 0; n < 1000; n++) sampler.mayShow(0.5, 'call');
  expect(second(100)).toMatchObject({ call: 50, passed: 50 });
});

describe('the key of an event', () => {
  test('is the same from its line and from its messageId', () => {
    for (const messageId of ['order-1', '0198f7a2-7c3e-7d4b-a1f2-0c9d8e7f6a5b']) {
      const line = lineOf(JSON.stringify({ messageId, type: 'track' }));
      expect(sampleKeyOfLine(line)).toBe(sampleKeyOf(messageId));
    }
  });

  test('is spread evenly, also where ids differ in their last letter only', () => {
    const tenths = new Array<number>(10).fill(0);
    for (let n = 0; n < 10_000; n++) tenths[Math.floor(sampleKeyOf(`message-${n}`) * 10)]!++;
    for (const n of tenths) expect(n).toBeGreaterThan(800);
  });
});
