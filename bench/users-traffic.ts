import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { CallTemplate, isGranted, PLACEHOLDER } from './calls.ts';
import { eventName, randomText, seeded, zipf } from './profiles.ts';

/** The load of one turn. */
export interface Turn {
  /** Milliseconds. */
  readonly time: number;
  /** Calls a second. Absent: every connection sends again as soon as it has its answer. */
  readonly rate?: number;
}

export interface TurnResult {
  readonly events: number;
  readonly refused: number;
  /** Milliseconds until the answer, of each call. */
  readonly latencies: readonly number[];
}

/** Different requests that are sent again and again with new ids. */
const POOL = 200;

/** Later than this a call is not sent any more: the server cannot keep up with the rate. */
const MAX_BEHIND = 200;

/** Calls of Zipf users, by turns. Each turn has connections of its own, with one call at a time on each. */
export class Traffic {
  readonly #url: URL;
  readonly #connections: number;
  readonly #events: number;
  readonly #calls: readonly CallTemplate[];
  #free: Socket[] = [];
  readonly #sentAt = new Map<Socket, number>();
  #nextCall = 0;
  #latencies: number[] = [];
  #refused = 0;
  #done = 0;
  #answered: () => void = () => {};

  constructor(url: string, offered: { events: number; connections: number; users: number }) {
    const { events, connections, users } = offered;
    this.#url = new URL(url);
    this.#connections = connections;
    const random = seeded(events);
    this.#events = events;
    this.#calls = Array.from(
      { length: POOL },
      () => new CallTemplate(Array.from({ length: events }, () => eventOf(users, random))),
    );
  }

  /** Resolves when every call that was sent is answered. */
  async offer({ time, rate }: Turn): Promise<TurnResult> {
    this.#latencies = [];
    this.#refused = 0;
    this.#done = 0;
    const sockets = await Promise.all(Array.from({ length: this.#connections }, () => this.#connect()));
    this.#free = [...sockets];
    const startedAt = performance.now();
    const end = startedAt + time;
    let sent = 0;
    for (let now = startedAt; now < end; now = performance.now()) {
      const due = rate === undefined ? Number.POSITIVE_INFINITY : ((now - startedAt) / 1000) * rate;
      if (rate !== undefined && due - sent > (rate * MAX_BEHIND) / 1000) sent = Math.floor(due);
      for (; sent < due && this.#free.length > 0; sent++) this.#send(this.#free.pop()!);
      await this.#something(rate === undefined ? end - now : 1);
    }
    while (this.#sentAt.size > 0) await this.#something(1000);
    for (const socket of sockets) socket.destroy();
    return { events: this.#done * this.#events, refused: this.#refused, latencies: this.#latencies };
  }

  async #connect(): Promise<Socket> {
    const { hostname, port } = this.#url;
    const socket = connect({ host: hostname, port: Number(port), noDelay: true });
    await once(socket, 'connect');
    socket.on('data', (answer) => this.#take(socket, answer));
    return socket;
  }

  /** Waits until an answer comes or this time has passed. */
  async #something(time: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, Math.max(1, time));
    this.#answered = resolve;
    await promise;
    clearTimeout(timer);
  }

  #send(socket: Socket): void {
    this.#sentAt.set(socket, performance.now());
    socket.write(this.#calls[this.#nextCall++ % POOL]!.next());
  }

  #take(socket: Socket, answer: Buffer): void {
    this.#latencies.push(performance.now() - this.#sentAt.get(socket)!);
    this.#sentAt.delete(socket);
    if (isGranted(answer)) this.#done++;
    else this.#refused++;
    this.#free.push(socket);
    this.#answered();
  }
}

/** Some 600 bytes. One in five has an anonymousId alone. */
function eventOf(users: number, random: () => number): object {
  const user = zipf(users, random);
  const ids = random() < 0.2 ? { anonymousId: `anonymous-${user}` } : { userId: `user-${user}` };
  return {
    ...{ type: 'track', event: eventName(random), ...ids, messageId: PLACEHOLDER },
    properties: {
      ...{ total: Math.floor(random() * 20000) / 100, currency: 'EUR', sku: `sku-${randomText(random)}` },
      pad: Array.from({ length: 30 }, () => randomText(random)).join(' '),
    },
    context: { library: { name: 'analytics-node', version: '3.1.0' }, ip: '203.0.113.9' },
  };
}
