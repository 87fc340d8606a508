import { createServer, type Server } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { type AddressInfo, connect, type Socket } from 'node:net';
import type { TlsOptions } from 'node:tls';

export interface ConnectProxyOptions {
  /** Reached over TLS itself. */
  readonly tls?: TlsOptions;
  /** Gives the status with which a target is refused; undefined lets it through. */
  readonly refuse?: (target: string) => string | undefined;
  /** Resets a tunnel when the client has sent so many bytes through it. */
  readonly cutAfter?: number;
  /**
   * A port of this machine that every tunnel leads to, whatever its target; without it tunnels lead to their
   * targets.
   */
  readonly to?: number;
}

/** A proxy on real sockets that knows CONNECT only. */
export interface ConnectProxy {
  readonly port: number;
  readonly asked: readonly { readonly target: string; readonly authorization: string | undefined }[];
  stop(): Promise<void>;
}

export async function startConnectProxy({
  tls,
  refuse,
  cutAfter = Number.POSITIVE_INFINITY,
  to,
}: ConnectProxyOptions = {}): Promise<ConnectProxy> {
  const asked: { target: string; authorization: string | undefined }[] = [];
  const sockets = new Set<Socket>();
  const server: Server = tls ? createTlsServer(tls) : createServer();
  server.on('connection', (socket: Socket) => sockets.add(socket));
  server.on('connect', (request, socket: Socket) => {
    const target = request.url ?? '';
    asked.push({ target, authorization: request.headers['proxy-authorization'] });
    sockets.add(socket);
    // Tests cut connections on purpose.
    socket.on('error', () => {});
    const status = refuse?.(target);
    if (status !== undefined) {
      socket.end(`HTTP/1.1 ${status}\r\nContent-Length: 0\r\n\r\n`);
      return;
    }
    const port = to ?? Number(/:(\d+)$/.exec(target)?.[1]);
    const host = target.slice(0, target.lastIndexOf(':')).replace(/^\[|\]$/g, '');
    const beyond = connect({ host: to === undefined ? host : '127.0.0.1', port }, () => {
      socket.write('HTTP/1.1 200 Connection established\r\n\r\n');
      socket.pipe(beyond).pipe(socket);
      let passed = 0;
      socket.on('data', (bytes: Buffer) => {
        passed += bytes.length;
        if (passed >= cutAfter) socket.resetAndDestroy();
      });
    });
    sockets.add(beyond);
    beyond.on('error', () => socket.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    port: (server.address() as AddressInfo).port,
    asked,
    stop: async () => {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
