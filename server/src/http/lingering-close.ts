import type { Socket } from 'node:net';
import { type Duration, SECOND } from '../model/time.ts';

export interface LingerLimits {
  /** How long a connection is read after its last answer. */
  readonly linger: Duration;
  /** How long its client may send nothing meanwhile. */
  readonly lingerIdle: Duration;
}

/**
 * Bytes that are read and dropped after the last answer. Clients that read while they send stop long before.
 */
export const MAX_LINGER_BYTES = 64 * 1024 * 1024;

/** Connections that may linger at a time. The oldest makes room for the next. */
const MAX_LINGERING = 1000;

/** How long connections linger while the server is stopping. */
const LINGER_WHILE_STOPPING: Duration = SECOND;

/**
 * Closes connections whose client may still be sending: it sees its answer and then the end, also when it
 * reads only after it has sent everything. When a connection is closed with bytes unread, the system resets
 * it, and a reset takes from the client the answer that it has not read yet. So the server ends its own side
 * alone, and reads and drops what still comes until the client ends its side, within bounds of time and
 * bytes. RFC 9112, section 9.6.
 */
export class LingeringConnections {
  readonly #limits: LingerLimits;
  /** With the timer that ends each; the oldest first. */
  readonly #open = new Map<Socket, NodeJS.Timeout>();
  #isStopping = false;

  constructor(limits: LingerLimits) {
    this.#limits = limits;
  }

  has(socket: Socket): boolean {
    return this.#open.has(socket);
  }

  /**
   * Ends our side of the connection, with `lastBytes` in front of the end. Nobody else is given what the
   * client still sends.
   */
  close(socket: Socket, lastBytes?: string): void {
    if (this.#open.has(socket)) return;
    if (!socket.writable) {
      socket.destroy();
      return;
    }
    this.#makeRoom();
    const { linger, lingerIdle } = this.#limits;
    this.#open.set(socket, destroyAfter(socket, this.#isStopping ? LINGER_WHILE_STOPPING : linger));
    socket.once('close', () => this.#forget(socket));
    socket.setTimeout(lingerIdle, () => socket.destroy());
    dropInput(socket);
    if (lastBytes === undefined) socket.end();
    else socket.end(lastBytes);
  }

  /** Clients have a second left. */
  beginStop(): void {
    this.#isStopping = true;
    for (const [socket, timer] of this.#open) {
      clearTimeout(timer);
      this.#open.set(socket, destroyAfter(socket, LINGER_WHILE_STOPPING));
    }
  }

  #makeRoom(): void {
    if (this.#open.size < MAX_LINGERING) return;
    const [oldest] = this.#open.keys();
    if (oldest === undefined) return;
    this.#forget(oldest);
    oldest.destroy();
  }

  #forget(socket: Socket): void {
    clearTimeout(this.#open.get(socket));
    this.#open.delete(socket);
  }
}

function destroyAfter(socket: Socket, delay: Duration): NodeJS.Timeout {
  return setTimeout(() => socket.destroy(), delay).unref();
}

/** Takes the bytes of the connection from whoever reads it, such as the parser of `node:http`. */
function dropInput(socket: Socket): void {
  let size = 0;
  socket.removeAllListeners('data');
  socket.on('data', (piece: Buffer) => {
    size += piece.length;
    if (size > MAX_LINGER_BYTES) socket.destroy();
  });
  socket.resume();
}
