import { createHmac, createSecretKey, type KeyObject } from 'node:crypto';

/**
 * Keys by secret: making one costs as much as signing with it. Emptied when full, because secrets are changed but
 * never announced as gone; it fills only where there are more destinations than this, and then it is merely slower.
 */
const keys = new Map<string, KeyObject>();
const MOST_KEYS = 10_000;

/**
 * The value of `X-Signature`: HMAC-SHA1 of exactly these bytes, as lower-case hexadecimal, keyed with the UTF-8 bytes
 * of the shared secret. service.md "Authentication" rule 2.
 *
 * SHA-1 is what the protocol says; as an HMAC it is not weakened by the known collisions. It proves who sent the body,
 * not when: receivers recognise a repeat by `Webhook-Id`.
 */
export function signature(bytes: Buffer, secret: string): string {
  return createHmac('sha1', keyOf(secret)).update(bytes).digest('hex');
}

function keyOf(secret: string): KeyObject {
  let key = keys.get(secret);
  if (key === undefined) {
    if (keys.size >= MOST_KEYS) keys.clear();
    key = createSecretKey(secret, 'utf8');
    keys.set(secret, key);
  }
  return key;
}
