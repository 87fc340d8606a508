import type { Clock } from './clock.ts';
import { count, printable } from './column.ts';
import type { Surroundings } from './surroundings.ts';

/** The progress of a search, as one page of results tells it. */
export interface Searched {
  /** Entries found so far, those of all pages. */
  readonly found: number;
  /** Entries looked at for this page. */
  readonly searched?: number;
  /** Back to when. */
  readonly searchedTo?: string;
}

/** In a log it is said this often. */
const IN_A_LOG_MS = 5000;

/** Shows on stderr how far a search has come: one line that changes on a terminal, a line now and then elsewhere. */
export class SearchProgress {
  readonly #err: Surroundings['err'];
  readonly #clock: Clock;
  readonly #isTerminal: boolean;
  #searched = 0;
  #saidAt: number;
  #isShown = false;

  constructor({ err, env }: Surroundings, clock: Clock) {
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
      // A line that is broken in two cannot be taken back.
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
