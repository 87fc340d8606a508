import { LinkedList, type ListEntry } from '../../model/containers.ts';
import { defined } from '../../model/json.ts';
import { type Duration, MINUTE, SECOND } from '../../model/time.ts';
import type { HttpClient, HttpResult, OutboundRequest, RequestHeaders } from '../../ports/http-client.ts';
import {
  Connection,
  type ConnectionEvent,
  type ConnectionOptions,
  IDLE_STEP,
  PendingRequest,
  TimeoutQueue,
  WriteQueue,
} from './connection.ts';
import { type ConnectTarget, createConnector } from './connector.ts';
import type { DnsLookup, EgressRules } from './egress.ts';
import { failureOf, invalidRequest, type RequestFailure } from './errors.ts';
import { parseProxyUrl } from './proxy-tunnel.ts';
import { type RequestTarget, serializeFixedHead, serializeHeadRest } from './request-head.ts';

export interface HttpClientOptions {
  readonly egress: EgressRules;
  /** Replaces `dns.lookup` in tests. */
  readonly lookup?: DnsLookup;
  /** Certificates (PEM) of authorities to trust beside the system's. */
  readonly ca?: string;
  /** URL of an http or https proxy for every connection; none if absent. It may have credentials. */
  readonly proxy?: string;
  /** How long a connection may be idle; 30 s if absent. */
  readonly idleTimeout?: Duration;
  /** How long a connection may be used at most; a minute if absent. */
  readonly maxConnectionAge?: Duration;
  /**
   * 512 if absent. Further requests of the pool wait in order of arrival; their time limit runs meanwhile.
   */
  readonly maxConnectionsPerPool?: number;
  /** For all pools; 8,192 if absent. See `ConnectionBudget`. */
  readonly maxConnections?: number;
}

/** A parsed URL with its endpoints. */
interface UrlEntry extends RequestTarget {
  readonly target: ConnectTarget;
  /**
   * By `OutboundRequest.pool`. They stay without a connection, because pools have learned how the endpoint
   * treats its connections.
   */
  readonly endpoints: Map<number, EndpointEntry>;
}

interface EndpointEntry {
  readonly pool: ConnectionPool;
  /** Headers from which `fixedHead` was made. */
  fixedHeaders: RequestHeaders | undefined;
  fixedHead: Buffer | RequestFailure;
}

/**
 * Bounds on what changing settings leave behind; no installation has as many endpoints. A pool that is
 * dropped while it has connections keeps them until they expire.
 */
const MAX_REMEMBERED_URLS = 1000;
const MAX_REMEMBERED_POOLS = 1000;

export const IDLE_TIMEOUT: Duration = 30 * SECOND;
/** Names move to other addresses, and what egress allows changes: a new connection asks for both again. */
export const MAX_CONNECTION_AGE: Duration = MINUTE;
export const MAX_CONNECTIONS_PER_POOL = 512;
export const MAX_CONNECTIONS = 8192;

/** Head of a refused request. */
const NO_HEAD = { fixedHead: Buffer.alloc(0), headRest: '' };

export const STOPPED: RequestFailure = { reason: 'connection_closed', detail: 'the transport was stopped' };

/**
 * POSTs over HTTP/1.1 with kept-alive connections, never to an address that `egress` refuses. HTTP/2,
 * redirects and proxies from the environment are not used. A request that was lost on a dead kept-alive
 * connection is sent once more over a new one; nothing else is tried again. Each request goes to the pool of
 * its endpoint, and the pool gives it a connection.
 */
export function createHttpClient(options: HttpClientOptions): HttpClient {
  const limits = new TimeoutQueue();
  const urls = new Map<string, UrlEntry | RequestFailure>();
  const poolOptions = poolOptionsOf(options);
  const { active } = poolOptions;
  let stopped: Promise<void> | undefined;

  const endpointOf = (entry: UrlEntry, { pool: name, fixedHeaders }: OutboundRequest): EndpointEntry => {
    const { endpoints, target } = entry;
    let endpoint = endpoints.get(name);
    if (endpoint === undefined) {
      if (endpoints.size >= MAX_REMEMBERED_POOLS) endpoints.clear();
      const pool = new ConnectionPool(target, poolOptions);
      endpoint = { pool, fixedHeaders, fixedHead: serializeFixedHead(entry, fixedHeaders) };
      endpoints.set(name, endpoint);
    } else if (endpoint.fixedHeaders !== fixedHeaders) {
      endpoint.fixedHeaders = fixedHeaders;
      endpoint.fixedHead = serializeFixedHead(entry, fixedHeaders);
    }
    return endpoint;
  };

  /** Cached, because parsing a URL costs a tenth of a request. */
  const entryOf = (url: string): UrlEntry | RequestFailure => {
    let entry = urls.get(url);
    if (entry === undefined) {
      if (urls.size >= MAX_REMEMBERED_URLS) urls.clear();
      entry = parseUrl(url);
      urls.set(url, entry);
    }
    return entry;
  };

  const refuse = (
    request: OutboundRequest,
    done: (answer: HttpResult) => void,
    failure: RequestFailure,
  ): void => new PendingRequest(request, NO_HEAD, limits, done).end(failure);

  return {
    send(request: OutboundRequest, done: (answer: HttpResult) => void): void {
      const entry = stopped === undefined ? entryOf(request.url) : STOPPED;
      if ('reason' in entry) {
        refuse(request, done, entry);
        return;
      }
      const { pool, fixedHead } = endpointOf(entry, request);
      if ('reason' in fixedHead) {
        refuse(request, done, fixedHead);
        return;
      }
      const headRest = serializeHeadRest(request.headers, request.body.length);
      if (typeof headRest !== 'string') {
        refuse(request, done, headRest);
        return;
      }
      const pending = new PendingRequest(request, { fixedHead, headRest }, limits, done);
      limits.add(pending, pending.startedAt, request.timeout);
      pool.send(pending);
      pending.sendReturned();
    },

    stop(): Promise<void> {
      stopped ??= Promise.resolve().then(async () => {
        await Promise.all([...active].map((pool) => pool.stop(STOPPED)));
      });
      return stopped;
    },
  };
}

/** The options that all connection pools share. */
function poolOptionsOf(options: HttpClientOptions): ConnectionPoolOptions {
  const { egress, lookup, ca, proxy, idleTimeout = IDLE_TIMEOUT } = options;
  const { maxConnectionAge = MAX_CONNECTION_AGE, maxConnections = MAX_CONNECTIONS } = options;
  const connect = createConnector({
    egress,
    ...defined({ lookup, ca, proxy: proxy === undefined ? undefined : parseProxyUrl(proxy) }),
  });
  const idle = new TimeoutQueue(IDLE_STEP);
  return {
    ...{ connect, idleTimeout, maxConnectionAge, idle, writes: new WriteQueue() },
    maximum: options.maxConnectionsPerPool ?? MAX_CONNECTIONS_PER_POOL,
    budget: new ConnectionBudget(maxConnections, idle),
    active: new Set(),
  };
}

function parseUrl(text: string): UrlEntry | RequestFailure {
  const url = URL.parse(text);
  if (url === null || (url.protocol !== 'http:' && url.protocol !== 'https:')) {
    return invalidRequest('the URL is not an absolute http or https one');
  }
  // Ignoring credentials would send requests without them, and the URL is shown where a password must not be.
  if (url.username !== '' || url.password !== '') {
    return invalidRequest('the URL carries a user name or password; use an Authorization header');
  }
  const { protocol, port, host } = url;
  const target = { protocol, hostname: url.hostname.replace(/^\[|\]$/g, ''), port };
  return { target, path: url.pathname + url.search, host, endpoints: new Map() };
}

export interface ConnectionPoolOptions extends ConnectionOptions {
  /** Connections of one pool. Requests beyond them wait in order of arrival. */
  readonly maximum: number;
  /** Shared by all pools. */
  readonly budget: ConnectionBudget;
  /** The pools that have a connection. Each pool enters and leaves by itself. */
  readonly active: Set<ConnectionPool>;
}

/** A request that waits for a connection. */
interface WaitingRequest extends ListEntry<WaitingRequest> {
  readonly request: PendingRequest;
}

/**
 * How long the first connection that might be reused is watched before that. Receivers that close after each
 * answer do so with it or within a moment.
 */
const FIRST_REUSE_DELAY: Duration = 5;

/** The connections of one pool to one origin (scheme, host and port), and the requests that wait for one. */
export class ConnectionPool {
  readonly #target: ConnectTarget;
  readonly #options: ConnectionPoolOptions;
  readonly #policy = new ReusePolicy();
  readonly #open = new Set<Connection>();
  /** Last in, first out: the busiest stay warm, and the surplus at the bottom expires. */
  readonly #idle: Connection[] = [];
  /** The connection that is to carry, or carries, more requests than any has before. */
  #probe: Connection | undefined;
  /** While the probe is watched, no request is dispatched. */
  #isProbeWatched = false;
  #isDispatching = false;
  readonly #waiting = new LinkedList<WaitingRequest>();

  constructor(target: ConnectTarget, options: ConnectionPoolOptions) {
    this.#target = target;
    this.#options = options;
  }

  send(request: PendingRequest): void {
    if (this.#policy.isTrusted && this.#idle.length > 0) {
      this.#idle.pop()!.send(request);
      return;
    }
    this.#waiting.push({ request, list: undefined, previous: undefined, next: undefined });
    this.#dispatch();
  }

  /** Ends every request with `failure`. Resolves when every connection is closed. */
  async stop(failure: RequestFailure): Promise<void> {
    for (let first = this.#takeWaiting(); first !== undefined; first = this.#takeWaiting()) {
      first.end(failure);
    }
    const open = [...this.#open];
    for (const connection of open) {
      if (connection.request === undefined) this.#discard(connection);
      else connection.request.end(failure);
    }
    await Promise.all(open.map((connection) => connection.closed()));
  }

  /** One function for all connections. */
  readonly #onEvent = (connection: Connection, event: ConnectionEvent): void => {
    if (event === 'complete') this.#onComplete(connection);
    else if (event === 'closed') {
      this.#remove(connection);
      this.#dispatch();
    } else if (event === 'idle_expired') {
      this.#policy.idleExpired(connection.idleAt(performance.now()));
      this.#discard(connection);
    } else this.#onError(connection, event);
  };

  /**
   * The connection is free before the answer is reported, so that it can carry the request that follows from
   * that.
   */
  #onComplete(connection: Connection): void {
    const request = connection.finish();
    if (connection.isReusable(this.#policy.longestIdle)) this.#release(connection);
    else this.#discard(connection);
    request.onComplete();
  }

  /**
   * The receiver may close a kept connection at any moment, and a request written just then is lost. If no
   * byte of an answer came, the request is sent once more, over a new connection. The receiver may have got
   * the first one all the same: delivery is at least once, and a retry would do the same.
   */
  #onError(connection: Connection, error: Error): void {
    const { request } = connection;
    if (request === undefined) {
      this.#learnFromClosing(connection, { idle: connection.idleAt(performance.now()), isLoss: false });
      this.#discard(connection);
      return;
    }
    const failure = failureOf(error);
    const isLost = failure.reason === 'connection_closed' && !connection.hasResponseBytes;
    if (isLost && connection.carried > 0) this.#resend(connection, request);
    else request.end(failure);
  }

  /** Over a new connection: those that were idle as long as the dead one are likely dead as well. */
  #resend(connection: Connection, request: PendingRequest): void {
    connection.close();
    this.#learnFromClosing(connection, { idle: connection.idleAt(request.startedAt), isLoss: true });
    this.#remove(connection);
    this.#connectFor(request);
  }

  /** The connection is free for the next request. */
  #release(connection: Connection): void {
    const policy = this.#policy;
    if (!policy.isTrusted) {
      if (this.#probe === connection) this.#probe = undefined;
      policy.answered(connection.carried);
    }
    const next = policy.mayReuse(connection.carried) ? this.#takeWaiting() : undefined;
    if (next !== undefined) {
      connection.send(next);
      return;
    }
    connection.markIdle(policy.longestIdle);
    if (policy.isUnproven && this.#mayProbe()) this.#watchProbe(connection);
    else this.#idle.push(connection);
    this.#dispatch();
  }

  #discard(connection: Connection): void {
    connection.close();
    this.#remove(connection);
    this.#dispatch();
  }

  /** The receiver has closed the connection without saying so before. */
  #learnFromClosing(
    connection: Connection,
    { idle, isLoss }: Pick<ClosedConnection, 'idle' | 'isLoss'>,
  ): void {
    this.#policy.closed({
      carried: connection.carried,
      idle,
      isLoss,
      isProbe: this.#probe === connection,
    });
  }

  /**
   * Gives waiting requests the connections there are. Closing one may lead here again; the running loop sees
   * the change.
   */
  #dispatch(): void {
    if (this.#isDispatching) return;
    this.#isDispatching = true;
    while (!this.#isProbeWatched) {
      const first = this.#firstWaiting();
      if (first === undefined) break;
      const reused = this.#takeReusable();
      if (reused === undefined && !this.#mayOpen()) break;
      this.#waiting.remove(first);
      if (reused === undefined) this.#connectFor(first.request);
      else reused.send(first.request);
    }
    this.#isDispatching = false;
  }

  #mayProbe(): boolean {
    return this.#probe === undefined && this.#policy.mayProbe;
  }

  /**
   * Takes an idle connection that may be reused. Probes come first, because every later request gains by
   * them.
   */
  #takeReusable(): Connection | undefined {
    const newest = this.#idle.at(-1);
    if (newest === undefined) return undefined;
    const policy = this.#policy;
    if (policy.mayReuse(newest.carried)) return this.#idle.pop();
    if (this.#mayProbe()) {
      this.#probe = this.#idle.pop();
      return this.#probe;
    }
    const proven = this.#idle.findLastIndex(({ carried }) => policy.mayReuse(carried));
    if (proven !== -1) return this.#idle.splice(proven, 1)[0];
    return policy.isRested(this.#idle[0]!.idleAt(performance.now())) ? this.#idle.shift() : undefined;
  }

  /**
   * At the maximum the newest idle connection, which may not be reused yet, is closed; older ones are usable
   * sooner.
   */
  #mayOpen(): boolean {
    const { maximum, budget } = this.#options;
    if (this.#open.size >= maximum) {
      const idle = this.#idle.pop();
      if (idle === undefined) return false;
      idle.close();
      this.#remove(idle);
    }
    return budget.mayOpen(this.#open.size);
  }

  #connectFor(request: PendingRequest): void {
    const { budget, active } = this.#options;
    const isFirst = this.#open.size === 0;
    const connection = new Connection(this.#target, this.#options, this.#onEvent);
    connection.send(request);
    this.#open.add(connection);
    budget.opened(isFirst);
    if (isFirst) active.add(this);
  }

  #remove(connection: Connection): void {
    if (!this.#open.delete(connection)) return;
    const { budget, active } = this.#options;
    const isLast = this.#open.size === 0;
    budget.closed(isLast);
    if (isLast) active.delete(this);
    if (this.#probe === connection) {
      this.#probe = undefined;
      this.#isProbeWatched = false;
    }
    const index = this.#idle.indexOf(connection);
    if (index !== -1) this.#idle.splice(index, 1);
  }

  #watchProbe(connection: Connection): void {
    this.#probe = connection;
    this.#isProbeWatched = true;
    const endWatch = () => {
      if (this.#probe !== connection || !this.#isProbeWatched) return;
      this.#probe = undefined;
      this.#isProbeWatched = false;
      this.#idle.push(connection);
      this.#dispatch();
    };
    // An immediate runs after everything that arrived while this process was busy has been read.
    setTimeout(() => setImmediate(endWatch), FIRST_REUSE_DELAY).unref();
  }

  /** The request that has waited longest. Requests that timed out meanwhile are dropped here. */
  #firstWaiting(): WaitingRequest | undefined {
    let { first } = this.#waiting;
    for (; first?.request.isEnded; { first } = this.#waiting) this.#waiting.remove(first);
    return first;
  }

  #takeWaiting(): PendingRequest | undefined {
    const first = this.#firstWaiting();
    if (first !== undefined) this.#waiting.remove(first);
    return first?.request;
  }
}

/** Receivers that do not keep connections close them with their answer or a moment later. */
const REST_TIME: Duration = 250;

/**
 * One connection that has carried so many requests ends the learning: one loss in as many requests is
 * acceptable.
 */
const TRUSTED_REQUESTS = 64;

/**
 * Answers after a loss before the next probe. The number doubles with each probe that is lost, up to the
 * maximum.
 */
const FIRST_PENALTY = 20;
const MAX_PENALTY = 2560;

/** Learned limits are multiples of it, which keeps the number of different limits small. */
const LIMIT_STEP: Duration = 250;

/** Tolerance for the receiver's clock and the network when an idle limit is learned. */
const LIMIT_MARGIN: Duration = 500;

/** A connection that the receiver has closed without announcing it. */
export interface ClosedConnection {
  /** Requests that were answered over it. */
  readonly carried: number;
  /** Time from its last answer to its end, or to the request that was lost. */
  readonly idle: Duration;
  /** Whether a request had been written to it. */
  readonly isLoss: boolean;
  /** Whether it was the one that was to carry more requests than any other. */
  readonly isProbe: boolean;
}

/**
 * Learns how many requests a connection to an endpoint can carry, and how long it may be idle. A request
 * written to a connection that the receiver is closing is lost or, worse, read and not answered: it is sent
 * again and arrives twice. Some receivers close connections after one or several answers without announcing
 * it.
 *
 * A connection may be reused at once when some connection has carried more requests. One connection at a
 * time, the probe, goes beyond that, so that learning costs at most one request; a loss delays the next
 * probe. One connection that has carried 64 requests proves that connections are kept. All of this is about
 * reuse *right behind* an answer: a connection that has been idle for 250 ms is used in any case, because
 * such a receiver would have closed it by now.
 */
export class ReusePolicy {
  /** The most requests that one connection has carried, as far as it matters. */
  #proven = 1;
  /** Answers since the last loss, up to the penalty. */
  #answers = 0;
  /** Answers that must come before the next probe. */
  #penalty = 0;
  /** How long a connection may be idle. */
  #limit = Number.POSITIVE_INFINITY;

  /** Every connection may be reused at once. */
  get isTrusted(): boolean {
    return this.#proven === TRUSTED_REQUESTS;
  }

  /** No connection has carried a second request. */
  get isUnproven(): boolean {
    return this.#proven === 1;
  }

  /** Whether a connection that has carried as many requests as any other may be tried with one more. */
  get mayProbe(): boolean {
    return this.#answers >= this.#penalty;
  }

  /** How long a connection may be idle and still be reused. */
  get longestIdle(): Duration {
    return this.#limit;
  }

  /** Whether a connection that has carried so many requests may be reused at once. */
  mayReuse(carried: number): boolean {
    return carried < this.#proven || this.isTrusted;
  }

  /** Whether a connection has been idle for so long that it may be reused in any case. */
  isRested(idle: Duration): boolean {
    return idle >= REST_TIME;
  }

  /** A connection has been answered, and has carried so many requests now. */
  answered(carried: number): void {
    if (this.#answers < this.#penalty) this.#answers++;
    if (carried <= this.#proven) return;
    this.#proven = Math.min(carried, TRUSTED_REQUESTS);
    if (this.isTrusted) this.#penalty = 0;
  }

  /** The receiver has closed a connection without announcing it. */
  closed({ carried, idle, isLoss, isProbe }: ClosedConnection): void {
    if (idle >= REST_TIME) this.#limitTo(Math.max(idle - LIMIT_MARGIN, idle / 2));
    if ((idle >= REST_TIME && !isLoss) || carried >= TRUSTED_REQUESTS) return;
    this.#proven = Math.max(1, Math.min(this.#proven, carried));
    this.#answers = 0;
    if (this.#penalty === 0) this.#penalty = FIRST_PENALTY;
    else if (isProbe) this.#penalty = Math.min(2 * this.#penalty, MAX_PENALTY);
  }

  /** A connection was closed by us after being idle for so long. */
  idleExpired(idle: Duration): void {
    // A restart of the receiver closes connections early once. The limit recovers step by step.
    if (idle >= this.#limit) this.#limitTo(1.25 * idle + LIMIT_STEP);
  }

  #limitTo(limit: Duration): void {
    this.#limit = Math.max(LIMIT_STEP, LIMIT_STEP * Math.floor(limit / LIMIT_STEP));
  }
}

/** Each pool may have so many connections, however many pools there are. */
const MIN_SHARE = 8;

/** Counts and bounds the open connections of all pools. */
export class ConnectionBudget {
  readonly #maximum: number;
  readonly #idle: TimeoutQueue;
  #open = 0;
  #pools = 0;

  /** `idle` has the idle connections of all pools, and nothing else. */
  constructor(maximum: number, idle: TimeoutQueue) {
    this.#maximum = maximum;
    this.#idle = idle;
  }

  /**
   * Whether a pool that has `own` connections may open another one. At the bound the oldest idle connection
   * is closed for it. When all are busy, a pool may still have its share, because slow endpoints must not
   * keep requests from the others. There are at most twice as many connections as the bound.
   */
  mayOpen(own: number): boolean {
    if (this.#open < this.#maximum) return true;
    const oldest = this.#idle.first;
    if (oldest === undefined) return own < Math.max(MIN_SHARE, this.#maximum / Math.max(1, this.#pools));
    this.#idle.remove(oldest);
    oldest.expire();
    return true;
  }

  /** `isFirst`: its pool had no connection before. */
  opened(isFirst: boolean): void {
    this.#open++;
    if (isFirst) this.#pools++;
  }

  /** `isLast`: its pool has no connection any more. */
  closed(isLast: boolean): void {
    this.#open--;
    if (isLast) this.#pools--;
  }
}
