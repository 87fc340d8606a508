import { describe, expect, it } from 'vitest';
import { seeded } from '../../../../test/support/seeded.ts';
import type { Position } from '../../../model/event.ts';
import { KeyTable, TABLE_KEYS } from './key-table.ts';

/** Pairs of words, high before low. */
const pairs = (...keys: readonly (readonly [high: number, low: number])[]) => Uint32Array.from(keys.flat());

function randomKeys(n: number, seed: number): Uint32Array {
  const random = seeded(seed);
  return Uint32Array.from({ length: n * 2 }, () => random() * 2 ** 32);
}

function find(table: KeyTable, keys: Uint32Array, first = 0): Map<number, Position[]> {
  const found = new Map<number, Position[]>();
  table.find(keys, first, found);
  return found;
}

/** All positions as they must be found, by `high,low`. */
class Model {
  readonly table = new KeyTable();
  readonly #positions = new Map<string, Position[]>();

  add(keys: Uint32Array, first: Position): void {
    expect(this.table.add(keys, 0, first)).toBe(keys.length / 2);
    for (let index = 0; index * 2 < keys.length; index++) {
      const name = nameOf(keys, index);
      if (name !== '0,0') this.#positions.set(name, [...(this.#positions.get(name) ?? []), first + index]);
    }
  }

  expectSame(keys: Uint32Array): void {
    const expected = new Map<number, Position[]>();
    for (let index = 0; index * 2 < keys.length; index++) {
      const positions = this.#positions.get(nameOf(keys, index));
      if (positions !== undefined) expected.set(index, positions);
    }
    expect(find(this.table, keys)).toEqual(expected);
  }
}

const bytesOf = ({ buffer, byteOffset, byteLength }: Uint32Array) =>
  Buffer.from(buffer, byteOffset, byteLength);

const nameOf = (keys: Uint32Array, index: number) => `${keys[index * 2]},${keys[index * 2 + 1]}`;

describe('a table of keys', () => {
  it('misses none of a million random keys while it grows, and invents none', () => {
    const table = new KeyTable();
    const keys = randomKeys(1_000_000, 1);
    const random = seeded(2);
    // Positions of other nodes lie between those of two batches.
    const positions = new Float64Array(1_000_000);
    let first = 0;
    for (let from = 0; from < positions.length; ) {
      const to = Math.min(positions.length, from + Math.ceil(random() * 2000));
      first += Math.floor(random() * 3) * 1000;
      table.add(keys.subarray(from * 2, to * 2), 0, first);
      for (let index = from; index < to; index++) positions[index] = first++;
      from = to;
    }
    const found = find(table, keys);
    expect(found.size).toBe(positions.length);
    for (const [index, at] of found)
      if (at.length !== 1 || at[0] !== positions[index]) expect.fail(`key ${index} is at ${at}`);
    expect(find(table, randomKeys(1_000_000, 3)).size).toBe(0);
    // Halves of keys that are there make no key.
    expect(find(table, keys.subarray(1, -1)).size).toBe(0);
  });

  it('takes sixteen bytes a key when it is full, and says what found no room', () => {
    const table = new KeyTable();
    const keys = randomKeys(TABLE_KEYS + 5, 4);
    expect(table.isFull).toBe(false);
    expect(table.add(keys, 1, 100)).toBe(TABLE_KEYS + 1);
    expect(table.isFull).toBe(true);
    expect(table.add(keys, TABLE_KEYS + 1, 100)).toBe(TABLE_KEYS + 1);
    expect(table.bytes).toBe((TABLE_KEYS + 1) * 16);
    const found = find(table, keys);
    expect([found.has(0), found.get(1), found.get(TABLE_KEYS), found.has(TABLE_KEYS + 1)]).toEqual([
      false,
      [100],
      [100 + TABLE_KEYS - 1],
      false,
    ]);
  });

  it.each([
    ['their high words', (n: number) => [0x1234_5678, n]],
    ['the last slot, so that they go on at the first', (n: number) => [0xffff_ffff, n * 4096 + 7]],
    ['their low words', (n: number) => [n * 7919 + 1, 0x8765_4321]],
    ['the lowest bits of both', (n: number) => [n * 4096, n * 4096]],
    ['all that a slot knows of them', (n: number) => [0x8000_0000 + (n & 3), (n * 4096) >>> 0]],
  ] as const)('tells keys apart that share %s', (_, keyOf) => {
    const model = new Model();
    const all = Uint32Array.from(
      Array.from({ length: 6000 }, (_one, nth) => keyOf(nth + 1)).flat(),
      (word) => word >>> 0,
    );
    for (let from = 0; from < 3000; from += 100)
      model.add(all.subarray(from * 2, (from + 100) * 2), from * 3);
    model.expectSame(all);
  });

  it('knows all positions of a key that came more than once, also when it has grown since', () => {
    const model = new Model();
    const some = randomKeys(500, 5);
    for (let nth = 0; nth < 30; nth++) model.add(some.subarray(0, (500 - nth * 10) * 2), nth * 1000);
    model.add(pairs([1, 2], [1, 2], [3, 4], [1, 2]), 900_000);
    model.expectSame(some);
    model.add(randomKeys(100_000, 6), 2 ** 52);
    model.add(some, 2 ** 53 - 1000);
    model.expectSame(Uint32Array.from([...some, 1, 2, 3, 4, 5, 6, ...randomKeys(100, 6)]));
  });

  it('knows no key of an event that is not there', () => {
    const model = new Model();
    model.add(pairs([0, 0], [0, 1], [0, 0], [1, 0], [0, 0]), 10);
    model.add(new Uint32Array(20_000), 15);
    model.add(pairs([7, 7]), 10_015);
    model.expectSame(pairs([0, 1], [1, 0], [7, 7], [0, 0]));
  });

  it('looks for keys from an index on, and adds what it finds to what others found', () => {
    const table = new KeyTable();
    table.add(pairs([1, 1], [2, 2], [3, 3]), 1, 41);
    const found = new Map([[2, [7]]]);
    table.find(pairs([2, 2], [9, 9], [3, 3], [2, 2]), 1, found);
    expect(found).toEqual(
      new Map([
        [2, [7, 42]],
        [3, [41]],
      ]),
    );
  });

  it('shows all keys in the order in which they came', () => {
    const table = new KeyTable();
    const keys = randomKeys(20_000, 8);
    table.add(keys, 0, 0);
    table.add(keys, 0, 50_000);
    const shown = [...table.slices()];
    const expected = Uint32Array.from([...keys, ...keys]);
    // Compared as bytes: word by word it would take a second.
    expect(Buffer.concat(shown.map((slice) => bytesOf(slice))).equals(bytesOf(expected))).toBe(true);
    expect(shown.length).toBeGreaterThan(4);
    expect([...new KeyTable().slices()]).toEqual([]);
  });
});
