import { type Duration, SECOND } from '../../model/time.ts';
import type { HttpClient, HttpResult, OutboundRequest } from '../../ports/http-client.ts';
import { type ConnectTarget, createConnector } from './connector.ts';
import type { DnsLookup, EgressRules } from './egress.ts';
import { invalidRequest, type RequestFailure } from './errors.ts';
import { ConnectionBudget, ConnectionPool } from './pool.ts';
import { parseProxyUrl } from './proxy-tunnel.ts';
import { PendingRequest, type RequestTarget, serializeRequestHead } from './request.ts';
import { TimeoutQueue } from './timeouts.ts';

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
  /** 512 if absent. Further requests of the pool wait in order of arrival; their time limit runs meanwhile. */
  readonly maxConnectionsPerPool?: number;
  /** For all pools; 8,192 if absent. See `ConnectionBudget`. */
  readonly maxConnections?: number;
}

/** A parsed URL with its pools. */
interface UrlEntry extends RequestTarget {
  readonly target: ConnectTarget;
  /** By `OutboundRequest.pool`. Empty pools stay, because they have learned how the endpoint treats its connections. */
  readonly pools: Map<number, ConnectionPool>;
}

/**
 * Bounds on what changing settings leave behind; no installation has as many endpoints. A pool that is dropped while it has
 * connections keeps them until they expire.
 */
const MAX_REMEMBERED_URLS = 1000;
const MAX_REMEMBERED_POOLS = 1000;

export const IDLE_TIMEOUT: Duration = 30 * SECOND;
export const MAX_CONNECTIONS_PER_POOL = 512;
export const MAX_CONNECTIONS = 8192;

/** How late an idle connection may be closed. It is less than the margin to the time that receivers announce. */
const IDLE_STEP: Duration = 250;

const STOPPED: RequestFailure = { reason: 'connection_closed', detail: 'the transport was stopped' };

/**
 * POSTs over HTTP/1.1 with kept-alive connections, never to an address that `egress` refuses. HTTP/2, redirects and proxies
 * from the environment are not used. A request that was lost on a dead kept-alive connection is sent once more over a new
 * one; nothing else is tried again. Each request goes to the pool of its endpoint, and the pool gives it a connection.
 */
export function createHttpClient(options: HttpClientOptions): HttpClient {
  const { egress, lookup, ca, proxy, idleTimeout = IDLE_TIMEOUT } = options;
  const { maxConnectionsPerPool: maximum = MAX_CONNECTIONS_PER_POOL, maxConnections = MAX_CONNECTIONS } =
    options;
  const connect = createConnector({
    egress,
    ...(lookup && { lookup }),
    ...(ca !== undefined && { ca }),
    ...(proxy !== undefined && { proxy: parseProxyUrl(proxy) }),
  });
  const limits = new TimeoutQueue();
  const idle = new TimeoutQueue(IDLE_STEP);
  const urls = new Map<string, UrlEntry | RequestFailure>();
  const active = new Set<ConnectionPool>();
  const budget = new ConnectionBudget(maxConnections, idle);
  const poolOptions = { connect, idleTimeout, idle, maximum, budget, active };
  let stopped: Promise<void> | undefined;

  const poolOf = ({ target, pools }: UrlEntry, name: number): ConnectionPool => {
    let pool = pools.get(name);
    if (pool === undefined) {
      if (pools.size >= MAX_REMEMBERED_POOLS) pools.clear();
      pool = new ConnectionPool(target, poolOptions);
      pools.set(name, pool);
    }
    return pool;
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
  ): void => new PendingRequest(request, '', limits, done).end(failure);

  return {
    send(request: OutboundRequest, done: (answer: HttpResult) => void): void {
      const entry = stopped === undefined ? entryOf(request.url) : STOPPED;
      if ('reason' in entry) {
        refuse(request, done, entry);
        return;
      }
      const head = serializeRequestHead(entry, request.headers, request.body.length);
      if (typeof head !== 'string') {
        refuse(request, done, head);
        return;
      }
      const pending = new PendingRequest(request, head, limits, done);
      limits.add(pending, pending.startedAt, request.timeout);
      poolOf(entry, request.pool).send(pending);
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
  return { target, path: url.pathname + url.search, host, pools: new Map() };
}
