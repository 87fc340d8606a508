/** UserIds of a text, one a line, each once, taken as they are. */
export function subjectsOf(text: string): string[] {
  return [...new Set(text.split(/\r?\n/).filter((line) => line !== ''))];
}
