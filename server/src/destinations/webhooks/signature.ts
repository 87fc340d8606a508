import type { Time } from '../../model/time.ts';
import { Hmac } from './hmac.ts';

/**
 * Made keys by secret: making one costs as much as signing with it. Emptied when full, because secrets are changed but
 * never announced as gone; it fills only where there are more destinations than this, and then it is merely slower.
 */
const sharedKeys = new Map<string, Hmac>();
const standardKeys = new Map<string, Hmac>();
const MOST_KEYS = 10_000;

/** Before the base64 of a Standard Webhooks secret. */
const STANDARD_PREFIX = 'whsec_';

/**
 * The value of `X-Signature`: HMAC-SHA1 of exactly these bytes, as lower-case hexadecimal, keyed with the UTF-8 bytes
 * of the shared secret. service.md "Authentication" rule 2.
 *
 * SHA-1 is what the protocol says; as an HMAC it is not weakened by the known collisions. It proves who sent the body,
 * not when: receivers recognise a repeat by `Webhook-Id`.
 */
export function signature(bytes: Buffer, secret: string): string {
  return sharedKey(secret).of(bytes, 'hex');
}

/** What a Standard Webhooks signature covers. */
export interface StandardMessage {
  /** The value of `Webhook-Id` as it is sent, encoding included. */
  readonly id: string;
  /** When the request is made: a receiver refuses what is older than a few minutes, so every try has its own. */
  readonly at: Time;
  readonly bytes: Buffer;
}

/** The headers of the Standard Webhooks scheme beside `Webhook-Id`. */
export interface StandardHeaders {
  readonly 'Webhook-Timestamp': string;
  readonly 'Webhook-Signature': string;
}

/**
 * The Standard Webhooks scheme: `v1,` and the base64 of HMAC-SHA256 over `id.timestamp.body`, once for each secret, so
 * that a receiver that knows either of two verifies while one replaces the other. decisions.md section 2, headers.
 *
 * @param secrets `whsec_` and base64 each, as the settings have checked
 */
export function standardHeaders(message: StandardMessage, secrets: readonly string[]): StandardHeaders {
  const timestamp = String(Math.floor(message.at / 1000));
  const before = `${message.id}.${timestamp}.`;
  const signatures = secrets.map((secret) => `v1,${standardKey(secret).of(message.bytes, 'base64', before)}`);
  return { 'Webhook-Timestamp': timestamp, 'Webhook-Signature': signatures.join(' ') };
}

function sharedKey(secret: string): Hmac {
  return sharedKeys.get(secret) ?? remember(sharedKeys, secret, new Hmac('sha1', Buffer.from(secret)));
}

function standardKey(secret: string): Hmac {
  const known = standardKeys.get(secret);
  if (known !== undefined) return known;
  const bytes = Buffer.from(secret.slice(STANDARD_PREFIX.length), 'base64');
  return remember(standardKeys, secret, new Hmac('sha256', bytes));
}

function remember(keys: Map<string, Hmac>, secret: string, key: Hmac): Hmac {
  if (keys.size >= MOST_KEYS) keys.clear();
  keys.set(secret, key);
  return key;
}
