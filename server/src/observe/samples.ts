import type { Json } from '../model/json.ts';
import { SECOND, type Time } from '../model/time.ts';
import type { DiscardedCall, Samples } from '../ports/samples.ts';
import type { WriteKeyMask } from './write-key-mask.ts';

/** A call that was not accepted, as it is shown. */
export interface Sample {
  /** Absent when no source can be named. */
  readonly source?: string;
  readonly reason: string;
  /** ISO 8601. */
  readonly at: string;
  /** The call as compact JSON: its first 4,096 characters, and of write keys no more than a hint. */
  readonly call: string;
  /** Whether the call is longer than what is shown. */
  readonly cut: boolean;
}

/** Kept for each reason of each source: enough to see a pattern. */
const KEPT = 5;

/** As much as is kept of what an endpoint answered. decisions.md section 2, "network safety". */
const LONGEST = 4096;

/** Characters of all samples together. Beyond it the source and reason that has been quiet for longest is forgotten. */
const MOST_CHARACTERS = 2 * 1024 * 1024;

/** While samples of a reason are fresher than this, another one is not worth being written down. */
const FRESH = SECOND;

interface Kept {
  readonly source: string | undefined;
  readonly reason: string;
  /** The oldest first. */
  readonly samples: { readonly at: Time; readonly call: string; readonly cut: boolean }[];
}

/**
 * The last discarded calls of every source and reason, in memory: they begin anew with every start, as they are people's
 * data that nobody asked to have stored. Their number and size is bounded whatever is sent.
 */
export class DiscardSamples implements Samples {
  /** By source and reason, those that were added to last at the end. */
  readonly #kept = new Map<string, Kept>();
  #characters = 0;
  readonly #mask: WriteKeyMask;

  constructor(mask: WriteKeyMask) {
    this.#mask = mask;
  }

  add({ source, reason, at, call }: DiscardedCall): void {
    const key = JSON.stringify([reason, source]);
    const kept = this.#kept.get(key) ?? { source, reason, samples: [] };
    const last = kept.samples.at(-1);
    if (kept.samples.length === KEPT && last !== undefined && at - last.at < FRESH) return;
    const sample = { at, ...this.#shown(call) };
    kept.samples.push(sample);
    this.#characters += sample.call.length;
    if (kept.samples.length > KEPT) this.#characters -= kept.samples.shift()!.call.length;
    this.#kept.delete(key);
    this.#kept.set(key, kept);
    this.#forget();
  }

  /** The latest first. */
  read(): readonly Sample[] {
    return [...this.#kept.values()]
      .flatMap(({ source, reason, samples }) => samples.map((sample) => ({ source, reason, ...sample })))
      .toSorted((a, b) => b.at - a.at)
      .map(({ source, at, ...rest }) => ({
        ...(source === undefined ? {} : { source }),
        ...rest,
        at: new Date(at).toISOString(),
      }));
  }

  #shown(call: () => Json): { call: string; cut: boolean } {
    try {
      const text = this.#mask.json(call());
      return { call: text.slice(0, LONGEST), cut: text.length > LONGEST };
    } catch {
      // Nested too deep to be written; what is known is the reason.
      return { call: '', cut: true };
    }
  }

  #forget(): void {
    for (const [key, { samples }] of this.#kept) {
      if (this.#characters <= MOST_CHARACTERS) return;
      for (const { call } of samples) this.#characters -= call.length;
      this.#kept.delete(key);
    }
  }
}
