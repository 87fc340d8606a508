import { type Duration, HOUR, type Monotonic } from '../../../model/time.ts';
import type { ClockMark } from '../../../ports/clock.ts';
import type { Retention } from '../../../ports/event-log.ts';
import type { DamageTable, Quarantine } from '../damage.ts';
import type { Watermarks } from '../installation.ts';
import type { Chunks, RecentBatches } from '../log/chunks.ts';
import type { KeyIndex } from '../log/key-index.ts';
import type { UserIndex } from '../log/user-index.ts';
import type { QueueTables } from '../queue/queue-tables.ts';
import type { RegulationTable } from '../regulations/regulation-table.ts';
import type { AuditTable } from '../settings/records.ts';
import { Compaction } from './compaction.ts';
import { type FileSpace, RetentionSweep, type UpkeepStep } from './retention.ts';
import { Verifier } from './verification.ts';

export interface MaintainMessage {
  readonly now: Monotonic;
  readonly retention: Retention;
  /** Milliseconds. */
  readonly budget: number;
  readonly mark?: ClockMark;
}

export interface SqliteMaintenanceDependencies {
  readonly chunks: Chunks;
  readonly keys: KeyIndex;
  readonly users: UserIndex;
  readonly batches: RecentBatches;
  readonly queue: QueueTables;
  readonly watermarks: Watermarks;
  readonly damage: DamageTable;
  readonly quarantine: Quarantine;
  readonly space: FileSpace;
  readonly audit: Pick<AuditTable, 'dropBefore'>;
  readonly regulations: Pick<RegulationTable, 'dropEnded'>;
  /** How long a messageId is remembered when `Retention.messageIds` is absent. */
  readonly dedupeWindow: Duration;
}

/** The audit trail and receipts are looked through once an hour. */
function recordSteps({
  audit,
  regulations,
}: Pick<SqliteMaintenanceDependencies, 'audit' | 'regulations'>): UpkeepStep[] {
  const hourly = (drop: (retention: Retention) => boolean) => {
    let next = Number.NEGATIVE_INFINITY;
    return (now: Monotonic, retention: Retention): boolean => {
      if (now < next) return false;
      const hasMore = drop(retention);
      if (!hasMore) next = now + HOUR;
      return hasMore;
    };
  };
  return [
    {
      name: 'retention of the audit trail',
      run: hourly(({ auditBefore }) => auditBefore !== undefined && audit.dropBefore(auditBefore)),
    },
    {
      name: 'retention of regulations',
      run: hourly(
        ({ regulationsBefore }) =>
          regulationsBefore !== undefined && regulations.dropEnded(regulationsBefore),
      ),
    },
  ];
}

/** The background work on the tables, a slice at a time inside the caller's transaction. */
export class Maintenance {
  readonly #dependencies: SqliteMaintenanceDependencies;
  readonly #steps: readonly UpkeepStep[];
  readonly #verifier: Verifier;

  constructor(dependencies: SqliteMaintenanceDependencies) {
    const { chunks, keys, users, watermarks, space } = dependencies;
    const compaction = new Compaction(chunks, watermarks);
    this.#dependencies = dependencies;
    this.#steps = [
      { name: 'sealing of keys', run: () => keys.flush() },
      { name: 'merging of chunks', run: (now) => compaction.step(now) },
      { name: 'filters of users', run: () => users.step() },
      ...new RetentionSweep(dependencies).steps(),
      ...recordSteps(dependencies),
      { name: 'giving space back', run: (_, { disk }) => space.vacuum(disk && space.shareOfLog(disk)) },
    ];
    this.#verifier = new Verifier(dependencies);
  }

  /**
   * Works until the budget is used up. True when there is more to do now. Verification runs when nothing else
   * does.
   */
  maintain({ now, retention, budget, mark }: MaintainMessage): boolean {
    const { watermarks, damage, quarantine } = this.#dependencies;
    if (mark !== undefined) watermarks.clocks = mark;
    const end = performance.now() + budget;
    let hasMore = true;
    do hasMore = this.#steps.some(({ name, run }) => quarantine.guard(name, () => run(now, retention)));
    while (hasMore && performance.now() < end);
    if (!hasMore) this.#verifier.step(now);
    damage.write(now);
    return hasMore;
  }
}
