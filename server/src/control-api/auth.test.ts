import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type HandClock, handClock } from '../../test/support/clock.ts';
import { ROLES, type Role, type TokenRecord } from '../model/settings.ts';
import { MINUTE, SECOND } from '../model/time.ts';
import { Authenticator, adminToken, bearerToken, digestsEqual, tokenDigest } from './auth.ts';
import { Problem } from './problem.ts';

test.each([
  ['a token', 'Bearer abc', 'abc'],
  ['a scheme in other letters', 'bEARER abc', 'abc'],
  ['more than one blank, and one at the end', 'Bearer   abc ', 'abc'],
  ['every visible letter', 'Bearer !#$%&*+-./:=?@_~', '!#$%&*+-./:=?@_~'],
])('%s is found', (_, header, token) => {
  expect(bearerToken(header)).toBe(token);
});

test.each([
  ['no header', undefined],
  ['an empty header', ''],
  ['the scheme alone', 'Bearer '],
  ['another scheme', 'Basic abc'],
  ['a token without a scheme', 'abc'],
  ['two words', 'Bearer abc def'],
  ['letters that no token has', 'Bearer abç'],
])('%s has no token', (_, header) => {
  expect(bearerToken(header)).toBeUndefined();
});

describe('digests', () => {
  test('are the same of a token and of no other, of whatever length', () => {
    const matches = (other: string) => digestsEqual(tokenDigest('s3cret-token'), tokenDigest(other));
    expect(matches('s3cret-token')).toBe(true);
    for (const other of ['', 's', 's3cret-tokem', 's3cret-token ', 'S3CRET-TOKEN', 'x'.repeat(100_000)])
      expect(matches(other)).toBe(false);
  });

  test('are never the same as something that is no digest', () => {
    expect(digestsEqual('', tokenDigest(''))).toBe(false);
  });
});

describe('the admin token', () => {
  let folder: string;
  let file: string;

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'millrace-token-'));
    file = join(folder, 'admin-token');
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  test('that is configured is taken, and nothing is kept', () => {
    expect(adminToken('configured', folder)).toEqual({ token: 'configured' });
    expect(existsSync(file)).toBe(false);
  });

  test('is made when there is none, kept for its owner alone, and the same from then on', () => {
    const first = adminToken(undefined, folder);
    expect(first).toEqual({ token: expect.stringMatching(/^[\w-]{43}$/), file });
    expect(readFileSync(file, 'utf8')).toBe(`${first.token}\n`);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(readdirSync(folder)).toEqual(['admin-token']);
    expect(adminToken(undefined, folder)).toEqual(first);
  });

  test('differs from folder to folder', () => {
    const other = join(folder, 'other');
    mkdirSync(other);
    expect(adminToken(undefined, other).token).not.toBe(adminToken(undefined, folder).token);
  });

  test('is made anew when its file was emptied, with the same rights whatever a broken-off try left', () => {
    writeFileSync(file, '\n', { mode: 0o644 });
    writeFileSync(`${file}.new`, 'half a tok', { mode: 0o666 });
    const { token } = adminToken(undefined, folder);
    expect(token).toMatch(/^[\w-]{43}$/);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(readdirSync(folder)).toEqual(['admin-token']);
  });

  test('that somebody wrote into the file is taken, without the end of its line', () => {
    writeFileSync(file, 'chosen-by-hand\r\n');
    expect(adminToken(undefined, folder)).toEqual({ token: 'chosen-by-hand', file });
  });

  test('is refused in one line when the file holds something else, which is not shown', () => {
    writeFileSync(file, 'two words\nand lines\n');
    let message = '';
    try {
      adminToken(undefined, folder);
    } catch (error) {
      message = String(error);
    }
    expect(message).toContain(`${file} does not hold a token`);
    expect(message).not.toMatch(/two words|\n/);
  });

  test('says what to do when its file cannot be read', () => {
    mkdirSync(file);
    expect(() => adminToken(undefined, folder)).toThrow(/admin-token \(EISDIR\).*set admin\.token/);
  });

  test('says what to do when it cannot be kept', () => {
    const gone = join(folder, 'gone');
    expect(() => adminToken(undefined, gone)).toThrow(/gone\/admin-token \(ENOENT\).*set admin\.token/);
  });
});

const HERE = '192.0.2.1';
const record = (name: string, role: Role): TokenRecord => ({
  name,
  role,
  digest: tokenDigest(`${name}-token`),
  hint: 'oken',
  createdAt: 0,
});

let clock: HandClock;
let tokens: TokenRecord[];
let signIn: Authenticator;

beforeEach(() => {
  clock = handClock(1_000_000);
  tokens = ROLES.map((role) => record(role === 'admin' ? 'boss' : role, role));
  signIn = new Authenticator({ adminToken: 'root-token', tokens: () => tokens, clock });
});

/** The name of the caller, or what is wrong. */
function tried(token: string | undefined, { least = 'viewer' as Role, from = HERE } = {}): string {
  try {
    return signIn.authenticate(token === undefined ? undefined : `Bearer ${token}`, from, least).name;
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
    expect(tried(tokenDigest('viewer-token'))).toBe('token_invalid');
    expect(tried(tokenDigest('root-token'))).toBe('token_invalid');
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
