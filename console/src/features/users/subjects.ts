/** UserIds of a text, one a line, each once, without the blanks around them. */
export function subjectsOf(text: string): string[] {
  const ids = text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '');
  return [...new Set(ids)];
}
