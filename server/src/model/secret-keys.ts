import type { HiddenPlaces } from './hidden-values.ts';

/**
 * The keys that secrets at rest are encrypted with, each of 32 bytes. spec/specification.md, "Secrets at
 * rest".
 *
 * - `current`: what is written is encrypted with it; absent where secrets are stored as they are
 * - `previous`: what they were encrypted with before, and is encrypted with `current` at the next start
 * - `places`: where settings of destinations have secrets, by the name of the type
 */
export interface SecretKeys {
  readonly current?: Uint8Array;
  readonly previous: readonly Uint8Array[];
  readonly places?: Readonly<Record<string, HiddenPlaces>>;
}

export const NO_SECRET_KEYS: SecretKeys = { previous: [] };

export const SECRET_KEY_RULE =
  'must be 32 bytes in base64, as `openssl rand -base64 32` prints them, or in 64 hexadecimal digits';

const BYTES = 32;

/**
 * The bytes of a key as it is written; undefined where it is none. A text that somebody made up has too
 * little chance in it.
 */
export function parseSecretKey(text: string): Uint8Array | undefined {
  if (/^[0-9a-f]{64}$/i.test(text)) return Buffer.from(text, 'hex');
  if (!/^[A-Za-z0-9+/_-]{43}=?$/.test(text)) return undefined;
  const bytes = Buffer.from(text, 'base64');
  return bytes.length === BYTES ? bytes : undefined;
}
