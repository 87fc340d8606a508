/**
 * The name of a test that shows what these sentences of spec/specification.md say. `node tools/citations.ts`
 * checks that each stands there word for word, and that no sentence about users is left without a test.
 */
export function quoted(...sentences: readonly string[]): string {
  return sentences.join(' ');
}
