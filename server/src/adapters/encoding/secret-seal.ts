import { createCipheriv, createDecipheriv, createHmac, hkdfSync, timingSafeEqual } from 'node:crypto';
import type { HiddenPlaces } from '../../model/hidden-values.ts';
import type { SecretKeys } from '../../model/secret-keys.ts';

/**
 * A secret as it is stored where `secrets.key` is set. No secret of an operator is an object, so it is none
 * of theirs.
 */
export interface SealedText {
  /** The name of the key, and in base64 nonce, ciphertext and tag. */
  readonly sealed: string;
}

export function isSealed(value: unknown): value is SealedText {
  return typeof value === 'object' && value !== null && typeof Object(value).sealed === 'string';
}

const CIPHER = 'aes-256-gcm';
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/** Bytes of a key's name: two keys with the same name are never met. */
const NAME_BYTES = 8;

/** One key, with what is made of it for each purpose. */
class SecretKey {
  /** Tells this key from others and nothing of it: it may stand in messages. */
  readonly name: string;
  readonly #encryption: Buffer;
  readonly #nonces: Buffer;
  readonly #macs: Buffer;

  constructor(key: Uint8Array) {
    const derive = (purpose: string, bytes = 32) =>
      Buffer.from(hkdfSync('sha256', key, '', `millrace ${purpose}`, bytes));
    this.name = derive('key name', NAME_BYTES).toString('hex');
    this.#encryption = derive('secret encryption');
    this.#nonces = derive('secret nonces');
    this.#macs = derive('manifest mac');
  }

  /**
   * AES-256-GCM. The nonce is a keyed hash of place and text: the same secret at the same place is the same
   * bytes, so that a record which does not change is seen not to, and two texts share a nonce as rarely as
   * random ones would. It is the JSON of the text that is encrypted: UTF-8 alone loses half of a surrogate
   * pair.
   */
  seal(secret: string, place: string): SealedText {
    const text = JSON.stringify(secret);
    const nonce = createHmac('sha256', this.#nonces)
      .update(`${Buffer.byteLength(place)} ${place}${text}`)
      .digest()
      .subarray(0, NONCE_BYTES);
    const cipher = createCipheriv(CIPHER, this.#encryption, nonce).setAAD(Buffer.from(place));
    const bytes = Buffer.concat([nonce, cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()]);
    return { sealed: `${this.name}.${bytes.toString('base64')}` };
  }

  /** Decrypts a secret; undefined when the bytes are not those that this key has made for this place. */
  open(base64: string, place: string): string | undefined {
    const bytes = Buffer.from(base64, 'base64');
    if (bytes.length < NONCE_BYTES + TAG_BYTES) return undefined;
    const decipher = createDecipheriv(CIPHER, this.#encryption, bytes.subarray(0, NONCE_BYTES), {
      authTagLength: TAG_BYTES,
    });
    decipher.setAAD(Buffer.from(place)).setAuthTag(bytes.subarray(-TAG_BYTES));
    try {
      const text = decipher.update(bytes.subarray(NONCE_BYTES, -TAG_BYTES));
      return JSON.parse(Buffer.concat([text, decipher.final()]).toString()) as string;
    } catch {
      return undefined;
    }
  }

  mac(text: string): Buffer {
    return createHmac('sha256', this.#macs).update(text).digest();
  }
}

/** A secret that cannot be read. */
export type SealFault =
  | { readonly fault: 'unknown_key'; readonly key: string }
  /** The stored bytes have been changed. */
  | { readonly fault: 'changed' };

/** Encrypts secrets and reads them, with the keys that this process was given. */
export class SecretSeal {
  readonly #current: SecretKey | undefined;
  readonly #keys: ReadonlyMap<string, SecretKey>;
  readonly #places: SecretKeys['places'];

  constructor({ current, previous, places }: SecretKeys) {
    this.#places = places;
    this.#current = current && new SecretKey(current);
    const all = [...previous.map((key) => new SecretKey(key)), ...(this.#current ? [this.#current] : [])];
    this.#keys = new Map(all.map((key) => [key.name, key]));
  }

  /** Where the settings of a type of destination have secrets. */
  placesOf(type: string): HiddenPlaces | undefined {
    return this.#places === undefined || !Object.hasOwn(this.#places, type) ? undefined : this.#places[type];
  }

  /** The name of the key that new secrets are encrypted with; undefined where they are stored as they are. */
  get current(): string | undefined {
    return this.#current?.name;
  }

  /** Whether this process has no key at all. */
  get isEmpty(): boolean {
    return this.#keys.size === 0;
  }

  has(name: string): boolean {
    return this.#keys.has(name);
  }

  /**
   * Encrypts with the key of this name, which it has. `place`: what it is the secret of; it opens at no
   * other.
   */
  seal(name: string, text: string, place: string): SealedText {
    return this.#keys.get(name)!.seal(text, place);
  }

  open({ sealed }: SealedText, place: string): string | SealFault {
    const dot = sealed.indexOf('.');
    const name = sealed.slice(0, dot);
    const key = this.#keys.get(name);
    if (key === undefined) return { fault: 'unknown_key', key: name };
    return key.open(sealed.slice(dot + 1), place) ?? { fault: 'changed' };
  }

  /** A keyed hash of a text, with the name of its key; undefined without a current key. */
  mac(text: string): string | undefined {
    return this.#current && `${this.#current.name}.${this.#current.mac(text).toString('hex')}`;
  }

  /** Whether `mac` is one of the text; otherwise why not, or which key it would take to know. */
  verifyMac(text: string, mac: string): true | SealFault {
    const [name = '', hex = ''] = mac.split('.');
    const key = this.#keys.get(name);
    if (key === undefined) return { fault: 'unknown_key', key: name };
    const found = Buffer.from(hex, 'hex');
    const expected = key.mac(text);
    return found.length === expected.length && timingSafeEqual(found, expected) ? true : { fault: 'changed' };
  }
}
