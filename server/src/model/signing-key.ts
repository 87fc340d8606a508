/**
 * The key of one destination for signatures that anybody can verify. The server makes it, and no operator
 * writes it.
 */
export interface SigningKey {
  /** Random, so that nobody who knows the name of a destination finds its key. */
  readonly id: string;
  /** ed25519, PKCS #8 in DER, in base64. */
  readonly privateKey: string;
  /** Its 32 bytes in base64. */
  readonly publicKey: string;
}

/** The key with which a receiver verifies. It is no secret. spec/specification.md, "Public signature". */
export interface PublicKey {
  readonly id: string;
  readonly algorithm: 'ed25519';
  /** As libraries of Standard Webhooks take it: `whpk_` and the base64 of its 32 bytes. */
  readonly publicKey: string;
  readonly pem: string;
}

/**
 * Prefix of an ed25519 key in SPKI (RFC 8410), in base64: twelve bytes, so that the key's own base64 follows
 * without a seam.
 */
const SPKI_START = 'MCowBQYDK2VwAyEA';

export function publicKeyOf({ id, publicKey }: Omit<SigningKey, 'privateKey'>): PublicKey {
  return {
    id,
    algorithm: 'ed25519',
    publicKey: `whpk_${publicKey}`,
    pem: `-----BEGIN PUBLIC KEY-----\n${SPKI_START}${publicKey}\n-----END PUBLIC KEY-----\n`,
  };
}

/** Where the receiving API answers with a public key. */
export function publicKeyPath(id: string): string {
  return `/.well-known/millrace/${id}`;
}
