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
  /** The mistake in a line; with a mistake nothing may be done. */
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

/** The text to type as confirmation for one user: its id, as JSON text if it cannot be typed. */
export function confirmationOf(id: string): string {
  return fitsLine(id) ? id : JSON.stringify(id);
}
