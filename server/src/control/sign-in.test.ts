import { beforeEach, describe, expect, test } from 'vitest';
import { type HandClock, handClock } from '../../test/support/clock.ts';
import { ROLES, type Role } from '../model/role.ts';
import { MINUTE, SECOND } from '../model/time.ts';
import type { TokenRecord } from '../ports/settings.ts';
import { digestOf } from './bearer.ts';
import { Problem } from './problem.ts';
import { SignIn } from './sign-in.ts';

const HERE = '192.0.2.1';
const record = (name: string, role: Role): TokenRecord => ({
  ...{ name, role, digest: digestOf(`${name}-token`), hint: 'oken', createdAt: 0 },
});

let clock: HandClock;
let tokens: TokenRecord[];
let signIn: SignIn;

beforeEach(() => {
  clock = handClock(1_000_000);
  tokens = ROLES.map((role) => record(role === 'admin' ? 'boss' : role, role));
  signIn = new SignIn({ adminToken: 'root-token', tokens: () => tokens, clock });
});

/** The name of the caller, or what is wrong. */
function tried(token: string | undefined, { least = 'viewer' as Role, from = HERE } = {}): string {
  try {
    return signIn.caller(token === undefined ? undefined : `Bearer ${token}`, from, least).name;
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    return error.retryAfter === undefined ? error.code : `wait ${error.retryAfter}`;
  }
}

describe('a token', () => {
  test.each([
    ['root-token', ['admin', 'admin', 'admin']],
    ['boss-token', ['boss', 'boss', 'boss']],
    ['editor-token', ['editor', 'editor', 'role_too_low']],
    ['viewer-token', ['viewer', 'role_too_low', 'role_too_low']],
    ['other-token', ['token_invalid', 'token_invalid', 'token_invalid']],
    [undefined, ['token_missing', 'token_missing', 'token_missing']],
  ])('%s may do what its role does', (token, callers) => {
    expect(ROLES.map((least) => tried(token, { least }))).toEqual(callers);
  });

  test('is nobody from the moment it is revoked', () => {
    expect(tried('viewer-token')).toBe('viewer');
    tokens = tokens.filter(({ name }) => name !== 'viewer');
    expect(tried('viewer-token')).toBe('token_invalid');
  });

  test('is not its own digest', () => {
    expect(tried(digestOf('viewer-token'))).toBe('token_invalid');
    expect(tried(digestOf('root-token'))).toBe('token_invalid');
  });
});

describe('whoever guesses', () => {
  const guess = (times: number, from = HERE) => Array.from({ length: times }, () => tried('guess', { from }));

  test('has to wait after twenty wrong tokens, with a right one too, and only there', () => {
    expect(new Set(guess(20))).toEqual(new Set(['token_invalid']));
    expect(tried('guess')).toBe('wait 60');
    expect(tried('root-token')).toBe('wait 60');
    expect(tried('root-token', { from: '192.0.2.2' })).toBe('admin');
  });

  test('has to wait at every address of an IPv6 network, and at the same IPv4 one however it is written', () => {
    for (let n = 0; n < 20; n++) tried('guess', { from: `2001:db8:1:2::${n}` });
    expect(tried('guess', { from: '2001:db8:1:2:ffff::1' })).toBe('wait 60');
    expect(tried('root-token', { from: '2001:db8:1:3::1' })).toBe('admin');
    guess(20, '192.0.2.7');
    expect(tried('guess', { from: '::ffff:192.0.2.7' })).toBe('wait 60');
    expect(tried('root-token', { from: '::ffff:192.0.2.8' })).toBe('admin');
  });

  test('may go on after a minute, which asking meanwhile does not lengthen', async () => {
    guess(20);
    await clock.pass(MINUTE - SECOND);
    expect(guess(50)).toEqual(Array(50).fill('wait 1'));
    await clock.pass(SECOND);
    expect(tried('root-token')).toBe('admin');
    expect(new Set(guess(20))).toEqual(new Set(['token_invalid']));
    expect(tried('guess')).toBe('wait 60');
  });

  test('is not who only forgot the token, or has one of too small a role', () => {
    for (let n = 0; n < 50; n++) {
      tried(undefined);
      tried('viewer-token', { least: 'admin' });
    }
    expect(tried('viewer-token')).toBe('viewer');
  });

  test('is forgotten when a minute passes without a wrong token', async () => {
    guess(19);
    await clock.pass(MINUTE);
    guess(19);
    expect(tried('guess')).toBe('token_invalid');
  });

  test('is remembered among ten thousand addresses, and not among more', () => {
    guess(20);
    for (let n = 0; n < 9_999; n++) tried('guess', { from: `a${n}` });
    expect(tried('guess')).toBe('wait 60');
    tried('guess', { from: 'one more' });
    expect(tried('guess')).toBe('token_invalid');
  });
});
