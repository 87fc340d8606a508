import { generateKeyPairSync, randomBytes } from 'node:crypto';
import type { SigningKey } from '../model/signing-key.ts';

/** Bytes of a public key of ed25519, at the end of its DER. */
const PUBLIC_BYTES = 32;

/** A new key with an id that nobody guesses. */
export function makeSigningKey(): SigningKey {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519');
  const der = publicKey.export({ format: 'der', type: 'spki' });
  return {
    id: randomBytes(16).toString('base64url'),
    privateKey: privateKey.export({ format: 'der', type: 'pkcs8' }).toString('base64'),
    publicKey: der.subarray(-PUBLIC_BYTES).toString('base64'),
  };
}
