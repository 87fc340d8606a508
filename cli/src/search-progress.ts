import type { Clock } from './clock.ts';
import { count, printable } from './column.ts';
import type { RunContext } from './run-context.ts';

/** The progress of a search, from one page of results. */
export interface Searched {
  /** Entries found so far on all pages. */
  readonly found: number;
  /** Entries examined for this page. */
  readonly searched?: number;
  /** Time of the oldest entry examined. */
  readonly searchedTo?: string;
}

/** Milliseconds between two progress lines in a log. */
const IN_A_LOG_MS = 5000;

/**
 * Shows the progress of a search on stderr: one changing line on a terminal, else a line every few seconds.
 */
export class SearchProgress {
  readonly #err: RunContext['err'];
  readonly #clock: Clock;
  readonly #isTerminal: boolean;
  #searched = 0;
  #saidAt: number;
  #isShown = false;

  constructor({ err, env }: RunContext, clock: Clock) {
    this.#err = err;
    this.#clock = clock;
    this.#isTerminal = err.isTTY === true && env['TERM'] !== 'dumb';
    this.#saidAt = clock.now();
  }

  show({ found, searched = 0, searchedTo }: Searched): void {
    this.#searched += searched;
    const back = searchedTo === undefined ? '' : `, back to ${printable(searchedTo)}`;
    const text = `looked at ${count(this.#searched)}${back}; ${count(found)} found`;
    if (this.#isTerminal) {
      // A wrapped line could not be erased.
      this.#err.write(`\r\u001b[2K${text.slice(0, (this.#err.columns || 80) - 1)}`);
      this.#isShown = true;
    } else if (this.#clock.now() >= this.#saidAt + IN_A_LOG_MS) {
      this.#err.write(`millrace: ${text}\n`);
      this.#saidAt = this.#clock.now();
    }
  }

  clear(): void {
    if (this.#isShown) this.#err.write('\r\u001b[2K');
    this.#isShown = false;
  }
}
