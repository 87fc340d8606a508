import { once } from 'node:events';
import {
  createServer as createHttpServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  request as outgoing,
  type ServerResponse,
} from 'node:http';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { type SecureContextOptions, TLSSocket } from 'node:tls';
import { within } from './until.ts';

/**
 * The fault of one request. `before`: the server never sees the request. `after`: the server has taken it and
 * answered, but the client does not get the answer and has to send again.
 */
export type Fault =
  | { readonly kind: 'pass' }
  /** The proxy answers by itself, as a load balancer does. */
  | {
      readonly kind: 'answer';
      readonly status: number;
      readonly headers?: Readonly<Record<string, string>>;
      readonly body?: string;
    }
  /** A TCP reset instead of an answer. */
  | { readonly kind: 'reset'; readonly when: 'before' | 'after' }
  /** An orderly end of the connection instead of an answer. */
  | { readonly kind: 'close'; readonly when: 'before' | 'after' }
  /** No answer, ever; the connection stays open. */
  | { readonly kind: 'hang'; readonly when: 'before' | 'after' }
  /** The server's answer, held back for so many ms. */
  | { readonly kind: 'slow'; readonly delay: number }
  /**
   * Half of the server's answer, then the end of the connection: the status arrives, the body never does. Not
   * a reset, which may overtake what was sent before it.
   */
  | { readonly kind: 'cut' }
  /**
   * Sent to the server twice at the same moment, as a load balancer may; the client gets one of the answers.
   */
  | { readonly kind: 'twice' };

/** The fault of a connection when it is opened. `deaf` accepts it and never reads a byte from it. */
export type ConnectionFault = 'accept' | 'reset' | 'deaf';

/** One request as the client sent it, and its outcome so far. */
export interface Proxied {
  readonly at: number;
  readonly method: string;
  /** With the query. */
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  /** As sent: still compressed if it was. */
  readonly body: Buffer;
  readonly fault: Fault;
  /** The status of the server's answer; absent while (or because) the server has not answered. */
  readonly serverStatus?: number;
  /** How often the server has answered it: 0 or 1, and 2 for `twice`. */
  readonly answers: number;
  /** The status the client was sent in full; absent while (or because) there was none. */
  readonly clientStatus?: number;
}

export type Script = (request: Pick<Proxied, 'at' | 'method' | 'path' | 'headers' | 'body'>) => Fault;

export interface FaultProxy {
  readonly url: string;
  readonly port: number;
  /** Every request that arrived in full, in order, with those of a reset or deaf connection missing. */
  readonly requests: readonly Proxied[];
  /** Connections opened so far. */
  readonly connections: number;
  /** Requests the server has answered with a status of 2xx. */
  readonly passed: number;
  /** Sets the faults from now on; requests already on their way keep theirs. */
  use(script: Script): void;
  useConnections(script: (nth: number) => ConnectionFault): void;
  /**
   * Resolves when the condition holds; looked at after every request, server's answer and client's answer.
   */
  until(condition: () => boolean): Promise<void>;
  /** Cuts all clients off and waits for the server's answers; `requests` is then complete. */
  stop(): Promise<void>;
}

export const PASS: Fault = { kind: 'pass' };

/**
 * The headers the server puts on its own answers for browsers, without which a page may not look at a status.
 */
const CORS = {
  'access-control-allow-origin': '*',
  'access-control-expose-headers': 'Retry-After, X-RateLimit-Reset',
};

/** The server's own answer to overload: spec/specification.md, "Overload". */
export function tooMany(seconds: number): Fault {
  return {
    kind: 'answer',
    status: 429,
    headers: { ...CORS, 'retry-after': String(seconds), 'x-ratelimit-reset': String(seconds) },
    body: JSON.stringify({ success: false, code: 'overload', message: 'Too many requests at the moment.' }),
  };
}

/** Any other status with the body every error has. */
export function refusal(status: number, headers: Readonly<Record<string, string>> = {}): Fault {
  return {
    kind: 'answer',
    status,
    headers: { ...CORS, ...headers },
    body: JSON.stringify({ success: false, code: 'fault', message: `A fault of the test: ${status}.` }),
  };
}

/**
 * Gives these faults to the first calls, one each, and `pass` from then on. A browser's other requests pass:
 * the preflight, the settings, its telemetry.
 */
export function inOrder(faults: readonly Fault[]): Script {
  let next = 0;
  return (request) => (carriesCalls(request) ? (faults[next++] ?? PASS) : PASS);
}

/** Whether a request carries calls, and is not something else a client library sends. */
export function carriesCalls({ method, path }: Pick<Proxied, 'method' | 'path'>): boolean {
  return method === 'POST' && !/^\/v1\/m\/?($|\?)/.test(path);
}

export interface FaultProxyOptions {
  /** Key and certificate: clients then speak https to the proxy. */
  readonly tls?: SecureContextOptions;
  /**
   * False: every connection ends with its answer. A browser resends a request that breaks on a reused
   * connection by itself, and so hides the behaviour of the library under test.
   */
  readonly keepAlive?: boolean;
}

/**
 * A proxy on its own port in front of `target` (`http://127.0.0.1:8080`); a script gives the fault of each
 * request.
 */
export async function startFaultProxy(
  target: string,
  script: Script = () => PASS,
  { tls, keepAlive = true }: FaultProxyOptions = {},
): Promise<FaultProxy> {
  const requests: Entry[] = [];
  const sockets = new Set<Socket>();
  const onTheirWay = new Set<Promise<void>>();
  const watchers = new Set<() => void>();
  const look = () => {
    for (const watch of watchers) watch();
  };
  let connections = 0;
  let onConnection: (nth: number) => ConnectionFault = () => 'accept';

  const http = createHttpServer({ keepAliveTimeout: 0, requestTimeout: 0 });
  http.on('request', (request: IncomingMessage, response: ServerResponse) => {
    void (async () => {
      const body = await readAll(request).catch(() => undefined);
      // The client went away in the middle of its request.
      if (body === undefined) return;
      response.shouldKeepAlive &&= keepAlive;
      const seen = {
        at: Date.now(),
        method: request.method!,
        path: request.url!,
        headers: request.headers,
        body,
      };
      const entry: Entry = { ...seen, fault: script(seen), answers: 0 };
      requests.push(entry);
      look();
      response.once('finish', () => {
        if (entry.fault.kind === 'cut') return;
        entry.clientStatus = response.statusCode;
        look();
      });
      const playing = play({ target, request, response, entry, look });
      onTheirWay.add(playing);
      await playing;
      onTheirWay.delete(playing);
    })();
  });

  const server = createServer((socket) => {
    connections += 1;
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
    // Cut on purpose, by either side.
    socket.on('error', () => {});
    const fault = onConnection(connections - 1);
    if (fault === 'accept') http.emit('connection', tls === undefined ? socket : secured(socket, tls));
    else if (fault === 'reset') socket.resetAndDestroy();
    else socket.pause();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;

  return {
    url: `${tls === undefined ? 'http' : 'https'}://127.0.0.1:${port}`,
    port,
    requests,
    get connections() {
      return connections;
    },
    get passed() {
      return requests.filter(({ serverStatus = 0 }) => serverStatus >= 200 && serverStatus < 300).length;
    },
    use(next) {
      script = next;
    },
    useConnections(next) {
      onConnection = next;
    },
    until: (condition) => {
      const reached = new Promise<void>((resolve) => {
        const watch = () => {
          if (!condition()) return;
          watchers.delete(watch);
          resolve();
        };
        watchers.add(watch);
        watch();
      });
      const describe = () => `${condition}; ${requests.length} requests have come`;
      return within('the requests through the proxy are as wanted', reached, describe);
    },
    async stop() {
      server.close();
      for (const socket of sockets) socket.destroy();
      if (server.listening) await once(server, 'close');
      await Promise.all(onTheirWay);
    },
  };
}

/** The TCP sockets beneath TLS: only they can be reset. */
const beneath = new WeakMap<Socket, Socket>();

function secured(socket: Socket, tls: SecureContextOptions): TLSSocket {
  const secure = new TLSSocket(socket, { ...tls, isServer: true });
  secure.on('error', () => {});
  beneath.set(secure, socket);
  return secure;
}

function reset(socket: Socket): void {
  (beneath.get(socket) ?? socket).resetAndDestroy();
}

type Entry = Omit<Proxied, 'serverStatus' | 'clientStatus' | 'answers'> & {
  answers: number;
  serverStatus?: number;
  clientStatus?: number;
};

interface Play {
  readonly target: string;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly entry: Entry;
  readonly look: () => void;
}

/** Applies its fault to one request. */
async function play({ target, request, response, entry, look }: Play): Promise<void> {
  const { fault } = entry;
  const socket = request.socket;
  if (fault.kind === 'answer') {
    response.writeHead(fault.status, { 'content-type': 'application/json', ...fault.headers });
    response.end(fault.body ?? '');
    return;
  }
  const forwarded = !('when' in fault && fault.when === 'before');
  const copies = forwarded ? (fault.kind === 'twice' ? 2 : 1) : 0;
  const answers = await Promise.all(
    Array.from({ length: copies }, () => forward(target, request, entry.body)),
  );
  const answer = answers.find((one) => one !== undefined);
  if (answer !== undefined) {
    entry.answers = answers.filter((one) => one !== undefined).length;
    entry.serverStatus = answer.status;
    look();
  }
  // A server that is down looks like one behind any proxy of the transport layer: the connection breaks.
  if (forwarded && answer === undefined) reset(socket);
  else if (fault.kind === 'reset') reset(socket);
  else if (fault.kind === 'close') socket.end();
  else if (answer === undefined || fault.kind === 'hang') return;
  else if (fault.kind === 'slow') setTimeout(() => reply(response, answer), fault.delay);
  else if (fault.kind === 'cut') {
    response.writeHead(answer.status, answer.rawHeaders);
    response.write(answer.body.subarray(0, answer.body.length / 2), () => socket.end());
  } else reply(response, answer);
}

interface ServerAnswer {
  readonly status: number;
  readonly rawHeaders: string[];
  readonly body: Buffer;
}

function reply(response: ServerResponse, { status, rawHeaders, body }: ServerAnswer): void {
  response.writeHead(status, rawHeaders);
  response.end(body);
}

/** Of one connection only, or (the framing) made anew. */
const HOP = new Set(['connection', 'keep-alive', 'transfer-encoding', 'content-length', 'expect']);

/** The server's answer, or undefined when it gave none. */
function forward(
  target: string,
  { method, url, rawHeaders }: IncomingMessage,
  body: Buffer,
): Promise<ServerAnswer | undefined> {
  const { promise, resolve } = Promise.withResolvers<ServerAnswer | undefined>();
  const headers = withoutHops(rawHeaders);
  if (body.length > 0) headers.push('Content-Length', String(body.length));
  // The connection is not kept alive: one that the server has closed meanwhile would be an unplanned fault.
  const request = outgoing(`${target}${url}`, { method: method!, headers, agent: false });
  request.on('error', () => resolve(undefined));
  request.on('response', (response) => {
    readAll(response).then(
      (whole) =>
        resolve({
          status: response.statusCode!,
          rawHeaders: [...withoutHops(response.rawHeaders), 'Content-Length', String(whole.length)],
          body: whole,
        }),
      () => resolve(undefined),
    );
  });
  request.end(body);
  return promise;
}

function withoutHops(rawHeaders: readonly string[]): string[] {
  const kept: string[] = [];
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    if (!HOP.has(rawHeaders[at]!.toLowerCase())) kept.push(rawHeaders[at]!, rawHeaders[at + 1]!);
  }
  return kept;
}

async function readAll(stream: IncomingMessage): Promise<Buffer> {
  const parts: Buffer[] = [];
  for await (const part of stream) parts.push(part as Buffer);
  return Buffer.concat(parts);
}
