import type { AppendResult } from '../../ports/event-log.ts';

/**
 * Encodes the answer to a batch, for its chunk and for the main thread. Positions are mostly consecutive and then take two
 * numbers: as an array, a hundred positions cost as much as reading them. JSON has no `undefined`, so null stands for it.
 * `positions`: −1 for a duplicate.
 */
export function encodeAppended(positions: Float64Array, held: AppendResult['held']): string {
  const n = positions.length;
  const first = positions[0];
  if (first !== undefined && areConsecutive(positions))
    return JSON.stringify({ positions: { first, n }, held });
  return JSON.stringify({
    positions: Array.from(positions, (position) => (position < 0 ? null : position)),
    held,
  });
}

function areConsecutive(positions: Float64Array): boolean {
  const first = positions[0]!;
  if (first < 0) return false;
  for (let index = 1; index < positions.length; index++) if (positions[index] !== first + index) return false;
  return true;
}

export function decodeAppended(text: string): AppendResult {
  const { positions, held } = JSON.parse(text) as {
    positions: { first: number; n: number } | (number | null)[];
    held: (number | null)[];
  };
  return {
    positions: Array.isArray(positions)
      ? positions.map((position) => position ?? undefined)
      : Array.from({ length: positions.n }, (_, index) => positions.first + index),
    held: held.map((set) => set ?? undefined),
  };
}
