import type { Position } from '../../../model/event.ts';
import { LOCKS, type Statement, type Transaction } from '../database.ts';

const END: Statement = {
  name: 'horizon.end',
  text: 'select case when is_called then last_value + 1 else 0 end as "end" from position',
};

/** The transactions that have taken positions, or are about to. */
const APPENDING: Statement = {
  name: 'horizon.appending',
  text: `select virtualtransaction as id from pg_locks
    where locktype = 'advisory' and database = (select oid from pg_database where datname = current_database())
      and classid = 0 and objid = ${LOCKS.slot} and objsubid = 1 and mode = 'ShareLock' and granted`,
};

/**
 * Up to where the log can be read in its order. Of two processes that append side by side, the one with the
 * higher positions may be the first to commit: a reader that went on behind it would miss the other. So a
 * reader trusts positions that were given out while a look at the sequence is some time ago, and every
 * transaction of that time has ended. Nobody waits for a reader.
 */
export class Horizon {
  #settled: Position = 0;
  #candidate: { readonly end: Position; readonly appending: ReadonlySet<string> } | undefined;

  /**
   * Resolves to the position below which nothing can appear any more, for statements that begin after the
   * call.
   */
  async settled(read: Transaction): Promise<{ readonly settled: Position; readonly end: Position }> {
    const [row] = await read.rows<{ end: Position }>(END);
    const { end } = row!;
    if (end === this.#settled) return { settled: end, end };
    const appending = new Set((await read.rows<{ id: string }>(APPENDING)).map(({ id }) => id));
    if (appending.size === 0) this.#settled = end;
    else if (
      this.#candidate === undefined ||
      ![...this.#candidate.appending].some((id) => appending.has(id))
    ) {
      this.#settled = Math.max(this.#settled, this.#candidate?.end ?? 0);
      this.#candidate = { end, appending };
    }
    return { settled: this.#settled, end };
  }
}
