/** A line that was read and not yet passed. */
export interface WindowLine {
  /** From 1. */
  readonly number: number;
  /** Where in the file the next line begins. */
  readonly end: number;
  /** Bytes of memory it keeps, about. */
  readonly weight: number;
  /** Undefined until it is known what became of it. */
  fate: Fate | undefined;
}

export type Fate =
  | { readonly kind: 'accepted' | 'empty' }
  | { readonly kind: 'refused'; readonly reason: string; readonly message: string; readonly text: string };

/** What an empty window has passed so far. */
export interface Passed {
  /** Every byte before it is settled. */
  readonly offset: number;
  readonly line: number;
  readonly accepted: number;
  readonly refused: number;
}

/**
 * Lines in the order of the file. Calls are answered for in any order; what may be written down as done is only what has no
 * open line before it.
 *
 * ```
 *   passed ─▶ │ open · accepted · refused · accepted · open │ ◀─ read
 *             └─ the window ────────────────────────────────┘
 * ```
 */
export class ImportWindow {
  #lines: WindowLine[] = [];
  #first = 0;
  #weight = 0;
  #passed: Passed;
  readonly #onPassed: (line: WindowLine) => void;

  constructor(from: Passed, onPassed: (line: WindowLine) => void) {
    this.#passed = from;
    this.#onPassed = onPassed;
  }

  get passed(): Passed {
    return this.#passed;
  }

  get weight(): number {
    return this.#weight;
  }

  add(line: WindowLine): void {
    this.#lines.push(line);
    this.#weight += line.weight;
    if (line.fate !== undefined) this.#pass();
  }

  settle(line: WindowLine, fate: Fate): void {
    line.fate = fate;
    this.#pass();
  }

  #pass(): void {
    let { accepted, refused } = this.#passed;
    let last: WindowLine | undefined;
    for (let line = this.#lines[this.#first]; line?.fate !== undefined; line = this.#lines[this.#first]) {
      this.#first++;
      this.#weight -= line.weight;
      if (line.fate.kind === 'accepted') accepted++;
      else if (line.fate.kind === 'refused') refused++;
      this.#onPassed(line);
      last = line;
    }
    if (last !== undefined) this.#passed = { offset: last.end, line: last.number, accepted, refused };
    // Cut off in pieces, because cutting costs the length of what is left.
    if (this.#first < 1000 && this.#first < this.#lines.length) return;
    this.#lines = this.#lines.slice(this.#first);
    this.#first = 0;
  }
}
