import type { ServerResponse } from 'node:http';
import type { Server, Socket } from 'node:net';
import {
  CURRENT_REQUEST,
  type ErrorCode,
  type ExchangeContext,
  errorResponse,
  INCOMING_BODY,
  serializeClosingResponse,
  type TrackedSocket,
} from './exchange.ts';

/**
 * Every open connection of a server, also those that Node's HTTP server does not count: TLS handshakes, and
 * connections on which nothing has been sent yet (browsers open some in advance). Any of them could hold up a
 * stop until the grace is over.
 */
export class ConnectionTracker {
  readonly #open = new Set<TrackedSocket>();
  /** With TLS, the decrypting socket of each connection in `#open` whose handshake is done. */
  readonly #secure = new Set<TrackedSocket>();
  readonly #isTls: boolean;
  /** Bytes that the client had read at the last check, for connections with more to read. */
  #bytesRead = new Map<Socket, number>();

  constructor(server: Server, isTls: boolean) {
    this.#isTls = isTls;
    server.on('connection', (socket: TrackedSocket) => track(this.#open, socket));
    server.on('secureConnection', (socket: TrackedSocket) => track(this.#secure, socket));
  }

  get size(): number {
    return this.#open.size;
  }

  /** Closes connections on which the client has not begun a request. */
  closeUnused(): void {
    for (const socket of this.#httpSockets()) if (socket.bytesRead === 0) socket.destroy();
    if (!this.#isTls) return;
    const shaken = new Set(Array.from(this.#secure, peerKey));
    for (const socket of this.#open) if (!shaken.has(peerKey(socket))) socket.destroy();
  }

  /** Closes connections whose client has read none of its waiting bytes since the last call. */
  closeStalled(): void {
    const read = new Map<Socket, number>();
    for (const socket of this.#httpSockets()) {
      const { writableLength } = socket;
      if (writableLength === 0) continue;
      const bytes = socket.bytesWritten - writableLength;
      if (this.#bytesRead.get(socket) === bytes) socket.destroy();
      else read.set(socket, bytes);
    }
    this.#bytesRead = read;
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

/** Identifies a connection; the same for its encrypted and its decrypted socket. */
function peerKey({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}

const ERROR_CODES: Readonly<Record<string, ErrorCode>> = {
  HPE_HEADER_OVERFLOW: 'headers_too_large',
  ERR_HTTP_REQUEST_TIMEOUT: 'request_timeout',
};

/** Connections that stay open only until the pending answers are written. */
const CLOSING_SOCKETS = new WeakSet<Socket>();

/**
 * Answers a connection whose request could not be read or came too slowly; `code` is that of Node's error.
 * Complete requests before it are answered first, because the client would take the error for their answer. A
 * request that was refused by its head gets no second answer for an error in its body, because the client
 * would take that for the answer to its next request.
 */
export function rejectUnreadable(
  code: string | undefined,
  socket: Socket,
  { recorder, lingering }: Pick<ExchangeContext, 'recorder' | 'lingering'>,
): void {
  // Without a handshake no answer can be sent: the client did not speak TLS.
  if (code === 'ECONNRESET' || /^ERR_(SSL|TLS)_/.test(code ?? '')) {
    socket.destroy();
    return;
  }
  // Every further byte is an error too.
  if (CLOSING_SOCKETS.has(socket) || lingering.has(socket)) return;
  CLOSING_SOCKETS.add(socket);
  if ((socket as TrackedSocket)[CURRENT_REQUEST]?.hasEarlyResponse) {
    afterPendingResponses(socket, () => lingering.close(socket));
    return;
  }
  const answer = errorResponse(ERROR_CODES[code ?? ''] ?? 'malformed_request');
  recorder?.requestAnswered(answer.status, answer.code);
  const text = serializeClosingResponse(answer);
  afterPendingResponses(socket, () => lingering.close(socket, text));
}

/**
 * Calls `then` when every pending answer is written. It is never called when the connection breaks before.
 */
function afterPendingResponses(socket: Socket, then: () => void): void {
  const response = currentResponse(socket);
  if (response === undefined || !(response.req.complete || response.headersSent)) then();
  // By then Node has moved on to the next answer.
  else response.once('finish', () => afterPendingResponses(socket, then));
}

/** The answer that is being written on this connection. Only a private field of Node has it. */
function currentResponse(socket: Socket): ServerResponse | undefined {
  return (socket as Socket & { readonly _httpMessage?: ServerResponse | null })._httpMessage ?? undefined;
}
