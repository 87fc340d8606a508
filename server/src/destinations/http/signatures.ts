import { createPrivateKey, hash, type KeyObject, sign } from 'node:crypto';
import type { SigningKey } from '../../model/signing-key.ts';
import type { Time } from '../../model/time.ts';

/**
 * Prepared keys by secret: preparing one costs as much as signing with it. The maps are cleared when they are
 * full, because there is no event for a secret that is no longer used. With more secrets than `MAX_KEYS`,
 * signing is only slower.
 */
const sharedKeys = new Map<string, Hmac>();
const standardKeys = new Map<string, Hmac>();
const privateKeys = new Map<string, KeyObject>();
const MAX_KEYS = 10_000;

/** The prefix of a Standard Webhooks secret; base64 follows. */
const STANDARD_PREFIX = 'whsec_';

/**
 * The value of `X-Signature`: HMAC-SHA1 of exactly these bytes, as lower-case hexadecimal, keyed with the
 * UTF-8 bytes of the shared secret. spec/specification.md, "Signature".
 *
 * The protocol prescribes SHA-1; the known collisions do not weaken it as an HMAC. The signature proves who
 * sent the body, not when: receivers recognise a repeat by `Webhook-Id`.
 */
export function signBody(bytes: Buffer, secret: string): string {
  return sharedKey(secret).of(bytes, 'hex');
}

/** The content of a Standard Webhooks signature. */
interface StandardWebhooksMessage {
  /** The value of `Webhook-Id` as it is sent, encoding included. */
  readonly id: string;
  /** Time of this attempt: receivers refuse signatures that are older than a few minutes. */
  readonly at: Time;
  readonly bytes: Buffer;
}

/** The headers of the Standard Webhooks scheme beside `Webhook-Id`. */
export interface StandardWebhooksHeaders {
  readonly 'Webhook-Timestamp': string;
  readonly 'Webhook-Signature': string;
}

/**
 * The Standard Webhooks scheme: `v1,` and the base64 of HMAC-SHA256 over `id.timestamp.body`, once for each
 * secret, so that a receiver with either of two secrets can verify while one replaces the other.
 * spec/specification.md, "Standard Webhooks signature". With a key also `v1a,` and the base64 of the ed25519
 * signature of the same text, which its public half verifies ("Public signature").
 *
 * @param secrets `whsec_` and base64 each, as the settings have checked
 */
export function standardWebhooksHeaders(
  message: StandardWebhooksMessage,
  secrets: readonly string[],
  key?: SigningKey,
): StandardWebhooksHeaders {
  const timestamp = String(Math.floor(message.at / 1000));
  const before = `${message.id}.${timestamp}.`;
  const signatures = secrets.map((secret) => `v1,${standardKey(secret).of(message.bytes, 'base64', before)}`);
  if (key !== undefined) {
    const signature = sign(null, Buffer.concat([Buffer.from(before), message.bytes]), privateKey(key));
    signatures.push(`v1a,${signature.toString('base64')}`);
  }
  return { 'Webhook-Timestamp': timestamp, 'Webhook-Signature': signatures.join(' ') };
}

function privateKey({ privateKey: base64 }: SigningKey): KeyObject {
  const known = privateKeys.get(base64);
  if (known !== undefined) return known;
  const key = Buffer.from(base64, 'base64');
  return remember(privateKeys, base64, createPrivateKey({ key, format: 'der', type: 'pkcs8' }));
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

function remember<Key>(keys: Map<string, Key>, secret: string, key: Key): Key {
  if (keys.size >= MAX_KEYS) keys.clear();
  keys.set(secret, key);
  return key;
}

/** SHA-1 and SHA-256 work on blocks of 64 bytes; a longer secret is hashed first. */
const BLOCK = 64;
const DIGEST_BYTES = { sha1: 20, sha256: 32 } as const;

/** Reused buffer for the inner key and the message behind it. */
let inner = Buffer.alloc(BLOCK + 16 * 1024);

/**
 * HMAC (RFC 2104) for very many short messages under few secrets. Its two hashes are one call each. The
 * object that `createHmac` makes for every message costs, with its collection, three times as much as the
 * hashing.
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

  /** The HMAC of `before`, in UTF-8, followed by the bytes. */
  of(bytes: Buffer, encoding: 'hex' | 'base64', before = ''): string {
    const most = BLOCK + before.length * 3 + bytes.length;
    if (inner.length < most) inner = Buffer.alloc(most);
    this.#innerKey.copy(inner);
    let length = BLOCK;
    if (before !== '') length += inner.write(before, length);
    length += bytes.copy(inner, length);
    // A digest as a Latin-1 string ("binary" for a hash) needs no buffer object.
    this.#outer.write(hash(this.#algorithm, inner.subarray(0, length), 'binary'), BLOCK, 'latin1');
    return hash(this.#algorithm, this.#outer, encoding);
  }
}
