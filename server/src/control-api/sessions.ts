import { createHash, randomBytes } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { type Duration, HOUR, type Monotonic, SECOND, type Time } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import { Problem } from './problem.ts';

export const COOKIE_NAME = 'millrace_session';
const SESSION_LIFETIME: Duration = 12 * HOUR;
const CODE_LIFETIME: Duration = HOUR;

/** Sessions in memory. Beyond it the oldest ends, and its owner signs in again. */
const MAX_SESSIONS = 10_000;
const MAX_CODES = 100;

/** The header that a page of another site cannot add to a request without our consent. */
const CONSOLE_HEADER = 'x-millrace-console';

/** A person who is signed in to the console. It ends with its token. */
export interface ConsoleSession {
  /** The digest of the token that signed in. */
  readonly token: string;
  readonly expiresAt: Time;
}

interface StoredSession extends ConsoleSession {
  readonly until: Monotonic;
}

/**
 * The sessions of the console, in memory: a restart ends them all. A cookie is stored as its digest, so that a look into the
 * memory of the process gives nobody a session. spec/contract.md, "Sessions".
 */
export class SessionStore {
  readonly #clock: Clock;
  /** Begins every id, so that a cookie of an earlier start, or of another node, is told from one whose session is over. */
  readonly #start = randomBytes(6).toString('base64url');
  readonly #sessions = new Map<string, StoredSession>();
  /** Sign-in codes that are not used yet, by their digests. */
  readonly #codes = new Map<string, Monotonic>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Begins a session for the owner of a token. The id is the value of the cookie. */
  begin(tokenDigest: string): { readonly id: string; readonly session: ConsoleSession } {
    const id = `${this.#start}.${randomBytes(32).toString('base64url')}`;
    const session = {
      token: tokenDigest,
      expiresAt: this.#clock.now() + SESSION_LIFETIME,
      until: this.#clock.monotonic() + SESSION_LIFETIME,
    };
    this.#sessions.set(digestOf(id), session);
    dropOldest(this.#sessions, MAX_SESSIONS);
    return { id, session };
  }

  /** The session of a cookie; undefined when it is over or was never there. */
  find(id: string): ConsoleSession | undefined {
    const key = digestOf(id);
    const session = this.#sessions.get(key);
    if (session === undefined || session.until > this.#clock.monotonic()) return session;
    this.#sessions.delete(key);
    return undefined;
  }

  /** Why there is no session of a cookie any more, and what its owner can do. */
  whyOver(id: string): string {
    return id.startsWith(`${this.#start}.`)
      ? 'It lasts for 12 hours, and ends when its owner signs out: sign in again.'
      : 'The server was started again, or another node answers now, and sessions end with that: sign in again.';
  }

  /** Idempotent. */
  end(id: string): void {
    this.#sessions.delete(digestOf(id));
  }

  /** A code that signs in the admin once, within an hour. */
  createCode(): string {
    const code = randomBytes(32).toString('base64url');
    this.#codes.set(digestOf(code), this.#clock.monotonic() + CODE_LIFETIME);
    dropOldest(this.#codes, MAX_CODES);
    return code;
  }

  /** Whether the code is good. It is not good a second time. */
  redeemCode(code: string): boolean {
    const key = digestOf(code);
    const until = this.#codes.get(key);
    this.#codes.delete(key);
    return until !== undefined && until > this.#clock.monotonic();
  }
}

function digestOf(secret: string): string {
  return createHash('sha256').update(secret).digest('base64url');
}

function dropOldest(map: Map<string, unknown>, most: number): void {
  const [oldest] = map.keys();
  if (map.size > most && oldest !== undefined) map.delete(oldest);
}

/** The id in the session cookie of a Cookie header. */
export function sessionIdIn(cookies: string | undefined): string | undefined {
  for (const pair of cookies?.split(';') ?? []) {
    const [name, value] = pair.split('=', 2);
    if (name?.trim() === COOKIE_NAME && value !== undefined) return value.trim();
  }
  return undefined;
}

/** The parts of a request by which one of another site is told from one of the console. */
export interface BrowserRequest {
  readonly method: string;
  readonly headers: IncomingHttpHeaders;
  /** It came over TLS of our own. */
  readonly isEncrypted: boolean;
}

/**
 * Refuses a request that changes something and that another site may have made a browser send. Throws a `Problem`.
 * `SameSite=Strict` keeps the cookie from most of them already, though not from pages of a sibling domain.
 */
export function refuseOtherSites(request: BrowserRequest): void {
  if (isSafe(request.method)) return;
  refuseOtherOrigins(request);
  if (request.headers[CONSOLE_HEADER] !== '1') {
    throw new Problem('cross_site_request', {
      hint: 'With a cookie send X-Millrace-Console: 1 too; a program sends Authorization: Bearer and a token instead.',
    });
  }
}

/**
 * `Sec-Fetch-Site` decides where the browser sends it, because a proxy may have changed `Host`. Plain http from another
 * machine has no such header; there the host of `Origin` has to be ours.
 */
export function refuseOtherOrigins({ headers }: BrowserRequest): void {
  const site = headers['sec-fetch-site'];
  if (site !== undefined) {
    if (site === 'same-origin') return;
    throw new Problem('cross_site_request', {
      hint: `Its Sec-Fetch-Site is ${quoted(site)}, not same-origin.`,
    });
  }
  const { origin, host } = headers;
  if (origin === undefined) return;
  if (URL.canParse(origin) && new URL(origin).host === host?.toLowerCase()) return;
  throw new Problem('cross_site_request', {
    hint: `Its Origin is ${quoted(origin)} and its Host ${quoted(host ?? '')}: a proxy in between must keep Host as it is.`,
  });
}

function quoted(value: string | string[]): string {
  return JSON.stringify(String(value).slice(0, 200));
}

function isSafe(method: string): boolean {
  return method === 'GET' || method === 'HEAD';
}

/** The value of a Set-Cookie header; without an id it takes the cookie away. `Secure` where the browser speaks https. */
export function sessionCookie(id: string | undefined, request: BrowserRequest): string {
  const lifetime = id === undefined ? 0 : SESSION_LIFETIME / SECOND;
  const attributes = `HttpOnly; SameSite=Strict; Path=/; Max-Age=${lifetime}`;
  return `${COOKIE_NAME}=${id ?? ''}; ${attributes}${isOverHttps(request) ? '; Secure' : ''}`;
}

/** As far as the request tells: a proxy in between may take the encryption off. A false header harms its sender only. */
function isOverHttps({ headers, isEncrypted }: BrowserRequest): boolean {
  const { origin = '', 'x-forwarded-proto': forwarded = '' } = headers;
  return isEncrypted || origin.startsWith('https://') || String(forwarded).split(',')[0]!.trim() === 'https';
}
