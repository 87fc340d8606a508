/** Longest word compared, in characters: longer words are no typing mistakes, and comparing them is slow. */
const MAX_WORD_LENGTH = 32;

/** Most words compared. */
const MAX_WORDS = 1000;

/** The one word of which `written` may be a misspelling, or another way to write the name. */
export function closestWord(written: string, words: Iterable<string>): string | undefined {
  if (written.length > MAX_WORD_LENGTH) return undefined;
  const from = normalizeWord(written);
  let best: string | undefined;
  let least = Number.POSITIVE_INFINITY;
  let compared = 0;
  for (const word of words) {
    if (word.length > MAX_WORD_LENGTH) continue;
    const most = Math.max(1, Math.floor(word.length / 4));
    const distance = editDistance(from, normalizeWord(word), Math.min(most, least - 1));
    if (distance !== undefined) [best, least] = [word, distance];
    if (least === 0 || ++compared === MAX_WORDS) break;
  }
  return best;
}

function normalizeWord(word: string): string {
  return word.toLowerCase().replace(/[_-]/g, '');
}

/**
 * The number of letters inserted, left out, replaced, or swapped with their neighbour; undefined when above
 * `most`.
 */
function editDistance(from: string, to: string, most: number): number | undefined {
  if (Math.abs(from.length - to.length) > most) return undefined;
  let above: number[] = [];
  let row = Array.from({ length: to.length + 1 }, (_, column) => column);
  for (let line = 1; line <= from.length; line++) {
    const next = [line];
    for (let column = 1; column <= to.length; column++) {
      const replaced = row[column - 1]! + (from[line - 1] === to[column - 1] ? 0 : 1);
      const swapped = from[line - 1] === to[column - 2] && from[line - 2] === to[column - 1];
      const least = Math.min(replaced, row[column]! + 1, next[column - 1]! + 1);
      next.push(swapped ? Math.min(least, above[column - 2]! + 1) : least);
    }
    // A swap looks back two rows.
    if (Math.min(...row, ...next) > most) return undefined;
    above = row;
    row = next;
  }
  const distance = row[to.length]!;
  return distance > most ? undefined : distance;
}
