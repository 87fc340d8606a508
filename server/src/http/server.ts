import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { createServer as createTlsServer, type Server as TlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { type Duration, MINUTE, SECOND } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { ControlHandler } from '../ports/control-api.ts';
import type { IngestHandler } from '../ports/ingest.ts';
import type { Logger } from '../ports/logger.ts';
import type { DiscardCounters, MetricsRecorder } from '../ports/telemetry.ts';
import { AdmissionController, DEFAULT_SERVER_BOUNDS, OverloadLog, type ServerBounds } from './admission.ts';
import { ConnectionTracker, rejectUnreadable } from './connections.ts';
import { NodeHttpExchange, type ServerShutdown } from './exchange.ts';
import { FastPathConnections } from './fast-path/connection.ts';
import { ResponseWriter } from './fast-path/response-writer.ts';
import { RequestRouter } from './request-router.ts';
import { CertificateReloader, type KeyPair, readKeyPair, type TlsFiles } from './tls.ts';
import { TrustedProxies } from './trusted-proxies.ts';

/** Not imported, for the reason that `STATUS_TEXT` gives. */
const { createServer } = process.getBuiltinModule('node:http');

export interface ServerTimeouts {
  /** A client whose head or body arrives more slowly is cut off with 408. */
  readonly head: Duration;
  readonly request: Duration;
  /** How long a connection may be idle between two requests. */
  readonly idle: Duration;
  /** A client that reads nothing of its answers between two looks, so far apart, is cut off. */
  readonly stalled: Duration;
  /** How often the limits of head and request are looked at. */
  readonly checkInterval: Duration;
  /** How long `stop` lets requests under way finish. */
  readonly grace: Duration;
}

/** Idle is longer than common clients and load balancers wait (60 s): they close first, never we into their next request. */
const DEFAULT_TIMEOUTS: ServerTimeouts = {
  head: 15 * SECOND,
  request: 60 * SECOND,
  idle: 72 * SECOND,
  stalled: MINUTE,
  checkInterval: 5 * SECOND,
  grace: 5 * SECOND,
};

/** Connections the system keeps while we are busy; the system's own limit may be lower. A burst of browsers is many. */
const BACKLOG = 4096;

export interface HttpServerOptions {
  /** Takes calls; without it there is nothing below `/v1`. */
  readonly receiver?: IngestHandler;
  /** Answers everything below `/api`; without it there is nothing. */
  readonly control?: ControlHandler;
  /** Answers at `/metrics`; without it there is nothing. */
  readonly metrics?: ControlHandler;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Gets what is refused before a source is known. */
  readonly tallies?: DiscardCounters;
  /** Gets every answer of the receiving API. */
  readonly measures?: MetricsRecorder;
  /** Why calls cannot be accepted now; empty when they can. */
  readonly readiness: () => readonly string[];
  /** What is not well though calls are accepted; empty, or absent, when everything is. */
  readonly degraded?: () => readonly string[];
  readonly host: string;
  /** 0 takes any free port. */
  readonly port: number;
  /** The port of control API and metrics, where this one takes calls only: who asks here for them is told. */
  readonly adminPort?: () => number;
  /** What the port is set with, for whoever has to choose another; `--port` when absent. */
  readonly portKey?: string;
  /** Serves https and nothing else. */
  readonly tls?: TlsFiles;
  /** Where clients reach this server, such as `https://collect.example.com`. */
  readonly publicUrl?: string;
  /** Address ranges in CIDR form of the proxies whose `X-Forwarded-For` is believed; none by default. */
  readonly trustedProxies?: readonly string[];
  readonly bounds?: ServerBounds;
  readonly timeouts?: Partial<ServerTimeouts>;
}

export interface HttpServer {
  /** Resolves to where it listens. Rejects with an error whose message is one line that says what to do. */
  start(): Promise<{ readonly host: string; readonly port: number }>;
  /** Takes no more connections, lets requests under way finish for some seconds, then closes what is left. Idempotent. */
  stop(): Promise<void>;
}

/** The one port: the receiving API, and the control API behind it. */
export function createHttpServer(options: HttpServerOptions): HttpServer {
  const { tls, clock, logger } = options;
  const limits = { ...DEFAULT_TIMEOUTS, ...options.timeouts };
  const closing: ServerShutdown = { isClosing: false };
  let open: OpenServer | undefined;
  let renewal: CertificateReloader | undefined;
  let looks: NodeJS.Timeout[] = [];
  let stopped: Promise<void> | undefined;
  return {
    async start() {
      const pair = tls === undefined ? undefined : await readKeyPair(tls);
      const server = createNodeServer(limits, pair);
      open = attachHandlers(server, { ...options, limits }, closing);
      await listen(server, options);
      const { connections, plain } = open;
      // On the same clock as Node's own limits of time.
      looks = [
        setInterval(() => connections.closeStalled(), limits.stalled).unref(),
        setInterval(() => plain?.checkTimeouts(), limits.checkInterval).unref(),
      ];
      server.on('error', (error) => logger.error({ error }, 'listener.failed'));
      if (tls !== undefined && pair !== undefined) {
        // Only what handshakes need: the connections that are open keep what they have.
        const renewed = (next: KeyPair) => (server as TlsServer).setSecureContext(next);
        renewal = new CertificateReloader({ files: tls, pair, clock, logger, onReload: renewed });
        renewal.start();
      }
      const { address, port } = server.address() as AddressInfo;
      return { host: address, port };
    },
    stop() {
      closing.isClosing = true;
      renewal?.stop();
      for (const look of looks) clearInterval(look);
      stopped ??= open === undefined ? Promise.resolve() : closeServer(open, clock, limits.grace);
      return stopped;
    },
  };
}

interface ResolvedServerOptions extends HttpServerOptions {
  readonly limits: ServerTimeouts;
}

interface OpenServer {
  readonly server: Server | TlsServer;
  readonly connections: ConnectionTracker;
  /** Where calls are taken. */
  readonly plain: FastPathConnections | undefined;
}

function createNodeServer(limits: ServerTimeouts, pair: KeyPair | undefined): Server | TlsServer {
  const settings = {
    headersTimeout: limits.head,
    requestTimeout: limits.request,
    keepAliveTimeout: limits.idle,
    connectionsCheckingInterval: limits.checkInterval,
    // Node's own answer to a request without Host is no JSON, and several clients take that for a passing error.
    requireHostHeader: false,
    // Finds out about peers that are gone without a word.
    keepAlive: true,
    keepAliveInitialDelay: limits.idle,
  };
  return pair === undefined
    ? createServer(settings)
    : createTlsServer({ ...settings, cert: pair.cert, key: pair.key, handshakeTimeout: limits.head });
}

/** Everything that can happen on the server's connections. */
function attachHandlers(
  server: Server | TlsServer,
  options: ResolvedServerOptions,
  closing: ServerShutdown,
): OpenServer {
  const {
    bounds = DEFAULT_SERVER_BOUNDS,
    clock,
    logger,
    tallies,
    control,
    metrics,
    publicUrl,
    adminPort,
  } = options;
  const { receiver = noReceiver, measures, limits, trustedProxies } = options;
  const isTls = options.tls !== undefined;
  const connections = new ConnectionTracker(server, isTls);
  const inFlight = new AdmissionController(bounds, clock);
  const measured = () => ({
    requests: inFlight.requests,
    bytes: inFlight.bytes,
    connections: connections.size,
  });
  const overload = new OverloadLog({ load: measured, clock, logger });
  const proxies = trustedProxies === undefined ? undefined : new TrustedProxies(trustedProxies);
  const means = { receiver, clock, logger, tallies, inFlight, overload, proxies };
  const isReceiving = receiver !== noReceiver;
  const reception = new RequestRouter({
    ...options,
    ...means,
    control,
    metrics,
    publicUrl,
    adminPort,
    isReceiving,
  });
  const receive = (request: IncomingMessage, response: ServerResponse) =>
    reception.route(new NodeHttpExchange(request, response, closing, measures));
  server.on('request', receive);
  server.on('checkContinue', (request, response) => {
    const exchange = new NodeHttpExchange(request, response, closing, measures);
    exchange.expectContinue();
    reception.route(exchange);
  });
  // An expectation nobody knows may be ignored (RFC 9110 section 10.1.1); refusing it would lose the call.
  server.on('checkExpectation', receive);
  server.on('clientError', ({ code }: NodeJS.ErrnoException, socket) =>
    rejectUnreadable(code, socket, measures),
  );
  server.maxConnections = bounds.connections;
  server.on('drop', () => overload.rejected());
  const texts = new ResponseWriter(limits.idle);
  const plain = isReceiving
    ? new FastPathConnections(server, {
        dependencies: means,
        responses: texts,
        shutdown: closing,
        measures,
        limits,
        isTls,
      })
    : undefined;
  return { server, connections, plain };
}

/** Stands where calls are not taken, and is never asked. */
const noReceiver: IngestHandler = (_call, answer) => answer({ kind: 'refused', code: 'not_found' });

function listen(server: Server, { host, port, portKey: key = '--port' }: HttpServerOptions): Promise<void> {
  return new Promise((resolve, reject) => {
    const fail = (error: NodeJS.ErrnoException) =>
      reject(new Error(listenErrorMessage(error, host, { port, key }), { cause: error }));
    server.once('error', fail);
    server.listen({ host, port, backlog: BACKLOG }, () => {
      server.off('error', fail);
      resolve();
    });
  });
}

/** Idle connections go at once; the others when their answer is written, or when the grace is over. */
async function closeServer(
  { server, connections, plain }: OpenServer,
  clock: Clock,
  grace: Duration,
): Promise<void> {
  if (!server.listening) return;
  const cancel = clock.after(grace, () => connections.closeAll());
  await new Promise<void>((resolve) => {
    server.close(() => resolve());
    connections.closeUnused();
    plain?.closeIdle();
  });
  cancel();
}

/** What an operator can do about a listener that could not start, in one line. `key`: what the port is set with. */
function listenErrorMessage(
  error: NodeJS.ErrnoException,
  host: string,
  { port, key }: { readonly port: number; readonly key: string },
): string {
  switch (error.code) {
    case 'EADDRINUSE':
      return `port ${port} on ${host} is already in use: stop the other program or choose another port with ${key}`;
    case 'EACCES':
      return `port ${port} on ${host} needs rights this program does not have: choose a port above 1023 with ${key}`;
    case 'EADDRNOTAVAIL':
      return `${host} is not an address of this machine: choose another with --host, such as 127.0.0.1 or 0.0.0.0`;
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return `the host name ${host} has no address: choose another with --host, such as 127.0.0.1 or 0.0.0.0`;
    default:
      return `cannot listen on port ${port} of ${host} (${error.message}): choose others with --host and ${key}`;
  }
}
