/** A line that is read and not yet passed. */
export interface WindowLine {
  /** Line number, from 1. */
  readonly number: number;
  /** Offset of the next line in the file. */
  readonly end: number;
  /** Bytes of memory that the line takes, approximately. */
  readonly weight: number;
  /** The result of the line. Undefined while it is open. */
  fate: Fate | undefined;
}

export type Fate =
  | { readonly kind: 'accepted' | 'empty' }
  | { readonly kind: 'refused'; readonly reason: string; readonly message: string; readonly text: string };

/** Counts of the lines that have left the window. */
export interface Passed {
  /** Every byte before this offset is settled. */
  readonly offset: number;
  readonly line: number;
  readonly accepted: number;
  readonly refused: number;
}

/**
 * Lines in file order. Calls are answered in any order; a line counts as done once no line before it is open.
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
    // Lines are removed in batches, because each removal copies the rest.
    if (this.#first < 1000 && this.#first < this.#lines.length) return;
    this.#lines = this.#lines.slice(this.#first);
    this.#first = 0;
  }
}
