import type { Failures } from './history.ts';
import type { DestinationStatus } from './queries.ts';

/** A reason why requests fail, or why deliveries have died. */
export interface Trouble {
  readonly reason: string;
  /** Requests of the last hour. */
  readonly failed: number;
  /** Deliveries. */
  readonly dead: number;
}

interface TroubleFacts {
  readonly endpoints: DestinationStatus['endpoints'];
  readonly failures: Failures['data'];
  /** Dead letters by reason, of the ledger. */
  readonly dead: Readonly<Record<string, number>>;
}

/** Each reason once: those that fail now first, then those with the most dead letters. */
export function troublesOf({ endpoints, failures, dead }: TroubleFacts): Trouble[] {
  const failing = endpoints.flatMap(({ state, lastError }) =>
    state === 'failing' && lastError !== undefined ? [lastError.reason] : [],
  );
  const reasons = new Set([...failing, ...failures.map(({ reason }) => reason), ...Object.keys(dead)]);
  return [...reasons]
    .map((reason): Trouble & { readonly isNow: boolean } => ({
      reason,
      failed: failures.reduce((total, one) => (one.reason === reason ? total + one.count : total), 0),
      dead: Object.hasOwn(dead, reason) ? (dead[reason] ?? 0) : 0,
      isNow: failing.includes(reason),
    }))
    .sort(
      (one, other) =>
        Number(other.isNow) - Number(one.isNow) || other.dead - one.dead || other.failed - one.failed,
    )
    .map(({ isNow: _, ...trouble }) => trouble);
}
