import { EventEmitter, once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { createServer as createTlsServer, type TlsOptions } from 'node:tls';
import type { HttpClient, HttpResult, OutboundRequest } from '../../src/ports/http-client.ts';
import { GIVE_UP_AFTER, within } from './until.ts';

/** One request as it came over the wire. */
export interface RawRequest {
  /** Request line and headers, without the empty line. */
  readonly head: string;
  readonly body: string;
  /** Number of its connection, counted from 1. */
  readonly connection: number;
}

export interface RawServer {
  readonly port: number;
  /** Every connection ever accepted (and, over TLS, established). */
  readonly sockets: readonly Socket[];
  readonly requests: readonly RawRequest[];
  /** Resolves when this many requests have come in all. */
  received(count: number): Promise<void>;
  /** Resolves when this many connections were opened in all. */
  opened(count: number): Promise<void>;
  stop(): Promise<void>;
}

export interface RawServerOptions {
  readonly tls?: TlsOptions;
  readonly onConnection?: (socket: Socket) => void;
  /** 127.0.0.1 if absent. */
  readonly host?: string;
  /** A free one if absent. */
  readonly port?: number;
}

/** A receiver that sends exactly the bytes a test gives, valid or not: it uses no HTTP library. */
export async function startRawServer(
  onRequest: (socket: Socket, request: RawRequest) => void,
  { tls, onConnection, host = '127.0.0.1', port = 0 }: RawServerOptions = {},
): Promise<RawServer> {
  const sockets: Socket[] = [];
  const requests: RawRequest[] = [];
  const events = new EventEmitter();
  events.setMaxListeners(0);
  const accept = (socket: Socket): void => {
    const connection = sockets.push(socket);
    // Tests cut connections on purpose.
    socket.on('error', () => {});
    readRequests(socket, (head, body) => {
      const request = { head, body, connection };
      requests.push(request);
      onRequest(socket, request);
      events.emit('request');
    });
    onConnection?.(socket);
    events.emit('connection');
  };
  const server: Server = tls === undefined ? createServer(accept) : createTlsServer(tls, accept);
  server.listen(port, host);
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    sockets,
    requests,
    async received(count) {
      while (requests.length < count)
        await within(
          `request ${count} has come`,
          once(events, 'request'),
          () => `Those were ${requests.length}.`,
        );
    },
    async opened(count) {
      while (sockets.length < count)
        await within(`connection ${count} was opened`, once(events, 'connection'));
    },
    async stop() {
      server.close();
      for (const socket of sockets) socket.destroy();
      if (server.listening) await once(server, 'close');
    },
  };
}

function readRequests(socket: Socket, take: (head: string, body: string) => void): void {
  let pending = '';
  socket.on('data', (chunk) => {
    pending += chunk.toString('latin1');
    for (;;) {
      const end = pending.indexOf('\r\n\r\n');
      if (end === -1) return;
      const head = pending.slice(0, end);
      const length = Number(/content-length: (\d+)/i.exec(head)?.[1] ?? 0);
      if (pending.length < end + 4 + length) return;
      const body = pending.slice(end + 4, end + 4 + length);
      pending = pending.slice(end + 4 + length);
      take(head, body);
    }
  });
}

/** An answer with its `Content-Length`. */
export function http(status: string, body = '', headers = ''): string {
  return `HTTP/1.1 ${status}\r\n${headers}Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
}

/** `events.once` would fail on the reset that often comes first. */
export function closed(socket: Socket | undefined): Promise<void> {
  return new Promise((resolve) => {
    if (socket === undefined || socket.closed) resolve();
    else socket.once('close', () => resolve());
  });
}

/**
 * Tries with a time limit that is to end a request, and with longer ones as long as a slow machine has not
 * come far enough before its end. Resolves to what the last attempt has seen.
 */
export async function withLimits<Seen>(
  attempt: (limit: number) => Promise<Seen>,
  isFarEnough: (seen: Seen) => boolean,
): Promise<Seen> {
  for (let limit = 500; ; limit *= 4) {
    const seen = await attempt(limit);
    if (isFarEnough(seen) || limit > 30_000) return seen;
  }
}

/**
 * Sends, and fails the test when `done` is called before `send` has returned or more than once. Where a test
 * gives no time limit, none is reached.
 */
export function post(
  transport: HttpClient,
  url: string,
  {
    headers = {},
    body = Buffer.from('{}'),
    timeout = GIVE_UP_AFTER,
    waited = 0,
    pool = 1,
    ...rest
  }: Partial<OutboundRequest> = {},
): Promise<HttpResult> {
  return new Promise((resolve, reject) => {
    let returned = false;
    let answers = 0;
    transport.send({ ...rest, url, headers, body, timeout, waited, pool }, (answer) => {
      answers += 1;
      if (!returned) reject(new Error('done was called before send returned'));
      // Seen by the test runner as an uncaught exception.
      if (answers > 1) throw new Error(`done was called ${answers} times`);
      resolve(answer);
    });
    returned = true;
  });
}
