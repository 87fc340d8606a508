import { column, printable } from './column.ts';
import type { Paint } from './paint.ts';

/** A cell that is more than its text: drawn in a colour after it has got its width. */
export interface Cell {
  readonly text: string;
  readonly draw?: (text: string) => string;
}

export interface Heading {
  readonly title: string;
  /** Numbers stand at the right. */
  readonly align: 'left' | 'right';
  /** Longer cells are cut. Default: as wide as the widest cell. */
  readonly most?: number;
}

/** Lines of a table, headings first: each column as wide as its widest cell, two spaces between, nothing at line ends. */
export function table(
  headings: readonly Heading[],
  rows: readonly (readonly Cell[])[],
  paint: Paint,
): string[] {
  const widths = headings.map(({ title, most = Number.POSITIVE_INFINITY }, place) =>
    rows.reduce((widest, row) => Math.max(widest, Math.min(lengthOf(row[place]), most)), title.length),
  );
  const line = (cells: readonly Cell[]) =>
    headings
      .map(({ align }, place) => padded(cells[place] ?? { text: '' }, widths[place]!, align))
      .join('  ')
      .trimEnd();
  return [paint.dim(line(headings.map(({ title }) => ({ text: title })))), ...rows.map(line)];
}

function padded({ text, draw }: Cell, width: number, align: Heading['align']): string {
  const shown = column(text, width).trimEnd();
  const drawn = draw === undefined ? shown : draw(shown);
  const fill = ' '.repeat(width - [...shown].length);
  return align === 'right' ? fill + drawn : drawn + fill;
}

function lengthOf(cell: Cell | undefined): number {
  return [...printable(cell?.text ?? '')].length;
}
