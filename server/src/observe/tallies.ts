import type { ClockTally, Tallies } from '../ports/tallies.ts';

export interface CallsOfNoSource {
  readonly discarded: Readonly<Record<string, number>>;
  readonly refused: Readonly<Record<string, number>>;
  readonly clock: ClockTally;
}

/**
 * Counters in memory: they begin at zero with every start and are no part of the ledger's sums. Reasons and codes come
 * from `spec/errors.json` and never from a client, so their number is bounded.
 */
export class CallTallies implements Tallies {
  readonly #discarded = new Map<string, number>();
  readonly #refused = new Map<string, number>();
  #unparseable = 0;
  #skewed = 0;

  discarded(reasons: Readonly<Record<string, number>>): void {
    for (const reason in reasons) add(this.#discarded, reason, reasons[reason]!);
  }

  refused(code: string): void {
    add(this.#refused, code, 1);
  }

  clock({ unparseable, skewed }: ClockTally): void {
    this.#unparseable += unparseable;
    this.#skewed += skewed;
  }

  read(): CallsOfNoSource {
    return {
      discarded: Object.fromEntries(this.#discarded),
      refused: Object.fromEntries(this.#refused),
      clock: { unparseable: this.#unparseable, skewed: this.#skewed },
    };
  }
}

function add(counts: Map<string, number>, name: string, n: number): void {
  counts.set(name, (counts.get(name) ?? 0) + n);
}
