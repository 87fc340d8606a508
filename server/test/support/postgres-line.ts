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
  /** Carries about so many bytes of clients more, and then nothing. Resolves then. */
  carryOnly(bytes: number): Promise<void>;
  close(): void;
}

const SOCKET = '.s.PGSQL.5432';

export async function startPostgresLine(folder: string): Promise<PostgresLine> {
  const line = new Line(folder);
  await line.listen();
  return line;
}

class Line implements PostgresLine {
  readonly #folder: string;
  readonly #place = mkdtempSync(join(tmpdir(), 'millrace-line-'));
  readonly #pairs = new Map<Socket, Socket>();
  readonly #listening = createServer((client) => this.#accept(client));
  #isSwallowing = false;
  /** Bytes of clients until it swallows, and who waits for that. */
  #left = Number.POSITIVE_INFINITY;
  #isUsed = () => {};

  constructor(folder: string) {
    this.#folder = folder;
  }

  async listen(): Promise<void> {
    this.#listening.listen(join(this.#place, SOCKET));
    await once(this.#listening, 'listening');
  }

  through(url: string): string {
    return url.replace(encodeURIComponent(this.#folder), encodeURIComponent(this.#place));
  }

  cut(): void {
    for (const client of this.#pairs.keys()) {
      client.unpipe();
      client.destroy();
    }
  }

  swallow(): void {
    this.#isSwallowing = true;
    for (const [client, server] of this.#pairs)
      for (const socket of [client, server]) socket.unpipe().pause();
  }

  carry(): void {
    this.#isSwallowing = false;
    for (const [client, server] of this.#pairs) this.#connectBoth(client, server);
  }

  async carryOnly(bytes: number): Promise<void> {
    const used = new Promise<void>((resolve) => {
      this.#isUsed = resolve;
    });
    this.#left = bytes;
    this.carry();
    await used;
  }

  close(): void {
    this.#listening.close();
    for (const [client, server] of this.#pairs) for (const socket of [client, server]) socket.destroy();
    rmSync(this.#place, { recursive: true, force: true });
  }

  #accept(client: Socket): void {
    const server = connect(join(this.#folder, SOCKET));
    this.#pairs.set(client, server);
    client.on('error', () => undefined).on('close', () => this.#pairs.delete(client));
    // The server's side stays open when the client's is cut: it learns of nothing.
    server.on('error', () => undefined).on('close', () => this.#isSwallowing || client.destroy());
    if (!this.#isSwallowing) this.#connectBoth(client, server);
  }

  #connectBoth(client: Socket, server: Socket): void {
    client.off('data', this.#count).on('data', this.#count).pipe(server);
    server.pipe(client);
  }

  readonly #count = ({ length }: Buffer): void => {
    this.#left -= length;
    if (this.#left > 0) return;
    this.#left = Number.POSITIVE_INFINITY;
    this.swallow();
    this.#isUsed();
  };
}
