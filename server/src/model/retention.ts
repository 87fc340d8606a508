import { DAY, type Duration } from './time.ts';

/** A time after which something goes, or `off`, which keeps it. */
export type Period = Duration | 'off';

/** Periods that operators have chosen since there was a choice. */
export interface RetentionChoice {
  readonly profiles: { readonly anonymous?: Period; readonly known?: Period };
  readonly audit?: Period;
  readonly regulations?: Period;
}

/** How long what grows with use is kept; what is absent stays for ever. */
export interface RetentionPeriods {
  /** Profiles without a userId, and those with one, after their newest event. */
  readonly anonymous?: Duration;
  readonly known?: Duration;
  /** Entries of the audit trail. */
  readonly audit?: Duration;
  /** Regulations that have ended. */
  readonly regulations?: Duration;
}

/** Periods of a new installation. */
const DEFAULT_PERIODS = { anonymous: 90 * DAY, audit: 365 * DAY, regulations: 365 * DAY } as const;

/**
 * The periods in force, and the default ones for values that nobody has chosen. `isBounded`: the installation
 * was made when there were defaults already. An older one loses nothing that it was never asked about.
 */
export function retentionPeriods(
  { profiles, audit, regulations }: RetentionChoice,
  isBounded: boolean,
): { readonly periods: RetentionPeriods; readonly advised: RetentionPeriods } {
  const choice = { ...profiles, audit, regulations };
  const periods: Record<string, Duration> = {};
  const advised: Record<string, Duration> = {};
  for (const kind of ['anonymous', 'known', 'audit', 'regulations'] as const) {
    const chosen = choice[kind];
    const standard: Duration | undefined = kind === 'known' ? undefined : DEFAULT_PERIODS[kind];
    if (typeof chosen === 'number') periods[kind] = chosen;
    else if (chosen === undefined && standard !== undefined) (isBounded ? periods : advised)[kind] = standard;
  }
  return { periods, advised };
}
