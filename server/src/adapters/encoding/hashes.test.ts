import { describe, expect, it } from 'vitest';
import { hashIds, identityHash, keyHash } from './hashes.ts';

describe('the hash of an identity', () => {
  const hash = keyHash(new Uint8Array([1, 2, 3, 4, 5, 6, 7, 8]));
  const identity = identityHash(hash);

  it('has the upper 53 bits of the hash that the log keeps of a userId', () => {
    const { users } = hashIds(hash, [{ source: 5, messageId: 'm', userId: 'ünü' }], []);
    const whole = (BigInt(users[0]!) << 32n) | BigInt(users[1]!);
    expect(BigInt(identity('user', 'ünü'))).toBe(whole >> 11n);
  });

  it('differs with the kind and with the value', () => {
    const all = ['user', 'anonymous', 'email'].flatMap((kind) =>
      ['a', 'b'].map((value) => identity(kind, value)),
    );
    expect(new Set(all).size).toBe(6);
    expect(all.every((key) => Number.isSafeInteger(key) && key >= 0)).toBe(true);
  });
});
