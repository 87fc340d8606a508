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

test('a slab gives each value a key that no other has at the time, and uses it again', () => {
  const step = fc.oneof(
    { weight: 6, arbitrary: fc.record({ add: fc.string() }) },
    { weight: 5, arbitrary: fc.record({ take: fc.nat(20) }) },
    fc.record({ drain: fc.constant(true) }),
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
      const slab = new Slab<string>();
      const expected = new Map<number, string>();
      let most = 0;
      for (const one of steps) {
        if ('add' in one) {
          const key = slab.add(one.add);
          expect(expected.has(key)).toBe(false);
          expected.set(key, one.add);
          most = Math.max(most, expected.size);
          expect(key).toBeLessThan(most);
        } else if ('take' in one) {
          expect(slab.take(one.take)).toBe(expected.get(one.take));
          expected.delete(one.take);
        } else {
          const inOrder = [...expected].sort(([a], [b]) => a - b);
          expect(slab.drain()).toEqual(inOrder.map(([, value]) => value));
          expected.clear();
          most = 0;
        }
        expect(slab.size).toBe(expected.size);
      }
    }),
  );
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
