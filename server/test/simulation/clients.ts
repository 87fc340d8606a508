import { SECOND } from '../../src/model/time.ts';
import type { IngestResult } from '../../src/ports/ingest.ts';
import type { Known } from './book.ts';
import type { ServerNode } from './node.ts';
import type { ClientCall, TakenCall, WorldView } from './promises/promise.ts';
import { Chance } from './random.ts';

/** A client hears nothing for so long before it tries again. */
const PATIENCE = 10 * SECOND;
const MOST_TRIES = 500;

/** Shares of calls that are invalid, and that repeat an earlier one. */
const BAD = 0.02;
const REPEATED = 0.03;

const SOURCES = [1, 2];

interface Request extends ClientCall {
  readonly body: Buffer;
  readonly writeKey: string;
  readonly bad: number;
}

export interface ClientListener {
  /** A node takes a request. */
  taken(taken: TakenCall): void;
  answered(taken: TakenCall, result: IngestResult): void;
  /** A client hears that its calls are stored. */
  acknowledged(call: ClientCall): void;
}

/** The clients of an installation: each tries until it has its answer. */
export class Clients {
  readonly #world: WorldView;
  readonly #chance: Chance;
  readonly #listener: ClientListener;
  /** By source: what was sent before. */
  readonly #sent = new Map<number, Known[]>(SOURCES.map((source) => [source, []]));
  /** By user: calls under way. */
  readonly unanswered = new Map<string, number>();
  #ids = 0;
  requests = 0;
  acknowledged = 0;
  /** Calls whose clients have no answer yet. */
  waiting = 0;

  constructor(world: WorldView, listener: ClientListener) {
    this.#world = world;
    this.#chance = new Chance(world.scenario.seed, 'clients');
    this.#listener = listener;
  }

  start(): void {
    for (let client = 0; client < this.#world.scenario.clients; client++) this.#callLater();
  }

  #callLater(): void {
    const { kernel, scenario } = this.#world;
    const { every, everyBusy, clients, busy, lasts } = scenario;
    const isBusy = busy.some(({ from, to }) => from <= kernel.now && kernel.now < to);
    const delay = this.#chance.exponential((isBusy ? everyBusy : every) * clients);
    // A quiet time ends where a busy one begins.
    const nextBusy = Math.min(
      ...busy.map(({ from }) => (from > kernel.now ? from : Number.POSITIVE_INFINITY)),
    );
    kernel.later(Math.min(delay, nextBusy - kernel.now + 0.001), 'call', () => {
      if (kernel.now >= lasts) return;
      this.call();
      this.#callLater();
    });
  }

  /** One request of one of the clients. */
  call(): void {
    const chance = this.#chance;
    const source = chance.of(SOURCES);
    const events: Known[] = [];
    const calls: object[] = [];
    let bad = 0;
    for (let left = 1 + chance.below(this.#world.scenario.batch); left > 0; left--) {
      const user = `u${chance.below(this.#world.scenario.users)}`;
      if (chance.is(BAD)) {
        // Without the name of the event it is discarded.
        bad++;
        calls.push({ type: 'track', messageId: `bad${this.#ids++}`, userId: user });
        continue;
      }
      const known = this.#drawn(source, user);
      events.push(known);
      const properties = { total: chance.below(100) };
      calls.push({
        type: 'track',
        messageId: known.id,
        userId: known.user,
        event: 'Order Placed',
        properties,
      });
    }
    this.requests++;
    const body = Buffer.from(JSON.stringify({ batch: calls }));
    const request = { body, writeKey: `wk${source}`, events, bad, begunAt: this.#world.kernel.now };
    this.#count(request, 1);
    this.#try(request, undefined, 0);
  }

  #drawn(source: number, user: string): Known {
    const sent = this.#sent.get(source)!;
    if (this.#chance.is(REPEATED) && sent.length > 0) return this.#chance.of(sent);
    const known = this.#world.book.expect(`m${this.#ids++}`, user, source, this.#world.kernel.now);
    sent.push(known);
    return known;
  }

  #try(request: Request, before: ServerNode | undefined, tries: number): void {
    const { kernel, nodes } = this.#world;
    const node = this.#chance.of(nodes);
    if (before !== undefined && before !== node) this.#world.reached('call repeated to another node');
    let isOver = false;
    const again = (delay: number) => {
      if (isOver) return;
      isOver = true;
      // A client that gives up still counts as waiting, because every call has to be answered in the end.
      if (tries < MOST_TRIES) kernel.later(delay, 'try again', () => this.#try(request, node, tries + 1));
    };
    const giveUp = () => {
      if (!isOver) this.#world.reached('call repeated without an answer');
      again(10);
    };
    kernel.later(PATIENCE, 'client waits no more', giveUp);
    kernel.arrive(0.1 + this.#chance.exponential(1), undefined, 'request', () => {
      if (!node.isReady || node.life.isOver) return again(1 + this.#chance.exponential(SECOND));
      kernel.arrive(0, node.life, 'handle', () =>
        this.#handle(request, node, (result) => {
          if (isOver) return;
          kernel.note('client hears', result.kind, request.events[0]?.id ?? '');
          if (result.kind === 'unavailable') return again(200 + this.#chance.exponential(SECOND));
          isOver = true;
          this.#count(request, -1);
          if (result.kind !== 'stored') return;
          this.acknowledged += request.events.length;
          this.#listener.acknowledged(request);
        }),
      );
    });
  }

  #handle(request: Request, node: ServerNode, hear: (result: IngestResult) => void): void {
    const { kernel } = this.#world;
    const { body, writeKey, bad } = request;
    if (bad > 0) this.#world.reached('bad call discarded');
    const taken = { call: request, invalid: bad, node, life: node.life, isAnswered: false };
    this.#listener.taken(taken);
    node.pipeline.ingest.handle({ type: 'batch', writeKey, body, receivedAt: node.clock.now() }, (result) => {
      taken.isAnswered = true;
      this.#listener.answered(taken, result);
      kernel.arrive(0.1 + this.#chance.exponential(1), undefined, 'client hears', () => hear(result));
    });
  }

  #count({ events }: Request, by: number): void {
    this.waiting += by;
    for (const { user } of events) this.unanswered.set(user!, (this.unanswered.get(user!) ?? 0) + by);
  }
}
