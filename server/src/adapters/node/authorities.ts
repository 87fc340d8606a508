import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createSecureContext, getCACertificates, type SecureContext } from 'node:tls';

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

/**
 * The certificates (PEM) of a file that `egress.ca` names. Throws an `Error` for the operator when there are none, or when
 * one of them is damaged: TLS would pass over it in silence, and every endpoint it vouches for would fail.
 */
export function readAuthorities(path: string): string {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : String(error);
    throw new Error(`egress.ca: ${path} cannot be read (${code})`, { cause: error });
  }
  const certificates = text.match(CERTIFICATE) ?? [];
  if (certificates.length === 0) throw new Error(`egress.ca: ${path} holds no certificate in PEM form`);
  for (const [index, certificate] of certificates.entries()) {
    try {
      new X509Certificate(certificate);
    } catch (error) {
      throw new Error(`egress.ca: certificate ${index + 1} of ${path} is damaged`, { cause: error });
    }
  }
  return certificates.join('\n');
}

/** Everybody this machine trusts, and these (PEM). Reads every root certificate, which takes milliseconds. */
export function trustedAuthorities(ca: string | undefined): SecureContext {
  return createSecureContext(ca === undefined ? {} : { ca: [...getCACertificates('default'), ca] });
}
