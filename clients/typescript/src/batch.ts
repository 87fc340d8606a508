import type { Entry } from './backlog.ts';

/** Calls that travel together, the same ones on every try. */
export interface Batch {
  readonly entries: readonly Entry[];
  tries: number;
  /** `performance.now()` from which it may be tried again. */
  notBefore: number;
  /** Whether a try may have been successful without an answer that says so. */
  uncertain: boolean;
  /** Is in a request that survives the page. */
  departing: boolean;
}

export function batchOf(entries: Iterable<Entry>, departing = false): Batch {
  return { entries: [...entries], tries: 0, notBefore: 0, uncertain: false, departing };
}

/** Calls of these batches that are unanswered and would end with the page, up to so many bytes. */
export function endangered(batches: readonly Batch[], bytes: number): Set<Entry> {
  // A page that is left says so twice, when it is hidden and when it goes.
  const safe = new Set(batches.filter(({ departing }) => departing).flatMap(({ entries }) => entries));
  const found = new Set<Entry>();
  let left = bytes;
  for (const entry of batches.flatMap(({ entries }) => entries)) {
    if (entry.settled || safe.has(entry) || found.has(entry) || entry.bytes >= left) continue;
    found.add(entry);
    left -= entry.bytes + 1;
  }
  return found;
}
