import type { ServerResponse } from 'node:http';
import type { Server, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { MetricsRecorder } from '../ports/telemetry.ts';
import { type ErrorCode, errorResponse, serializeClosingResponse } from './responses.ts';

/** What is arriving on a connection now and wants to know when the client is gone. */
export const INCOMING_BODY = Symbol('arriving');

/** The request that `node:http` read last on a connection, of which the head is here at least. */
export const CURRENT_REQUEST = Symbol('asked');

/** The notes stand on the connection itself: a listener for every request would cost as much as the rest of this folder. */
export type TrackedSocket = Socket & {
  [INCOMING_BODY]?: { onDisconnect(): void } | undefined;
  [CURRENT_REQUEST]?: { readonly hasEarlyResponse: boolean } | undefined;
};

/**
 * Every open connection of a server, those too that Node's HTTP server does not count: a TLS handshake under way, and a
 * connection on which nothing has been sent yet (browsers open some in advance). Without this each of them would hold up
 * a stop until the grace is over.
 */
export class ConnectionTracker {
  readonly #open = new Set<TrackedSocket>();
  /** With TLS, what speaks HTTP on one of `#open` after its handshake. */
  readonly #secure = new Set<TrackedSocket>();
  readonly #isTls: boolean;
  /** How many bytes each had taken at the last look, where more were waiting. */
  #bytesTaken = new Map<Socket, number>();

  constructor(server: Server, isTls: boolean) {
    this.#isTls = isTls;
    server.on('connection', (socket: TrackedSocket) => track(this.#open, socket));
    server.on('secureConnection', (socket: TrackedSocket) => track(this.#secure, socket));
  }

  get size(): number {
    return this.#open.size;
  }

  /** Closes those on which the client has not begun a request. */
  closeUnused(): void {
    for (const socket of this.#httpSockets()) if (socket.bytesRead === 0) socket.destroy();
    if (!this.#isTls) return;
    const shaken = new Set(Array.from(this.#secure, peerKey));
    for (const socket of this.#open) if (!shaken.has(peerKey(socket))) socket.destroy();
  }

  /** Closes those whose client has read nothing of what waits for it since this was called the last time. */
  closeStalled(): void {
    const taken = new Map<Socket, number>();
    for (const socket of this.#httpSockets()) {
      const { writableLength } = socket;
      if (writableLength === 0) continue;
      const bytes = socket.bytesWritten - writableLength;
      if (this.#bytesTaken.get(socket) === bytes) socket.destroy();
      else taken.set(socket, bytes);
    }
    this.#bytesTaken = taken;
  }

  closeAll(): void {
    for (const socket of this.#secure) socket.destroy();
    for (const socket of this.#open) socket.destroy();
  }

  #httpSockets(): ReadonlySet<Socket> {
    return this.#isTls ? this.#secure : this.#open;
  }
}

function track(set: Set<TrackedSocket>, socket: TrackedSocket): void {
  set.add(socket);
  socket.once('close', () => {
    set.delete(socket);
    socket[INCOMING_BODY]?.onDisconnect();
  });
}

/** Which connection it is; the same for its two ends of the encryption. */
function peerKey({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}

const ERROR_CODES: Readonly<Record<string, ErrorCode>> = {
  HPE_HEADER_OVERFLOW: 'headers_too_large',
  ERR_HTTP_REQUEST_TIMEOUT: 'request_timeout',
};

/** Connections that are only waiting for the answers they are still owed. */
const CLOSING_SOCKETS = new WeakSet<Duplex>();

/**
 * No request could be read on this connection, or it was too slow in coming; `code` is of Node's error. Requests that came
 * whole before it get their answers first: an error in their place would be taken for theirs. A request that was refused
 * by its head has its answer, and gets no second one for what is wrong with its body: the client would take it for the
 * answer to its next request.
 */
export function rejectUnreadable(
  code: string | undefined,
  socket: Duplex,
  measures: MetricsRecorder | undefined,
): void {
  // Without a handshake there is nobody to answer: what spoke was no TLS.
  if (code === 'ECONNRESET' || /^ERR_(SSL|TLS)_/.test(code ?? '')) {
    socket.destroy();
    return;
  }
  // Every further byte is an error too.
  if (CLOSING_SOCKETS.has(socket)) return;
  CLOSING_SOCKETS.add(socket);
  if ((socket as TrackedSocket)[CURRENT_REQUEST]?.hasEarlyResponse) {
    afterPendingResponses(socket, () => socket.end(() => socket.destroy()));
    return;
  }
  const answer = errorResponse(ERROR_CODES[code ?? ''] ?? 'malformed_request');
  measures?.requestAnswered(answer.status, answer.code);
  const text = serializeClosingResponse(answer);
  afterPendingResponses(socket, () => {
    if (socket.writable) socket.end(text, () => socket.destroy());
    else socket.destroy();
  });
}

/** Calls `then` when every answer that is owed or begun is written; never when the connection breaks before. */
function afterPendingResponses(socket: Duplex, then: () => void): void {
  const response = currentResponse(socket);
  if (response === undefined || !(response.req.complete || response.headersSent)) then();
  // By then Node has put the next answer in its place.
  else response.once('finish', () => afterPendingResponses(socket, then));
}

/** The answer whose turn it is on this connection. Node keeps it there and nowhere else. */
function currentResponse(socket: Duplex): ServerResponse | undefined {
  return (socket as Duplex & { readonly _httpMessage?: ServerResponse | null })._httpMessage ?? undefined;
}
