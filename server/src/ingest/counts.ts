import type { Received } from '../ports/event-log.ts';
import type { DiscardReason, RefusalCode } from './reasons.ts';

const NO_DISCARDS: Received['discarded'] = Object.freeze({});

/** Counts one call, without the object below: most requests hold one call, and most calls are accepted. */
export function oneCall(source: number, reason?: DiscardReason): readonly Received[] {
  return [{ source, calls: 1, discarded: reason === undefined ? NO_DISCARDS : { [reason]: 1 } }];
}

/** Counts the calls of one batch where they are parsed: every call once, discards by reason too. */
export class Counts {
  readonly #sources: { source: number; calls: number; discarded: Record<string, number> }[] = [];
  readonly #unattributed: Record<string, number> = {};

  /** `source` is undefined where no source can be named; such a call was always discarded. */
  add(source: number | undefined, reason?: RefusalCode): void {
    const discarded = source === undefined ? this.#unattributed : this.#call(source);
    if (reason !== undefined) discarded[reason] = (discarded[reason] ?? 0) + 1;
  }

  get bySource(): readonly Received[] {
    return this.#sources;
  }

  get unattributed(): Readonly<Record<string, number>> {
    return this.#unattributed;
  }

  /** Batches of more than one source are rare, so the list is searched and not a map. */
  #call(source: number): Record<string, number> {
    let sums = this.#sources.find((entry) => entry.source === source);
    if (sums === undefined) {
      sums = { source, calls: 0, discarded: {} };
      this.#sources.push(sums);
    }
    sums.calls++;
    return sums.discarded;
  }
}
