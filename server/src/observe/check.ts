import { type Duration, MINUTE } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { Logger } from '../ports/logger.ts';
import type { Statement } from './statement.ts';

/** From the end of one check to the next. architecture.md section 2, "Ledger". */
const EVERY: Duration = MINUTE;

export interface LedgerCheckTools {
  readonly ledger: () => Promise<Statement>;
  readonly clock: Clock;
  readonly logger: Logger;
}

/**
 * Compares the ledger with itself, at the start and every minute.
 *
 * ```
 *   balanced ──a sum does not come out──▶ unbalanced   error `ledger.unbalanced`, again at every check
 *      ▲                                      │
 *      └────────every sum comes out───────────┘        info `ledger.balanced`, once
 * ```
 *
 * Why a commit under way cannot look like a loss: counters and facts change in the same transaction, a store does one
 * thing at a time, and `Backlog.ledger` reads all counters and all pending sets between two transactions. So it sees
 * every append and every settle whole or not at all. What is still in memory (calls parsed and not yet committed,
 * deliveries sent and not yet settled) is on neither side of a sum. A difference is therefore a fact, even a single one.
 */
export class LedgerCheck {
  readonly #tools: LedgerCheckTools;
  #cancelTimer: (() => void) | undefined;
  #underWay: Promise<void> = Promise.resolve();
  #unbalanced = false;
  #stopped = false;

  constructor(tools: LedgerCheckTools) {
    this.#tools = tools;
  }

  /** The first check begins at once and is not waited for. */
  start(): void {
    this.#underWay = this.#check().then(() => {
      if (this.#stopped) return;
      const { clock } = this.#tools;
      this.#cancelTimer = clock.after(EVERY, () => this.start());
    });
  }

  /** Resolves when no check is under way. Idempotent. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#cancelTimer?.();
    await this.#underWay;
  }

  async #check(): Promise<void> {
    const { ledger, logger } = this.#tools;
    try {
      const { differences } = await ledger();
      if (differences.length > 0) logger.error({ differences }, 'ledger.unbalanced');
      else if (this.#unbalanced) logger.info({}, 'ledger.balanced');
      this.#unbalanced = differences.length > 0;
    } catch (error) {
      // Nothing is known, so nothing changes: the next check says how it stands.
      logger.warn({ error }, 'ledger.not_checked');
    }
  }
}
