import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import { createServer as createTlsServer, type ServerOptions } from 'node:https';
import type { AddressInfo } from 'node:net';
import { within } from './until.ts';

/** One request as it arrived at a customer's endpoint. */
export interface Arrival {
  readonly at: number;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

/** A customer's endpoint on a real socket. */
export interface TestReceiver {
  readonly url: string;
  readonly port: number;
  readonly arrivals: readonly Arrival[];
  /** Resolves when the condition holds; looked at after every arrival. */
  until(condition: () => boolean): Promise<void>;
  /** Resolves when so many requests have arrived. */
  count(n: number): Promise<void>;
  stop(): Promise<void>;
}

export interface TestReceiverOptions {
  readonly port?: number;
  readonly tls?: ServerOptions;
  /** Answers a request; 200 at once when absent. `nth` counts from 0. */
  readonly answer?: (response: ServerResponse, arrival: Arrival, nth: number) => void;
}

export async function startReceiver(options: TestReceiverOptions = {}): Promise<TestReceiver> {
  const arrivals: Arrival[] = [];
  const watchers = new Set<() => void>();
  const answer = options.answer ?? ((response: ServerResponse) => response.end());
  const server = (options.tls ? createTlsServer(options.tls) : createServer()) as ReturnType<
    typeof createServer
  >;
  server.on('request', (request, response) => {
    const parts: Buffer[] = [];
    request.on('data', (part: Buffer) => parts.push(part));
    request.on('end', () => {
      const arrival = {
        at: Date.now(),
        path: request.url!,
        headers: request.headers,
        body: Buffer.concat(parts),
      };
      arrivals.push(arrival);
      answer(response, arrival, arrivals.length - 1);
      for (const watch of watchers) watch();
    });
  });
  server.listen(options.port ?? 0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const until = async (condition: () => boolean) => {
    const reached = new Promise<void>((resolve) => {
      const look = () => {
        if (!condition()) return;
        watchers.delete(look);
        resolve();
      };
      watchers.add(look);
      look();
    });
    const describe = () => `${condition}; ${arrivals.length} requests have arrived`;
    await within('the requests of a receiver are as wanted', reached, describe);
  };
  return {
    url: `${options.tls ? 'https' : 'http'}://127.0.0.1:${port}`,
    port,
    arrivals,
    until,
    count: (n) => until(() => arrivals.length >= n),
    stop: async () => {
      server.close();
      server.closeAllConnections();
      if (server.listening) await once(server, 'close');
    },
  };
}

/**
 * A port that nothing listens on now, for a receiver that is down and comes up later. It lies below the ports
 * that systems give to whoever asks for any: another test's receiver would take the events.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    // clock: the port is tried, and another one taken where it is not free.
    const port = randomInt(10_000, 32_000);
    try {
      await (await startReceiver({ port })).stop();
      return port;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error;
    }
  }
}
