import { hash } from 'node:crypto';

/** Both work on blocks of 64 bytes; a longer secret is hashed first. */
const BLOCK = 64;
const DIGEST_BYTES = { sha1: 20, sha256: 32 } as const;

/** Where a message is put behind the inner key; used again and again. */
let inner = Buffer.alloc(BLOCK + 16 * 1024);

/**
 * HMAC (RFC 2104) for very many short messages under few secrets: the two hashes it consists of, each in one call. The object
 * that `createHmac` makes for every message costs, with its collection, three times as much as the hashing.
 */
export class Hmac {
  readonly #algorithm: keyof typeof DIGEST_BYTES;
  readonly #innerKey: Buffer;
  /** The outer key, and behind it the digest of the inner hash. */
  readonly #outer: Buffer;

  constructor(algorithm: keyof typeof DIGEST_BYTES, secret: Uint8Array) {
    const key = Buffer.alloc(BLOCK);
    if (secret.length > BLOCK) hash(algorithm, secret, 'buffer').copy(key);
    else key.set(secret);
    this.#algorithm = algorithm;
    this.#innerKey = Buffer.from(key.map((byte) => byte ^ 0x36));
    this.#outer = Buffer.alloc(BLOCK + DIGEST_BYTES[algorithm]);
    this.#outer.set(key.map((byte) => byte ^ 0x5c));
  }

  /** Of `before`, in UTF-8, and then of the bytes. */
  of(bytes: Buffer, encoding: 'hex' | 'base64', before = ''): string {
    const most = BLOCK + before.length * 3 + bytes.length;
    if (inner.length < most) inner = Buffer.alloc(most);
    this.#innerKey.copy(inner);
    let length = BLOCK;
    if (before !== '') length += inner.write(before, length);
    length += bytes.copy(inner, length);
    // As Latin-1 ("binary" for a hash) a digest comes and goes without an object for its bytes.
    this.#outer.write(hash(this.#algorithm, inner.subarray(0, length), 'binary'), BLOCK, 'latin1');
    return hash(this.#algorithm, this.#outer, encoding);
  }
}
