import { createHmac, timingSafeEqual } from 'node:crypto';

/**
 * A receiver's verdict on a signature. `verified` and `wrong` need a secret to check against; `unchecked`
 * means that the request is signed and the receiver has no secret.
 */
export type SignatureVerdict = 'verified' | 'wrong' | 'unsigned' | 'unchecked';

/**
 * Compares `X-Signature` with the SHA-1 HMAC of the body, in hexadecimal (spec/specification.md,
 * "Signature"). The digest covers the received bytes, never a parsed and printed copy. The comparison takes
 * constant time.
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
