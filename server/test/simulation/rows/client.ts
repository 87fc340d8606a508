import { EventEmitter } from 'node:events';
import type pg from 'pg';
import type { Life } from '../kernel.ts';
import { type Effect, type LeaseServer, type Query, type QueryResult, Session } from './server.ts';

/** The way between one process and the server. */
export interface Way {
  /** Milliseconds of a message to the server and of the work that it asks for. */
  delayTo(query: Query | undefined): number;
  /** Milliseconds of an answer. */
  delayBack(): number;
  /** New connections are refused. */
  isClosed(): boolean;
  /**
   * Messages are not lost, and do not come through: calls it when they do again. False when they do now.
   * `isAnswer`: on their way to the process.
   */
  holdsBack(isAnswer: boolean, goOn: () => void): boolean;
  effect(effect: Effect): void;
}

interface Pending {
  readonly resolve: (answer: QueryResult) => void;
  readonly reject: (error: Error) => void;
}

/** Messages in one direction of a connection: they come in their order, whatever happens on the way. */
class Direction {
  readonly #messages: (() => void)[] = [];
  readonly #arrive: (delay: number, run: () => void) => void;
  readonly #way: Way;
  readonly #isOfAnswers: boolean;

  constructor(way: Way, isOfAnswers: boolean, arrive: (delay: number, run: () => void) => void) {
    this.#way = way;
    this.#isOfAnswers = isOfAnswers;
    this.#arrive = arrive;
  }

  send(delay: number, take: () => void): void {
    this.#messages.push(take);
    this.#arrive(delay, () => this.#come());
  }

  /** Messages that have not come yet never do. */
  lose(): void {
    this.#messages.length = 0;
  }

  #come(): void {
    const goOn = () => this.#arrive(this.#way.delayBack(), () => this.#come());
    if (this.#way.holdsBack(this.#isOfAnswers, goOn)) return;
    this.#messages.shift()?.();
  }
}

/** The end of a connection in the process, as `pg` has it. */
export class LeaseClient extends EventEmitter {
  /** Read by the pool. */
  _queryable = true;
  _ending = false;
  readonly connection = { stream: { destroy: () => this.#destroy() } };
  readonly #server: LeaseServer;
  readonly #way: Way;
  readonly #there: Direction;
  readonly #back: Direction;
  readonly #pending: Pending[] = [];
  #session: Session | undefined;
  #connecting: ((error?: Error) => void) | undefined;
  #ending: (() => void) | undefined;
  #isEnded = false;

  constructor(server: LeaseServer, life: Life | undefined, way: Way) {
    super();
    this.#server = server;
    this.#way = way;
    const { wire } = server;
    this.#there = new Direction(way, false, (delay, run) =>
      wire.arrive(delay, undefined, 'to the database', run),
    );
    this.#back = new Direction(way, true, (delay, run) => wire.arrive(delay, life, 'from the database', run));
  }

  connect(connected: (error?: Error) => void): void {
    this.#connecting = connected;
    this.#there.send(this.#way.delayTo(undefined), () => {
      if (this.#way.isClosed()) return this.#tell(() => this.#refused());
      this.#session = new Session(this.#server, {
        answered: (answer) => this.#tell(() => this.#answered(answer)),
        ended: (reason) => this.#tell(() => this.#close(reason)),
        effect: (effect) => this.#way.effect(effect),
      });
      return this.#tell(() => {
        this.#connecting = undefined;
        if (!this.#isEnded) connected();
      });
    });
  }

  query(asked: string | { name: string; text: string; values: unknown[] }): Promise<QueryResult> {
    const query: Query = typeof asked === 'string' ? { text: asked, values: [] } : asked;
    if (!this._queryable || this.#isEnded)
      return Promise.reject(new Error('Client has encountered a connection error and is not queryable'));
    const { promise, resolve, reject } = Promise.withResolvers<QueryResult>();
    this.#pending.push({ resolve, reject });
    this.#there.send(this.#way.delayTo(query), () => this.#session?.ask(query));
    return promise;
  }

  end(ended: () => void): void {
    this._ending = true;
    if (this.#isEnded) return void queueMicrotask(ended);
    this.#ending = ended;
    if (this.#pending.length > 0) this.#destroy();
    else this.#there.send(this.#way.delayTo(undefined), () => this.#goodbye());
  }

  /**
   * The process is dead. `isGone`: its machine too, so that nothing more comes through, and the server
   * notices only after so many milliseconds.
   */
  die(isGone: boolean, noticedAfter: number): void {
    if (isGone) this.#there.lose();
    this.#isEnded = true;
    if (!isGone) this.#there.send(this.#way.delayTo(undefined), () => this.#session?.ask('goodbye'));
    else
      this.#server.wire.arrive(noticedAfter, undefined, 'a machine that is gone is noticed', () =>
        this.#session?.end(),
      );
  }

  /** The connection breaks, for both of its ends. */
  break(): void {
    this.#there.lose();
    this.#session?.end(new Error('read ECONNRESET: the connection broke'));
    if (this.#session === undefined && this.#connecting !== undefined) this.#tell(() => this.#refused());
  }

  #goodbye(): void {
    if (this.#session === undefined) this.#tell(() => this.#close(undefined));
    else this.#session.ask('goodbye');
  }

  #tell(take: () => void): void {
    this.#back.send(this.#way.delayBack(), take);
  }

  #refused(): void {
    const error = Object.assign(new Error('connect ECONNREFUSED: nobody listens'), { code: 'ECONNREFUSED' });
    this.#close(error);
  }

  #answered(answer: QueryResult | Error): void {
    const pending = this.#pending.shift();
    if (answer instanceof Error) pending?.reject(answer);
    else pending?.resolve(answer);
  }

  /** Cuts it on this side; the server sees the end of what was sent. */
  #destroy(): void {
    this.#there.send(this.#way.delayTo(undefined), () => this.#session?.ask('goodbye'));
    queueMicrotask(() => this.#close(undefined));
  }

  #close(reason: Error | undefined): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    this._queryable = false;
    const error = reason ?? new Error(`Connection terminated${this._ending ? '' : ' unexpectedly'}`);
    for (const { reject } of this.#pending.splice(0)) reject(error);
    if (this.#connecting !== undefined) this.#connecting(error);
    else if (!this._ending) this.emit('error', error);
    this.#connecting = undefined;
    queueMicrotask(() => {
      this.emit('end');
      this.#ending?.();
    });
  }
}

/** Connections of one process, in place of those of the driver. `made` hears of each. */
export function clientsOf(
  server: LeaseServer,
  { life, way, made }: { readonly life?: Life; readonly way: Way; made(client: LeaseClient): void },
): typeof pg.Client {
  class Connection extends LeaseClient {
    constructor() {
      super(server, life, way);
      made(this);
    }
  }
  return Connection as unknown as typeof pg.Client;
}
