import { createHash, timingSafeEqual } from 'node:crypto';

const BEARER = /^bearer +([!-~]+) *$/i;

/** The token in an Authorization header; `undefined` when there is none. contract.md section 2. */
export function tokenIn(header: string | undefined): string | undefined {
  return header === undefined ? undefined : BEARER.exec(header)?.[1];
}

/**
 * Compares tokens with this one. Digests are compared instead of texts: they are of one length, and the time the
 * comparison takes says nothing about the token.
 */
export function matcherOf(token: string): (candidate: string) => boolean {
  const expected = digestOf(token);
  return (candidate) => timingSafeEqual(digestOf(candidate), expected);
}

function digestOf(token: string): Buffer {
  return createHash('sha256').update(token).digest();
}
