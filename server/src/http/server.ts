import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { createServer as createTlsServer, type Server as TlsServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import type { ControlHandler } from '../control-api/contract.ts';
import type { PublicKey } from '../model/signing-key.ts';
import { type Duration, MINUTE, SECOND } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { IngestHandler } from '../ports/ingest.ts';
import type { Logger } from '../ports/logger.ts';
import type { IngestCounters, MetricsRecorder } from '../ports/telemetry.ts';
import {
  AdmissionController,
  DEFAULT_SERVER_BOUNDS,
  OverloadLog,
  type ServerBounds,
  TurnScheduler,
} from './admission.ts';
import { BrowserLibrary, type BrowserLibraryOptions } from './browser-library.ts';
import { ConnectionTracker, rejectUnreadable } from './connections.ts';
import type { ConsoleFiles } from './console.ts';
import { type ExchangeContext, NodeHttpExchange, ServerShutdown } from './exchange.ts';
import { FastPathConnections, ResponseWriter } from './fast-path/connection.ts';
import { HostGuard } from './host-guard.ts';
import { LingeringConnections, type LingerLimits } from './lingering-close.ts';
import { type ConsentSettings, PublicAddress } from './project-settings.ts';
import { RequestRouter } from './request-router.ts';
import { StrictTransport } from './strict-transport.ts';
import { CertificateReloader, type KeyPair, readKeyPair, secureContext, type TlsFiles } from './tls.ts';
import { TrustedProxies } from './trusted-proxies.ts';

/** Not imported: see `STATUS_TEXT`. */
const { createServer } = process.getBuiltinModule('node:http');

export interface ServerTimeouts extends LingerLimits {
  /** A client whose head or body takes longer gets 408, and the connection is closed. */
  readonly head: Duration;
  readonly request: Duration;
  /** How long a connection may be idle between two requests. */
  readonly idle: Duration;
  /** A client that reads nothing of its answers between two checks, this far apart, is disconnected. */
  readonly stalled: Duration;
  /** How often the limits of head and request are checked. */
  readonly checkInterval: Duration;
  /** How long `stop` lets requests in flight finish. */
  readonly grace: Duration;
}

/**
 * `idle` is longer than common clients and load balancers wait (60 s). They close first, so that we never
 * close a connection just as a request is sent on it.
 */
const DEFAULT_TIMEOUTS: ServerTimeouts = {
  head: 15 * SECOND,
  request: 60 * SECOND,
  idle: 72 * SECOND,
  stalled: MINUTE,
  checkInterval: 5 * SECOND,
  linger: 30 * SECOND,
  lingerIdle: 5 * SECOND,
  grace: 5 * SECOND,
};

/** Connections that the system queues while we are busy. Its own limit may be lower. */
const BACKLOG = 4096;

export interface HttpServerOptions {
  /** Takes calls. Without it nothing is served below `/v1`. */
  readonly receiver?: IngestHandler;
  /** Answers everything below `/api`, and `/metrics`. Without it these paths do not exist. */
  readonly control?: ControlHandler;
  /**
   * The console, at every path that is neither of a call nor of the control API. Without it these paths do
   * not exist.
   */
  readonly console?: ConsoleFiles;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Counts requests that are refused before a source is known. */
  readonly discards?: IngestCounters;
  /** Counts every answer of the receiving API. */
  readonly recorder?: MetricsRecorder;
  /** The public key of a destination, by the key's id; absent, or undefined, where there is none. */
  readonly publicKey?: (id: string) => PublicKey | undefined;
  /** Consent categories of the source with a write key; undefined where it has none. */
  readonly consentSettings?: (writeKey: string) => ConsentSettings | undefined;
  /** Reasons why calls cannot be accepted now; empty when they can. */
  readonly readiness: () => readonly string[];
  /** Problems that do not keep calls from being accepted; empty, or absent, when there are none. */
  readonly degraded?: () => readonly string[];
  readonly host: string;
  /** 0 takes any free port. */
  readonly port: number;
  /**
   * The port of control API and metrics, where this server takes calls only. A 404 for their paths names it.
   */
  readonly adminPort?: () => number;
  /**
   * The settings of address and port, for messages that they cannot be had; `--host` and `--port` when
   * absent.
   */
  readonly hostKey?: string;
  readonly portKey?: string;
  /** Certificate and key. With them the server speaks only https. */
  readonly tls?: TlsFiles;
  /** The folder of the browser library, and the keys of its paths; without them nothing of it is served. */
  readonly browserLibrary?: Pick<BrowserLibraryOptions, 'folder' | 'keyAt'>;
  /** The addresses by which clients reach this server, such as `https://collect.example.com`. */
  readonly publicUrls?: readonly string[];
  /** Further names by which browsers may reach control API, metrics and console on loopback. */
  readonly adminHosts?: readonly string[];
  /** Address ranges in CIDR form of the proxies whose `X-Forwarded-For` is trusted; none by default. */
  readonly trustedProxies?: readonly string[];
  readonly bounds?: ServerBounds;
  /** Divides the thread between calls and deliveries; a scheduler of its own when absent. */
  readonly turns?: TurnScheduler;
  readonly timeouts?: Partial<ServerTimeouts>;
}

export interface HttpServer {
  /**
   * Resolves to the address it listens on. Rejects with an error whose message is one line that says what to
   * do.
   */
  start(): Promise<{ readonly host: string; readonly port: number }>;
  /**
   * Takes no more connections, lets requests in flight finish for some seconds, then closes the rest.
   * Idempotent.
   */
  stop(): Promise<void>;
}

/** One port: the receiving API, the control API and the metrics, as far as the options name them. */
export function createHttpServer(options: HttpServerOptions): HttpServer {
  const { tls, clock, logger } = options;
  const limits = { ...DEFAULT_TIMEOUTS, ...options.timeouts };
  const shutdown = new ServerShutdown();
  let open: OpenServer | undefined;
  let reloader: CertificateReloader | undefined;
  let timers: NodeJS.Timeout[] = [];
  let stopped: Promise<void> | undefined;
  return {
    async start() {
      const pair = tls === undefined ? undefined : await readKeyPair(tls);
      const server = createNodeServer(limits, pair);
      open = attachHandlers(server, { ...options, limits }, shutdown);
      await listen(server, options);
      const { connections, fastPath } = open;
      // Timers of Node, like the time limits of `node:http`, and not of the clock that tests stop.
      timers = [
        // After what has arrived meanwhile: to a process that stood still every client would look stalled, or
        // late.
        setInterval(() => setImmediate(() => connections.closeStalled()), limits.stalled).unref(),
        setInterval(() => {
          const now = performance.now();
          setImmediate(() => fastPath?.checkTimeouts(now));
        }, limits.checkInterval).unref(),
      ];
      server.on('error', (error) => logger.error({ error }, 'listener.failed'));
      if (tls !== undefined && pair !== undefined) {
        // Only new handshakes use it. Open connections keep the certificate they have.
        const onReload = (next: KeyPair) => (server as TlsServer).setSecureContext(secureContext(next));
        reloader = new CertificateReloader({ files: tls, pair, clock, logger, onReload });
        reloader.start();
      }
      const { address, port } = server.address() as AddressInfo;
      return { host: address, port };
    },
    stop() {
      shutdown.begin();
      reloader?.stop();
      open?.lingering.beginStop();
      for (const timer of timers) clearInterval(timer);
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
  readonly lingering: LingeringConnections;
  /** Absent where no calls are taken. */
  readonly fastPath: FastPathConnections | undefined;
}

function createNodeServer(limits: ServerTimeouts, pair: KeyPair | undefined): Server | TlsServer {
  const settings = {
    headersTimeout: limits.head,
    requestTimeout: limits.request,
    keepAliveTimeout: limits.idle,
    connectionsCheckingInterval: limits.checkInterval,
    // Node's own answer to a request without Host is no JSON, and several clients would try again.
    requireHostHeader: false,
    // Detects peers that have disappeared without closing the connection.
    keepAlive: true,
    keepAliveInitialDelay: limits.idle,
  };
  return pair === undefined
    ? createServer(settings)
    : createTlsServer({ ...settings, ...secureContext(pair), handshakeTimeout: limits.head });
}

/** Handles every event of the server's connections. */
function attachHandlers(
  server: Server | TlsServer,
  options: ResolvedServerOptions,
  shutdown: ServerShutdown,
): OpenServer {
  const { bounds = DEFAULT_SERVER_BOUNDS, clock, logger, discards, control, adminPort } = options;
  const {
    receiver = noReceiver,
    recorder,
    limits,
    trustedProxies,
    turns = new TurnScheduler(options.clock),
  } = options;
  const isTls = options.tls !== undefined;
  const lingering = new LingeringConnections(limits);
  const exchangeContext: ExchangeContext = { shutdown, lingering, recorder };
  const connections = new ConnectionTracker(server, isTls);
  const admission = new AdmissionController(bounds, clock);
  const load = () => ({
    requests: admission.requests,
    bytes: admission.bytes,
    connections: connections.size,
  });
  const overload = new OverloadLog({ load, clock, logger });
  const proxies = trustedProxies === undefined ? undefined : new TrustedProxies(trustedProxies);
  const dependencies = { receiver, clock, logger, discards, admission, overload, turns, proxies };
  const isReceiving = receiver !== noReceiver;
  const router = new RequestRouter({
    ...options,
    ...dependencies,
    control,
    ...addressParts(options, proxies, () => (server.address() as AddressInfo | null)?.address),
    adminPort,
    browserLibrary:
      options.browserLibrary && isReceiving
        ? new BrowserLibrary({ ...options.browserLibrary, logger })
        : undefined,
    isReceiving,
  });
  const receive = (request: IncomingMessage, response: ServerResponse) =>
    router.route(new NodeHttpExchange(request, response, exchangeContext));
  server.on('request', receive);
  server.on('checkContinue', (request, response) => {
    const exchange = new NodeHttpExchange(request, response, exchangeContext);
    exchange.expectContinue();
    router.route(exchange);
  });
  // An unknown expectation may be ignored (RFC 9110 section 10.1.1); refusing it would lose the call.
  server.on('checkExpectation', receive);
  server.on('clientError', ({ code }: NodeJS.ErrnoException, socket) =>
    rejectUnreadable(code, socket as Socket, exchangeContext),
  );
  server.maxConnections = bounds.connections;
  server.on('drop', () => overload.rejected());
  const responses = new ResponseWriter(limits.idle);
  const fastPath = isReceiving
    ? new FastPathConnections(server, {
        ...exchangeContext,
        dependencies,
        responses,
        limits,
        isTls,
      })
    : undefined;
  return { server, connections, lingering, fastPath };
}

/** The parts of a router that know by which addresses clients come. */
function addressParts(
  { publicUrls = [], adminHosts: hosts = [], tls, logger }: HttpServerOptions,
  proxies: TrustedProxies | undefined,
  boundTo: () => string | undefined,
) {
  const isTls = tls !== undefined;
  return {
    publicAddress: new PublicAddress({
      publicUrls,
      isTls,
      onGuess: (address) => logger.info({ ...address, setting: 'publicUrl' }, 'settings.host_guessed'),
    }),
    hostGuard: new HostGuard({ hosts, publicUrls, proxies, boundTo }),
    strictTransport: new StrictTransport({ publicUrls, isTls }),
  };
}

/** The receiver of a server that takes no calls. It is never called. */
const noReceiver: IngestHandler = (_call, answer) => answer({ kind: 'refused', code: 'not_found' });

function listen(server: Server, options: HttpServerOptions): Promise<void> {
  const { host, port } = options;
  return new Promise((resolve, reject) => {
    const fail = (error: NodeJS.ErrnoException) =>
      reject(new Error(listenErrorMessage(error, options), { cause: error }));
    server.once('error', fail);
    server.listen({ host, port, backlog: BACKLOG }, () => {
      server.off('error', fail);
      resolve();
    });
  });
}

/** Closes idle connections at once, the others when their answer is written or the grace is over. */
async function closeServer(
  { server, connections, fastPath }: OpenServer,
  clock: Clock,
  grace: Duration,
): Promise<void> {
  if (!server.listening) return;
  const cancel = clock.after(grace, () => connections.closeAll());
  await new Promise<void>((resolve) => {
    server.close(() => resolve());
    connections.closeUnused();
    fastPath?.closeIdle();
  });
  cancel();
}

/** One line that tells the operator why the server could not start and what to do. */
function listenErrorMessage(
  error: NodeJS.ErrnoException,
  { host, port, hostKey = '--host', portKey = '--port' }: HttpServerOptions,
): string {
  switch (error.code) {
    case 'EADDRINUSE':
      return `port ${port} on ${host} is already in use: stop the other program or choose another port with ${portKey}`;
    case 'EACCES':
      return `port ${port} on ${host} needs rights this program does not have: choose a port above 1023 with ${portKey}`;
    case 'EADDRNOTAVAIL':
      return `${host} is not an address of this machine: choose another with ${hostKey}, such as 127.0.0.1 or 0.0.0.0`;
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return `the host name ${host} has no address: choose another with ${hostKey}, such as 127.0.0.1 or 0.0.0.0`;
    default:
      return `cannot listen on port ${port} of ${host} (${error.message}): choose others with ${hostKey} and ${portKey}`;
  }
}
