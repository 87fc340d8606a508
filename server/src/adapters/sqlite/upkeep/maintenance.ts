import type { Duration, Monotonic } from '../../../model/time.ts';
import type { ClockMark } from '../../../ports/clock.ts';
import type { Retention } from '../../../ports/event-log.ts';
import type { DamageTable, Quarantine } from '../damage.ts';
import type { Watermarks } from '../installation.ts';
import type { Chunks } from '../log/chunks.ts';
import type { RecentBatches } from '../log/dedupe.ts';
import type { KeyIndex } from '../log/key-index.ts';
import type { UserIndex } from '../log/user-index.ts';
import type { QueueTables } from '../queue/queue-tables.ts';
import { Compaction } from './compaction.ts';
import { type FileSpace, RetentionSweep } from './retention.ts';
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
  /** How long a messageId is remembered where nobody says. */
  readonly dedupeWindow: Duration;
}

/** The background work on the tables, a slice at a time inside the caller's transaction. */
export class Maintenance {
  readonly #dependencies: SqliteMaintenanceDependencies;
  readonly #compaction: Compaction;
  readonly #retention: RetentionSweep;
  readonly #verifier: Verifier;

  constructor(dependencies: SqliteMaintenanceDependencies) {
    const { chunks, keys, batches, queue, watermarks, damage, quarantine, space, dedupeWindow } =
      dependencies;
    this.#dependencies = dependencies;
    this.#compaction = new Compaction(chunks, watermarks);
    this.#verifier = new Verifier({ chunks, keys, marks: watermarks });
    this.#retention = new RetentionSweep({
      chunks,
      keys,
      queue,
      batches,
      marks: watermarks,
      space,
      damage,
      avoided: quarantine,
      dedupeWindow,
    });
  }

  /** Works until the budget is used up. True when there is more to do now. */
  maintain({ now, retention, budget, mark }: MaintainMessage): boolean {
    const { keys, users, watermarks, damage, quarantine, space } = this.#dependencies;
    if (mark !== undefined) watermarks.clocks = mark;
    const end = performance.now() + budget;
    do {
      const busy =
        quarantine.guard('sealing of keys', () => keys.flush()) ||
        quarantine.guard('merging of chunks', () => this.#compaction.step(now)) ||
        quarantine.guard('filters of users', () => users.step()) ||
        this.#retention.step(now, retention) ||
        quarantine.guard('giving space back', () => space.vacuum(retention.disk));
      if (!busy) {
        this.#verifier.step(now);
        damage.write(now);
        return false;
      }
    } while (performance.now() < end);
    damage.write(now);
    return true;
  }
}
