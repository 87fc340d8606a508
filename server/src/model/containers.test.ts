import fc from 'fast-check';
import { expect, it, test } from 'vitest';
import { BoundedCache, Fifo, HashSet, LinkedList, type ListEntry, Slab } from './containers.ts';

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

test('a slab finds each value by its key once, whatever is added and taken', () => {
  const step = fc.oneof(
    { weight: 6, arbitrary: fc.record({ add: fc.string() }) },
    { weight: 5, arbitrary: fc.record({ take: fc.nat(30) }) },
    fc.record({ drain: fc.constant(true) }),
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
      const slab = new Slab<string>();
      const expected = new Map<number, string>();
      const keys: number[] = [];
      for (const one of steps) {
        if ('add' in one) {
          const key = slab.add(one.add);
          expect(keys).not.toContain(key);
          keys.push(key);
          expected.set(key, one.add);
        } else if ('take' in one) {
          // Of the last keys, some of which were taken before.
          const key = keys.at(-1 - one.take) ?? one.take;
          expect(slab.take(key)).toBe(expected.get(key));
          expected.delete(key);
        } else {
          expect(slab.drain().sort()).toEqual([...expected.values()].sort());
          expected.clear();
        }
        expect(slab.size).toBe(expected.size);
      }
    }),
  );
});

test('the keys of a slab stay small, however long it is used', () => {
  const slab = new Slab<number>();
  const seen = new Set<number>();
  for (let n = 0; n < 10_000; n++) {
    const keys = [slab.add(n), slab.add(-n)];
    expect(keys.map((key) => slab.take(key))).toEqual([n, -n]);
    for (const key of keys) seen.add(key);
  }
  expect(seen.size).toBe(2 * 1024);
  expect(Math.max(...seen)).toBeLessThan(2 * 1024);
});

interface Entry extends ListEntry<Entry> {
  readonly name: number;
}

function entryOf(name: number): Entry {
  return { name, list: undefined, previous: undefined, next: undefined };
}

function namesIn(list: LinkedList<Entry>): number[] {
  const names: number[] = [];
  for (let entry = list.first; entry !== undefined; entry = entry.next) names.push(entry.name);
  return names;
}

test('a list has the order of an array, whatever is added and removed', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(7)), (toggled) => {
      const list = new LinkedList<Entry>();
      const entries = Array.from({ length: 8 }, (_, name) => entryOf(name));
      const expected: number[] = [];
      for (const name of toggled) {
        const at = expected.indexOf(name);
        if (at === -1) {
          list.push(entries[name]!);
          expected.push(name);
        } else {
          list.remove(entries[name]!);
          expected.splice(at, 1);
        }
        expect(namesIn(list)).toEqual(expected);
        expect(list.first?.name).toBe(expected[0]);
      }
    }),
  );
});

test('removing an entry of another list, or of none, changes nothing', () => {
  const [list, other] = [new LinkedList<Entry>(), new LinkedList<Entry>()];
  const [mine, theirs] = [entryOf(1), entryOf(2)];
  list.push(mine);
  other.push(theirs);
  list.remove(theirs);
  list.remove(entryOf(3));
  expect([namesIn(list), namesIn(other)]).toEqual([[1], [2]]);
});

it('forgets everything rather than growing beyond its weight, and keeps nothing heavier than that', () => {
  const cache = new BoundedCache<string, number>(10);
  expect(cache.set('a', 1, 6)).toBe(1);
  cache.set('b', 2, 4);
  expect([cache.get('a'), cache.get('b')]).toEqual([1, 2]);
  cache.set('c', 3);
  expect([cache.get('a'), cache.get('b'), cache.get('c')]).toEqual([undefined, undefined, 3]);
  expect(cache.set('d', 4, 11)).toBe(4);
  expect([cache.get('c'), cache.get('d')]).toEqual([3, undefined]);
});

it('holds any hashes, also those that look free', () => {
  const set = new HashSet();
  const pairs = Array.from({ length: 5000 }, (_, n) => [n % 3, n * 64] as const);
  for (const [high, low] of pairs) expect(set.has(high, low)).toBe(false);
  for (const [high, low] of [...pairs, ...pairs]) set.add(high, low);
  for (const [high, low] of pairs) expect(set.has(high, low)).toBe(true);
  expect(set.size).toBe(5000);
  expect(set.has(9, 64)).toBe(false);
});

it('is empty after it was cleared, and gives every hash once', () => {
  const set = new HashSet(100);
  for (let n = 1; n <= 300; n++) set.add(n % 7, n);
  set.clear();
  expect([set.size, set.has(1, 1)]).toEqual([0, false]);
  for (const [high, low] of [
    [1, 2],
    [1, 2],
    [3, 4],
  ] as const)
    set.add(high, low);
  const seen: (readonly [number, number])[] = [];
  set.visit((high, low) => seen.push([high, low]));
  expect(seen.toSorted()).toEqual([
    [1, 2],
    [3, 4],
  ]);
});
