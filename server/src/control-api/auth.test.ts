import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
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
import { SessionStore, sessionCookie } from './sessions.ts';

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

  test('is refused in a file that everybody may write: whoever has written it has every right', () => {
    writeFileSync(file, 'chosen-by-somebody');
    chmodSync(file, 0o666);
    expect(() => adminToken(undefined, folder)).toThrow(
      /admin-token, which may be written by everybody.*remove the file/,
    );
    chmodSync(file, 0o660);
    expect(adminToken(undefined, folder).token).toBe('chosen-by-somebody');
  });

  test('is taken from a file behind a link, as an orchestrator mounts it', () => {
    const secret = join(folder, 'secret');
    writeFileSync(secret, 'given', { mode: 0o440 });
    symlinkSync(secret, file);
    expect(adminToken(undefined, folder).token).toBe('given');
    chmodSync(secret, 0o666);
    expect(() => adminToken(undefined, folder)).toThrow(/may be written by everybody/);
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
let sessions: SessionStore;
let signIn: Authenticator;

beforeEach(() => {
  clock = handClock(1_000_000);
  tokens = ROLES.map((role) => record(role === 'admin' ? 'boss' : role, role));
  sessions = new SessionStore(clock);
  signIn = new Authenticator({ adminToken: 'root-token', tokens: () => tokens, sessions, clock });
});

/** The name of the caller, or what is wrong. */
function tried(token: string | undefined, { least = 'viewer' as Role, from = HERE } = {}): string {
  try {
    const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
    return signIn.authenticate({ method: 'GET', headers, isEncrypted: false }, from, least).name;
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    return error.retryAfter === undefined ? error.code : `wait ${error.retryAfter}`;
  }
}

describe('a token', () => {
  test.each([
    ['root-token', ['admin', 'admin', 'admin', 'admin']],
    ['boss-token', ['boss', 'boss', 'boss', 'boss']],
    ['editor-token', ['editor', 'editor', 'editor', 'role_too_low']],
    ['viewer-token', ['viewer', 'viewer', 'role_too_low', 'role_too_low']],
    ['metrics-token', ['metrics', 'role_too_low', 'role_too_low', 'role_too_low']],
    ['other-token', Array(4).fill('token_invalid')],
    [undefined, Array(4).fill('token_missing')],
  ])('%s may do what its role does', (token, callers) => {
    expect(ROLES.map((least) => tried(token, { least }))).toEqual(callers);
  });

  test('is nobody from the moment it is revoked', () => {
    expect(tried('viewer-token')).toBe('viewer');
    tokens = tokens.filter(({ name }) => name !== 'viewer');
    expect(tried('viewer-token')).toBe('token_invalid');
  });

  test('ends at its time, its sessions with it, and is told so without being a guess', async () => {
    tokens = tokens.map((one) => ({ ...one, expiresAt: clock.now() + MINUTE }));
    const { id } = sessions.begin(tokenDigest('viewer-token'));
    const request = { method: 'GET', isEncrypted: false, headers: { cookie: `millrace_session=${id}` } };
    const caller = signIn.authenticate(request, HERE, 'viewer');
    await clock.pass(MINUTE - 1);
    expect([tried('viewer-token'), signIn.isSignedIn(caller)]).toEqual(['viewer', true]);
    await clock.pass(1);
    for (let n = 0; n < 30; n++) expect(tried('viewer-token')).toBe('token_expired');
    expect(signIn.isSignedIn(caller)).toBe(false);
    expect(() => signIn.authenticate(request, HERE, 'viewer')).toThrow('session_over');
    expect(tried('root-token')).toBe('admin');
  });

  test('is not its own digest', () => {
    expect(tried(tokenDigest('viewer-token'))).toBe('token_invalid');
    expect(tried(tokenDigest('root-token'))).toBe('token_invalid');
  });
});

describe('whoever guesses', () => {
  const guess = (times: number, from = HERE) => Array.from({ length: times }, () => tried('guess', { from }));

  test('has to wait after twenty wrong tokens, and only there', () => {
    expect(new Set(guess(20))).toEqual(new Set(['token_invalid']));
    expect(tried('guess')).toBe('wait 60');
    expect(tried('guess', { from: '192.0.2.2' })).toBe('token_invalid');
  });

  test('keeps out nobody who has a right token, or none', () => {
    guess(50);
    for (const [token, name] of [
      ['root-token', 'admin'],
      ['viewer-token', 'viewer'],
      [undefined, 'token_missing'],
    ])
      expect(tried(token)).toBe(name);
    // Neither shortens nor lengthens the wait.
    expect(tried('guess')).toBe('wait 60');
  });

  test('has to wait at every address of an IPv6 network, and at the same IPv4 one however it is written', () => {
    for (let n = 0; n < 20; n++) tried('guess', { from: `2001:db8:1:2::${n}` });
    expect(tried('guess', { from: '2001:db8:1:2:ffff::1' })).toBe('wait 60');
    expect(tried('guess', { from: '2001:db8:1:3::1' })).toBe('token_invalid');
    guess(20, '192.0.2.7');
    expect(tried('guess', { from: '::ffff:192.0.2.7' })).toBe('wait 60');
    expect(tried('guess', { from: '::ffff:192.0.2.8' })).toBe('token_invalid');
  });

  test('may go on after a minute, which asking meanwhile does not lengthen', async () => {
    guess(20);
    await clock.pass(MINUTE - SECOND);
    expect(guess(50)).toEqual(Array(50).fill('wait 1'));
    await clock.pass(SECOND);
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

describe('a session', () => {
  const asked = (id: string, { method = 'GET', least = 'viewer' as Role, headers = {} } = {}): string => {
    const request = {
      method,
      isEncrypted: false,
      headers: { cookie: `a=b; millrace_session=${id}`, ...headers },
    };
    try {
      return signIn.authenticate(request, HERE, least).name;
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      return error.code;
    }
  };
  const begin = (token: string) => sessions.begin(tokenDigest(token)).id;
  const CONSOLE = { 'x-millrace-console': '1' };

  test('has the role that its token has now', () => {
    const id = begin('editor-token');
    expect(asked(id, { least: 'editor' })).toBe('editor');
    tokens = tokens.map((one) => ({ ...one, role: 'viewer' }));
    expect(asked(id)).toBe('editor');
    expect(asked(id, { least: 'editor' })).toBe('role_too_low');
  });

  test('ends with its token, also when another of the same name is made', () => {
    const id = begin('viewer-token');
    tokens = [{ ...record('viewer', 'admin'), digest: tokenDigest('another') }];
    expect(asked(id)).toBe('session_over');
  });

  test('ends after twelve hours, and when it is ended', async () => {
    const [one, other] = [begin('root-token'), begin('root-token')];
    sessions.end(one);
    expect(asked(one)).toBe('session_over');
    await clock.pass(12 * 60 * MINUTE - SECOND);
    expect(asked(other)).toBe('admin');
    await clock.pass(SECOND);
    expect(asked(other)).toBe('session_over');
  });

  test('that is over says why', async () => {
    const hintOf = (id: string) => {
      const request = { method: 'GET', isEncrypted: false, headers: { cookie: `millrace_session=${id}` } };
      try {
        signIn.authenticate(request, HERE, 'viewer');
        return undefined;
      } catch (error) {
        return (error as Problem).hint;
      }
    };
    const [ended, revoked] = [begin('root-token'), begin('viewer-token')];
    sessions.end(ended);
    tokens = [];
    expect(hintOf(ended)).toContain('It lasts for 12 hours');
    expect(hintOf(revoked)).toContain('Its token was revoked');
    const earlier = new SessionStore(clock).begin(tokenDigest('root-token'));
    expect(hintOf(earlier.id)).toContain('The server was started again');
  });

  test('that is over locks nobody out, however often it is sent', () => {
    for (let n = 0; n < 100; n++) expect(asked('gone')).toBe('session_over');
    expect(tried('root-token')).toBe('admin');
  });

  test.each([
    ['GET without any header', 'GET', {}, 'admin'],
    ['HEAD without any header', 'HEAD', {}, 'admin'],
    ['POST without the header of the console', 'POST', {}, 'cross_site_request'],
    ['POST with another value of it', 'POST', { 'x-millrace-console': '0' }, 'cross_site_request'],
    ['POST with it', 'POST', CONSOLE, 'admin'],
    ['DELETE without it', 'DELETE', { 'sec-fetch-site': 'same-origin' }, 'cross_site_request'],
    ['PATCH of the same origin', 'PATCH', { ...CONSOLE, 'sec-fetch-site': 'same-origin' }, 'admin'],
    ['PUT of a sibling domain', 'PUT', { ...CONSOLE, 'sec-fetch-site': 'same-site' }, 'cross_site_request'],
    ['POST of another site', 'POST', { ...CONSOLE, 'sec-fetch-site': 'cross-site' }, 'cross_site_request'],
    [
      'POST of our Origin',
      'POST',
      { ...CONSOLE, origin: 'http://m.example:8080', host: 'm.example:8080' },
      'admin',
    ],
    [
      'POST of another Origin',
      'POST',
      { ...CONSOLE, origin: 'http://evil.example', host: 'm.example:8080' },
      'cross_site_request',
    ],
    [
      'POST of no Origin that can be named',
      'POST',
      { ...CONSOLE, origin: 'null', host: 'm.example' },
      'cross_site_request',
    ],
    [
      'POST through a proxy that changes Host',
      'POST',
      { ...CONSOLE, origin: 'https://m.example', host: '10.0.0.1', 'sec-fetch-site': 'same-origin' },
      'admin',
    ],
  ])('is heeded or refused: %s', (_, method, headers, caller) => {
    expect(asked(begin('root-token'), { method, headers })).toBe(caller);
  });

  test('does not count beside a token', () => {
    const id = begin('root-token');
    expect(asked(id, { headers: { authorization: 'Bearer viewer-token' } })).toBe('viewer');
    expect(asked(id, { headers: { authorization: 'Bearer wrong' } })).toBe('token_invalid');
  });

  test('of ten thousand and one begun is the only one to end', () => {
    const first = begin('root-token');
    const second = begin('root-token');
    for (let n = 0; n < 9_999; n++) begin('root-token');
    expect([asked(first), asked(second)]).toEqual(['session_over', 'admin']);
  });
});

test('a sign-in code is good once and for an hour', async () => {
  const [used, late, kept] = [sessions.createCode(), sessions.createCode(), sessions.createCode()];
  expect([sessions.redeemCode(used), sessions.redeemCode(used)]).toEqual([true, false]);
  await clock.pass(60 * MINUTE - 1);
  expect([sessions.redeemCode(kept), sessions.redeemCode('guess')]).toEqual([true, false]);
  await clock.pass(1);
  expect(sessions.redeemCode(late)).toBe(false);
});

test.each([
  ['plain http', false, {}, false],
  ['TLS of our own', true, {}, true],
  ['a proxy that says so', false, { 'x-forwarded-proto': 'https, http' }, true],
  ['a page that says so', false, { origin: 'https://m.example' }, true],
])('the cookie is for https only where the browser speaks it: %s', (_, isEncrypted, headers, isSecure) => {
  const cookie = sessionCookie('c', { method: 'POST', headers, isEncrypted });
  const base = 'millrace_session=c; HttpOnly; SameSite=Strict; Path=/; Max-Age=43200';
  expect(cookie).toBe(isSecure ? `${base}; Secure` : base);
});
