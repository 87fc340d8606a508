import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import ipaddr from 'ipaddr.js';
import { hasRole, type Role, type TokenRecord } from '../model/settings.ts';
import { MINUTE, type Monotonic, SECOND } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import { Problem } from './problem.ts';

const BEARER = /^bearer +([!-~]+) *$/i;

/** The token in an Authorization header; `undefined` when there is none. spec/contract.md, "Control API". */
export function bearerToken(header: string | undefined): string | undefined {
  return header === undefined ? undefined : BEARER.exec(header)?.[1];
}

/** What is kept of a token: its SHA-256 in hexadecimal. Tokens are random and long, so nothing slower is needed. */
export function tokenDigest(token: string): string {
  return createHash('sha256').update(token).digest('hex');
}

/**
 * Whether two tokens are the same, by their digests: those are of one length, and the time the comparison takes says
 * nothing about the tokens.
 */
export function digestsEqual(digest: string, other: string): boolean {
  const [one, another] = [Buffer.from(digest), Buffer.from(other)];
  return one.length === another.length && timingSafeEqual(one, another);
}

/** In the data folder. `millrace status` looks for it under the same name. */
const TOKEN_FILE = 'admin-token';

const OWNER_ONLY = 0o600;

export interface AdminToken {
  readonly token: string;
  /** The file that keeps it; absent when the configuration gave it. */
  readonly file?: string;
}

/**
 * The token of the control API: the configured one, else the one kept in the data folder, which is made when there is
 * none (an emptied file counts as none). The folder must exist and be ours. spec/contract.md, "Admin token".
 * Throws an error whose message is one line for the operator; it never holds the token.
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
 * Written beside and renamed, so that a crash leaves the whole token or none. The rights are given when the file is
 * created, which is why a leftover of an earlier try is removed and not written over.
 */
function createToken(file: string): string {
  const token = randomBytes(32).toString('base64url');
  const unfinished = `${file}.new`;
  rmSync(unfinished, { force: true });
  writeFileSync(unfinished, `${token}\n`, { mode: OWNER_ONLY, flag: 'wx' });
  renameSync(unfinished, file);
  return token;
}

/** Who is asking. */
export interface Caller {
  /** Of the token; `admin` for the one of the configuration. */
  readonly name: string;
  readonly role: Role;
}

export interface AuthenticatorDependencies {
  /** Whoever has it may do everything. */
  readonly adminToken: string;
  readonly tokens: () => readonly TokenRecord[];
  readonly clock: Clock;
}

/** The name of the token of the configuration; no other token may have it. */
export const ADMIN_NAME = 'admin';

/** So many wrong tokens from one place, and it has to wait: guessing stays hopeless even where tokens are short. */
const MAX_FAILURES = 20;
const LOCKOUT = MINUTE;

/** Places remembered; the one that has been silent longest is forgotten. */
const MAX_ADDRESSES = 10_000;

/** Finds out who sends a request, and whether they may. spec/contract.md, "Roles". */
export class Authenticator {
  readonly #tools: AuthenticatorDependencies;
  readonly #admin: string;
  readonly #failures = new Map<string, { count: number; until: Monotonic }>();

  constructor(tools: AuthenticatorDependencies) {
    this.#tools = tools;
    this.#admin = tokenDigest(tools.adminToken);
  }

  /** Throws a `Problem` for whoever has no token, a wrong one, or one with too small a role. */
  authenticate(authorization: string | undefined, address: string, least: Role): Caller {
    const place = addressKey(address);
    this.#refuseGuessing(place);
    const candidate = bearerToken(authorization);
    if (candidate === undefined) throw new Problem('token_missing');
    const caller = this.#tokenOwner(candidate);
    if (caller === undefined) {
      this.#recordFailure(place);
      throw new Problem('token_invalid');
    }
    if (!hasRole(caller.role, least)) {
      const hint = `This one has the role ${caller.role} and ${least} is needed; an admin can make another token.`;
      throw new Problem('role_too_low', { hint });
    }
    return caller;
  }

  /** Digests are compared in constant time, and all of them: how long it takes says nothing about any token. */
  #tokenOwner(candidate: string): Caller | undefined {
    const digest = tokenDigest(candidate);
    let owner: Caller | undefined = digestsEqual(digest, this.#admin)
      ? { name: ADMIN_NAME, role: 'admin' }
      : undefined;
    for (const token of this.#tools.tokens()) {
      if (digestsEqual(digest, token.digest)) owner ??= token;
    }
    return owner;
  }

  #refuseGuessing(place: string): void {
    const failures = this.#failures.get(place);
    const wait = (failures?.until ?? 0) - this.#tools.clock.monotonic();
    if (failures === undefined || wait <= 0 || failures.count < MAX_FAILURES) return;
    throw new Problem('too_many_failed_sign_ins', { retryAfter: Math.ceil(wait / SECOND) });
  }

  #recordFailure(place: string): void {
    const now = this.#tools.clock.monotonic();
    const before = this.#failures.get(place);
    const count = before === undefined || before.until <= now ? 1 : before.count + 1;
    // Deleted first, so that the order of the map is that of the last failures.
    this.#failures.delete(place);
    this.#failures.set(place, { count, until: now + LOCKOUT });
    if (this.#failures.size <= MAX_ADDRESSES) return;
    const [oldest] = this.#failures.keys();
    if (oldest !== undefined) this.#failures.delete(oldest);
  }
}

/** An IPv4 address, or the 64 bits of an IPv6 one that a network has: whoever has one of these has them all. */
function addressKey(address: string): string {
  if (!ipaddr.isValid(address)) return address;
  const parsed = ipaddr.process(address);
  return parsed instanceof ipaddr.IPv6 ? parsed.parts.slice(0, 4).join(':') : parsed.toString();
}
