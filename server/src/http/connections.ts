import type { Server, Socket } from 'node:net';

/** What is arriving on a connection now and wants to know when the client is gone. */
export const ARRIVING = Symbol('arriving');

/** The request that `node:http` read last on a connection, of which the head is here at least. */
export const ASKED = Symbol('asked');

/** The notes stand on the connection itself: a listener for every request would cost as much as the rest of this folder. */
export type Carrier = Socket & {
  [ARRIVING]?: { gone(): void } | undefined;
  [ASKED]?: { readonly isAnsweredEarly: boolean } | undefined;
};

/**
 * Every open connection of a server, those too that Node's HTTP server does not count: a TLS handshake under way, and a
 * connection on which nothing has been sent yet (browsers open some in advance). Without this each of them would hold up
 * a stop until the grace is over.
 */
export class Connections {
  readonly #open = new Set<Carrier>();
  /** With TLS, what speaks HTTP on one of `#open` after its handshake. */
  readonly #secure = new Set<Carrier>();
  readonly #isTls: boolean;
  /** How many bytes each had taken at the last look, where more were waiting. */
  #taken = new Map<Socket, number>();

  constructor(server: Server, isTls: boolean) {
    this.#isTls = isTls;
    server.on('connection', (socket: Carrier) => keep(this.#open, socket));
    server.on('secureConnection', (socket: Carrier) => keep(this.#secure, socket));
  }

  get size(): number {
    return this.#open.size;
  }

  /** Closes those on which the client has not begun a request. */
  closeSilent(): void {
    for (const socket of this.#speaking()) if (socket.bytesRead === 0) socket.destroy();
    if (!this.#isTls) return;
    const shaken = new Set(Array.from(this.#secure, peerOf));
    for (const socket of this.#open) if (!shaken.has(peerOf(socket))) socket.destroy();
  }

  /** Closes those whose client has read nothing of what waits for it since this was called the last time. */
  closeDeaf(): void {
    const taken = new Map<Socket, number>();
    for (const socket of this.#speaking()) {
      const { writableLength } = socket;
      if (writableLength === 0) continue;
      const bytes = socket.bytesWritten - writableLength;
      if (this.#taken.get(socket) === bytes) socket.destroy();
      else taken.set(socket, bytes);
    }
    this.#taken = taken;
  }

  closeAll(): void {
    for (const socket of this.#secure) socket.destroy();
    for (const socket of this.#open) socket.destroy();
  }

  #speaking(): ReadonlySet<Socket> {
    return this.#isTls ? this.#secure : this.#open;
  }
}

function keep(set: Set<Carrier>, socket: Carrier): void {
  set.add(socket);
  socket.once('close', () => {
    set.delete(socket);
    socket[ARRIVING]?.gone();
  });
}

/** Which connection it is; the same for its two ends of the encryption. */
function peerOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}
