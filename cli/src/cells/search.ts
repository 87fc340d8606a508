import { visible } from '@millrace/server/visible-text';
import { systemClock } from '../clock.ts';
import { count, printable } from '../column.ts';
import { type DeliveryFilters, soughtDeliveries } from '../deliveries.ts';
import { type EventFilters, soughtEvents } from '../events.ts';
import { type FoundPage, isPage, PAGE, type SearchFilters, type Sought } from '../found.ts';
import { paintFor } from '../paint.ts';
import { SearchProgress } from '../search-progress.ts';
import type { ExitCode, Surroundings } from '../surroundings.ts';
import { type Cell, table } from '../table.ts';
import { type CellsFlags, isUnanswered, type Reading, type UnansweredCell } from './cells.ts';
import { askReached, type ReachedCell, reachCells } from './reached.ts';

/** `millrace cells events`: those of all cells in one list. spec/contract.md, "Verbs that ask". */
export async function cellsEvents(
  options: CellsFlags & EventFilters,
  place: Surroundings,
): Promise<ExitCode> {
  return await findInCells(options, place, soughtEvents(options, place));
}

/** `millrace cells deliveries`: those of all cells in one list. */
export async function cellsDeliveries(
  options: CellsFlags & DeliveryFilters,
  place: Surroundings,
): Promise<ExitCode> {
  return await findInCells(options, place, soughtDeliveries(options, place));
}

/**
 * Prints the entries of all cells, the newest first. A cell is asked for its next page when the one before is used up, so that no more
 * than a page of each is in memory. Ends with 1 when entries of some cell are missing.
 */
async function findInCells<Entry extends object>(
  options: CellsFlags & SearchFilters,
  place: Surroundings,
  sought: Sought<Entry>,
): Promise<ExitCode> {
  const cells = await reachCells(options, place);
  if (cells === undefined) return 2;
  const searches = cells.map((cell) => new CellSearch(cell, sought));
  const rows: (readonly Cell[])[] = [];
  const progress = new SearchProgress(place, systemClock);
  let found = 0;
  let isStopped = false;
  void place.stopping.then(() => {
    isStopped = true;
  });
  while (found < options.limit && !isStopped) {
    const waiting = searches.filter(({ isWaiting }) => isWaiting);
    if (waiting.length > 0) {
      const wanted = Math.min(PAGE, options.limit - found);
      const searched = await Promise.all(waiting.map((search) => search.ask(wanted)));
      progress.show({ found, searched: searched.reduce((sum, n) => sum + n, 0) });
      continue;
    }
    const next = newestOf(searches)?.take();
    if (next === undefined) break;
    progress.clear();
    if (options.json) place.out.write(`${JSON.stringify({ cell: next.cell, ...next.entry })}\n`);
    else rows.push(next.row);
    found++;
  }
  progress.clear();
  const headings = [{ title: 'cell', align: 'left' } as const, ...sought.headings];
  if (rows.length > 0)
    place.out.write(`${table(headings, rows, paintFor(place.out, place.env)).join('\n')}\n`);
  const failures = searches.flatMap(({ failure }) => failure ?? []);
  const missing = failures.filter((failure) => !isUnknownSource(failure));
  for (const { cell, error } of missing)
    place.err.write(`millrace: not all of ${visible(cell)} is here: ${error}.\n`);
  if (isStopped) place.err.write('millrace: stopped before everything was looked at.\n');
  else if (searches.some(({ isWaiting, newest }) => isWaiting || newest !== undefined))
    place.err.write(`millrace: these are ${count(found)}, and there may be more: see --limit.\n`);
  else if (missing.length < failures.length && failures.length === searches.length) {
    place.err.write(`millrace: no cell that answered has a source ${JSON.stringify(options.source)}.\n`);
    return 1;
  } else if (found === 0 && failures.length < searches.length)
    place.err.write(`millrace: no ${sought.what} like this${missing.length > 0 ? ' elsewhere' : ''}.\n`);
  // Wrong usage only where that is what every cell says.
  if (missing.length === searches.length && missing.every(({ code }) => code === 2)) return 2;
  return missing.length > 0 ? 1 : 0;
}

/** A source belongs to one cell: the others do not know its name, and so none of its events. */
function isUnknownSource({ problem }: UnansweredCell): boolean {
  return problem?.code === 'unknown_name';
}

function newestOf<Entry extends object>(
  searches: readonly CellSearch<Entry>[],
): CellSearch<Entry> | undefined {
  return searches
    .filter(({ newest }) => newest !== undefined)
    .reduce<CellSearch<Entry> | undefined>(
      (first, one) => (first !== undefined && first.newest! >= one.newest! ? first : one),
      undefined,
    );
}

/** An entry with its cell, ready to be shown. */
interface CellEntry<Entry> {
  readonly cell: string;
  readonly entry: Entry;
  readonly time: string;
  readonly row: readonly Cell[];
}

/** The entries that one cell finds, the newest first. */
class CellSearch<Entry extends object> {
  readonly #cell: ReachedCell;
  readonly #sought: Sought<Entry>;
  readonly #reading: Reading<FoundPage<CellEntry<Entry>>>;
  /** The rest of the last page, backwards. */
  #page: CellEntry<Entry>[] = [];
  #cursor: string | undefined;
  #isEnded = false;
  #failure: UnansweredCell | undefined;

  constructor(cell: ReachedCell, sought: Sought<Entry>) {
    this.#cell = cell;
    this.#sought = sought;
    const { name } = cell;
    // Rows are a part of the reading: one that cannot be drawn must not hide those of other cells.
    const entryOf = (entry: Entry): CellEntry<Entry> => ({
      cell: name,
      entry,
      time: String(sought.time(entry)),
      row: [{ text: printable(name) }, ...sought.row(entry)],
    });
    const read = (answer: unknown) =>
      isPage<Entry>(answer) ? { ...answer, data: answer.data.map(entryOf) } : undefined;
    this.#reading = { what: sought.path, read };
  }

  /** True while it is not known which entry comes next. */
  get isWaiting(): boolean {
    return this.#page.length === 0 && !this.#isEnded;
  }

  /** The time of the next entry. */
  get newest(): string | undefined {
    return this.#page.at(-1)?.time;
  }

  /** Why there may be more than what was found. */
  get failure(): UnansweredCell | undefined {
    return this.#failure;
  }

  take(): CellEntry<Entry> | undefined {
    return this.#page.pop();
  }

  /** Asks for a page, which may be empty and not the last. Resolves to how many entries were looked at for it. */
  async ask(limit: number): Promise<number> {
    const { path, query } = this.#sought;
    const paged = { ...query, limit: String(limit), cursor: this.#cursor };
    const reply = await askReached(this.#cell, { path, method: 'GET', query: paged }, this.#reading);
    if (isUnanswered(reply)) {
      this.#isEnded = true;
      this.#failure = reply;
      return 0;
    }
    const { data, next, searched = 0 } = reply.value;
    this.#page = data.toReversed();
    this.#cursor = next ?? undefined;
    this.#isEnded = next === null;
    return searched;
  }
}
