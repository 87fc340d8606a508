/** A line of a difference: only before, only after, or in both. */
export interface DiffLine {
  readonly kind: 'removed' | 'added' | 'same';
  readonly text: string;
}

/** With more pairs of lines than this, the middle is shown as removed and added as a whole. */
const MAX_PAIRS = 4_000_000;

/** The difference of two texts, line by line, with as many lines in common as possible. */
export function diffLines(before: string, after: string): DiffLine[] {
  const one = linesOf(before);
  const other = linesOf(after);
  let start = 0;
  while (start < one.length && start < other.length && one[start] === other[start]) start++;
  let end = 0;
  while (
    end < one.length - start &&
    end < other.length - start &&
    one[one.length - 1 - end] === other[other.length - 1 - end]
  )
    end++;
  const same = (text: string): DiffLine => ({ kind: 'same', text });
  return [
    ...one.slice(0, start).map(same),
    ...diffMiddle(one.slice(start, one.length - end), other.slice(start, other.length - end)),
    ...one.slice(one.length - end).map(same),
  ];
}

function linesOf(text: string): string[] {
  if (text === '') return [];
  return (text.endsWith('\n') ? text.slice(0, -1) : text).split('\n');
}

/** By the longest common subsequence. */
function diffMiddle(one: readonly string[], other: readonly string[]): DiffLine[] {
  const removed = (text: string): DiffLine => ({ kind: 'removed', text });
  const added = (text: string): DiffLine => ({ kind: 'added', text });
  if (one.length * other.length === 0 || one.length * other.length > MAX_PAIRS)
    return [...one.map(removed), ...other.map(added)];
  const lengths = commonLengths(one, other);
  const lines: DiffLine[] = [];
  let i = 0;
  let j = 0;
  while (i < one.length && j < other.length) {
    if (one[i] === other[j]) {
      lines.push({ kind: 'same', text: one[i]! });
      i++;
      j++;
    } else if (lengths[i + 1]![j]! >= lengths[i]![j + 1]!) lines.push(removed(one[i++]!));
    else lines.push(added(other[j++]!));
  }
  return [...lines, ...one.slice(i).map(removed), ...other.slice(j).map(added)];
}

/** Number of common lines behind each pair of positions. */
function commonLengths(one: readonly string[], other: readonly string[]): Uint32Array[] {
  const lengths = Array.from({ length: one.length + 1 }, () => new Uint32Array(other.length + 1));
  for (let i = one.length - 1; i >= 0; i--)
    for (let j = other.length - 1; j >= 0; j--)
      lengths[i]![j] =
        one[i] === other[j]
          ? lengths[i + 1]![j + 1]! + 1
          : Math.max(lengths[i + 1]![j]!, lengths[i]![j + 1]!);
  return lengths;
}
