import { systemClock } from './clock.ts';
import { count } from './column.ts';
import {
  type ControlAddress,
  type ControlFlags,
  controlAddress,
  exitCodeOf,
  readControl,
} from './control-api.ts';
import { paintFor } from './paint.ts';
import type { ExitCode, RunContext } from './run-context.ts';
import { SearchProgress } from './search-progress.ts';
import { type Cell, type Heading, table } from './table.ts';
import type { TimeRange } from './time-range.ts';

/** Options of both verbs that search. */
export interface SearchOptions extends ControlFlags, TimeRange {
  readonly source?: string;
  readonly type?: string;
  readonly userId?: string;
  readonly anonymousId?: string;
  readonly limit: number;
  readonly json?: boolean;
}

export interface Sought<Entry> {
  /** The path below `/api/v1/`. */
  readonly path: string;
  readonly query: Readonly<Record<string, string | undefined>>;
  /** Name of the entries, for a sentence. */
  readonly what: string;
  readonly headings: readonly Heading[];
  readonly row: (entry: Entry) => readonly Cell[];
}

/** Maximum entries of a page. spec/contract.md, "Conventions". */
const PAGE = 500;

/**
 * Requests pages until it has enough entries, or all. The server searches about a second at a time: an empty
 * page need not be the last. JSON entries are printed as they arrive; a table waits for its widest cell.
 */
export async function find<Entry>(
  options: SearchOptions,
  context: RunContext,
  sought: Sought<Entry>,
): Promise<ExitCode> {
  const address = controlAddress(options, context.env);
  if (typeof address === 'string') {
    context.err.write(`millrace: ${address}.\n`);
    return 2;
  }
  const rows: (readonly Cell[])[] = [];
  const progress = new SearchProgress(context, systemClock);
  let found = 0;
  let cursor: string | undefined;
  let isStopped = false;
  void context.stopping.then(() => {
    isStopped = true;
  });
  do {
    const limit = Math.min(PAGE, options.limit - found);
    const page = await pageOf<Entry>(address, sought, { limit: String(limit), cursor });
    if ('message' in page) {
      progress.clear();
      context.err.write(`millrace: ${page.message}.\n`);
      return page.code;
    }
    progress.clear();
    for (const entry of page.data) {
      if (options.json) context.out.write(`${JSON.stringify(entry)}\n`);
      else rows.push(sought.row(entry));
    }
    found += page.data.length;
    cursor = page.next ?? undefined;
    if (cursor !== undefined && found < options.limit) progress.show({ ...page, found });
  } while (cursor !== undefined && found < options.limit && !isStopped);
  progress.clear();
  if (rows.length > 0)
    context.out.write(`${table(sought.headings, rows, paintFor(context.out, context.env)).join('\n')}\n`);
  if (found === 0 && !isStopped) context.err.write(`millrace: no ${sought.what} like this.\n`);
  else if (isStopped) context.err.write('millrace: stopped before everything was looked at.\n');
  else if (cursor !== undefined)
    context.err.write(`millrace: these are ${count(found)}, and there may be more: see --limit.\n`);
  return 0;
}

interface FoundPage<Entry> {
  readonly data: readonly Entry[];
  readonly next: string | null;
  /** Absent in the answer of an older server. */
  readonly searched?: number;
  readonly searchedTo?: string;
}

/** Resolves to a page, or to the reason why there is none. */
async function pageOf<Entry>(
  address: ControlAddress,
  { path, query }: Sought<Entry>,
  paging: Readonly<Record<string, string | undefined>>,
): Promise<FoundPage<Entry> | { readonly message: string; readonly code: ExitCode }> {
  const reply = await readControl(address, path, { ...query, ...paging });
  if (reply.kind === 'failed') return { message: reply.message, code: exitCodeOf(reply) };
  if (isPage<Entry>(reply.value)) return reply.value;
  const message = `the server at ${address.url.origin} speaks of ${path} in another way: is it of this version?`;
  return { message, code: 1 };
}

function isPage<Entry>(value: unknown): value is FoundPage<Entry> {
  return (
    typeof value === 'object' &&
    value !== null &&
    'data' in value &&
    Array.isArray(value.data) &&
    'next' in value &&
    (value.next === null || typeof value.next === 'string')
  );
}
