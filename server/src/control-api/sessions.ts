import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { type Duration, HOUR, type Monotonic, SECOND } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import { StorageError } from '../ports/event-log.ts';
import type { Logger } from '../ports/logger.ts';
import type { SessionStore, StoredSession } from '../ports/session-store.ts';
import { Problem } from './problem.ts';

const SESSION_LIFETIME: Duration = 12 * HOUR;
const CODE_LIFETIME: Duration = HOUR;

/** Sessions of one token. With one more the oldest ends, so nobody's sign-ins end those of others. */
const MAX_SESSIONS_OF_TOKEN = 100;

/** Sessions in memory. One that finds no room there is looked up in the store again. */
const MAX_KNOWN = 10_000;
const MAX_CODES = 100;

/** How long this node goes by what it knows of a session that other nodes may end. */
const KNOWN_FOR: Duration = SECOND;

/**
 * The header with the second value of a session. A page of another site cannot add it to a request without
 * our consent.
 */
const CONSOLE_HEADER = 'x-millrace-console';

/** Digits of the installation's id in the name of a cookie. */
const NAME_LENGTH = 8;

export interface ConsoleSessionDependencies {
  readonly store: {
    readonly sessions: SessionStore;
    /**
     * Names the cookie: installations on different ports of a host take none from each other. The secret
     * marks its value.
     */
    readonly identity: { readonly id: string; readonly keySecret: Uint8Array };
    /** Present where other nodes may end a session. */
    readonly nodes?: object | undefined;
  };
  readonly clock: Pick<Clock, 'now' | 'monotonic'>;
  readonly logger: Pick<Logger, 'warn'>;
}

/** A session as this node knows it. */
interface KnownSession extends StoredSession {
  /** When the store was asked for it last. */
  readonly askedAt: Monotonic;
  /** The store could not keep it: it lasts as long as this process. */
  readonly isUnstored?: boolean;
}

/** A session that has just begun, with its two secrets. */
export interface BegunSession {
  /** The value of the cookie. */
  readonly id: string;
  /** The value of `X-Millrace-Console`. */
  readonly key: string;
  readonly session: StoredSession;
}

/**
 * The sessions of the console. They are in the store, by which they survive a restart and are known to every
 * node, and in memory, so that a request need not wait for the store. Secrets are kept as digests alone.
 * spec/contract.md, "Sessions".
 */
export class ConsoleSessions {
  readonly #dependencies: ConsoleSessionDependencies;
  readonly #known = new Map<string, KnownSession>();
  /** Sign-in codes that are not used yet, by their digests. */
  readonly #codes = new Map<string, Monotonic>();

  constructor(dependencies: ConsoleSessionDependencies) {
    this.#dependencies = dependencies;
  }

  /**
   * Begins a session for the owner of a token. While the store cannot keep it, it lasts as long as this
   * process.
   */
  async begin(tokenDigest: string): Promise<BegunSession> {
    const { clock, store, logger } = this.#dependencies;
    const [random, key] = [newSecret(), newSecret()];
    const id = `${random}.${this.#markOf(random)}`;
    const now = clock.monotonic();
    const session = {
      ...{ id: digestOf(id), key: digestOf(key), token: tokenDigest },
      ...{ expiresAt: clock.now() + SESSION_LIFETIME, until: now + SESSION_LIFETIME },
    };
    try {
      const gone = await store.sessions.begin(session, now, MAX_SESSIONS_OF_TOKEN);
      for (const one of gone) this.#known.delete(one);
      this.#know({ ...session, askedAt: now });
    } catch (error) {
      if (!(error instanceof StorageError)) throw error;
      logger.warn({ error }, 'session.not_kept');
      this.#know({ ...session, askedAt: now, isUnstored: true });
    }
    return { id, key, session };
  }

  /**
   * Brings what this node knows of a session up to date. A store that cannot be read changes nothing. For a
   * value that this installation has not made nothing is read: anybody can send a cookie.
   */
  async refresh(id: string): Promise<void> {
    const { clock, store } = this.#dependencies;
    if (!this.#isOurs(id)) return;
    const digest = digestOf(id);
    const known = this.#known.get(digest);
    if (known !== undefined && !this.#isStale(known)) return;
    const askedAt = clock.monotonic();
    try {
      const found = await store.sessions.find(digest);
      if (found === undefined) this.#known.delete(digest);
      else this.#know({ ...found, askedAt });
    } catch (error) {
      if (!(error instanceof StorageError)) throw error;
    }
  }

  /** The session of a cookie, as this node knows it; undefined when it is over or was never there. */
  find(id: string): StoredSession | undefined {
    const digest = digestOf(id);
    const session = this.#known.get(digest);
    if (session === undefined || session.until > this.#dependencies.clock.monotonic()) return session;
    this.#known.delete(digest);
    return undefined;
  }

  /**
   * Ends a session, on this node also when the store cannot be written. Rejects with a `StorageError` then.
   * Idempotent.
   */
  async end(id: string): Promise<void> {
    const digest = digestOf(id);
    this.#known.delete(digest);
    await this.#dependencies.store.sessions.end(digest);
  }

  /** The id in the session cookie of a request, under either of its names. */
  idIn({ cookie }: IncomingHttpHeaders): string | undefined {
    const pairs = (cookie ?? '').split(';').map((pair) => pair.split('=', 2));
    for (const wanted of [this.#cookieName(true), this.#cookieName(false)])
      for (const [name, value] of pairs)
        if (name?.trim() === wanted && value !== undefined) return value.trim();
    return undefined;
  }

  /**
   * The value of Set-Cookie; without an id they take the cookie away. Under https no other site can set one
   * of this name.
   */
  cookie(id: string | undefined, request: BrowserRequest): string {
    const isSecure = isOverHttps(request);
    const lifetime = id === undefined ? 0 : SESSION_LIFETIME / SECOND;
    const attributes = `HttpOnly; SameSite=Strict; Path=/; Max-Age=${lifetime}`;
    return `${this.#cookieName(isSecure)}=${id ?? ''}; ${attributes}${isSecure ? '; Secure' : ''}`;
  }

  /** A code that signs in the admin once, within an hour. */
  createCode(): string {
    const code = newSecret();
    this.#codes.set(digestOf(code), this.#dependencies.clock.monotonic() + CODE_LIFETIME);
    dropOldest(this.#codes, MAX_CODES);
    return code;
  }

  /** Whether the code is good. It is not good a second time. */
  redeemCode(code: string): boolean {
    const key = digestOf(code);
    const until = this.#codes.get(key);
    this.#codes.delete(key);
    return until !== undefined && until > this.#dependencies.clock.monotonic();
  }

  #markOf(random: string): string {
    const { keySecret } = this.#dependencies.store.identity;
    return createHmac('sha256', keySecret).update(`session ${random}`).digest('base64url').slice(0, 22);
  }

  #isOurs(id: string): boolean {
    const [random = '', mark = ''] = id.split('.', 2);
    const [one, other] = [Buffer.from(mark), Buffer.from(this.#markOf(random))];
    return one.length === other.length && timingSafeEqual(one, other);
  }

  #cookieName(isSecure: boolean): string {
    const name = `millrace_${this.#dependencies.store.identity.id.slice(0, NAME_LENGTH)}`;
    return isSecure ? `__Host-${name}` : name;
  }

  #know(session: KnownSession): void {
    this.#known.delete(session.id);
    this.#known.set(session.id, session);
    dropOldest(this.#known, MAX_KNOWN);
  }

  #isStale({ askedAt, isUnstored = false }: KnownSession): boolean {
    const { store, clock } = this.#dependencies;
    return store.nodes !== undefined && !isUnstored && clock.monotonic() - askedAt >= KNOWN_FOR;
  }
}

function newSecret(): string {
  return randomBytes(32).toString('base64url');
}

function digestOf(secret: string): string {
  return createHash('sha256').update(secret).digest('base64url');
}

function dropOldest(map: Map<string, unknown>, most: number): void {
  const [oldest] = map.keys();
  if (map.size > most && oldest !== undefined) map.delete(oldest);
}

/** The parts of a request by which one of another site is told from one of the console. */
export interface BrowserRequest {
  readonly method: string;
  readonly headers: IncomingHttpHeaders;
  /** It came over TLS of our own. */
  readonly isEncrypted: boolean;
}

/**
 * Refuses a request that is not one of the page that signed in. A browser sends a cookie to every port of its
 * host, and to us also from pages of other sites; the second value of the session is known to pages of our
 * origin alone. Throws a `Problem`.
 */
export function refuseOtherPages(
  request: BrowserRequest,
  session: StoredSession,
  takesCookieAlone: boolean,
): void {
  if (!isSafe(request.method)) refuseOtherOrigins(request);
  const key = request.headers[CONSOLE_HEADER];
  if (key === undefined && takesCookieAlone) return;
  if (typeof key === 'string' && digestOf(key) === session.key) return;
  throw new Problem('session_over', {
    hint: 'The browser has its cookie, and this page has not the value that came with it (X-Millrace-Console): sign in again.',
  });
}

/**
 * `Sec-Fetch-Site` decides where the browser sends it, because a proxy may have changed `Host`. Plain http
 * from another machine has no such header; there the host of `Origin` has to be ours.
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

/**
 * As far as the request tells: a proxy in between may take the encryption off. A false header harms its
 * sender only.
 */
function isOverHttps({ headers, isEncrypted }: BrowserRequest): boolean {
  const { origin = '', 'x-forwarded-proto': forwarded = '' } = headers;
  return isEncrypted || origin.startsWith('https://') || String(forwarded).split(',')[0]!.trim() === 'https';
}
