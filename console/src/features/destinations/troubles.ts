import type { DestinationStatus } from './queries.ts';

/** A reason why deliveries fail now, or have died. */
export interface Trouble {
  readonly reason: string;
  readonly state: 'retrying' | 'dead';
  /** Deliveries; absent where only the reason is known. */
  readonly count?: number;
}

/** What fails now, by endpoint, then what has died, the most first. */
export function troublesOf(
  { endpoints }: Pick<DestinationStatus, 'endpoints'>,
  dead: Readonly<Record<string, number>>,
): Trouble[] {
  const failing = endpoints.flatMap(({ state, lastError }) =>
    state === 'failing' && lastError !== undefined ? [lastError.reason] : [],
  );
  const now = [...new Set(failing)].filter((reason) => !Object.hasOwn(dead, reason));
  return [
    ...now.map((reason): Trouble => ({ reason, state: 'retrying' })),
    ...Object.entries(dead)
      .sort(([, one], [, other]) => other - one)
      .map(([reason, count]): Trouble => ({ reason, state: 'dead', count })),
  ];
}
