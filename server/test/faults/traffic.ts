import { Agent, request as httpRequest, type IncomingHttpHeaders } from 'node:http';
import type { Chance } from '../support/disk-faults/random.ts';
import type { Calls, Request } from './calls.ts';

export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
  readonly ms: number;
}

/** Connections to one program, like a client's: kept alive, one request at a time on each. */
export class Client {
  readonly #url: URL;
  readonly #agent: Agent;

  constructor(url: string, connections: number) {
    this.#url = new URL(url);
    this.#agent = new Agent({ keepAlive: true, maxSockets: connections });
  }

  /** Resolves to undefined when the connection broke. */
  send({ path, body }: Pick<Request, 'path' | 'body'>): Promise<Answer | undefined> {
    return this.#ask('POST', path, body);
  }

  get(path: string): Promise<Answer | undefined> {
    return this.#ask('GET', path);
  }

  #ask(method: string, path: string, body?: string): Promise<Answer | undefined> {
    const began = performance.now();
    const headers =
      body === undefined ? {} : { authorization: AUTHORIZATION, 'content-length': Buffer.byteLength(body) };
    const { hostname, port } = this.#url;
    return new Promise((resolve) => {
      const request = httpRequest(
        { hostname, port, method, path, headers, agent: this.#agent },
        (response) => {
          let text = '';
          response.setEncoding('utf8').on('data', (part: string) => {
            text += part;
          });
          response.on('end', () => {
            const { statusCode, headers } = response;
            resolve({ status: statusCode!, headers, body: text, ms: performance.now() - began });
          });
          response.on('close', () => resolve(undefined));
        },
      );
      request.on('error', () => resolve(undefined));
      request.end(body);
    });
  }

  close(): void {
    this.#agent.destroy();
  }
}

const AUTHORIZATION = `Basic ${Buffer.from('wk:').toString('base64')}`;

export interface TrafficOptions {
  readonly calls: Calls;
  readonly chance: Chance;
  readonly connections: number;
  /** The next request; by default those of clients by turns. Undefined ends this connection. */
  readonly next?: () => Request | undefined;
}

/** Calls from several connections at once, each answered before the next is sent, until told to stop. */
export class Traffic {
  /** Answers by status; `broken` counts connections that ended without one. */
  readonly statuses = new Map<number | 'broken', number>();
  /** Answers that break a rule of the receiving API. */
  readonly wrong: string[] = [];
  /** The shortest time to a 200, in milliseconds. */
  fastest = Number.POSITIVE_INFINITY;
  /** Requests sent and not answered yet. */
  inFlight = 0;
  readonly #options: TrafficOptions;
  readonly #client: Client;
  readonly #lanes: Promise<unknown>;
  #stopped = false;
  #watch: () => void = () => {};

  constructor(url: string, options: TrafficOptions) {
    this.#options = options;
    this.#client = new Client(url, options.connections);
    this.#lanes = Promise.all(Array.from({ length: options.connections }, () => this.#lane()));
  }

  /**
   * Resolves when every connection has its last answer: it was stopped, it broke, or nothing was left to
   * send.
   */
  async ended(): Promise<void> {
    await this.#lanes;
    this.#client.close();
  }

  /** Resolves when the condition holds, checked after every answer. Rejects when the traffic ends before. */
  async until(condition: () => boolean): Promise<void> {
    const held = new Promise<void>((resolve) => {
      this.#watch = () => {
        if (condition()) resolve();
      };
      this.#watch();
    });
    await Promise.race([held, this.#lanes]);
    this.#watch = () => {};
    if (!condition()) throw new Error('the traffic ended before what it was to bring about');
  }

  /** Sends nothing new. */
  async stop(): Promise<void> {
    this.#stopped = true;
    await this.ended();
  }

  async #lane(): Promise<void> {
    const { calls, chance, next = () => calls.draw(chance) } = this.#options;
    while (!this.#stopped) {
      const request = next();
      if (request === undefined) return;
      const isNew = request.ids.some((id) => !calls.acknowledged.has(id));
      this.inFlight++;
      const answer = await this.#client.send(request);
      this.inFlight--;
      const key = answer?.status ?? 'broken';
      this.statuses.set(key, (this.statuses.get(key) ?? 0) + 1);
      if (answer !== undefined) this.wrong.push(...brokenPromises(answer));
      // An empty or repeated request needs no commit.
      if (answer?.status === 200 && isNew) this.fastest = Math.min(this.fastest, answer.ms);
      calls.note(request, answer?.status);
      this.#watch();
      if (answer === undefined) return;
    }
  }
}

/**
 * spec/specification.md, "Success" and "Overload": 200 with these very bytes, or 429 or 503 that say when to
 * come back, in both headers.
 */
export function brokenPromises({ status, headers, body }: Answer): string[] {
  if (status === 200) return body === '{"success":true}' ? [] : [`200 with the body ${body}`];
  if (status !== 503 && status !== 429) return [`status ${status}: ${body}`];
  const { 'retry-after': after, 'x-ratelimit-reset': reset } = headers;
  const seconds = Number(after);
  const inBounds = /^\d+$/.test(after ?? '') && seconds >= 1 && seconds <= 300;
  return inBounds && reset === after
    ? []
    : [`${status} with Retry-After ${after}, X-RateLimit-Reset ${reset}`];
}
