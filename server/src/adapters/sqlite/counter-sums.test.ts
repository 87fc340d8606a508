import fc from 'fast-check';
import { expect, it } from 'vitest';
import { CounterSums } from './counter-sums.ts';

const sorted = (sums: CounterSums) => [...sums].map((one) => JSON.stringify(one)).sort();

function readBack(pieces: readonly Buffer[]): CounterSums {
  const read = new CounterSums();
  for (const piece of pieces) read.decode(piece);
  return read;
}

it('reads what it has written, whatever the lengths of names, the ids and the numbers', () => {
  const entry = fc.record({
    scope: fc.constantFrom('source' as const, 'destination' as const),
    id: fc.nat({ max: 2 ** 40 }),
    name: fc.string({ minLength: 1, maxLength: 300 }).map((name) => name.replaceAll('/', '_')),
    n: fc.integer({ min: -(2 ** 40), max: 2 ** 40 }),
  });
  fc.assert(
    fc.property(fc.array(entry, { maxLength: 20 }), fc.integer({ min: 400, max: 4096 }), (entries, limit) => {
      const sums = new CounterSums();
      for (const { scope, id, name, n } of entries) sums.add(scope, id, name, n);
      const pieces = sums.encode(limit);
      expect(sorted(readBack(pieces))).toEqual(sorted(sums));
    }),
    { numRuns: 50 },
  );
});

it('keeps a piece within its limit, also with a name of more than 127 bytes', () => {
  const sums = new CounterSums();
  for (let id = 0; id < 100; id++) sums.add('source', id, `discarded/${'x'.repeat(200)}`, 2 ** 50 + id);
  const pieces = sums.encode(500);
  expect(Math.max(...pieces.map(({ length }) => length))).toBeLessThanOrEqual(500);
  expect(sorted(readBack(pieces))).toEqual(sorted(sums));
});
