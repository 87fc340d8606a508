import { ConfigError } from '@millrace/server/config';
import type { AskedFor } from '../answered.ts';
import { isOverview } from '../status.ts';
import type { Surroundings } from '../surroundings.ts';
import {
  askCell,
  type CellReply,
  type CellsFlags,
  cellsOf,
  type InstallationCell,
  isUnanswered,
  type NamedCells,
  type Reading,
  refuseCells,
} from './cells.ts';
import { type CellSummary, summaryOf } from './summary.ts';

/** A cell with its status, or the reason why there is none. */
export interface ReachedCell extends InstallationCell {
  readonly status: CellReply<CellSummary>;
}

/**
 * Reads which cells there are, and asks each for its status. Every verb does so first: two addresses that lead to one store would be
 * counted, searched and changed twice. Undefined, with the reasons on stderr, when the verb must end with 2.
 */
export async function reachCells(
  flags: CellsFlags,
  place: Surroundings,
): Promise<readonly ReachedCell[] | undefined> {
  const named = cellsOf(flags, place);
  if (named === undefined) return undefined;
  const reached = await Promise.all(
    named.cells.map(async (cell) => ({ ...cell, status: await statusOf(cell) })),
  );
  const twins = twinsIn(reached, named.file);
  if (twins.length === 0) return reached;
  refuseCells(new ConfigError(twins), place);
  return undefined;
}

function statusOf(cell: InstallationCell): Promise<CellReply<CellSummary>> {
  const read = (answer: unknown) => (isOverview(answer) ? summaryOf(answer) : undefined);
  return askCell(cell, { path: 'status', method: 'GET' }, { what: 'its status', read });
}

/** Asks a cell, unless it has not even said its status: one that hangs is waited for once. */
export async function askReached<Value>(
  cell: ReachedCell,
  request: AskedFor,
  reading: Reading<Value>,
): Promise<CellReply<Value>> {
  return isUnanswered(cell.status) ? cell.status : await askCell(cell, request, reading);
}

/** Problems with cells whose store is that of an earlier one. A server of an earlier version does not say which store it has. */
function twinsIn(cells: readonly ReachedCell[], { problemAt }: NamedCells['file']) {
  const seen = new Map<string, number>();
  return cells.flatMap(({ status }, nth) => {
    const storeId = isUnanswered(status) ? undefined : status.value.storeId;
    if (storeId === undefined) return [];
    const first = seen.get(storeId);
    if (first === undefined) {
      seen.set(storeId, nth);
      return [];
    }
    const message =
      `leads to the same store as cells[${first}], or to a copy of it: each cell stands here once, at one address for all of its ` +
      'nodes';
    return [problemAt(`cells[${nth}].url`, message)];
  });
}
