import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import ipaddr from 'ipaddr.js';
import { distrustOf } from '../model/file-rights.ts';
import { hasRole, type Role, type TokenLimits, type TokenRecord } from '../model/settings.ts';
import { isoTime, MINUTE, type Monotonic, SECOND, type Time } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import { Problem } from './problem.ts';
import { type BrowserRequest, type ConsoleSessions, refuseOtherPages } from './sessions.ts';

const BEARER = /^bearer +([!-~]+) *$/i;

/** The token in an Authorization header; `undefined` when there is none. spec/contract.md, "Control API". */
export function bearerToken(header: string | undefined): string | undefined {
  return header === undefined ? undefined : BEARER.exec(header)?.[1];
}

/**
 * The SHA-256 of a token in hexadecimal; nothing else of it is stored. Tokens are long and random, so a fast
 * hash is safe.
 */
export function tokenDigest(token: string): string {
  return createHash('sha256').update(token).digest('hex');
}

/**
 * Compares two tokens by their digests. Digests have one length, and the comparison takes constant time, so
 * that its duration tells nothing about the tokens.
 */
export function digestsEqual(digest: string, other: string): boolean {
  const [one, another] = [Buffer.from(digest), Buffer.from(other)];
  return one.length === another.length && timingSafeEqual(one, another);
}

/** Name of the token file in the data folder. `millrace status` looks for it under the same name. */
const TOKEN_FILE = 'admin-token';

const OWNER_ONLY = 0o600;

export interface AdminToken {
  readonly token: string;
  /** The file that keeps it; absent when the configuration gave it. */
  readonly file?: string;
}

/**
 * The token of the control API: the configured one, or the one in the data folder. A token is made when there
 * is none or its file is empty. The folder must exist and belong to us. spec/contract.md, "Admin token".
 * Throws an error whose message is one line for the operator and never contains the token.
 */
export function adminToken(configured: string | undefined, folder: string): AdminToken {
  if (configured !== undefined) return { token: configured };
  const file = join(folder, TOKEN_FILE);
  try {
    return { token: readToken(file) ?? createToken(file), file };
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === undefined) throw error;
    throw new Error(
      `the token of the control API cannot be kept in ${file} (${code}): give this user the right to read and write ` +
        'it, or set admin.token or MILLRACE_ADMIN_TOKEN',
      { cause: error },
    );
  }
}

function readToken(file: string): string | undefined {
  const rights = statSync(file, { throwIfNoEntry: false });
  const problem = rights && distrustOf(rights, process.getuid?.());
  if (problem !== undefined) {
    throw new Error(
      `the token of the control API is in ${file}, which ${problem}: remove the file, and a new token is made, or set admin.token or MILLRACE_ADMIN_TOKEN`,
    );
  }
  const text = readIfExists(file).trim();
  if (text === '') return undefined;
  if (/^[!-~]+$/.test(text)) return text;
  throw new Error(
    `${file} does not hold a token, which is one word of visible ASCII: remove it, and one is made`,
  );
}

function readIfExists(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return '';
    throw error;
  }
}

/**
 * Writes a new file and renames it, so that a crash leaves the whole token or none. A leftover of an earlier
 * try is removed first, because only a file that is created gets the right mode.
 */
function createToken(file: string): string {
  const token = randomBytes(32).toString('base64url');
  const unfinished = `${file}.new`;
  rmSync(unfinished, { force: true });
  writeFileSync(unfinished, `${token}\n`, { mode: OWNER_ONLY, flag: 'wx' });
  renameSync(unfinished, file);
  return token;
}

/** The owner of the token that a request carries, or that its session began with. */
export interface Caller {
  /** The name of the token; `admin` for the configured one. */
  readonly name: string;
  readonly role: Role;
  /** Of the token. */
  readonly digest: string;
  /** These three as in `TokenRecord`. */
  readonly expiresAt?: Time;
  readonly limits?: TokenLimits;
  readonly bodies?: false;
  /** The id of the session; absent where the request carries the token itself. */
  readonly session?: string;
}

export interface AuthenticatorDependencies {
  /** The token with every right. */
  readonly adminToken: string;
  readonly tokens: () => readonly TokenRecord[];
  readonly sessions: ConsoleSessions;
  readonly clock: Clock;
  /** Hears the name of each token that is used. */
  readonly tokenUsed?: (name: string) => void;
}

/** The name of the configured token. No other token may have it. */
export const ADMIN_NAME = 'admin';

/**
 * Wrong tokens from one place before its wrong ones are told to wait. Whoever has a right one is never kept
 * out by them.
 */
const MAX_FAILURES = 20;
const PATIENCE = MINUTE;

/** Places that are remembered. The one with the oldest failure is forgotten first. */
const MAX_ADDRESSES = 10_000;

/** Finds the owner of a token or a session and checks the role. spec/contract.md, "Roles" and "Sessions". */
export class Authenticator {
  /** The owner of the configured token. */
  readonly admin: Caller;
  readonly #dependencies: AuthenticatorDependencies;
  readonly #failures = new Map<string, { count: number; until: Monotonic }>();

  constructor(dependencies: AuthenticatorDependencies) {
    this.#dependencies = dependencies;
    this.admin = { name: ADMIN_NAME, role: 'admin', digest: tokenDigest(dependencies.adminToken) };
  }

  /**
   * Brings what is known of the session of a request up to date, where it has one. Comes before
   * `authenticate`.
   */
  async prepare({ headers }: BrowserRequest): Promise<void> {
    const { sessions } = this.#dependencies;
    const session = headers.authorization === undefined ? sessions.idIn(headers) : undefined;
    if (session !== undefined) await sessions.refresh(session);
  }

  /**
   * Throws a `Problem` for a missing token, a wrong one, and one whose role is below `least`. The token of an
   * Authorization header goes before the cookie of a session, which counts beside its second value, or alone
   * where the operation says so.
   */
  authenticate(request: BrowserRequest, address: string, least: Role, takesCookieAlone = false): Caller {
    const { headers } = request;
    const { authorization } = headers;
    const session = authorization === undefined ? this.#dependencies.sessions.idIn(headers) : undefined;
    const caller =
      session === undefined
        ? this.signIn(bearerToken(authorization), address)
        : this.#ownerOfSession(session, request, takesCookieAlone);
    refuseLowerRole(caller, least);
    this.#dependencies.tokenUsed?.(caller.name);
    return caller;
  }

  /**
   * The owner of a token. Throws a `Problem` for a wrong one, and for one whose time is over. Many wrong ones
   * from an address are answered with a time to wait, and never hinder a right one: they may come from
   * another program, or from any page that a browser at this address has open.
   */
  signIn(token: string | undefined, address: string): Caller {
    if (token === undefined) throw new Problem('token_missing');
    const caller = this.#ownerOf(tokenDigest(token));
    if (caller !== undefined) {
      this.#refuseExpired(caller);
      return caller;
    }
    const place = addressKey(address);
    this.#refuseGuessing(place);
    this.#recordFailure(place);
    throw new Problem('token_invalid');
  }

  /**
   * Whether the token still exists, and the session too where there is one. The role may be another than
   * before.
   */
  isSignedIn({ digest, session }: Caller): boolean {
    const { sessions } = this.#dependencies;
    if (session !== undefined && sessions.find(session) === undefined) return false;
    // The next look sees whether another node has ended it.
    if (session !== undefined) void sessions.refresh(session);
    const owner = this.#ownerOf(digest);
    return owner !== undefined && !this.#isExpired(owner);
  }

  /**
   * An id of 256 bits cannot be guessed, so wrong ones are not counted: every page that is left open sends
   * one for hours.
   */
  #ownerOfSession(id: string, request: BrowserRequest, takesCookieAlone: boolean): Caller {
    const { sessions } = this.#dependencies;
    const session = sessions.find(id);
    if (session === undefined) throw new Problem('session_over');
    const owner = this.#ownerOf(session.token);
    if (owner === undefined)
      throw new Problem('session_over', { hint: 'Its token was revoked: sign in with another one.' });
    if (this.#isExpired(owner))
      throw new Problem('session_over', { hint: 'The time of its token is over: sign in with another one.' });
    refuseOtherPages(request, session, takesCookieAlone);
    return { ...owner, session: id };
  }

  /** Compares with every token in constant time, so that the duration tells nothing about any of them. */
  #ownerOf(digest: string): Caller | undefined {
    let owner: Caller | undefined = digestsEqual(digest, this.admin.digest) ? this.admin : undefined;
    for (const { hint: _, createdAt: _1, ...token } of this.#dependencies.tokens())
      if (digestsEqual(digest, token.digest)) owner ??= token;
    return owner;
  }

  #isExpired({ expiresAt = Number.POSITIVE_INFINITY }: Caller): boolean {
    return expiresAt <= this.#dependencies.clock.now();
  }

  #refuseExpired(caller: Caller): void {
    if (!this.#isExpired(caller)) return;
    const hint = `It was good until ${isoTime(caller.expiresAt ?? 0)}; an admin can make another one.`;
    throw new Problem('token_expired', { hint });
  }

  #refuseGuessing(place: string): void {
    const failures = this.#failures.get(place);
    const wait = (failures?.until ?? 0) - this.#dependencies.clock.monotonic();
    if (failures === undefined || wait <= 0 || failures.count < MAX_FAILURES) return;
    throw new Problem('too_many_failed_sign_ins', { retryAfter: Math.ceil(wait / SECOND) });
  }

  #recordFailure(place: string): void {
    const now = this.#dependencies.clock.monotonic();
    const before = this.#failures.get(place);
    const count = before === undefined || before.until <= now ? 1 : before.count + 1;
    // Deleted first, so that the order of the map is that of the last failures.
    this.#failures.delete(place);
    this.#failures.set(place, { count, until: now + PATIENCE });
    if (this.#failures.size <= MAX_ADDRESSES) return;
    const [oldest] = this.#failures.keys();
    if (oldest !== undefined) this.#failures.delete(oldest);
  }
}

/** Throws a `Problem` for a role below `least`. */
export function refuseLowerRole({ role }: Caller, least: Role): void {
  if (hasRole(role, least)) return;
  const hint = `This one has the role ${role} and ${least} is needed; an admin can make another token.`;
  throw new Problem('role_too_low', { hint });
}

/** An IPv4 address, or the first 64 bits of an IPv6 address: one subscriber has all addresses below them. */
function addressKey(address: string): string {
  if (!ipaddr.isValid(address)) return address;
  const parsed = ipaddr.process(address);
  return parsed instanceof ipaddr.IPv6 ? parsed.parts.slice(0, 4).join(':') : parsed.toString();
}
