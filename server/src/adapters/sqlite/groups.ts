import type { Decision, Delivery } from '../../model/delivery.ts';
import type { Time } from '../../model/time.ts';
import type { Result } from '../../ports/backlog.ts';
import type { DeadSet } from './failures.ts';
import { Pending } from './pending.ts';
import { encodeRuns } from './refs.ts';

type Failed = Exclude<Decision, { kind: 'delivered' }>;

/** What failed in one group of results, brought together: a row for what belongs together and not a row each. */
export class Groups {
  readonly #now: Time;
  readonly #waiting = new Map<string, { destination: number; at: Time; deliveries: Delivery[] }>();
  readonly #dead = new Map<string, { destination: number; at: Time; reason: string; positions: number[] }>();

  /** `now`: the best guess there is, for a delivery that died without a request. */
  constructor(now: Time) {
    this.#now = now;
  }

  add(result: Result, decision: Failed): void {
    if (decision.kind === 'retry') this.#wait(result, Pending.dueStep(decision.at), decision.next);
    else this.#bury(result, decision.reason);
  }

  waiting(): Iterable<{ destination: number; at: Time; deliveries: readonly Delivery[] }> {
    return this.#waiting.values();
  }

  *dead(): Generator<DeadSet> {
    for (const { destination, at, reason, positions } of this.#dead.values()) {
      const refs = encodeRuns(positions.sort((a, b) => a - b));
      yield { destination, at, reason, n: positions.length, refs };
    }
  }

  #wait({ destination }: Result, at: Time, next: Delivery): void {
    const key = `${destination}/${at}`;
    const group = this.#waiting.get(key);
    if (group) group.deliveries.push(next);
    else this.#waiting.set(key, { destination, at, deliveries: [next] });
  }

  #bury(result: Result, reason: string): void {
    const { destination, position, set } = result;
    // By set, because two sets may owe the same event, once new and once replayed, and runs hold a position once.
    const key = `${destination}/${set}/${reason}`;
    const group = this.#dead.get(key);
    if (group) group.positions.push(position);
    else this.#dead.set(key, { destination, at: this.#timeOfDeath(result), reason, positions: [position] });
  }

  /** A delivery is dead from the moment its last request ended. */
  #timeOfDeath({ attempts }: Result): Time {
    const last = attempts.at(-1);
    return last === undefined ? this.#now : Math.round(last.startedAt + last.latencyMs);
  }
}
