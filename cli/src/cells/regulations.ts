import { setTimeout } from 'node:timers/promises';
import { visible } from '@millrace/server/visible-text';
import type { AskedFor } from '../answered.ts';
import { printable } from '../column.ts';
import { paintFor } from '../paint.ts';
import { isIncomplete, isRegulation, receiptLines, type ShownRegulation } from '../receipt.ts';
import {
  asksAboutDoubts,
  EVERY,
  type RegulateOptions,
  receiptOf,
  regulationRequest,
  unknownIn,
} from '../regulations.ts';
import type { ExitCode, Surroundings } from '../surroundings.ts';
import {
  askCell,
  type CellReply,
  type CellsFlags,
  type InstallationCell,
  isUnanswered,
  namesOf,
  type Reading,
  reportUnanswered,
} from './cells.ts';
import { askReached, type ReachedCell, reachCells } from './reached.ts';

interface WaitingCellsFlags extends CellsFlags {
  readonly wait?: boolean;
}

export interface CellsRegulateOptions
  extends WaitingCellsFlags,
    Pick<RegulateOptions, 'type' | 'ids' | 'file' | 'jsonIds' | 'yes'> {}

export interface CellsRegulationOptions extends WaitingCellsFlags {
  /** Each is of one cell. */
  readonly ids: readonly string[];
}

interface Receipt {
  readonly regulation: ShownRegulation;
  readonly lines: readonly string[];
}

/** The outcome of a regulation in a cell: its receipt, or the reason why there is none; both where the cell made it and was lost then. */
interface Outcome {
  readonly cell: string;
  readonly receipt?: Receipt;
  readonly error?: string;
  readonly code: ExitCode;
}

const RECEIPT: Reading<Receipt> = {
  what: 'regulations',
  read: (answer) => (isRegulation(answer) ? { regulation: answer, lines: receiptLines(answer) } : undefined),
};

/**
 * `millrace cells delete-user`, `suppress` and `unsuppress`: the same regulation in every cell. Each makes its own, with a receipt of its
 * own: there is no commit over several databases. A cell that did not answer is named, and the verb can be repeated.
 * spec/contract.md, "Verbs that change".
 */
export async function cellsRegulate(options: CellsRegulateOptions, place: Surroundings): Promise<ExitCode> {
  const request = await regulationRequest(options, place);
  const cells = request && (await reachCells(options, place));
  if (request === undefined || cells === undefined) return 2;
  const code = await asksAboutDoubts(options, place, request, (dryRun) => unknownInAll(cells, dryRun, place));
  if (code !== undefined) return code;
  const outcomes = await Promise.all(
    cells.map(async (cell) => await followed(cell, await askReached(cell, request, RECEIPT), options, place)),
  );
  const missing = outcomes.filter(({ receipt }) => receipt === undefined).map(({ cell }) => cell);
  if (missing.length > 0) {
    place.err.write(
      `millrace: NOT CONFIRMED by ${namesOf(missing)}. Give the same command again once that is put right: it is safe, because a ` +
        'cell that has done it already only finds less to do, and gives another receipt.\n',
    );
  }
  return ended(outcomes, options, place);
}

const UNKNOWN: Reading<readonly string[]> = { what: 'regulations', read: unknownIn };

/** The ids that name nobody in any cell that answers. Names the others, which may know them. */
async function unknownInAll(
  cells: readonly ReachedCell[],
  dryRun: AskedFor,
  place: Surroundings,
): Promise<readonly string[]> {
  const replies = await Promise.all(cells.map((cell) => askReached(cell, dryRun, UNKNOWN)));
  reportUnanswered(replies, place);
  const [first, ...others] = replies.flatMap((reply) => (isUnanswered(reply) ? [] : [new Set(reply.value)]));
  return [...(first ?? [])].filter((id) => others.every((ids) => ids.has(id)));
}

/** `millrace cells regulation IDS`: the receipts, from whichever cell has each. Ends with 1 when no cell has one of them. */
export async function cellsRegulation(
  options: CellsRegulationOptions,
  place: Surroundings,
): Promise<ExitCode> {
  const cells = await reachCells(options, place);
  if (cells === undefined) return 2;
  const missing = new Set(options.ids);
  const lookups = await Promise.all(
    cells.map(async (cell) => ({ cell, ...(await receiptsIn(cell, missing)) })),
  );
  for (const { cell, error } of lookups) {
    if (error !== undefined)
      place.err.write(`millrace: ${visible(cell.name)} could not be asked: ${error}.\n`);
  }
  const outcomes = await Promise.all(
    lookups.flatMap(({ cell, found }) => found.map((one) => followed(cell, one, options, place))),
  );
  for (const id of missing)
    place.err.write(`millrace: no cell that answered knows the regulation ${visible(id)}.\n`);
  const code = ended(outcomes, options, place);
  return missing.size > 0 ? 1 : code;
}

/** The receipts of `missing` that a cell has, which are taken out of it; and why it cannot be asked for the rest. */
async function receiptsIn(
  cell: ReachedCell,
  missing: Set<string>,
): Promise<{ readonly found: readonly CellReply<Receipt>[]; readonly error?: string }> {
  const found: CellReply<Receipt>[] = [];
  for (const id of [...missing]) {
    // Found in another cell meanwhile.
    if (!missing.has(id)) continue;
    const reply = await askReached(cell, receiptOf(id), RECEIPT);
    if (!isUnanswered(reply)) {
      missing.delete(id);
      found.push(reply);
    } else if (reply.problem?.code !== 'unknown_name') return { found, error: reply.error };
  }
  return { found };
}

/** Shows the receipt of a cell as soon as it is there, with `--wait` the last one: other cells may take hours. */
async function followed(
  cell: InstallationCell,
  first: CellReply<Receipt>,
  { wait = false, json = false }: WaitingCellsFlags,
  place: Surroundings,
): Promise<Outcome> {
  const outcome = await outcomeOf(cell, first, wait, place);
  const name = visible(cell.name);
  const { receipt, error } = outcome;
  if (error !== undefined && receipt !== undefined) {
    const id = visible(receipt.regulation.id);
    place.err.write(
      `millrace: ${name} has taken it and gives no answer now: ${error}. millrace cells regulation ${id} shows how far it is.\n`,
    );
  } else if (error !== undefined) place.err.write(`millrace: ${name} has not confirmed it: ${error}.\n`);
  if (receipt !== undefined && !json) {
    const lines = receipt.lines.map((line) => `  ${line}`);
    const heading = paintFor(place.out, place.env).bold(`cell ${printable(cell.name)}`);
    place.out.write(`${[heading, ...lines].join('\n')}\n`);
  }
  return outcome;
}

/** Asks for a receipt until it is the last one, the cell does not answer, or the verb has to stop. */
async function outcomeOf(
  cell: InstallationCell,
  first: CellReply<Receipt>,
  wait: boolean,
  place: Surroundings,
): Promise<Outcome> {
  if (isUnanswered(first)) return { cell: cell.name, error: first.error, code: first.code };
  let receipt = first.value;
  while (wait && receipt.regulation.finishedAt === undefined) {
    const stopped = await Promise.race([setTimeout(EVERY), place.stopping.then(() => true)]);
    if (stopped === true) break;
    const next = await askCell(cell, receiptOf(receipt.regulation.id), RECEIPT);
    if (isUnanswered(next)) return { cell: cell.name, receipt, error: next.error, code: 1 };
    receipt = next.value;
  }
  return { cell: cell.name, receipt, code: isIncomplete(receipt.regulation) ? 1 : 0 };
}

/** Prints the answers as JSON where that is asked for, and says what goes on where the verb was to wait for it. */
function ended(
  outcomes: readonly Outcome[],
  { json = false, wait = false }: WaitingCellsFlags,
  place: Surroundings,
): ExitCode {
  if (json) place.out.write(`${JSON.stringify({ cells: outcomes.map(shownAsJson) })}\n`);
  const open = outcomes.flatMap(({ receipt, error }) =>
    receipt !== undefined && error === undefined && receipt.regulation.finishedAt === undefined
      ? [visible(receipt.regulation.id)]
      : [],
  );
  if (wait && open.length > 0) {
    place.err.write(
      `millrace: the cells go on with it. millrace cells regulation ${open.join(' ')} shows how far they are.\n`,
    );
    return 1;
  }
  // Wrong usage only where that is what every cell says.
  if (outcomes.length > 0 && outcomes.every(({ code }) => code === 2)) return 2;
  return outcomes.every(({ code }) => code === 0) ? 0 : 1;
}

function shownAsJson({ cell, receipt, error }: Outcome): object {
  return {
    name: cell,
    ...(receipt === undefined ? {} : { regulation: receipt.regulation }),
    ...(error === undefined ? {} : { error }),
  };
}
