import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { keyHash } from '../../encoding/hashes.ts';
import { Memtable } from './memtable.ts';

function hash(
  source: number,
  messageId: string,
  secret = Uint8Array.of(1, 2, 3, 4, 5, 6, 7, 8),
): [number, number] {
  const out = new Uint32Array(2);
  keyHash(secret)(source, messageId, out, 0);
  return [out[0]!, out[1]!];
}

describe('keyHash', () => {
  it('depends on the source, on every character of the messageId, on its length and on the secret', () => {
    const hashes = [
      hash(1, 'abc'),
      hash(2, 'abc'),
      hash(1, 'abd'),
      hash(1, 'abcd'),
      hash(1, 'abc\u0000'),
      hash(1, 'ab'),
      hash(1, ''),
      hash(1, 'abc', Uint8Array.of(1, 2, 3, 4, 5, 6, 7, 9)),
    ].map(String);
    expect(new Set(hashes).size).toBe(hashes.length);
  });

  // Vectors of the reference implementation: the key is the bytes 0 to 7, the message is that many bytes from
  // 0 on.
  it.each([
    [4, 'd5e78a175be52ea1'],
    [5, 'cb9d7c3f2f3db580'],
    [7, 'ff202728b07bc684'],
    [8, 'edfee820bce4858c'],
    [12, '7bc71f9faef5c799'],
    [16, '7336aad25f7bf3b5'],
    [18, 'c9b2db2b9a3e42f9'],
  ])('is HalfSipHash-2-4: the vector of %i bytes', (length, expected) => {
    const message = Uint8Array.from({ length }, (_, byte) => byte);
    const source = Buffer.from(message).readUInt32LE();
    const out = new Uint32Array(2);
    keyHash(Uint8Array.of(0, 1, 2, 3, 4, 5, 6, 7))(source, { bytes: message, from: 4, to: length }, out, 0);
    expect(Buffer.from(out.buffer).toString('hex')).toBe(expected);
  });

  it('is the same for a text and for its bytes', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 300 }), fc.nat({ max: 9 }), (text, from) => {
        const secret = Uint8Array.of(1, 2, 3, 4, 5, 6, 7, 8);
        const bytes = Buffer.from(`${'x'.repeat(from)}${text}y`);
        const out = new Uint32Array(2);
        keyHash(secret)(7, { bytes, from, to: bytes.length - 1 }, out, 0);
        expect([...out]).toEqual(hash(7, text, secret));
      }),
    );
  });

  it('spreads ids that differ in one digit: no collision among 200,000', () => {
    const seen = new Set<bigint>();
    for (let n = 0; n < 200_000; n++) {
      const [high, low] = hash(1, `node-next-1700000000000-${n}`);
      seen.add((BigInt(high) << 32n) | BigInt(low));
    }
    expect(seen.size).toBe(200_000);
  });
});

describe('a memtable', () => {
  it('finds every position of a key, also when keys are equal and while it grows', () => {
    const key = fc.tuple(fc.integer({ min: 0, max: 3 }), fc.integer({ min: 0, max: 0xffffffff }));
    fc.assert(
      fc.property(fc.array(key, { maxLength: 400 }), (keys) => {
        const memtable = new Memtable();
        keys.forEach(([high, low], position) => {
          memtable.add(high, low, position);
        });
        keys.forEach(([high, low], position) => {
          expect(memtable.some(high, low, (found) => found === position)).toBe(true);
        });
        expect(memtable.size).toBe(keys.length);
      }),
    );
  });

  it('finds every key after it has shrunk, and while it grows again', () => {
    const highOf = (n: number) => Math.imul(n, 0x9e3779b1) >>> 0;
    for (const count of [0, 3, 8192, 8193, 140_000, 300_000]) {
      const memtable = new Memtable();
      const missing = (from: number, end: number) => {
        for (let n = from; n < end; n++) if (!memtable.some(highOf(n), n, (found) => found === n)) return n;
        return undefined;
      };
      for (let n = 0; n < count; n++) memtable.add(highOf(n), n, n);
      memtable.shrink();
      expect(memtable.bytes).toBeLessThan(Math.max(count, 8192) * 64 + 100_000);
      expect(missing(0, count)).toBeUndefined();
      for (let n = count; n < count * 3 + 10; n++) memtable.add(highOf(n), n, n);
      expect(missing(0, count * 3 + 10)).toBeUndefined();
      expect(memtable.size).toBe(count * 3 + 10);
    }
  });

  it('proposes only positions of the same key', () => {
    const memtable = new Memtable();
    memtable.add(1, 7, 100);
    memtable.add(2, 7, 200);
    const asked: number[] = [];
    memtable.some(2, 7, (position) => {
      asked.push(position);
      return false;
    });
    expect(asked).toEqual([200]);
  });
});
