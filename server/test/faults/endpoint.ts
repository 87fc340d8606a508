import { once } from 'node:events';
import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Chance } from '../support/disk-faults/random.ts';
import { within } from '../support/until.ts';
import { type Calls, isRefused } from './calls.ts';

/** The behaviour of a customer's endpoint: healthy, late, answering 5xx half the time, or unreachable. */
export const MOODS = ['up', 'slow', 'failing', 'down'] as const;
export type Mood = (typeof MOODS)[number];

/**
 * An event that comes again after a crash was answered fewer requests of clients before it than this. The
 * program had not yet written down that it was delivered: it writes results with the commits of the next
 * calls, so that a slow machine delays both.
 */
export const OLDEST_REPEAT = 200;

/** The last time an event arrived. */
interface Arrival {
  /** The crashes there had been. */
  readonly crashes: number;
  /** The requests of clients that were answered when it got its final answer; absent while it has none. */
  answeredAt?: number;
}

/** Deliveries that arrived again after a crash, and those that should not have. */
interface Repeats {
  /** For each crash, the number of deliveries that came again because of it. */
  readonly byCrash: Map<number, number>;
  /**
   * The most requests of clients that were answered between a delivery's answer and the crash that made it
   * come again.
   */
  oldest: number;
  /** Ids that came again although nothing crashed in between. */
  readonly unexplained: string[];
}

/** A customer's endpoint on a port of its own, which counts what arrives over many lives of the program. */
export class Endpoint {
  readonly port: number;
  readonly repeats: Repeats = { byCrash: new Map(), oldest: 0, unexplained: [] };
  readonly #chance: Chance;
  readonly #clients: Pick<Calls, 'answered'>;
  readonly #arrivals = new Map<string, Arrival>();
  /** Events answered 200 and events answered 400; both answers are final. */
  readonly accepted = new Set<string>();
  readonly refused = new Set<string>();
  readonly #crashedAt: number[] = [];
  #server: Server | undefined;
  #mood: Mood = 'down';
  /** Told of each final answer; several lives may share one endpoint. */
  readonly #watchers = new Set<(id: string) => void>();

  /**
   * @param port from `freePort`: it stays the same while the endpoint comes and goes; 0 is any port
   * @param clients whose answers say how old a repeat is
   */
  constructor(port: number, chance: Chance, clients: Pick<Calls, 'answered'> = { answered: 0 }) {
    this.port = port;
    this.#chance = chance;
    this.#clients = clients;
  }

  /**
   * Changes the behaviour. Call it only while no program runs: it is unknown which answers a running one has
   * read.
   */
  async be(mood: Mood): Promise<void> {
    this.#mood = mood;
    if (mood === 'down') await this.stop();
    else if (this.#server === undefined) await this.#start();
  }

  async #start(): Promise<void> {
    const server = createServer((request, response) => {
      request.resume();
      request.on('end', () =>
        this.#arrive(decodeURIComponent(String(request.headers['webhook-id'])), response),
      );
    });
    server.keepAliveTimeout = 60_000;
    server.listen(this.port, '127.0.0.1');
    await once(server, 'listening');
    if (this.port !== (server.address() as AddressInfo).port) throw new Error('not on the port asked for');
    this.#server = server;
  }

  #arrive(id: string, response: ServerResponse): void {
    if (this.#mood === 'failing' && this.#chance.happens(0.5)) {
      response.writeHead(this.#chance.one([500, 503, 429])).end();
      return;
    }
    this.#compare(id, this.#arrivals.get(id));
    const arrival: Arrival = { crashes: this.#crashedAt.length };
    this.#arrivals.set(id, arrival);
    const answer = () => {
      if (response.destroyed) return;
      response.writeHead(isRefused(id) ? 400 : 200).end();
      arrival.answeredAt = this.#clients.answered;
      (isRefused(id) ? this.refused : this.accepted).add(id);
      for (const watch of this.#watchers) watch(id);
    };
    if (this.#mood === 'slow') setTimeout(answer, this.#chance.between(10, 300));
    else answer();
  }

  #compare(id: string, before: Arrival | undefined): void {
    if (before === undefined) return;
    const crashedAt = this.#crashedAt[before.crashes];
    if (crashedAt !== undefined) {
      const { byCrash } = this.repeats;
      byCrash.set(before.crashes, (byCrash.get(before.crashes) ?? 0) + 1);
      // Requests without an answer were in flight when the program died.
      const age = before.answeredAt === undefined ? 0 : crashedAt - before.answeredAt;
      this.repeats.oldest = Math.max(this.repeats.oldest, age);
    } else this.repeats.unexplained.push(id);
  }

  /** Notes that the program was killed just now. */
  crashed(): void {
    this.#crashedAt.push(this.#clients.answered);
  }

  /**
   * Resolves when all of these have a final answer; rejects after some minutes, with the number still missing
   * and how many others came meanwhile. An arrival costs the same however many are waited for. Deliveries
   * that have failed before may come behind tens of thousands of others, and an endpoint that looks through
   * them all at each arrival is what holds them up.
   */
  async drain(ids: Iterable<string>): Promise<void> {
    const missing = new Set([...ids].filter((id) => !this.accepted.has(id) && !this.refused.has(id)));
    if (missing.size === 0) return;
    let others = 0;
    const { promise, resolve } = Promise.withResolvers<void>();
    const watch = (id: string) => {
      if (!missing.delete(id)) others++;
      if (missing.size === 0) resolve();
    };
    this.#watchers.add(watch);
    const describe = () => {
      const examples = [...missing].slice(0, 5).join(', ');
      return `${missing.size} events never arrived, such as ${examples}; ${others} others did`;
    };
    await within('every event has its final answer', promise, describe).finally(() =>
      this.#watchers.delete(watch),
    );
  }

  async stop(): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    if (server === undefined) return;
    server.close();
    server.closeAllConnections();
    if (server.listening) await once(server, 'close');
  }
}
