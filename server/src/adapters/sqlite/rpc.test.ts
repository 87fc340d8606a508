import { describe, expect, it } from 'vitest';
import { Arena } from './rpc.ts';

describe('an arena', () => {
  it('has arrays of zeros that share one buffer and no byte of it', () => {
    const arena = new Arena({ floats: 1, integers: 4, bytes: 3 });
    const [bytes, first, given, floats] = [
      arena.bytes(),
      arena.integers(1),
      arena.integersOf([2, 3, 4]),
      arena.floats(1),
    ];
    const arrays = [floats, first, given, bytes];
    expect(arrays.map((array) => [...array])).toEqual([[0], [0], [2, 3, 4], [0, 0, 0]]);
    for (const array of arrays) array.fill(array.byteOffset + 1);
    expect(arrays.map((array) => [...array])).toEqual([[1], [9], [13, 13, 13], [25, 25, 25]]);
    expect(new Set(arrays.map(({ buffer }) => buffer)).size).toBe(1);
    expect(floats.buffer.byteLength).toBe(8 + 4 * 4 + 3);
  });

  it('has no room for more than it was made for', () => {
    const arena = new Arena({ floats: 0, integers: 2, bytes: 0 });
    arena.integers(2);
    expect(() => arena.integersOf([1])).toThrow(RangeError);
  });
});
