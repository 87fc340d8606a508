import type { InstallationPart } from '../ports/installation.ts';

/** Progress of a running migration. */
export interface MigrationMoment {
  /**
   * `copying`: rows are written to the target. `comparing`: they are read again and compared with what was
   * meant.
   */
  readonly step: 'copying' | 'comparing';
  readonly part: InstallationPart;
  /** The part in words. */
  readonly what: string;
  /** Events done in this step, also by earlier runs, and about how many there are. */
  readonly events: number;
  readonly ofEvents: number;
  /** Rows of the part done in this step; for events, events. */
  readonly rows: number;
}

/** Totals of a migration, from its first run on. */
export interface MigrationReport {
  /** Rows by part; for events, events. */
  readonly rows: Readonly<Partial<Record<InstallationPart, number>>>;
  /** MessageIds by which events that come again are known. */
  readonly messageIds: number;
  /** Events that could not be read, and are as unreadable in the target. */
  readonly unreadable: number;
  /** Rows that could not be read and are not in the target. */
  readonly leftOut: number;
  /** Deliveries that wait. */
  readonly waiting: number;
  /**
   * owed − delivered − pending − dead − dropped − erased over all destinations: 0, unless it was not 0
   * before.
   */
  readonly balance: number;
  /** True when nothing was left to do: an earlier run had finished. */
  readonly wasComplete: boolean;
  /** Data that is not moved, as sentences. */
  readonly leftBehind: readonly string[];
}
