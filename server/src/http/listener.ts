import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { createServer as createTlsServer, type Server as TlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { type Duration, MINUTE, SECOND } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { Control } from '../ports/control.ts';
import type { Logger } from '../ports/logger.ts';
import type { Measures } from '../ports/measures.ts';
import type { Receiver } from '../ports/receiver.ts';
import type { Tallies } from '../ports/tallies.ts';
import { AnswerText } from './answer-text.ts';
import { type KeyPair, Renewal, readKeyPair, type TlsFiles } from './certificate.ts';
import { Connections } from './connections.ts';
import { type Closing, Exchange } from './exchange.ts';
import { DEFAULT_BOUNDS, InFlight, type ListenerBounds } from './in-flight.ts';
import { Overload } from './overload.ts';
import { PlainConnections } from './plain-connections.ts';
import { Reception } from './reception.ts';
import { whyNoStart } from './start-failure.ts';
import { TrustedProxies } from './trusted-proxies.ts';
import { answerUnreadable } from './unreadable.ts';

/** Not imported, for the reason that `STATUS_TEXT` gives. */
const { createServer } = process.getBuiltinModule('node:http');

export interface TimeLimits {
  /** A client whose head or body arrives more slowly is cut off with 408. */
  readonly head: Duration;
  readonly request: Duration;
  /** How long a connection may be idle between two requests. */
  readonly idle: Duration;
  /** A client that reads nothing of its answers between two looks, so far apart, is cut off. */
  readonly deaf: Duration;
  /** How often the limits of head and request are looked at. */
  readonly checked: Duration;
  /** How long `stop` lets requests under way finish. */
  readonly grace: Duration;
}

/** Idle is longer than common clients and load balancers wait (60 s): they close first, never we into their next request. */
const TIME_LIMITS: TimeLimits = {
  head: 15 * SECOND,
  request: 60 * SECOND,
  idle: 72 * SECOND,
  deaf: MINUTE,
  checked: 5 * SECOND,
  grace: 5 * SECOND,
};

/** Connections the system keeps while we are busy; the system's own limit may be lower. A burst of browsers is many. */
const BACKLOG = 4096;

export interface ListenerOptions {
  /** Takes calls; without it there is nothing below `/v1`. */
  readonly receiver?: Receiver;
  /** Answers everything below `/api`; without it there is nothing. */
  readonly control?: Control;
  /** Answers at `/metrics`; without it there is nothing. */
  readonly metrics?: Control;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Gets what is refused before a source is known. */
  readonly tallies?: Tallies;
  /** Gets every answer of the receiving API. */
  readonly measures?: Measures;
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
  readonly bounds?: ListenerBounds;
  readonly timeLimits?: Partial<TimeLimits>;
}

export interface Listener {
  /** Resolves to where it listens. Rejects with an error whose message is one line that says what to do. */
  start(): Promise<{ readonly host: string; readonly port: number }>;
  /** Takes no more connections, lets requests under way finish for some seconds, then closes what is left. Idempotent. */
  stop(): Promise<void>;
}

/** The one port: the receiving API, and the control API behind it. */
export function createListener(options: ListenerOptions): Listener {
  const { tls, clock, logger } = options;
  const limits = { ...TIME_LIMITS, ...options.timeLimits };
  const closing: Closing = { isClosing: false };
  let open: Open | undefined;
  let renewal: Renewal | undefined;
  let looks: NodeJS.Timeout[] = [];
  let stopped: Promise<void> | undefined;
  return {
    async start() {
      const pair = tls === undefined ? undefined : await readKeyPair(tls);
      const server = createNodeServer(limits, pair);
      open = attend(server, { ...options, limits }, closing);
      await listen(server, options);
      const { connections, plain } = open;
      // On the same clock as Node's own limits of time.
      looks = [
        setInterval(() => connections.closeDeaf(), limits.deaf).unref(),
        setInterval(() => plain?.checkTime(), limits.checked).unref(),
      ];
      server.on('error', (error) => logger.error({ error }, 'listener.failed'));
      if (tls !== undefined && pair !== undefined) {
        // Only what handshakes need: the connections that are open keep what they have.
        const renewed = (next: KeyPair) => (server as TlsServer).setSecureContext(next);
        renewal = new Renewal({ files: tls, pair, clock, logger, renewed });
        renewal.start();
      }
      const { address, port } = server.address() as AddressInfo;
      return { host: address, port };
    },
    stop() {
      closing.isClosing = true;
      renewal?.stop();
      for (const look of looks) clearInterval(look);
      stopped ??= open === undefined ? Promise.resolve() : close(open, clock, limits.grace);
      return stopped;
    },
  };
}

interface Attended extends ListenerOptions {
  readonly limits: TimeLimits;
}

interface Open {
  readonly server: Server | TlsServer;
  readonly connections: Connections;
  /** Where calls are taken. */
  readonly plain: PlainConnections | undefined;
}

function createNodeServer(limits: TimeLimits, pair: KeyPair | undefined): Server | TlsServer {
  const settings = {
    headersTimeout: limits.head,
    requestTimeout: limits.request,
    keepAliveTimeout: limits.idle,
    connectionsCheckingInterval: limits.checked,
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
function attend(server: Server | TlsServer, options: Attended, closing: Closing): Open {
  const { bounds = DEFAULT_BOUNDS, clock, logger, tallies, control, metrics, publicUrl, adminPort } = options;
  const { receiver = nobody, measures, limits, trustedProxies } = options;
  const isTls = options.tls !== undefined;
  const connections = new Connections(server, isTls);
  const inFlight = new InFlight(bounds, clock);
  const measured = () => ({
    requests: inFlight.requests,
    bytes: inFlight.bytes,
    connections: connections.size,
  });
  const overload = new Overload({ measured, clock, logger });
  const proxies = trustedProxies === undefined ? undefined : new TrustedProxies(trustedProxies);
  const means = { receiver, clock, logger, tallies, inFlight, overload, proxies };
  const isReceiving = receiver !== nobody;
  const reception = new Reception({
    ...options,
    ...means,
    control,
    metrics,
    publicUrl,
    adminPort,
    isReceiving,
  });
  const receive = (request: IncomingMessage, response: ServerResponse) =>
    reception.receive(new Exchange(request, response, closing, measures));
  server.on('request', receive);
  server.on('checkContinue', (request, response) => {
    const exchange = new Exchange(request, response, closing, measures);
    exchange.awaitContinue();
    reception.receive(exchange);
  });
  // An expectation nobody knows may be ignored (RFC 9110 section 10.1.1); refusing it would lose the call.
  server.on('checkExpectation', receive);
  server.on('clientError', ({ code }: NodeJS.ErrnoException, socket) =>
    answerUnreadable(code, socket, measures),
  );
  server.maxConnections = bounds.connections;
  server.on('drop', () => overload.turnedAway());
  const texts = new AnswerText(limits.idle);
  const plain = isReceiving
    ? new PlainConnections(server, { means, texts, closing, measures, limits, isTls })
    : undefined;
  return { server, connections, plain };
}

/** Stands where calls are not taken, and is never asked. */
const nobody: Receiver = (_call, answer) => answer({ kind: 'refused', code: 'not_found' });

function listen(server: Server, { host, port, portKey: key = '--port' }: ListenerOptions): Promise<void> {
  return new Promise((resolve, reject) => {
    const fail = (error: NodeJS.ErrnoException) =>
      reject(new Error(whyNoStart(error, host, { port, key }), { cause: error }));
    server.once('error', fail);
    server.listen({ host, port, backlog: BACKLOG }, () => {
      server.off('error', fail);
      resolve();
    });
  });
}

/** Idle connections go at once; the others when their answer is written, or when the grace is over. */
async function close({ server, connections, plain }: Open, clock: Clock, grace: Duration): Promise<void> {
  if (!server.listening) return;
  const cancel = clock.after(grace, () => connections.closeAll());
  await new Promise<void>((resolve) => {
    server.close(() => resolve());
    connections.closeSilent();
    plain?.closeIdle();
  });
  cancel();
}
