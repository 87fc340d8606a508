import type { Position } from '../../model/event.ts';
import type { Run } from './run.ts';

/** So many runs share one filter. */
export const GROUP_RUNS = 8;
const RUN_BITS = 3;

/** Bucket bits of the runs that can be grouped, and of the group: together eight times as many keys have as long buckets. */
const RUN_BUCKET_BITS = 16;
const BUCKET_BITS = RUN_BUCKET_BITS + RUN_BITS;
const REMAINDER_BITS = 32 - BUCKET_BITS;
const REMAINDERS = 2 ** REMAINDER_BITS - 1;

/** Buckets of the runs gone through in one slice: about two milliseconds. */
const SLICE_BUCKETS = 512;

/**
 * The filters of eight runs as one. A new key is asked of every filter, and each answer costs two visits to memory that
 * no cache holds: with a day of keys in a few dozen runs that would be most of what an append costs. In a group it is two
 * visits for all eight.
 *
 * The high words of eight runs of a million, bucketed by three bits more; what is left of the word shares 16 bits with
 * the number of the run within the group. So it takes no more memory than the filters it stands for, and is wrong for one
 * key in five hundred, which then costs the reading of a page.
 */
export class RunGroup {
  readonly #runs: (Run | undefined)[];
  readonly #starts: Uint32Array;
  readonly #entries: Uint16Array;

  private constructor(runs: readonly Run[], starts: Uint32Array, entries: Uint16Array) {
    this.#runs = [...runs];
    this.#starts = starts;
    this.#entries = entries;
  }

  /** Whether these runs can be grouped. */
  static fits(runs: readonly Run[]): boolean {
    return (
      runs.length === GROUP_RUNS &&
      runs.every(({ facts, remainders }) => facts.bucketBits === RUN_BUCKET_BITS && remainders !== undefined)
    );
  }

  /** Makes a group, one slice for each `next`; the last one returns it. */
  static *of(runs: readonly Run[]): Generator<undefined, RunGroup> {
    const keys = runs.reduce((sum, { facts }) => sum + facts.n, 0);
    const starts = new Uint32Array(2 ** BUCKET_BITS + 1);
    const entries = new Uint16Array(keys);
    const ranks = new Uint32Array(runs.length);
    let n = 0;
    for (let bucket = 0; bucket < 2 ** RUN_BUCKET_BITS; bucket++) {
      for (let part = 0; part < GROUP_RUNS; part++) {
        starts[bucket * GROUP_RUNS + part] = n;
        for (let nth = 0; nth < runs.length; nth++) {
          const remainders = runs[nth]!.remainders!;
          const end = runs[nth]!.starts[bucket + 1]!;
          let rank = ranks[nth]!;
          while (rank < end && remainders[rank]! >>> REMAINDER_BITS === part) {
            entries[n++] = ((remainders[rank++]! & REMAINDERS) << RUN_BITS) | nth;
          }
          ranks[nth] = rank;
        }
      }
      if (bucket % SLICE_BUCKETS === SLICE_BUCKETS - 1) yield;
    }
    starts[2 ** BUCKET_BITS] = n;
    return new RunGroup(runs, starts, entries);
  }

  /** The runs that are left of it. */
  get runs(): Run[] {
    return this.#runs.filter((run) => run !== undefined);
  }

  get filterBytes(): number {
    return this.#entries.byteLength;
  }

  /** Forgets a run; its entries stay and lead nowhere. */
  drop(run: Run): void {
    const nth = this.#runs.indexOf(run);
    if (nth >= 0) this.#runs[nth] = undefined;
  }

  /** Whether `matches` says yes to any of the positions kept under this key, in a run that may be asked. */
  some(high: number, low: number, { mayAsk, matches }: Question): boolean {
    const bucket = high >>> REMAINDER_BITS;
    const remainder = high & REMAINDERS;
    const end = this.#starts[bucket + 1]!;
    for (let at = this.#starts[bucket]!; at < end; at++) {
      const entry = this.#entries[at]!;
      if (entry >>> RUN_BITS !== remainder) continue;
      const run = this.#runs[entry & (GROUP_RUNS - 1)];
      if (run !== undefined && mayAsk(run) && run.someWithoutFilter(high, low, matches)) return true;
    }
    return false;
  }
}

export interface Question {
  readonly mayAsk: (run: Run) => boolean;
  readonly matches: (position: Position) => boolean;
}
