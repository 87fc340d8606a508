import type { Checkpoints } from './checkpoints.ts';
import type { HighWaterMark } from './high-water-mark.ts';
import type { Reply } from './protocol.ts';
import { Watch } from './watch.ts';

/** Milliseconds between two looks at the folder. Commits go on for at most so long without one. */
const EVERY = 250;

export interface LookoutTools {
  readonly mark: HighWaterMark;
  readonly checkpoints: Checkpoints;
  /** Whether the writer has a handle. Without one the next request opens the files anew, and looks whether they are ours. */
  readonly isOpen: () => boolean;
  /** Told when the open files are no longer those of the folder, and when they are again. */
  readonly report: (reply: Extract<Reply, { kind: 'amiss' | 'intact' }>) => void;
}

/** Sees to it that nothing is written and nothing read while the files that are open are not those in the folder. */
export class Lookout {
  readonly #watch: Watch;
  readonly #tools: LookoutTools;
  readonly #timer: NodeJS.Timeout;
  #lookedAt = performance.now();
  #amiss: string | undefined;

  /** Begins, with files that have just been opened. */
  constructor(folder: string, tools: LookoutTools) {
    this.#watch = new Watch(folder);
    this.#tools = tools;
    this.#timer = setInterval(() => this.#look(), EVERY);
    this.#watch.begin();
  }

  /** Call before the files are opened anew, when nobody has them open. */
  pause(): void {
    this.#watch.end();
  }

  /** Call when they have been. */
  resume(): void {
    this.#watch.begin();
  }

  /** Call before the log is emptied. */
  logEmptied(): void {
    this.#watch.logEmptied();
  }

  /** Call when the files are closed for good. */
  end(): void {
    clearInterval(this.#timer);
    this.#watch.end();
  }

  /** Why nothing can be stored or read now. */
  amiss(): string | undefined {
    if (performance.now() - this.#lookedAt > EVERY) this.#look();
    return this.#amiss;
  }

  #look(): void {
    this.#lookedAt = performance.now();
    const { mark, checkpoints, isOpen, report } = this.#tools;
    if (!isOpen()) return;
    const amiss = this.#watch.look();
    if (amiss === undefined) mark.keep();
    if (amiss?.canBeSaved === true) checkpoints.save();
    if (amiss?.reason === this.#amiss) return;
    this.#amiss = amiss?.reason;
    report(amiss === undefined ? { kind: 'intact' } : { kind: 'amiss', reason: amiss.reason });
  }
}
