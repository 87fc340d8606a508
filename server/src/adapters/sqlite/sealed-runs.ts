import type { Position } from '../../model/event.ts';
import type { Time } from '../../model/time.ts';
import type { Run } from './run.ts';
import { type Part, partOf, RunGroup } from './run-group.ts';

/** A group in the making, and what it stands for when it is made. */
interface Grouping {
  readonly parts: readonly Part[];
  readonly slices: Generator<undefined, RunGroup>;
}

/**
 * All sealed runs and how they are asked: each by a filter of its own, or by one that it shares with others, as far as
 * the memory reaches. Filters of one size are brought together as soon as there are two: of 23 runs, 16 share one, 4
 * another, 2 a third.
 */
export class SealedRuns {
  readonly #memory: number;
  /** The oldest first. */
  #runs: Run[];
  /** Those of them that have a filter of their own, or none at all. */
  #single: Run[];
  #groups: RunGroup[] = [];
  #grouping: Grouping | undefined;

  /** `runs`: the oldest first. `memory`: bytes that filters may take. */
  constructor(runs: readonly Run[], memory: number) {
    this.#memory = memory;
    this.#runs = [...runs];
    this.#single = [...runs];
  }

  get oldest(): Run | undefined {
    return this.#runs[0];
  }

  get newest(): Run | undefined {
    return this.#runs.at(-1);
  }

  /** Adds a run: mostly the newest, now and then one that was made anew. */
  add(run: Run): void {
    const byAge = (a: Run, b: Run) => a.facts.fromPosition - b.facts.fromPosition;
    this.#runs = [...this.#runs, run].sort(byAge);
    this.#single = [...this.#single, run].sort(byAge);
    this.#keepToBudget();
  }

  /** By its place, the oldest first. */
  at(place: number): Run | undefined {
    return this.#runs[place];
  }

  find(id: number): Run | undefined {
    return this.#runs.find(({ facts }) => facts.id === id);
  }

  drop(run: Run): void {
    this.#runs = this.#runs.filter((other) => other !== run);
    this.#single = this.#single.filter((other) => other !== run);
    // What is being made would still lead to the run; it is soon begun again.
    if (this.#grouping?.parts.some(({ places }) => places.includes(run))) this.#grouping = undefined;
    for (const group of this.#groups) group.drop(run);
    this.#groups = this.#groups.filter(({ runs }) => runs.length > 0);
  }

  /** Sets `found[n]` to 1 for each key that may be in one of the runs. `keys` are pairs of words, high before low. */
  mark(keys: Uint32Array, found: Uint8Array): void {
    for (const run of this.#single) run.mark(keys, found);
    for (const group of this.#groups) group.mark(keys, found);
  }

  /** Whether `matches` says yes to any position under this key, among events that may be younger than `since`. */
  some(high: number, low: number, { since, matches }: Question): boolean {
    for (let nth = this.#single.length - 1; nth >= 0; nth--) {
      const run = this.#single[nth]!;
      if (run.facts.youngest >= since && run.some(high, low, matches)) return true;
    }
    if (this.#groups.length === 0) return false;
    const question = { mayAsk: (run: Run) => run.facts.youngest >= since, matches };
    return this.#groups.some((group) => group.some(high, low, question));
  }

  /** Does one slice of bringing filters together. False when there is nothing to do. */
  group(): boolean {
    this.#grouping ??= this.#beginGroup();
    if (this.#grouping === undefined) return false;
    const { parts, slices } = this.#grouping;
    const slice = slices.next();
    if (slice.done !== true) return true;
    this.#grouping = undefined;
    const grouped = new Set(parts.flatMap(({ places }) => places));
    this.#groups = this.#groups.filter((group) => !parts.includes(group));
    this.#groups.push(slice.value);
    this.#single = this.#single.filter((run) => !grouped.has(run));
    for (const run of slice.value.runs) run.dropFilter();
    return true;
  }

  /** Halves what is half empty, else brings together the two smallest that are of one size. */
  #beginGroup(): Grouping | undefined {
    const halfEmpty = this.#groups.find((group) => group.isHalfEmpty);
    if (halfEmpty !== undefined) return { parts: [halfEmpty], slices: halfEmpty.halved() };
    const parts: Part[] = this.#single.map(partOf).filter((part) => part !== undefined);
    parts.push(...this.#groups.toSorted((a, b) => a.filter.runBits - b.filter.runBits));
    for (let nth = 1; nth < parts.length; nth++) {
      const [one, other] = [parts[nth - 1]!, parts[nth]!];
      if (RunGroup.fits(one, other)) return { parts: [one, other], slices: RunGroup.of(one, other) };
    }
    return undefined;
  }

  /** The filters of the oldest runs go first: they are asked as often, but their events leave the window soonest. */
  #keepToBudget(): void {
    let room = this.#memory;
    for (const { filterBytes } of this.#single) room -= filterBytes;
    for (const run of this.#single) {
      if (room >= 0) break;
      room += run.filterBytes;
      run.dropFilter();
    }
    for (const group of this.#groups.toSorted((a, b) => firstOf(b) - firstOf(a))) {
      room -= group.filterBytes;
      if (room >= 0) continue;
      this.#groups = this.#groups.filter((other) => other !== group);
      this.#single = [...group.runs, ...this.#single];
    }
  }
}

/** Where the oldest events of a group begin. */
function firstOf({ runs: [oldest] }: RunGroup): Position {
  return oldest!.facts.fromPosition;
}

interface Question {
  readonly since: Time;
  readonly matches: (position: Position) => boolean;
}
