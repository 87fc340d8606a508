import type { Position } from '../../model/event.ts';
import { pushVarint, readVarint } from './pending-set.ts';

/** Positions that one row may span, so that the search for one event reads few rows. */
export const ROW_SPAN = 4096;

/** Latencies are kept in tenths of a millisecond. */
const LATENCY_UNITS = 10;

/** A request that was accepted. */
export interface SuccessfulAttempt {
  readonly position: Position;
  readonly startedAt: number;
  readonly latencyMs: number;
  readonly status: number;
}

/**
 * Accepted requests as the rows that keep them, some seven bytes each: a row holds those of one settle to one endpoint. `facts` has four
 * varints a request, in the order of positions: gap since the position before, milliseconds since the first request of the
 * row, latency, status.
 */
export class SuccessfulAttemptRows {
  readonly #groups = new Map<
    string,
    { destination: number; endpoint: string; accepted: SuccessfulAttempt[] }
  >();

  add(destination: number, endpoint: string, accepted: SuccessfulAttempt): void {
    const key = `${destination} ${endpoint}`;
    const group = this.#groups.get(key);
    if (group) group.accepted.push(accepted);
    else this.#groups.set(key, { destination, endpoint, accepted: [accepted] });
  }

  /** `first` and `last` are positions, `at` is the beginning of the first request, in whole milliseconds. */
  *rows() {
    for (const { destination, endpoint, accepted } of this.#groups.values()) {
      accepted.sort((a, b) => a.position - b.position);
      for (let from = 0; from < accepted.length; ) {
        let to = from + 1;
        while (to < accepted.length && accepted[to]!.position < accepted[from]!.position + ROW_SPAN) to++;
        const row = accepted.slice(from, to);
        const at = row.reduce(
          (earliest, { startedAt }) => Math.min(earliest, Math.floor(startedAt)),
          Infinity,
        );
        const [first, last] = [row[0]!.position, row.at(-1)!.position];
        yield { destination, endpoint, first, last, at, facts: encodeAttempts(row, at) };
        from = to;
      }
    }
  }
}

function encodeAttempts(row: readonly SuccessfulAttempt[], at: number): Uint8Array {
  const bytes: number[] = [];
  let before = row[0]!.position;
  for (const { position, startedAt, latencyMs, status } of row) {
    pushVarint(bytes, position - before);
    pushVarint(bytes, Math.floor(startedAt) - at);
    pushVarint(bytes, Math.round(latencyMs * LATENCY_UNITS));
    pushVarint(bytes, status);
    before = position;
  }
  return Uint8Array.from(bytes);
}

/** The requests of a row. `first` and `at` stand beside them in it. */
export function decodeAttempts(encoded: Uint8Array, first: Position, at: number): SuccessfulAttempt[] {
  const accepted: SuccessfulAttempt[] = [];
  const cursor = { at: 0 };
  let position = first;
  while (cursor.at < encoded.length) {
    position += readVarint(encoded, cursor);
    const startedAt = at + readVarint(encoded, cursor);
    const latencyMs = readVarint(encoded, cursor) / LATENCY_UNITS;
    accepted.push({ position, startedAt, latencyMs, status: readVarint(encoded, cursor) });
  }
  return accepted;
}
