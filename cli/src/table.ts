import { atMost, printable, widthOf } from './column.ts';
import type { Paint } from './paint.ts';

/** A cell with a colour, which is applied after the cell has its width. */
export interface Cell {
  readonly text: string;
  readonly draw?: ((text: string) => string) | undefined;
}

export interface Heading {
  readonly title: string;
  /** Numbers are aligned right. */
  readonly align: 'left' | 'right';
  /**
   * Maximum width. Wider cells are cut on a terminal, and shift the rest of the line elsewhere. Default:
   * widest cell.
   */
  readonly most?: number;
  /** Minimum width on a narrow terminal. Columns without it are never cut: numbers, and ids to copy. */
  readonly least?: number;
}

const BETWEEN = '  ';
const INDENT = '    ';

/**
 * Formats a table, headings first: each column as wide as its widest cell, two spaces between, no trailing
 * spaces.
 *
 * On a terminal, lines never exceed its width. Columns with `least` are cut, the widest first; last columns
 * without room stand below their row, each with its title. Elsewhere nothing is cut.
 */
export function table(
  headings: readonly Heading[],
  rows: readonly (readonly Cell[])[],
  paint: Paint,
): string[] {
  const { columns: room } = paint;
  const natural = headings.map(({ title, most = Number.POSITIVE_INFINITY }, index) =>
    rows.reduce((widest, row) => Math.max(widest, Math.min(lengthOf(row[index]), most)), widthOf(title)),
  );
  const layout: Layout = { headings, ...columnsIn(headings, natural, room), room };
  const titles = headings.map(({ title }): Cell => ({ text: title }));
  return [
    paint.dim(lineOf(titles, layout)),
    ...rows.flatMap((row) => [lineOf(row, layout), ...linesBelow(row, layout, paint)]),
  ];
}

interface Layout {
  readonly headings: readonly Heading[];
  /** Widths of the columns that stand side by side. */
  readonly widths: readonly number[];
  /** Columns of the terminal. */
  readonly room: number | undefined;
}

/** Chooses the columns that fit side by side, always at least the first, and the width of each. */
function columnsIn(
  headings: readonly Heading[],
  natural: readonly number[],
  room: number | undefined,
): Pick<Layout, 'widths'> {
  if (room === undefined) return { widths: natural };
  const least = headings.map(({ least = Number.POSITIVE_INFINITY, title }, index) =>
    Math.min(natural[index]!, Math.max(least, widthOf(title))),
  );
  let fitting = headings.length;
  while (fitting > 1 && total(least.slice(0, fitting)) > room) fitting--;
  const widths = natural.slice(0, fitting);
  for (let over = total(widths) - room; over > 0; over--) {
    const widest = widths.reduce(
      (found, width, index) =>
        width > least[index]! && (found < 0 || width > widths[found]!) ? index : found,
      -1,
    );
    if (widest < 0) break;
    widths[widest]!--;
  }
  return { widths };
}

function total(widths: readonly number[]): number {
  return widths.reduce((sum, width) => sum + width, 0) + BETWEEN.length * (widths.length - 1);
}

function lineOf(cells: readonly Cell[], { headings, widths, room }: Layout): string {
  return widths
    .map((width, index) =>
      padded(cells[index] ?? { text: '' }, room === undefined ? undefined : width, {
        width,
        align: headings[index]!.align,
      }),
    )
    .join(BETWEEN)
    .trimEnd();
}

/** Cells without room in their row: `title value` of each that is not empty. */
function linesBelow(row: readonly Cell[], { headings, widths, room }: Layout, paint: Paint): string[] {
  if (room === undefined) return [];
  const lines: { text: string; width: number }[] = [];
  for (const [index, { title, most = Number.POSITIVE_INFINITY, least }] of headings.entries()) {
    const cell = row[index];
    if (index < widths.length || cell === undefined || cell.text === '') continue;
    const label = title === '' ? '' : `${title} `;
    const left = room - INDENT.length - widthOf(label);
    const width = Math.min(most, least === undefined ? Number.POSITIVE_INFINITY : left);
    const value = shownCell(cell, width);
    const item = { text: paint.dim(label) + value.drawn, width: widthOf(label) + value.width };
    const last = lines.at(-1);
    if (last !== undefined && INDENT.length + last.width + BETWEEN.length + item.width <= room) {
      last.text += BETWEEN + item.text;
      last.width += BETWEEN.length + item.width;
    } else lines.push(item);
  }
  return lines.map(({ text }) => INDENT + text);
}

function padded(
  cell: Cell,
  most: number | undefined,
  { width, align }: { readonly width: number; readonly align: Heading['align'] },
): string {
  const { drawn, width: taken } = shownCell(cell, most ?? Number.POSITIVE_INFINITY);
  const fill = ' '.repeat(Math.max(0, width - taken));
  return align === 'right' ? fill + drawn : drawn + fill;
}

function shownCell({ text, draw }: Cell, most: number): { readonly drawn: string; readonly width: number } {
  const shown = most === Number.POSITIVE_INFINITY ? printable(text).trimEnd() : atMost(text, most);
  return { drawn: draw === undefined ? shown : draw(shown), width: widthOf(shown) };
}

function lengthOf(cell: Cell | undefined): number {
  return widthOf(printable(cell?.text ?? ''));
}
