import { fitsLine, idOfJson, JSON_RULE } from '../../api/ids.ts';

/** UserIds as a field with many lines has them. */
export interface SubjectText {
  readonly text: string;
  /** Each line is JSON text. */
  readonly isJson: boolean;
}

/** The field for userIds: as they are, or all as JSON text where one does not fit into a line. */
export function textOf(ids: readonly string[]): SubjectText {
  const isJson = !ids.every(fitsLine);
  return { text: ids.map((id) => (isJson ? JSON.stringify(id) : id)).join('\n'), isJson };
}

export interface Subjects {
  /** Each once, taken as they are. */
  readonly ids: readonly string[];
  /** What is wrong with a line; then nothing may be done to anybody. */
  readonly mistake?: string;
}

/** UserIds of a text, one a line. */
export function subjectsOf({ text, isJson }: SubjectText): Subjects {
  const lines = text.split(/\r?\n/);
  const ids: string[] = [];
  for (const [nth, line] of lines.entries()) {
    if (line === '' || (isJson && line.trim() === '')) continue;
    const id = isJson ? idOfJson(line) : line;
    if (id === undefined) return { ids: [], mistake: `Line ${nth + 1} ${JSON_RULE}.` };
    ids.push(id);
  }
  return { ids: [...new Set(ids)] };
}

/** What is typed to confirm a deletion of one user: its id, as JSON text where nobody could type it. */
export function confirmationOf(id: string): string {
  return fitsLine(id) ? id : JSON.stringify(id);
}
