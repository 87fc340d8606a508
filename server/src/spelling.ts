/** Longer words are no slips of the fingers, and comparing them would take long. */
const LONGEST = 32;

/** Words that are compared at most. */
const MOST_WORDS = 1000;

/** The one word that a slip of the fingers, or another habit of writing names, could have turned into `written`. */
export function closest(written: string, words: Iterable<string>): string | undefined {
  if (written.length > LONGEST) return undefined;
  const from = plain(written);
  let best: string | undefined;
  let least = Number.POSITIVE_INFINITY;
  let compared = 0;
  for (const word of words) {
    if (word.length > LONGEST) continue;
    const most = Math.max(1, Math.floor(word.length / 4));
    const distance = editDistance(from, plain(word), Math.min(most, least - 1));
    if (distance !== undefined) [best, least] = [word, distance];
    if (least === 0 || ++compared === MOST_WORDS) break;
  }
  return best;
}

function plain(word: string): string {
  return word.toLowerCase().replace(/[_-]/g, '');
}

/** How many letters are inserted, left out, replaced, or swapped with their neighbour; nothing when more than `most`. */
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
    // A swap reaches over one row.
    if (Math.min(...row, ...next) > most) return undefined;
    above = row;
    row = next;
  }
  const distance = row[to.length]!;
  return distance > most ? undefined : distance;
}
