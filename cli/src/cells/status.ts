import { visible } from '@millrace/server/visible-text';
import { count, span } from '../column.ts';
import { type Paint, paintFor } from '../paint.ts';
import { readinessOf, turnedAwayFor } from '../readiness.ts';
import { differenceText } from '../status-report.ts';
import type { ExitCode, Surroundings } from '../surroundings.ts';
import { type Cell, type Heading, table } from '../table.ts';
import { type CellReply, type CellsFlags, isUnanswered, namesOf } from './cells.ts';
import { type ReachedCell, reachCells } from './reached.ts';
import { type CellSummary, type CellSums, sumsOf } from './summary.ts';

/** Why a cell turns calls away stands beside what it has counted. */
type ShownCell = CellSummary & { readonly turnedAway: readonly string[] };

/**
 * `millrace cells status`: the state of all cells, and the sums of those that answered. Ends with 1 when a cell did not answer, turns
 * calls away, or has a ledger that does not balance. spec/contract.md, "Verbs that ask".
 */
export async function cellsStatus(flags: CellsFlags, place: Surroundings): Promise<ExitCode> {
  const cells = await reachCells(flags, place);
  if (cells === undefined) return 2;
  const replies = await Promise.all(cells.map(shownCell));
  const answered = replies.flatMap((reply) => (isUnanswered(reply) ? [] : [reply]));
  const unanswered = replies.filter(isUnanswered);
  const sums = sumsOf(answered.map(({ value }) => value));
  const balanced = unanswered.length === 0 && answered.every(({ value }) => value.balanced);
  if (flags.json) place.out.write(`${JSON.stringify({ cells: replies.map(shownAsJson), sums, balanced })}\n`);
  else place.out.write(reportOf(replies, sums, paintFor(place.out, place.env)));
  for (const { cell, error } of unanswered)
    place.err.write(`millrace: ${visible(cell)} is not in the sums: ${error}.\n`);
  for (const { cell, value } of answered) {
    for (const reason of value.turnedAway)
      place.err.write(`millrace: ${visible(cell)} turns calls away: ${visible(reason)}.\n`);
    if (!value.balanced) place.err.write(`millrace: the ledger of ${visible(cell)} does not balance.\n`);
  }
  return balanced && answered.every(({ value }) => value.turnedAway.length === 0) ? 0 : 1;
}

async function shownCell({ name: cell, address, status }: ReachedCell): Promise<CellReply<ShownCell>> {
  if (isUnanswered(status)) return status;
  const turnedAway = turnedAwayFor(await readinessOf(address.url));
  return { cell, value: { ...status.value, turnedAway } };
}

function shownAsJson(reply: CellReply<ShownCell>): object {
  if (isUnanswered(reply)) return { name: reply.cell, error: reply.error };
  return { name: reply.cell, ...reply.value };
}

const NUMBERS = [
  'received',
  'accepted',
  'owed',
  'delivered',
  'pending',
] as const satisfies readonly (keyof CellSums)[];
const NONE: Cell = { text: '–' };

/**
 * ```
 * cell  version  nodes  received  accepted   owed  delivered  pending  dead  oldest waiting  ledger
 * east  0.1.0        3     1,234     1,200  1,200      1,150       47     3  12 min          balanced
 * west  –            –         –         –      –          –        –     –  –               no answer
 * sum                3     1,234     1,200  1,200      1,150       47     3  12 min
 *
 * ledger  balanced in the 1 cell that answered; that of west is not known
 * ```
 */
function reportOf(replies: readonly CellReply<ShownCell>[], sums: CellSums, paint: Paint): string {
  const answered = replies.flatMap((reply) => (isUnanswered(reply) ? [] : [reply.value]));
  const rows = replies.map((reply) => rowOf(reply, paint));
  const sum: readonly Cell[] = [
    { text: 'sum' },
    { text: '' },
    { text: count(answered.reduce((before, { nodes }) => before + nodes, 0)) },
    ...numberCells(sums, paint),
    waitingCell(answered),
  ];
  const headings: Heading[] = [
    { title: 'cell', align: 'left', most: 32, least: 10 },
    { title: 'version', align: 'left' },
    ...['nodes', ...NUMBERS, 'dead'].map((title): Heading => ({ title, align: 'right' })),
    { title: 'oldest waiting', align: 'left' },
    { title: 'ledger', align: 'left' },
  ];
  return `${[...table(headings, [...rows, sum], paint), '', ...ledgerLines(replies, paint)].join('\n')}\n`;
}

function rowOf(reply: CellReply<ShownCell>, paint: Paint): readonly Cell[] {
  if (isUnanswered(reply)) {
    const unknown = Array.from({ length: 4 + NUMBERS.length }, () => NONE);
    return [{ text: reply.cell, draw: paint.red }, ...unknown, { text: 'no answer', draw: paint.red }];
  }
  const { value } = reply;
  return [
    { text: reply.cell },
    { text: value.version },
    { text: count(value.nodes) },
    ...numberCells(value, paint),
    waitingCell([value]),
    value.balanced
      ? { text: 'balanced', draw: paint.green }
      : { text: 'NOT BALANCED', draw: (text) => paint.red(paint.bold(text)) },
  ];
}

function numberCells(sums: CellSums, paint: Paint): readonly Cell[] {
  const dead = { text: count(sums.dead), ...(sums.dead === 0 ? {} : { draw: paint.red }) };
  return [...NUMBERS.map((key): Cell => ({ text: count(sums[key]) })), dead];
}

function waitingCell(cells: readonly CellSummary[]): Cell {
  const ages = cells.flatMap(({ oldestPendingMs }) => oldestPendingMs ?? []);
  return ages.length === 0 ? NONE : { text: span(Math.max(...ages)) };
}

/** `ledger` of all, and each difference with the name of its cell. */
function ledgerLines(replies: readonly CellReply<ShownCell>[], paint: Paint): string[] {
  const missing = replies.filter(isUnanswered).map(({ cell }) => cell);
  const answered = replies.flatMap((reply) => (isUnanswered(reply) ? [] : [reply]));
  const wrong = answered.filter(({ value }) => !value.balanced);
  if (wrong.length > 0) {
    const differences = wrong.flatMap(({ cell, value }) =>
      value.differences.map((one) => paint.red(`  ${visible(cell)}: ${differenceText(one)}`)),
    );
    const names = namesOf(wrong.map(({ cell }) => cell));
    return [`ledger  ${paint.red(paint.bold(`NOT BALANCED in ${names}`))}`, ...differences];
  }
  if (answered.length === 0) return [`ledger  ${paint.red('not known: no cell answered')}`];
  if (missing.length === 0) return [`ledger  ${paint.green('balanced in every cell')}`];
  const known = answered.length === 1 ? 'the one cell' : `the ${count(answered.length)} cells`;
  return [
    `ledger  balanced in ${known} that answered; ${paint.red(`not known of ${namesOf(missing)}, which the sums are without`)}`,
  ];
}
