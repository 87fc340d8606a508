import {
  balanceOf,
  type DestinationCounts,
  type Ledger,
  type SourceCounts,
  sumByReason,
} from '../model/ledger.ts';
import { type Duration, MINUTE } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { Logger } from '../ports/logger.ts';
import type { SettingsSnapshot } from '../ports/settings-store.ts';
import type { LedgerDifference, LedgerReport } from './contract.ts';

const NO_SOURCE: SourceCounts = { received: 0, accepted: 0, duplicates: 0, discarded: {} };
const NO_DESTINATION: DestinationCounts = {
  owed: 0,
  delivered: 0,
  pending: 0,
  dead: {},
  dropped: {},
  erased: 0,
  skipped: {},
};

/**
 * The ledger by name. A record without counts has zeros. Counts of a removed record keep its name, and counts
 * of an unknown id get the name `#<id>`, so that no difference is left out for want of a name.
 */
export function ledgerReport(ledger: Ledger, settings: SettingsSnapshot): LedgerReport {
  const sources = namedCounts(ledger.sources, settings.sources, {
    none: NO_SOURCE,
    gone: settings.gone.sources,
  });
  const destinations = namedCounts(ledger.destinations, settings.destinations, {
    none: NO_DESTINATION,
    gone: settings.gone.destinations,
  });
  const differences = [
    ...sources.map(([source, counts]) => sourceDifference(source, counts)),
    ...destinations.map(([destination, counts]) => destinationDifference(destination, counts)),
  ].filter(({ difference }) => difference !== 0);
  return {
    // `Object.fromEntries`, because a source may have the name `__proto__`, which an assignment would not
    // store.
    sources: Object.fromEntries(
      sources.map(([name, { received, accepted, discarded, duplicates }]) => [
        name,
        { received, accepted, discarded, duplicates },
      ]),
    ),
    destinations: Object.fromEntries(
      destinations.map(([name, counts]) => [name, { ...counts, balance: balanceOf(counts) }]),
    ),
    balanced: differences.length === 0,
    differences,
  };
}

interface NamedRecord {
  readonly id: number;
  readonly name: string;
}

function namedCounts<Counts>(
  counts: ReadonlyMap<number, Counts>,
  records: readonly NamedRecord[],
  { none, gone }: { readonly none: Counts; readonly gone: readonly NamedRecord[] },
): [name: string, counts: Counts][] {
  const known = new Set(records.map(({ id }) => id));
  const strays = [...counts].filter(([id]) => !known.has(id));
  return [
    ...records.map(({ id, name }): [string, Counts] => [name, counts.get(id) ?? none]),
    ...strays.map(([id, stray]): [string, Counts] => [
      gone.find((record) => record.id === id)?.name ?? `#${id}`,
      stray,
    ]),
  ];
}

/** See `SourceCounts`: received = accepted + duplicates + discarded. */
function sourceDifference(source: string, counts: SourceCounts): LedgerDifference {
  const { received, accepted, duplicates } = counts;
  const discarded = sumByReason(counts.discarded);
  const difference = received - accepted - duplicates - discarded;
  return { source, difference, received, accepted, duplicates, discarded };
}

function destinationDifference(destination: string, counts: DestinationCounts): LedgerDifference {
  const { owed, delivered, pending, erased } = counts;
  const [dead, dropped] = [sumByReason(counts.dead), sumByReason(counts.dropped)];
  return { destination, difference: balanceOf(counts), owed, delivered, pending, dead, dropped, erased };
}

/** The pause between two checks. spec/specification.md, "Ledger". */
const CHECK_INTERVAL: Duration = MINUTE;

export interface LedgerCheckDependencies {
  readonly ledger: () => Promise<LedgerReport>;
  readonly clock: Clock;
  readonly logger: Logger;
}

/**
 * Checks the sums of the ledger at the start and every minute.
 *
 * ```
 *   balanced ──a sum does not come out──▶ unbalanced   error `ledger.unbalanced`, again at every check
 *      ▲                                      │
 *      └────────every sum comes out───────────┘        info `ledger.balanced`, once
 * ```
 *
 * A commit under way cannot look like a loss. Counters and facts change in the same transaction, and
 * `DeliveryQueue.ledger` reads all counters and all pending sets between two transactions: it sees every
 * append and every settle whole or not at all. Calls not yet committed and deliveries not yet settled are on
 * neither side of a sum. Even a single difference is therefore a fact.
 */
export class LedgerCheck {
  readonly #dependencies: LedgerCheckDependencies;
  #cancelTimer: (() => void) | undefined;
  #underWay: Promise<void> = Promise.resolve();
  #unbalanced = false;
  #stopped = false;

  constructor(dependencies: LedgerCheckDependencies) {
    this.#dependencies = dependencies;
  }

  /** Begins the first check and does not wait for it. */
  start(): void {
    this.#underWay = this.#check().then(() => {
      if (this.#stopped) return;
      const { clock } = this.#dependencies;
      this.#cancelTimer = clock.after(CHECK_INTERVAL, () => this.start());
    });
  }

  /** Resolves when no check is under way. Idempotent. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#cancelTimer?.();
    await this.#underWay;
  }

  async #check(): Promise<void> {
    const { ledger, logger } = this.#dependencies;
    try {
      const { differences } = await ledger();
      if (differences.length > 0) logger.error({ differences }, 'ledger.unbalanced');
      else if (this.#unbalanced) logger.info({}, 'ledger.balanced');
      this.#unbalanced = differences.length > 0;
    } catch (error) {
      // The state stays as it was until the next check.
      logger.warn({ error }, 'ledger.not_checked');
    }
  }
}
