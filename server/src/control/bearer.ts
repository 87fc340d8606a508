import { createHash, timingSafeEqual } from 'node:crypto';

const BEARER = /^bearer +([!-~]+) *$/i;

/** The token in an Authorization header; `undefined` when there is none. contract.md section 2. */
export function tokenIn(header: string | undefined): string | undefined {
  return header === undefined ? undefined : BEARER.exec(header)?.[1];
}

/** What is kept of a token: its SHA-256 in hexadecimal. Tokens are random and long, so nothing slower is needed. */
export function digestOf(token: string): string {
  return createHash('sha256').update(token).digest('hex');
}

/**
 * Whether two tokens are the same, by their digests: those are of one length, and the time the comparison takes says
 * nothing about the tokens.
 */
export function isSame(digest: string, other: string): boolean {
  const [one, another] = [Buffer.from(digest), Buffer.from(other)];
  return one.length === another.length && timingSafeEqual(one, another);
}
