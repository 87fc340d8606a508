import type { Time } from '../../model/time.ts';
import type { Result, SetId, Settled } from '../../ports/backlog.ts';
import type { AcceptedAttempts } from './accepted.ts';
import type { Counters } from './counters.ts';
import type { DeadSet, Failures } from './failures.ts';
import { Groups } from './groups.ts';
import type { Pending } from './pending.ts';
import { DELIVERED_WORDS, type SettleMessage } from './protocol.ts';

export interface SettlingParts {
  readonly pending: Pending;
  readonly counters: Counters;
  readonly accepted: AcceptedAttempts;
  readonly failures: Failures;
  /** When the youngest event arrived: the best guess of what time it is. */
  readonly youngest: () => Time;
}

/** Writes what became of deliveries: out of their sets, into the counters, each request into its place. */
export class Settling {
  readonly #parts: SettlingParts;

  constructor(parts: SettlingParts) {
    this.#parts = parts;
  }

  settle({ delivered, endpoints, others }: SettleMessage): Settled {
    const touched = new Set<SetId>();
    const successes = new Map<number, number>();
    let ignored = 0;
    for (let at = 0; at < delivered.length; at += DELIVERED_WORDS) {
      const [set, position, destination] = [delivered[at]!, delivered[at + 1]!, delivered[at + 2]!];
      if (!this.#parts.pending.take({ set, position, destination })) ignored++;
      else {
        touched.add(set);
        successes.set(destination, (successes.get(destination) ?? 0) + 1);
        const endpoint = endpoints[delivered[at + 3]!];
        const [startedAt, latencyMs, status] = [delivered[at + 4]!, delivered[at + 5]!, delivered[at + 6]!];
        if (endpoint !== undefined)
          this.#parts.accepted.add(destination, endpoint, { position, startedAt, latencyMs, status });
      }
    }
    for (const [destination, n] of successes)
      this.#parts.counters.add('destination', destination, 'delivered', n);
    const groups = new Groups(this.#parts.youngest());
    for (const result of others) {
      if (!this.#parts.pending.take(result)) ignored++;
      else {
        touched.add(result.set);
        this.#conclude(result, groups);
      }
    }
    for (const { destination, at, deliveries, origin } of groups.waiting())
      this.#parts.pending.wait(destination, at, deliveries, origin);
    for (const dead of groups.dead()) this.bury(dead);
    this.#parts.accepted.write();
    this.#parts.pending.writeTouched(touched);
    return { ignored };
  }

  #conclude(result: Result, groups: Groups): void {
    const { destination, position } = result;
    this.#parts.failures.keepAttempts(result);
    for (const { endpoint, startedAt, latencyMs, outcome } of result.attempts) {
      const { kind, status = 0 } = outcome;
      if (kind === 'accepted')
        this.#parts.accepted.add(destination, endpoint, { position, startedAt, latencyMs, status });
    }
    if (result.decision.kind === 'delivered')
      this.#parts.counters.add('destination', result.destination, 'delivered', 1);
    else groups.add(result, result.decision, this.#parts.pending.originOf(result.set));
  }

  bury(dead: DeadSet): void {
    this.#parts.counters.add('destination', dead.destination, `dead:${dead.reason}`, dead.n);
    this.#parts.failures.bury(dead);
  }
}
