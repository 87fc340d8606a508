import type { Decision, Delivery } from '../../model/delivery.ts';
import type { Time } from '../../model/time.ts';
import type { Result } from '../../ports/backlog.ts';
import type { DeadSet } from './failures.ts';
import { Pending } from './pending.ts';
import { encodeRuns } from './refs.ts';

type Failed = Exclude<Decision, { kind: 'delivered' }>;

/** What waits for the same moment. What has different origins is never mixed. */
interface Waiting {
  readonly destination: number;
  readonly at: Time;
  readonly origin: string | undefined;
  readonly deliveries: Delivery[];
}

/** What failed in one group of results, brought together: a row for what belongs together and not a row each. */
export class Groups {
  readonly #now: Time;
  readonly #waiting = new Map<string, Waiting>();
  readonly #dead = new Map<string, Omit<DeadSet, 'n' | 'refs'> & { positions: number[] }>();

  /** `now`: the best guess there is, for a delivery that died without a request. */
  constructor(now: Time) {
    this.#now = now;
  }

  /** `origin`: of the set that the delivery was in. */
  add(result: Result, decision: Failed, origin: string | undefined): void {
    if (decision.kind === 'retry') {
      const [at, { destination }] = [Pending.dueStep(decision.at), result];
      this.#wait({ destination, at, origin }, decision.next);
    } else this.#bury(result, decision.reason, origin);
  }

  waiting(): Iterable<Waiting> {
    return this.#waiting.values();
  }

  *dead(): Generator<DeadSet> {
    for (const { positions, ...dead } of this.#dead.values()) {
      const refs = encodeRuns(positions.sort((a, b) => a - b));
      yield { ...dead, n: positions.length, refs };
    }
  }

  #wait(of: Omit<Waiting, 'deliveries'>, next: Delivery): void {
    const key = `${of.destination}/${of.at}/${of.origin}`;
    const group = this.#waiting.get(key);
    if (group) group.deliveries.push(next);
    else this.#waiting.set(key, { ...of, deliveries: [next] });
  }

  #bury(result: Result, reason: string, origin: string | undefined): void {
    const { destination, position, set } = result;
    // By set, because two sets may owe the same event, once new and once replayed, and runs hold a position once.
    const key = `${destination}/${set}/${reason}`;
    const group = this.#dead.get(key);
    if (group) group.positions.push(position);
    else
      this.#dead.set(key, {
        ...{ destination, at: this.#timeOfDeath(result), reason, origin, positions: [position] },
      });
  }

  /** A delivery is dead from the moment its last request ended. */
  #timeOfDeath({ attempts }: Result): Time {
    const last = attempts.at(-1);
    return last === undefined ? this.#now : Math.round(last.startedAt + last.latencyMs);
  }
}
