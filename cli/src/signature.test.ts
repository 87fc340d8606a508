import { describe, expect, it } from 'vitest';
import { verify } from './signature.ts';

/** RFC 2202, HMAC-SHA-1 test case 2. */
const SECRET = 'Jefe';
const BODY = Buffer.from('what do ya want for nothing?');
const SIGNATURE = 'effcdf6ae5eb2fa2d27416d5f184df9c259a7c79';

describe('verify', () => {
  it('accepts the digest of the body under the secret, in either case of letters', () => {
    expect(verify(BODY, SIGNATURE, SECRET)).toBe('verified');
    expect(verify(BODY, SIGNATURE.toUpperCase(), SECRET)).toBe('verified');
  });

  it('refuses the digest of another body, of another secret, and what is no digest at all', () => {
    expect(verify(Buffer.from('what do ya want for nothing!'), SIGNATURE, SECRET)).toBe('wrong');
    expect(verify(BODY, SIGNATURE, 'jefe')).toBe('wrong');
    for (const header of [
      '',
      'zz',
      SIGNATURE.slice(1),
      `${SIGNATURE}00`,
      ` ${SIGNATURE}`,
      `${SIGNATURE}, ${SIGNATURE}`,
    ]) {
      expect(verify(BODY, header, SECRET), header).toBe('wrong');
    }
  });

  it('tells a request without a signature from one that cannot be checked for want of a secret', () => {
    expect(verify(BODY, undefined, SECRET)).toBe('unsigned');
    expect(verify(BODY, SIGNATURE, undefined)).toBe('unchecked');
  });
});
