import type { Failures } from './history.ts';
import type { DestinationStatus } from './queries.ts';

/** A reason why requests fail, or why deliveries have died. */
export interface Trouble {
  readonly reason: string;
  /** Requests of the last hour. */
  readonly failed: number;
  /** Deliveries. */
  readonly dead: number;
  /** It goes on: the endpoint fails for this reason now, or the destination has not got over it. */
  readonly isNow: boolean;
}

interface TroubleFacts {
  readonly state: DestinationStatus['state'];
  readonly endpoints: DestinationStatus['endpoints'];
  readonly failures: Failures['data'];
  /** Dead letters by reason, of the ledger. */
  readonly dead: Readonly<Record<string, number>>;
}

/** Each reason once: those that fail now first, then those with the most dead letters. */
export function troublesOf({ state, endpoints, failures, dead }: TroubleFacts): Trouble[] {
  const failing = endpoints.flatMap(({ state, lastError }) =>
    state === 'failing' && lastError !== undefined ? [lastError.reason] : [],
  );
  const isLast = (reason: string) => endpoints.some(({ lastError }) => lastError?.reason === reason);
  const reasons = new Set([...failing, ...failures.map(({ reason }) => reason), ...Object.keys(dead)]);
  return [...reasons]
    .map(
      (reason): Trouble => ({
        reason,
        failed: failures.reduce((total, one) => (one.reason === reason ? total + one.count : total), 0),
        dead: Object.hasOwn(dead, reason) ? (dead[reason] ?? 0) : 0,
        isNow: failing.includes(reason) || (state === 'refusing' && isLast(reason)),
      }),
    )
    .sort(
      (one, other) =>
        Number(other.isNow) - Number(one.isNow) || other.dead - one.dead || other.failed - one.failed,
    );
}
