import type { Decision, Delivery } from '../../../model/delivery.ts';
import type { Time } from '../../../model/time.ts';
import type { DeliveryResult, PendingSetId, SettleResult } from '../../../ports/delivery-queue.ts';
import type { LedgerTable } from '../ledger.ts';
import type { KeyIndex } from '../log/key-index.ts';
import type { FailedAttempts, SuccessfulAttempts } from './attempts.ts';
import type { DeadLetterSet, DeadLetterTable } from './dead-letters.ts';
import { PendingTable } from './pending.ts';
import { encodePositions } from './pending-set.ts';

/** Results as they cross to the writer thread: the frequent ones as numbers, the others as objects. */
export interface SettleMessage {
  /**
   * Deliveries that one accepted request ended: `DELIVERED_FIELDS` numbers each (set, position, destination, index of the
   * URL in `endpoints` or −1, start of the request, latency in milliseconds, status).
   */
  readonly delivered: Float64Array;
  readonly endpoints: readonly string[];
  /** The others, and those that have a failed attempt to keep. */
  readonly others: readonly DeliveryResult[];
}

const DELIVERED_FIELDS = 7;

export function encodeResults(results: readonly DeliveryResult[]): SettleMessage {
  const delivered = new Float64Array(results.length * DELIVERED_FIELDS);
  const endpoints: string[] = [];
  const others: DeliveryResult[] = [];
  let at = 0;
  for (const result of results) {
    const { set, position, destination, attempts, decision } = result;
    const [attempt] = attempts;
    const isPlain = attempts.length <= 1 && (attempt === undefined || attempt.outcome.kind === 'accepted');
    if (decision.kind !== 'delivered' || !isPlain) {
      others.push(result);
      continue;
    }
    delivered[at] = set;
    delivered[at + 1] = position;
    delivered[at + 2] = destination;
    delivered[at + 3] = attempt === undefined ? -1 : endpointIndex(attempt.endpoint, endpoints);
    delivered[at + 4] = attempt?.startedAt ?? 0;
    delivered[at + 5] = attempt?.latencyMs ?? 0;
    delivered[at + 6] = attempt?.outcome.status ?? 0;
    at += DELIVERED_FIELDS;
  }
  return { delivered: delivered.subarray(0, at), endpoints, others };
}

/** Searches from the end: one settle names few endpoints. */
function endpointIndex(endpoint: string, endpoints: string[]): number {
  const known = endpoints.lastIndexOf(endpoint);
  return known >= 0 ? known : endpoints.push(endpoint) - 1;
}

interface SettlerDependencies {
  readonly pending: PendingTable;
  readonly ledger: LedgerTable;
  readonly successfulAttempts: SuccessfulAttempts;
  readonly failedAttempts: FailedAttempts;
  readonly deadLetters: DeadLetterTable;
  /** When the newest event arrived: the best estimate of the present time. */
  readonly keys: Pick<KeyIndex, 'newest'>;
}

/** Writes the results of deliveries: to the pending sets, the ledger, the attempts and the dead letters. */
export class DeliverySettler {
  readonly #dependencies: SettlerDependencies;

  constructor(dependencies: SettlerDependencies) {
    this.#dependencies = dependencies;
  }

  settle({ delivered, endpoints, others }: SettleMessage): SettleResult {
    const touched = new Set<PendingSetId>();
    const successes = new Map<number, number>();
    let ignored = 0;
    for (let at = 0; at < delivered.length; at += DELIVERED_FIELDS) {
      const [set, position, destination] = [delivered[at]!, delivered[at + 1]!, delivered[at + 2]!];
      if (!this.#dependencies.pending.take({ set, position, destination })) ignored++;
      else {
        touched.add(set);
        successes.set(destination, (successes.get(destination) ?? 0) + 1);
        const endpoint = endpoints[delivered[at + 3]!];
        const [startedAt, latencyMs, status] = [delivered[at + 4]!, delivered[at + 5]!, delivered[at + 6]!];
        if (endpoint !== undefined)
          this.#dependencies.successfulAttempts.add(destination, endpoint, {
            position,
            startedAt,
            latencyMs,
            status,
          });
      }
    }
    for (const [destination, n] of successes)
      this.#dependencies.ledger.add('destination', destination, 'delivered', n);
    const groups = new ResultGroups(this.#dependencies.keys.newest);
    for (const result of others) {
      if (!this.#dependencies.pending.take(result)) ignored++;
      else {
        touched.add(result.set);
        this.#conclude(result, groups);
      }
    }
    for (const { destination, at, deliveries, origin } of groups.retries())
      this.#dependencies.pending.scheduleRetry(destination, at, deliveries, origin);
    for (const dead of groups.deadLetters()) this.deadLetter(dead);
    this.#dependencies.successfulAttempts.write();
    this.#dependencies.pending.writeSets(touched);
    return { ignored };
  }

  #conclude(result: DeliveryResult, groups: ResultGroups): void {
    const { destination, position } = result;
    this.#dependencies.failedAttempts.insert(result);
    for (const { endpoint, startedAt, latencyMs, outcome } of result.attempts) {
      const { kind, status = 0 } = outcome;
      if (kind === 'accepted')
        this.#dependencies.successfulAttempts.add(destination, endpoint, {
          position,
          startedAt,
          latencyMs,
          status,
        });
    }
    if (result.decision.kind === 'delivered')
      this.#dependencies.ledger.add('destination', result.destination, 'delivered', 1);
    else groups.add(result, result.decision, this.#dependencies.pending.originOf(result.set));
  }

  deadLetter(dead: DeadLetterSet): void {
    this.#dependencies.ledger.add('destination', dead.destination, `dead:${dead.reason}`, dead.n);
    this.#dependencies.deadLetters.insert(dead);
  }
}

type FailedDecision = Exclude<Decision, { kind: 'delivered' }>;

/** Retries of one destination due at the same time. Each origin has its own group. */
interface RetryGroup {
  readonly destination: number;
  readonly at: Time;
  readonly origin: string | undefined;
  readonly deliveries: Delivery[];
}

/** Groups the failures of one settle, so that those that belong together share a row. */
class ResultGroups {
  readonly #now: Time;
  readonly #retries = new Map<string, RetryGroup>();
  readonly #deadLetters = new Map<string, Omit<DeadLetterSet, 'n' | 'encoded'> & { positions: number[] }>();

  /** `now` is the time of death of a delivery that died without a request. */
  constructor(now: Time) {
    this.#now = now;
  }

  /** `origin` is that of the set that the delivery was in. */
  add(result: DeliveryResult, decision: FailedDecision, origin: string | undefined): void {
    if (decision.kind === 'retry') {
      const [at, { destination }] = [PendingTable.roundDue(decision.at), result];
      this.#addRetry({ destination, at, origin }, decision.next);
    } else this.#addDeadLetter(result, decision.reason, origin);
  }

  retries(): Iterable<RetryGroup> {
    return this.#retries.values();
  }

  *deadLetters(): Generator<DeadLetterSet> {
    for (const { positions, ...dead } of this.#deadLetters.values()) {
      const encoded = encodePositions(positions.sort((a, b) => a - b));
      yield { ...dead, n: positions.length, encoded };
    }
  }

  #addRetry(of: Omit<RetryGroup, 'deliveries'>, next: Delivery): void {
    const key = `${of.destination}/${of.at}/${of.origin}`;
    const group = this.#retries.get(key);
    if (group) group.deliveries.push(next);
    else this.#retries.set(key, { ...of, deliveries: [next] });
  }

  #addDeadLetter(result: DeliveryResult, reason: string, origin: string | undefined): void {
    const { destination, position, set } = result;
    // By set: two sets may owe the same event, once new and once replayed, and runs hold a position once.
    const key = `${destination}/${set}/${reason}`;
    const group = this.#deadLetters.get(key);
    if (group) group.positions.push(position);
    else
      this.#deadLetters.set(key, {
        destination,
        at: this.#timeOfDeath(result),
        reason,
        origin,
        positions: [position],
      });
  }

  /** The end of the last request. */
  #timeOfDeath({ attempts }: DeliveryResult): Time {
    const last = attempts.at(-1);
    return last === undefined ? this.#now : Math.round(last.startedAt + last.latencyMs);
  }
}
