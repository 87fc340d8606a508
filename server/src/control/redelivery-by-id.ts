import { type Destination, destinationOfLane, everyLaneOf, lanesOf } from '../model/destination.ts';
import type { Position } from '../model/event.ts';
import type { Backlog } from '../ports/backlog.ts';
import type { Clock } from '../ports/clock.ts';
import type { DeadLetters, DeadQuery } from '../ports/dead-letters.ts';
import type { EventLog, StoredEvent } from '../ports/event-log.ts';
import type { EventHistory, History } from '../ports/history.ts';

export interface ByIdTools {
  readonly log: Pick<EventLog, 'find' | 'read'>;
  readonly history: Pick<History, 'of'>;
  readonly backlog: Pick<Backlog, 'owe'>;
  readonly deadLetters: Pick<DeadLetters, 'count' | 'revive'>;
  readonly clock: Clock;
  readonly newId: () => string;
  /** Something of a lane waits on disk. */
  readonly parked: (lane: number, at: number) => void;
}

interface DeliveryAt {
  readonly destination: number;
  readonly position: Position;
}

/** What of a redelivery matters here. Times are milliseconds. */
interface ByIdWish {
  readonly messageIds?: readonly string[];
  readonly state?: 'delivered' | 'dead';
  readonly reason?: string;
  readonly type?: string;
  readonly from?: number;
  readonly to?: number;
  readonly dryRun: boolean;
}

/** What was asked for, by what it stands for now. */
export interface AskedById {
  readonly destination: Destination;
  readonly ids: readonly (DeliveryAt & { readonly id: string })[];
  readonly sourceId: number | undefined;
}

/** A log of an origin that owes everything in one slice stands there afterwards. */
const END = Number.MAX_SAFE_INTEGER;

/** Few deliveries that somebody has named: dead ones are revived, others owed once more, those still pending left as they are. */
export class RedeliveryById {
  readonly #wish: ByIdWish;
  readonly #asked: AskedById;
  readonly #tools: ByIdTools;
  readonly #missing: string[] = [];
  readonly #dead: DeliveryAt[] = [];
  readonly #again: DeliveryAt[] = [];
  #pending = 0;

  constructor(wish: ByIdWish, asked: AskedById, tools: ByIdTools) {
    this.#wish = wish;
    this.#asked = asked;
    this.#tools = tools;
  }

  async run(): Promise<object> {
    await this.#sort();
    const { clock, newId, parked } = this.#tools;
    const now = clock.monotonic();
    const found = { estimated: false, pending: this.#pending, missing: this.#missing };
    const dead = await this.#countDead();
    if (this.#wish.dryRun || dead + this.#again.length === 0)
      return { count: dead + this.#again.length, ...found };
    const id = newId();
    const revived = await this.#revive(now, id);
    await this.#oweAgain(now, id);
    for (const lane of everyLaneOf(this.#asked.destination)) parked(lane, now);
    return { id, count: revived + this.#again.length, ...found, state: 'done' };
  }

  /** Tells by what became of it what is to be done with each. */
  async #sort(): Promise<void> {
    const { log, history } = this.#tools;
    const byPosition = await this.#wanted();
    const positions = [...byPosition.keys()];
    const [events, histories] = await Promise.all([log.read(positions), history.of(positions)]);
    for (const [nth, position] of positions.entries()) {
      const [stored, known] = [events[nth], histories[nth]];
      const { lanes, names } = byPosition.get(position)!;
      if (stored === undefined || known === undefined) this.#missing.push(...names);
      else if (this.#isOf(stored)) {
        const all = lanes.size > 0 ? [...lanes] : lanesOfEvent(known, this.#asked.destination);
        for (const lane of all) this.#place({ destination: lane, position }, known, stored);
      }
    }
  }

  /** Where to look, with the lanes that were named there and the ids that did; no lane stands for all of the destination. */
  async #wanted() {
    const byPosition = new Map<Position, { lanes: Set<number>; names: string[] }>();
    const at = (position: Position) => {
      const known = byPosition.get(position) ?? { lanes: new Set<number>(), names: [] };
      byPosition.set(position, known);
      return known;
    };
    for (const { id, destination, position } of this.#asked.ids) {
      at(position).lanes.add(destination);
      at(position).names.push(id);
    }
    for (const messageId of new Set(this.#wish.messageIds)) {
      const { positions } = await this.#tools.log.find({ messageId });
      if (positions.length === 0) this.#missing.push(messageId);
      for (const position of positions) at(position).names.push(messageId);
    }
    return byPosition;
  }

  #isOf({ source, event }: StoredEvent): boolean {
    const { type } = this.#wish;
    const { sourceId } = this.#asked;
    return (sourceId ?? source) === source && (type ?? event.type) === event.type;
  }

  #place(delivery: DeliveryAt, { deliveries }: EventHistory, { event }: StoredEvent): void {
    const { state, reason, from = 0, to = END } = this.#wish;
    const arrivedAt = Date.parse(event.receivedAt);
    const found = deliveries.find(({ destination }) => destination === delivery.destination);
    if (found?.state === 'pending' || found?.state === 'retrying') this.#pending++;
    else if (found?.state === 'dead') {
      if (state !== 'delivered') this.#dead.push(delivery);
    } else if (reason === undefined && state !== 'dead' && arrivedAt >= from && arrivedAt < to) {
      // Never owed to the destination, or delivered. What was never owed is not delivered either.
      if (found !== undefined || state === undefined) this.#again.push(delivery);
    }
  }

  get #deadQuery(): DeadQuery {
    const { reason, from, to } = this.#wish;
    return {
      ...{ destinations: everyLaneOf(this.#asked.destination), only: this.#dead },
      ...(reason === undefined ? {} : { reason }),
      ...(from === undefined ? {} : { from }),
      ...(to === undefined ? {} : { to }),
    };
  }

  async #countDead(): Promise<number> {
    let count = 0;
    let from: string | undefined;
    if (this.#dead.length === 0) return 0;
    do {
      const slice = await this.#tools.deadLetters.count(this.#deadQuery, from);
      count += slice.count;
      from = slice.next;
    } while (from !== undefined);
    return count;
  }

  async #revive(now: number, origin: string): Promise<number> {
    let count = 0;
    let from: string | undefined;
    if (this.#dead.length === 0) return 0;
    do {
      const slice = { query: this.#deadQuery, now, origin, ...(from === undefined ? {} : { from }) };
      const revived = await this.#tools.deadLetters.revive(slice);
      count += revived.count;
      from = revived.next;
    } while (from !== undefined);
    return count;
  }

  async #oweAgain(now: number, origin: string): Promise<void> {
    if (this.#again.length === 0) return;
    const only = new Map(
      [...Map.groupBy(this.#again, ({ destination }) => destination)].map(([lane, some]) => [
        lane,
        some.map(({ position }) => position).sort((a, b) => a - b),
      ]),
    );
    const positions = [...new Set(this.#again.map(({ position }) => position))].sort((a, b) => a - b);
    const slice = { origin, destinations: [...only.keys()], positions, only };
    await this.#tools.backlog.owe({ ...slice, from: 0, to: END, now });
  }
}

/** The lanes of a destination that an event was owed to, or those that there are now where it was owed to none. */
function lanesOfEvent({ deliveries }: EventHistory, destination: Destination): number[] {
  const known = deliveries
    .map((one) => one.destination)
    .filter((lane) => destinationOfLane(lane) === destination.id);
  return known.length > 0 ? known : lanesOf(destination).map(({ id }) => id);
}
