import type { Appended } from '../../ports/event-log.ts';

/**
 * The answer to a batch as it is stored beside its events and sent to the other thread. Mostly the positions follow each
 * other from the first on, and two numbers say it: sent as an object, a hundred positions cost as much as reading them.
 * JSON knows no `undefined`: null.
 */
export function encodeAppended({ positions, held }: Appended): string {
  const first = positions[0];
  const gapless = first !== undefined && positions.every((position, index) => position === first + index);
  return JSON.stringify({ positions: gapless ? { first, n: positions.length } : positions, held });
}

export function decodeAppended(text: string): Appended {
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
