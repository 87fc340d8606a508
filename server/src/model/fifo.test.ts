import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Fifo } from './fifo.ts';

test('a queue has the order of an array, whatever is added, taken and removed', () => {
  const step = fc.oneof(
    { weight: 6, arbitrary: fc.record({ push: fc.nat(3000) }) },
    { weight: 4, arbitrary: fc.record({ shift: fc.nat(3000) }) },
    fc.record({ keep: fc.integer({ min: 2, max: 5 }) }),
    fc.record({ drain: fc.constant(true) }),
  );
  fc.assert(
    fc.property(fc.array(step), (steps) => {
      const queue = new Fifo<number>();
      let expected: number[] = [];
      let next = 0;
      for (const one of steps) {
        if ('push' in one) {
          for (let n = 0; n < one.push; n++, next++) {
            queue.push(next);
            expected.push(next);
          }
        } else if ('shift' in one) {
          const taken = Array.from({ length: one.shift }, () => queue.shift());
          const [gone, left] = [expected.slice(0, one.shift), expected.slice(one.shift)];
          expect(taken.filter((item) => item !== undefined)).toEqual(gone);
          expected = left;
        } else if ('keep' in one) {
          const left = expected.filter((item) => item % one.keep > 0);
          expect(queue.keep((item) => item % one.keep > 0)).toBe(expected.length - left.length);
          expected = left;
        } else {
          expect(queue.drain()).toEqual(expected);
          expected = [];
        }
        expect(queue.size).toBe(expected.length);
      }
      expect(queue.drain()).toEqual(expected);
    }),
    { numRuns: 50 },
  );
});
