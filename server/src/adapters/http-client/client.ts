import { type Duration, SECOND } from '../../model/time.ts';
import type { HttpClient, HttpResult, OutboundRequest } from '../../ports/http-client.ts';
import { type ConnectTarget, createConnector } from './connector.ts';
import type { DnsLookup, EgressRules } from './egress.ts';
import type { RequestFailure } from './errors.ts';
import { ConnectionBudget, ConnectionPool } from './pool.ts';
import { parseProxyUrl } from './proxy-tunnel.ts';
import { PendingRequest, type RequestTarget, serializeRequestHead } from './request.ts';
import { TimeoutQueue } from './timeouts.ts';

export interface HttpClientOptions {
  readonly egress: EgressRules;
  /** In place of `dns.lookup`, for tests. */
  readonly lookup?: DnsLookup;
  /** Certificates (PEM) of authorities to trust beside the system's. */
  readonly ca?: string;
  /** URL of an http or https proxy that every connection goes through; absent: none. It may carry credentials. */
  readonly proxy?: string;
  /** How long a connection may lie idle; 30 s if absent. */
  readonly idleTimeout?: Duration;
  /** 512 if absent; more requests than this of one pool wait in order of arrival, their time limit running. */
  readonly maxConnectionsPerPool?: number;
  /** Over all pools; 8,192 if absent. At the bound idle connections are closed, and pools keep to their share. */
  readonly maxConnections?: number;
}

/** A URL taken apart: whom to connect to and what to ask for. */
interface UrlEntry extends RequestTarget {
  readonly target: ConnectTarget;
  /** By the number that requests name; kept when empty, as they know how the endpoint treats its connections. */
  readonly pools: Map<number, ConnectionPool>;
}

/**
 * URLs remembered, with their pools; more than any installation has endpoints, and an end to what changing settings leave
 * behind. A pool that is forgotten while it has connections keeps them until they have lain idle for too long.
 */
const MAX_REMEMBERED_URLS = 1000;
const MAX_REMEMBERED_POOLS = 1000;

export const IDLE_TIMEOUT: Duration = 30 * SECOND;
export const MAX_CONNECTIONS_PER_POOL = 512;
export const MAX_CONNECTIONS = 8192;

/** How late an idle connection may be closed; less than the margin to what receivers announce. */
const IDLE_STEP: Duration = 250;

const STOPPED: RequestFailure = { reason: 'connection_closed', detail: 'the transport was stopped' };

/**
 * POSTs over HTTP/1.1 with kept-alive connections, never to an address that `egress` refuses. HTTP/2, redirects and proxies
 * from the environment are not used. A dead connection that was kept open is replaced once, without anybody noticing;
 * beyond that nothing is tried again.
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
  const places = new Map<string, UrlEntry | RequestFailure>();
  const active = new Set<ConnectionPool>();
  const budget = new ConnectionBudget(maxConnections, idle);
  const pooled = { connect, idleTimeout, idle, maximum, budget, active };
  let stopped: Promise<void> | undefined;

  const poolOf = ({ target, pools }: UrlEntry, name: number): ConnectionPool => {
    let pool = pools.get(name);
    if (pool === undefined) {
      if (pools.size >= MAX_REMEMBERED_POOLS) pools.clear();
      pool = new ConnectionPool(target, pooled);
      pools.set(name, pool);
    }
    return pool;
  };

  /** Remembered, because parsing a URL costs a tenth of a request. */
  const placeOf = (url: string): UrlEntry | RequestFailure => {
    let place = places.get(url);
    if (place === undefined) {
      if (places.size >= MAX_REMEMBERED_URLS) places.clear();
      place = parseUrl(url);
      places.set(url, place);
    }
    return place;
  };

  const refuse = (
    request: OutboundRequest,
    done: (answer: HttpResult) => void,
    failure: RequestFailure,
  ): void => new PendingRequest(request, '', limits, done).end(failure);

  return {
    send(request: OutboundRequest, done: (answer: HttpResult) => void): void {
      const place = stopped === undefined ? placeOf(request.url) : STOPPED;
      if ('reason' in place) {
        refuse(request, done, place);
        return;
      }
      const head = serializeRequestHead(place, request.headers, request.body.length);
      if (typeof head !== 'string') {
        refuse(request, done, head);
        return;
      }
      const exchange = new PendingRequest(request, head, limits, done);
      limits.add(exchange, exchange.startedAt, request.timeout);
      poolOf(place, request.pool).send(exchange);
      exchange.sendReturned();
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
    return invalidUrl('the URL is not an absolute http or https one');
  }
  // Ignoring them would send requests that lack what was meant, and the URL is shown in places a password must not be.
  if (url.username !== '' || url.password !== '') {
    return invalidUrl('the URL carries a user name or password; use an Authorization header');
  }
  const { protocol, port, host } = url;
  const target = { protocol, hostname: url.hostname.replace(/^\[|\]$/g, ''), port };
  return { target, path: url.pathname + url.search, host, pools: new Map() };
}

function invalidUrl(detail: string): RequestFailure {
  return { reason: 'invalid_request', detail };
}
