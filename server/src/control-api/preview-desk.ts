import { type Duration, isoTime, MINUTE, type Monotonic, SECOND, type Time } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { Preview } from '../ports/users.ts';
import { Problem } from './problem.ts';

/** For how long an answer is given again that took long to compute. */
const KEPT: Duration = MINUTE;
const LONG: Duration = SECOND;
/** Answers that are kept. */
const MOST_KEPT = 20;
/** When the same may be asked again, in seconds. */
const ASK_AGAIN = 5;

/** The token that asks for a preview. */
export interface PreviewAsker {
  /** The name of the token. */
  readonly by: string;
  /** Aborted when nobody waits for the answer any more. */
  readonly gone: AbortSignal;
}

/** A preview, with when it was begun. */
export interface DatedPreview extends Preview {
  readonly computedAt: Time;
}

interface Running extends PreviewAsker {
  readonly since: Time;
  readonly ended: Promise<unknown>;
}

/**
 * One preview at a time: each reads all stored events, on the thread that keeps profiles up. Whoever asks
 * meanwhile is told whose it is. The answer to the same definition is given again for a minute where it took
 * long.
 */
export class PreviewDesk {
  readonly #clock: Pick<Clock, 'now' | 'monotonic'>;
  readonly #answers = new Map<string, { readonly at: Monotonic; readonly preview: DatedPreview }>();
  #running: Running | undefined;

  constructor(clock: Pick<Clock, 'now' | 'monotonic'>) {
    this.#clock = clock;
  }

  /**
   * Resolves to the answer of `compute`, or an earlier one of the same key. Rejects with a `Problem` while
   * another one runs.
   */
  async preview(key: string, asker: PreviewAsker, compute: () => Promise<Preview>): Promise<DatedPreview> {
    const known = this.#answers.get(key);
    if (known !== undefined && this.#clock.monotonic() - known.at < KEPT) return known.preview;
    // Somebody who types asks anew with each pause, and leaves the question before.
    while (this.#running?.gone.aborted) await this.#running.ended;
    if (this.#running !== undefined) throw busyWith(this.#running);
    const computing = this.#compute(key, compute);
    const running = { ...asker, since: this.#clock.now(), ended: computing.catch(() => {}) };
    this.#running = running;
    try {
      return await computing;
    } finally {
      this.#running = undefined;
    }
  }

  async #compute(key: string, compute: () => Promise<Preview>): Promise<DatedPreview> {
    const [computedAt, begun] = [this.#clock.now(), this.#clock.monotonic()];
    const preview = { ...(await compute()), computedAt };
    const at = this.#clock.monotonic();
    if (at - begun < LONG || preview.eventsBehind > 0) return preview;
    this.#answers.delete(key);
    this.#answers.set(key, { at, preview });
    if (this.#answers.size > MOST_KEPT) this.#answers.delete(this.#answers.keys().next().value!);
    return preview;
  }
}

function busyWith({ by, since }: Running): Problem {
  const hint = `${JSON.stringify(by)} has asked for one at ${isoTime(since)}, and one runs at a time, for two minutes at most: ask again then, or save the definition with enabled: false, which counts beside everything else.`;
  return new Problem('preview_running', { hint, retryAfter: ASK_AGAIN });
}
