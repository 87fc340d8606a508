import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A way to a server of PostgreSQL that can fail, as the network between a node and its database. */
export interface PostgresLine {
  /** The address of a database, over this line. */
  through(url: string): string;
  /** Cuts all connections of clients. The server learns of nothing. */
  cut(): void;
  /** Carries nothing in either direction from now on, and tells nobody. */
  swallow(): void;
  /** Ends `swallow`: what was sent meanwhile arrives. */
  carry(): void;
  close(): void;
}

const SOCKET = '.s.PGSQL.5432';

export async function startPostgresLine(folder: string): Promise<PostgresLine> {
  const place = mkdtempSync(join(tmpdir(), 'millrace-line-'));
  const pairs = new Map<Socket, Socket>();
  let isSwallowing = false;
  const line = createServer((client) => {
    const server = connect(join(folder, SOCKET));
    pairs.set(client, server);
    client.on('error', () => undefined).on('close', () => pairs.delete(client));
    // The server's side stays open when the client's is cut: it learns of nothing.
    server.on('error', () => undefined).on('close', () => isSwallowing || client.destroy());
    if (!isSwallowing) connectBoth(client, server);
  });
  line.listen(join(place, SOCKET));
  await once(line, 'listening');
  return {
    through: (url) => url.replace(encodeURIComponent(folder), encodeURIComponent(place)),
    cut: () => {
      for (const client of pairs.keys()) {
        client.unpipe();
        client.destroy();
      }
    },
    swallow: () => {
      isSwallowing = true;
      for (const [client, server] of pairs) for (const socket of [client, server]) socket.unpipe().pause();
    },
    carry: () => {
      isSwallowing = false;
      for (const [client, server] of pairs) connectBoth(client, server);
    },
    close: () => {
      line.close();
      for (const [client, server] of pairs) for (const socket of [client, server]) socket.destroy();
      rmSync(place, { recursive: true });
    },
  };
}

function connectBoth(client: Socket, server: Socket): void {
  client.pipe(server);
  server.pipe(client);
}
