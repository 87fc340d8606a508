import { counted, printable } from '../column.ts';
import type { Paint } from '../paint.ts';
import { table } from '../table.ts';

/** Taken: it does here what it did there. Partly: it is here, and something of it is not. */
export type Outcome = 'taken' | 'partly' | 'not';

/** One thing of the export. */
export interface ReportLine {
  readonly kind: string;
  readonly id: string;
  readonly name?: string;
  readonly outcome: Outcome;
  readonly reason?: string;
  /** The name of its record here, where it is another one. */
  readonly as?: string;
}

/** Something that only a person knows. */
export interface Question {
  /** The variable of the environment that answers it. Absent: it is typed into the file, or looked up. */
  readonly variable?: string;
  readonly text: string;
}

export interface Report {
  readonly things: readonly ReportLine[];
  readonly asked: readonly Question[];
}

/** The most reasons of one thing that are told; a hostile export would have thousands. */
const MAX_REASONS = 8;

/** Reasons as one sentence. */
export function reasonOf(reasons: readonly string[]): { readonly reason?: string } {
  const own = [...new Set(reasons)];
  if (own.length === 0) return {};
  const more = own.length > MAX_REASONS ? [`and ${own.length - MAX_REASONS} more`] : [];
  return { reason: [...own.slice(0, MAX_REASONS), ...more].join('; ') };
}

/** The report for a person: each thing with its outcome, first those that need somebody. */
export function reportText({ things, asked }: Report, paint: Paint): string {
  const of = (outcome: Outcome) => things.filter((one) => one.outcome === outcome);
  const groups = (['not', 'partly', 'taken'] as const).map((outcome) => [outcome, of(outcome)] as const);
  const lines = groups.flatMap(([outcome, listed]) =>
    listed.length === 0 ? [] : [`${TITLES[outcome]} (${listed.length})`, ...listed.flatMap(thingLines), ''],
  );
  if (asked.length > 0) lines.push('To be typed in or looked up', ...questionLines(asked, paint), '');
  const sums = groups.map(([outcome, listed]) => `${listed.length} ${outcome}`).reverse();
  lines.push(`${counted(things.length, 'thing')} of the export: ${sums.join(', ')}.`);
  return `${lines.join('\n')}\n`;
}

const TITLES: Readonly<Record<Outcome, string>> = {
  not: 'Not taken',
  partly: 'Taken in part',
  taken: 'Taken',
};

function thingLines({ kind, id, name, as, reason }: ReportLine): string[] {
  const named = name === undefined || name === id ? '' : ` ${JSON.stringify(name)}`;
  const here = as === undefined || as === name ? '' : `, here ${JSON.stringify(as)}`;
  const head = `  ${kind} ${id}${named}${here}`;
  return [printable(reason === undefined ? head : `${head}: ${reason}`)];
}

function questionLines(asked: readonly Question[], paint: Paint): string[] {
  const headings = [
    { title: 'variable', align: 'left' },
    { title: 'what', align: 'left' },
  ] as const;
  const rows = asked.map(({ variable = '-', text }) => [{ text: variable }, { text }]);
  // Sentences are to be read to their end, whatever the width of the terminal.
  const { columns: _, ...colours } = paint;
  return table(headings, rows, colours).map((line) => `  ${line}`);
}
