import type { Duration } from '../../model/time.ts';
import type { Answer, OutboundRequest, Transport } from '../../ports/transport.ts';
import { Connections } from './connections.ts';
import { createConnector, type Target } from './connector.ts';
import type { EgressRules, Lookup } from './egress.ts';
import { Exchange } from './exchange.ts';
import type { Failure } from './failure.ts';
import { type RequestPlace, requestHead } from './request-head.ts';
import { TimeLimits } from './time-limits.ts';
import { proxyOf } from './tunnel.ts';

export interface TransportOptions {
  readonly egress: EgressRules;
  /** In place of `dns.lookup`, for tests. */
  readonly lookup?: Lookup;
  /** Certificates (PEM) of authorities to trust beside the system's. */
  readonly ca?: string;
  /** URL of an http or https proxy that every connection goes through; absent: none. It may carry credentials. */
  readonly proxy?: string;
  /** How long a connection may lie idle; 30 s if absent. */
  readonly idleTimeout?: Duration;
  /** 512 if absent; more requests than this to one origin wait in order of arrival, their time limit running. */
  readonly maxConnectionsPerOrigin?: number;
}

/** A URL taken apart: whom to connect to and what to ask for. */
interface Place extends RequestPlace {
  readonly origin: string;
  readonly target: Target;
}

/** URLs remembered; more than any installation has endpoints, and an end to what changing settings leave behind. */
const REMEMBERED_URLS = 1000;

/** How late an idle connection may be closed; less than the margin to what receivers announce. */
const IDLE_STEP: Duration = 250;

const STOPPED: Failure = { reason: 'connection_closed', detail: 'the transport was stopped' };

/**
 * POSTs over HTTP/1.1 with kept-alive connections, never to an address that `egress` refuses. HTTP/2, redirects and proxies
 * from the environment are not used. A dead connection that was kept open is replaced once, without anybody noticing;
 * beyond that nothing is tried again.
 */
export function createTransport(options: TransportOptions): Transport {
  const { egress, lookup, ca, proxy, idleTimeout = 30_000, maxConnectionsPerOrigin = 512 } = options;
  const connect = createConnector({
    egress,
    ...(lookup && { lookup }),
    ...(ca !== undefined && { ca }),
    ...(proxy !== undefined && { proxy: proxyOf(proxy) }),
  });
  const limits = new TimeLimits();
  const idle = new TimeLimits(IDLE_STEP);
  const places = new Map<string, Place | Failure>();
  const origins = new Map<string, Connections>();
  let stopped: Promise<void> | undefined;

  const connectionsTo = ({ origin, target }: Place): Connections => {
    let connections = origins.get(origin);
    if (connections === undefined) {
      const limited = { connect, idleTimeout, idle, maximum: maxConnectionsPerOrigin };
      connections = new Connections(target, limited, () => origins.delete(origin));
      origins.set(origin, connections);
    }
    return connections;
  };

  /** Remembered, because parsing a URL costs a tenth of a request. */
  const placeOf = (url: string): Place | Failure => {
    let place = places.get(url);
    if (place === undefined) {
      if (places.size >= REMEMBERED_URLS) places.clear();
      place = parse(url);
      places.set(url, place);
    }
    return place;
  };

  const refuse = (request: OutboundRequest, done: (answer: Answer) => void, failure: Failure): void =>
    new Exchange(request, '', limits, done).end(failure);

  return {
    send(request: OutboundRequest, done: (answer: Answer) => void): void {
      const place = stopped === undefined ? placeOf(request.url) : STOPPED;
      if ('reason' in place) {
        refuse(request, done, place);
        return;
      }
      const head = requestHead(place, request.headers, request.body.length);
      if (typeof head !== 'string') {
        refuse(request, done, head);
        return;
      }
      const exchange = new Exchange(request, head, limits, done);
      limits.add(exchange, exchange.startedAt, request.timeout);
      connectionsTo(place).carry(exchange);
      exchange.begun();
    },

    stop(): Promise<void> {
      stopped ??= Promise.resolve().then(async () => {
        await Promise.all([...origins.values()].map((connections) => connections.stop(STOPPED)));
      });
      return stopped;
    },
  };
}

function parse(text: string): Place | Failure {
  const url = URL.parse(text);
  if (url === null || (url.protocol !== 'http:' && url.protocol !== 'https:')) {
    return invalid('the URL is not an absolute http or https one');
  }
  // Ignoring them would send requests that lack what was meant, and the URL is shown in places a password must not be.
  if (url.username !== '' || url.password !== '') {
    return invalid('the URL carries a user name or password; use an Authorization header');
  }
  const { origin, protocol, port, host } = url;
  const target = { protocol, hostname: url.hostname.replace(/^\[|\]$/g, ''), port };
  return { origin, target, path: url.pathname + url.search, host };
}

function invalid(detail: string): Failure {
  return { reason: 'invalid_request', detail };
}
