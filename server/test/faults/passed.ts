/** Prints the result line of a kind of round. */
export function passed(kind: string, facts: Readonly<Record<string, number | string>>): void {
  const said = Object.entries(facts).map(([name, value]) => `${name} ${value}`);
  console.log(`passed: ${kind}: ${said.join(', ')}`);
}

export function largest(numbers: Iterable<number>): number {
  return Math.max(0, ...numbers);
}
