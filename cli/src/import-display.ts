import type { Clock } from './clock.ts';
import { count, span } from './column.ts';
import type { RunContext } from './run-context.ts';

/** The progress of an import. */
export interface Advance {
  /** Settled bytes of the file, and all its bytes. A stream has no known size. */
  readonly offset: number;
  readonly size: number | undefined;
  readonly accepted: number;
  readonly refused: number;
}

const BAR = 16;
/** Milliseconds over which speed is measured. */
const MEASURED_MS = 10_000;
const ON_A_TERMINAL_MS = 200;
const IN_A_LOG_MS = 5000;

/**
 * `[#####-----------] 37 % 12,345/s accepted 450,000 refused 3 2 min left`, without the bar in a log.
 */
function advanceText(now: Advance, speed: Speed, isTerminal: boolean): string {
  const sums = `accepted ${count(now.accepted)}  refused ${count(now.refused)}`;
  const { size } = now;
  if (size === undefined) return `${count(Math.round(speed.calls))}/s  ${sums}`;
  const share = size === 0 ? 1 : Math.min(1, now.offset / size);
  const filled = Math.floor(share * BAR);
  const bar = `[${'#'.repeat(filled)}${'-'.repeat(BAR - filled)}]  `;
  const left = speed.bytes > 0 ? `  ${span(((size - now.offset) / speed.bytes) * 1000)} left` : '';
  const percent = `${String(Math.floor(share * 100)).padStart(isTerminal ? 3 : 1)} %`;
  return `${isTerminal ? bar : ''}${percent}  ${count(Math.round(speed.calls))}/s  ${sums}${left}`;
}

/** Rates per second. */
interface Speed {
  readonly calls: number;
  readonly bytes: number;
}

/** Measures speed over the last seconds: it follows changes and does not jump. */
class Speedometer {
  #samples: { readonly at: number; readonly calls: number; readonly offset: number }[] = [];

  measure({ accepted, refused, offset }: Advance, at: number): Speed {
    const sample = { at, calls: accepted + refused, offset };
    this.#samples.push(sample);
    while (this.#samples.length > 2 && this.#samples[1]!.at <= at - MEASURED_MS) this.#samples.shift();
    const [first = sample] = this.#samples;
    const seconds = (at - first.at) / 1000;
    if (seconds <= 0) return { calls: 0, bytes: 0 };
    return { calls: (sample.calls - first.calls) / seconds, bytes: (offset - first.offset) / seconds };
  }
}

/** Shows the progress on stderr: one changing line on a terminal, else a line every few seconds. */
export class ImportDisplay {
  readonly #err: RunContext['err'];
  readonly #clock: Clock;
  readonly #read: () => Advance;
  readonly #speed = new Speedometer();
  readonly #isTerminal: boolean;
  #cancel: () => void = () => {};
  #isShown = false;

  constructor({ err, env }: RunContext, clock: Clock, read: () => Advance) {
    this.#err = err;
    this.#clock = clock;
    this.#read = read;
    this.#isTerminal = err.isTTY === true && env['TERM'] !== 'dumb';
    this.#speed.measure(read(), clock.monotonic());
    this.#wait();
  }

  /** Prints a permanent line beside the progress. */
  say(line: string): void {
    this.#clear();
    this.#err.write(`millrace: ${line}\n`);
  }

  stop(): void {
    this.#cancel();
    this.#clear();
  }

  #wait(): void {
    const pause = this.#isTerminal ? ON_A_TERMINAL_MS : IN_A_LOG_MS;
    this.#cancel = this.#clock.after(pause, () => {
      this.#show();
      this.#wait();
    });
  }

  #show(): void {
    const now = this.#read();
    const text = advanceText(now, this.#speed.measure(now, this.#clock.monotonic()), this.#isTerminal);
    if (!this.#isTerminal) {
      this.say(text);
      return;
    }
    this.#clear();
    // A wrapped line could not be erased.
    this.#err.write(text.slice(0, (this.#err.columns || 80) - 1));
    this.#isShown = true;
  }

  #clear(): void {
    if (this.#isShown) this.#err.write('\r\u001b[2K');
    this.#isShown = false;
  }
}
