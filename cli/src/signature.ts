import { createHmac, timingSafeEqual } from 'node:crypto';

/**
 * What a receiver knows about who sent a request: `verified` and `wrong` only with a secret to check against;
 * `unchecked` when the request is signed and the receiver has no secret.
 */
export type SignatureVerdict = 'verified' | 'wrong' | 'unsigned' | 'unchecked';

/**
 * Compares `X-Signature` with the SHA-1 HMAC of the body, written in hexadecimal (spec/specification.md, "Signature").
 * The digest is taken over the bytes as they came, never over a parsed and printed copy, and compared in constant time.
 */
export function verify(
  body: Buffer,
  header: string | undefined,
  secret: string | undefined,
): SignatureVerdict {
  if (header === undefined) return 'unsigned';
  if (secret === undefined) return 'unchecked';
  if (!/^[0-9a-f]{40}$/i.test(header)) return 'wrong';
  const expected = createHmac('sha1', secret).update(body).digest();
  return timingSafeEqual(expected, Buffer.from(header, 'hex')) ? 'verified' : 'wrong';
}
