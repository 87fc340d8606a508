import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { setTimeout as delay, setImmediate as nextTurn } from 'node:timers/promises';
import type { Databases } from '../support/postgres.ts';

/** A lease under which a node has worked, as the network between it and the database sees it. */
export interface Lease {
  /** The number of the process in the database. */
  readonly process: number;
  /** By the monotonic clock. */
  endedAt: number;
  /** Transactions with results of deliveries whose commit the database has told the node of. */
  commits: number;
}

/** A network between a node and the database, with the faults of networks. */
export interface Line {
  /** The leases of the node, the last of which it may still have. */
  readonly leases: readonly Lease[];
  /** The place in `leases` of that under which the node sends what comes to an endpoint now. */
  readonly current: number;
  /** By which a node reaches a database of the server. */
  addressOf(database: string): string;
  /** Nothing passes any more, and nobody is told: what is sent meanwhile arrives after `mend`. */
  cut(): void;
  mend(): void;
  /** From now on everything that the database sends arrives so many milliseconds later. */
  slow(ms: number): void;
  /** New connections reach this server. Those that are open stay. */
  lead(server: Server): void;
  /** Breaks all connections. New ones reach this server. */
  turn(server: Server): void;
  stop(): void;
}

/** The beginning of each transaction of a node, which says under which lease it is. */
const FENCE = /select fence\((\d+)\)/;
/** The statement by which each transaction with results writes down the requests that were accepted. */
const RESULTS = 'accepted_attempt.insert';
/** How the database says what became of a transaction. */
const COMMITTED = 'COMMIT\0';
const ROLLED_BACK = 'ROLLBACK\0';
/** Characters of which each of these may have some in one part and some in the next. */
const KEPT = 40;

/** Reads from the traffic under which lease the node works, and when the database has confirmed results. */
class Leases {
  readonly all: Lease[] = [];
  current = 0;

  /** Looks at the bytes of one connection. */
  watch(): { readonly asked: (part: Buffer) => void; readonly answered: (part: Buffer) => void } {
    let [before, beforeOfAnswers] = ['', ''];
    let of: Lease | undefined;
    return {
      asked: (part) => {
        const text = before + part.toString('latin1');
        const fence = FENCE.exec(text);
        if (fence !== null) this.#works(Number(fence[1]));
        if (text.includes(RESULTS)) of = this.all.at(-1);
        const seen = fence === null ? 0 : fence.index + fence[0].length;
        before = text.slice(Math.max(seen, text.length - KEPT));
      },
      answered: (part) => {
        const text = beforeOfAnswers + part.toString('latin1');
        const isOver = text.includes(COMMITTED) || text.includes(ROLLED_BACK);
        if (of !== undefined && text.includes(COMMITTED)) of.commits++;
        if (isOver) of = undefined;
        beforeOfAnswers = isOver ? '' : text.slice(-KEPT);
      },
    };
  }

  #works(process: number): void {
    if (this.all.at(-1)?.process === process) return;
    const last = this.all.at(-1);
    if (last !== undefined) last.endedAt = Math.min(last.endedAt, performance.now());
    this.all.push({ process, endedAt: Number.POSITIVE_INFINITY, commits: 0 });
    void this.#follow(this.all.length - 1);
  }

  /**
   * The node has sent nothing under its next lease so far; what it sent before is read in this turn and in
   * the next.
   */
  async #follow(next: number): Promise<void> {
    for (let turn = 0; turn < 3; turn++) await nextTurn();
    this.current = next;
  }
}

/** Opens a network to a server. */
export async function startLine(server: Server): Promise<Line> {
  const line = new NetworkLine(server);
  await line.listen();
  return line;
}

type Server = Pick<Databases, 'folder'>;

const socketOf = ({ folder }: Server) => join(folder, '.s.PGSQL.5432');

class NetworkLine implements Line {
  readonly #leases = new Leases();
  readonly #sockets = new Set<Socket>();
  readonly #listening = createServer((client) => this.#carry(client));
  #target: string;
  #wait = 0;
  #mended: Promise<void> | undefined;
  #mend = () => {};

  constructor(server: Server) {
    this.#target = socketOf(server);
  }

  async listen(): Promise<void> {
    this.#listening.listen(0, '127.0.0.1');
    await once(this.#listening, 'listening');
  }

  get leases(): readonly Lease[] {
    return this.#leases.all;
  }

  get current(): number {
    return this.#leases.current;
  }

  addressOf(database: string): string {
    const { port } = this.#listening.address() as AddressInfo;
    return `postgres://millrace@127.0.0.1:${port}/${database}`;
  }

  cut(): void {
    this.#mended = new Promise((resolve) => {
      this.#mend = resolve;
    });
  }

  mend(): void {
    this.#mended = undefined;
    this.#mend();
  }

  slow(ms: number): void {
    this.#wait = ms;
  }

  lead(server: Server): void {
    this.#target = socketOf(server);
  }

  turn(server: Server): void {
    this.lead(server);
    this.#destroyAll();
  }

  stop(): void {
    this.mend();
    this.#listening.close();
    this.#destroyAll();
  }

  #destroyAll(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  #carry(client: Socket): void {
    const upstream = connect(this.#target);
    for (const socket of [client, upstream]) {
      this.#sockets.add(socket);
      socket.on('error', () => undefined).on('close', () => this.#sockets.delete(socket));
    }
    const { asked, answered } = this.#leases.watch();
    this.#pass(client, upstream, asked, () => 0);
    this.#pass(upstream, client, answered, () => this.#wait);
  }

  #pass(from: Socket, to: Socket, watch: (part: Buffer) => void, late: () => number): void {
    let before: Promise<unknown> = Promise.resolve();
    const inTurn = (work: () => void) => {
      const due = performance.now() + late();
      before = before.then(async () => {
        const left = due - performance.now();
        if (left > 0) await delay(left);
        while (this.#mended !== undefined) await this.#mended;
        work();
      });
    };
    from.on('data', (part: Buffer) =>
      inTurn(() => {
        watch(part);
        to.write(part);
      }),
    );
    from.on('close', () => inTurn(() => to.destroy()));
  }
}

/** No line at all: what is done to the network is done elsewhere, and nothing is known of leases. */
export function directLine(address: string): Line {
  const refuse = () => {
    throw new Error('this node reaches the database by itself');
  };
  const nothing = { leases: [], current: 0, stop: () => {} };
  return {
    ...nothing,
    addressOf: () => address,
    cut: refuse,
    lead: refuse,
    mend: refuse,
    slow: refuse,
    turn: refuse,
  };
}
