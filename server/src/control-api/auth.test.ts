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
import { openMemoryStore } from '../../test/memory-store/store.ts';
import { testSessions } from '../../test/support/authenticator.ts';
import { type HandClock, handClock } from '../../test/support/clock.ts';
import { ROLES, type Role, type TokenRecord } from '../model/settings.ts';
import { MINUTE, SECOND } from '../model/time.ts';
import { StorageError } from '../ports/event-log.ts';
import type { SessionStore } from '../ports/session-store.ts';
import { Authenticator, adminToken, bearerToken, digestsEqual, tokenDigest } from './auth.ts';
import { Problem } from './problem.ts';
import type { BegunSession, ConsoleSessions } from './sessions.ts';

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
let sessions: ConsoleSessions;
let signIn: Authenticator;

beforeEach(() => {
  clock = handClock(1_000_000);
  tokens = ROLES.map((role) => record(role === 'admin' ? 'boss' : role, role));
  sessions = testSessions(clock);
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

/** A request of the page that began a session. */
function requestOf({ id, key }: Pick<BegunSession, 'id' | 'key'>, { method = 'GET', headers = {} } = {}) {
  const own = { cookie: `a=b; millrace_0a1b2c3d=${id}`, 'x-millrace-console': key };
  return { method, isEncrypted: false, headers: { ...own, ...headers } };
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
    const request = requestOf(await sessions.begin(tokenDigest('viewer-token')));
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
  const asked = async (
    session: Pick<BegunSession, 'id' | 'key'>,
    { least = 'viewer' as Role, ...more }: { least?: Role; method?: string; headers?: object } = {},
    by = signIn,
  ): Promise<string> => {
    const request = requestOf(session, more);
    try {
      await by.prepare(request);
      return by.authenticate(request, HERE, least).name;
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      return error.code;
    }
  };
  const begin = (token: string) => sessions.begin(tokenDigest(token));

  test('has the role that its token has now', async () => {
    const session = await begin('editor-token');
    expect(await asked(session, { least: 'editor' })).toBe('editor');
    tokens = tokens.map((one) => ({ ...one, role: 'viewer' }));
    expect(await asked(session)).toBe('editor');
    expect(await asked(session, { least: 'editor' })).toBe('role_too_low');
  });

  test('ends with its token, also when another of the same name is made', async () => {
    const session = await begin('viewer-token');
    tokens = [{ ...record('viewer', 'admin'), digest: tokenDigest('another') }];
    expect(await asked(session)).toBe('session_over');
  });

  test('ends after twelve hours, and when it is ended', async () => {
    const [one, other] = [await begin('root-token'), await begin('root-token')];
    await sessions.end(one.id);
    expect(await asked(one)).toBe('session_over');
    await clock.pass(12 * 60 * MINUTE - SECOND);
    expect(await asked(other)).toBe('admin');
    await clock.pass(SECOND);
    expect(await asked(other)).toBe('session_over');
  });

  test('that is over says why', async () => {
    const hintOf = async (session: BegunSession, more = {}) => {
      const request = requestOf(session, more);
      await signIn.prepare(request);
      try {
        signIn.authenticate(request, HERE, 'viewer');
        return undefined;
      } catch (error) {
        return (error as Problem).hint;
      }
    };
    const [revoked, unbound] = [await begin('viewer-token'), await begin('root-token')];
    tokens = [];
    expect(await hintOf(revoked)).toContain('Its token was revoked');
    expect(await hintOf(unbound, { headers: { 'x-millrace-console': '1' } })).toContain('X-Millrace-Console');
  });

  test('that is over locks nobody out, however often it is sent, and a value that is made up is looked up nowhere', async () => {
    const store = openMemoryStore().sessions;
    let looks = 0;
    const counting: SessionStore = { ...store, find: (id) => store.find(id).finally(() => looks++) };
    sessions = testSessions(clock, { sessions: counting });
    signIn = new Authenticator({ adminToken: 'root-token', tokens: () => tokens, sessions, clock });
    const { id } = await begin('root-token');
    for (const made of ['gone', `${id}x`, id.replace(/^./, '*'), id.split('.')[0]!, '.'])
      for (let n = 0; n < 30; n++) expect(await asked({ id: made, key: '' })).toBe('session_over');
    expect([looks, tried('root-token')]).toEqual([0, 'admin']);
  });

  test('survives a restart, on the clock that goes on', async () => {
    const store = openMemoryStore().sessions;
    const start = () => testSessions(clock, { sessions: store });
    const session = await start().begin(tokenDigest('root-token'));
    const ended = await start().begin(tokenDigest('root-token'));
    await start().end(ended.id);
    const restarted = () =>
      new Authenticator({ adminToken: 'root-token', tokens: () => tokens, sessions: start(), clock });
    expect(await asked(session, {}, restarted())).toBe('admin');
    expect(await asked(ended, {}, restarted())).toBe('session_over');
    await clock.pass(12 * 60 * MINUTE);
    expect(await asked(session, {}, restarted())).toBe('session_over');
  });

  test('that another node has ended is over here a second later, and so is what goes on', async () => {
    const store = { sessions: openMemoryStore().sessions, nodes: {} };
    const [here, there] = [testSessions(clock, store), testSessions(clock, store)];
    signIn = new Authenticator({ adminToken: 'root-token', tokens: () => tokens, sessions: here, clock });
    const session = await there.begin(tokenDigest('root-token'));
    expect(await asked(session)).toBe('admin');
    const caller = signIn.authenticate(requestOf(session), HERE, 'viewer');
    await there.end(session.id);
    await clock.pass(SECOND);
    expect(signIn.isSignedIn(caller)).toBe(true);
    await clock.pass(0);
    expect(signIn.isSignedIn(caller)).toBe(false);
    expect(await asked(session)).toBe('session_over');
  });

  test('begins and goes on while the store cannot be used, and says so', async () => {
    const { sessions: store } = openMemoryStore();
    let isBroken = false;
    const fail = () => Promise.reject(new StorageError('the disk is gone'));
    const failing: SessionStore = {
      begin: (...asked) => (isBroken ? fail() : store.begin(...asked)),
      find: (id) => (isBroken ? fail() : store.find(id)),
      end: (id) => (isBroken ? fail() : store.end(id)),
    };
    let warnings = 0;
    sessions = testSessions(clock, { sessions: failing, nodes: {} }, () => warnings++);
    signIn = new Authenticator({ adminToken: 'root-token', tokens: () => tokens, sessions, clock });
    const before = await begin('root-token');
    isBroken = true;
    await clock.pass(MINUTE);
    const meanwhile = await begin('root-token');
    expect([await asked(before), await asked(meanwhile), warnings]).toEqual(['admin', 'admin', 1]);
    await expect(sessions.end(before.id)).rejects.toThrow('the disk is gone');
    isBroken = false;
    await clock.pass(MINUTE);
    expect(await asked(meanwhile)).toBe('admin');
  });

  interface Tried {
    readonly method?: string;
    readonly headers?: object;
    readonly key?: 'other' | 'none';
  }

  test.each([
    ['GET', {}, 'admin'],
    ['GET without the value that came with the cookie', { key: 'none' }, 'session_over'],
    ['GET with that of another session', { key: 'other' }, 'session_over'],
    ['POST without it', { method: 'POST', key: 'none' }, 'session_over'],
    ['POST', { method: 'POST' }, 'admin'],
    ['PATCH of the same origin', { method: 'PATCH', headers: { 'sec-fetch-site': 'same-origin' } }, 'admin'],
    [
      'PUT of a sibling domain',
      { method: 'PUT', headers: { 'sec-fetch-site': 'same-site' } },
      'cross_site_request',
    ],
    [
      'POST of another site',
      { method: 'POST', headers: { 'sec-fetch-site': 'cross-site' } },
      'cross_site_request',
    ],
    [
      'POST of our Origin',
      { method: 'POST', headers: { origin: 'http://m.example:8080', host: 'm.example:8080' } },
      'admin',
    ],
    [
      'POST of another Origin',
      { method: 'POST', headers: { origin: 'http://evil.example', host: 'm.example:8080' } },
      'cross_site_request',
    ],
    [
      'POST of another port',
      { method: 'POST', headers: { origin: 'http://m.example:9000', host: 'm.example:8080' } },
      'cross_site_request',
    ],
    [
      'POST of no Origin that can be named',
      { method: 'POST', headers: { origin: 'null', host: 'm.example' } },
      'cross_site_request',
    ],
    [
      'POST through a proxy that changes Host',
      {
        method: 'POST',
        headers: { origin: 'https://m.example', host: '10.0.0.1', 'sec-fetch-site': 'same-origin' },
      },
      'admin',
    ],
  ] satisfies [string, Tried, string][])(
    'is heeded or refused: %s',
    async (_, { key, ...more }: Tried, caller) => {
      const session = await begin('root-token');
      const other = await begin('root-token');
      const sent = { own: session.key, other: other.key, none: '' }[key ?? 'own'];
      expect(await asked({ ...session, key: sent }, more)).toBe(caller);
    },
  );

  test('does not count beside a token', async () => {
    const session = await begin('root-token');
    expect(await asked(session, { headers: { authorization: 'Bearer viewer-token' } })).toBe('viewer');
    expect(await asked(session, { headers: { authorization: 'Bearer wrong' } })).toBe('token_invalid');
  });

  test('of a hundred and one of a token is the only one to end, and none of another token does', async () => {
    const store = openMemoryStore().sessions;
    sessions = testSessions(clock, { sessions: store });
    const other = await begin('root-token');
    const all: BegunSession[] = [];
    for (let n = 0; n < 100; n++) all.push(await begin('viewer-token'));
    signIn = new Authenticator({ adminToken: 'root-token', tokens: () => tokens, sessions, clock });
    expect(await asked(all[0]!)).toBe('viewer');
    all.push(await begin('viewer-token'));
    expect([await asked(all[0]!), await asked(all[1]!)]).toEqual(['session_over', 'viewer']);
    expect([await asked(all[100]!), await asked(other)]).toEqual(['viewer', 'admin']);
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
  const cookie = sessions.cookie('c', { method: 'POST', headers, isEncrypted });
  const base = 'millrace_0a1b2c3d=c; HttpOnly; SameSite=Strict; Path=/; Max-Age=43200';
  expect(cookie).toBe(isSecure ? `__Host-${base}; Secure` : base);
});

test('of two cookies the one counts that no other site can set', () => {
  const both = 'millrace_0a1b2c3d=plain; x=y; __Host-millrace_0a1b2c3d=host';
  expect(sessions.idIn({ cookie: both })).toBe('host');
  expect(sessions.idIn({ cookie: 'millrace_0a1b2c3d=plain' })).toBe('plain');
  expect(sessions.idIn({ cookie: 'millrace_session=old; millrace_ffffffff=another' })).toBeUndefined();
  expect(sessions.idIn({})).toBeUndefined();
});
