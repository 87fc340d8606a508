import type { Server, Socket } from 'node:net';
import { PlainConnection, type PlainLimits, type PlainTools } from './plain-connection.ts';

export interface PlainOptions extends Omit<PlainTools, 'attend' | 'left'> {
  readonly limits: PlainLimits;
  readonly isTls: boolean;
}

/** The connections that are read without `node:http`: every one from its beginning until something is not plain. */
export class PlainConnections {
  readonly #open = new Set<PlainConnection>();
  readonly #limits: PlainLimits;

  /**
   * Stands between the server and Node's own reader of connections, which is called for those that are handed over: in all
   * else, the bounds, the time limits, the closing, it is the same server for both.
   */
  constructor(server: Server, { limits, isTls, ...shared }: PlainOptions) {
    this.#limits = limits;
    const event = isTls ? 'secureConnection' : 'connection';
    const [read] = server.listeners(event) as ((socket: Socket) => void)[];
    server.off(event, read!);
    const tools: PlainTools = {
      ...shared,
      attend: (socket) => Reflect.apply(read!, server, [socket]),
      left: (connection) => this.#open.delete(connection),
    };
    server.on(event, (socket: Socket) => this.#open.add(new PlainConnection(socket, tools)));
  }

  /** To be called every few seconds. */
  checkTime(): void {
    const now = performance.now();
    for (const connection of this.#open) connection.checkTime(now, this.#limits);
  }

  closeIdle(): void {
    for (const connection of this.#open) connection.closeIfIdle();
  }
}
