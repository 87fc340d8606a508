/** A mistake of the program, found at its start. */
export function invalid(reason: string): TypeError {
  return Object.assign(new TypeError(`Millrace client: ${reason}`), { code: 'invalid_option' });
}

/** An option with a typing error would otherwise be none, without a word. */
export function refuseUnknown(options: object, names: readonly string[]): void {
  for (const name in options) {
    if (names.includes(name)) continue;
    const meant = names.find((one) => isLike(one.toLowerCase(), name.toLowerCase(), 2));
    throw invalid(`there is no option ${name}${meant ? `; did you mean ${meant}?` : ''}`);
  }
}

/** Whether so many letters added, left out or changed make one of the other. */
function isLike(one: string, other: string, changes: number): boolean {
  if (changes < 0 || one === other) return changes >= 0;
  const [rest, others] = [one.slice(1), other.slice(1)];
  return (
    isLike(rest, others, one[0] === other[0] ? changes : changes - 1) ||
    isLike(rest, other, changes - 1) ||
    isLike(one, others, changes - 1)
  );
}
