import type { Trace } from '@millrace/server';
import { printable } from '../column.ts';
import { paintFor } from '../paint.ts';
import type { ExitCode, Surroundings } from '../surroundings.ts';
import { eventRequest, isTrace } from '../trace.ts';
import { traceReport } from '../trace-report.ts';
import { type CellReply, type CellsFlags, isUnanswered, reportUnanswered } from './cells.ts';
import { askReached, reachCells } from './reached.ts';

export interface CellsTraceOptions extends CellsFlags {
  /** The argument of the verb. */
  readonly messageId: string;
  readonly source?: string;
}

interface TraceInCell {
  readonly data: Trace['data'];
  readonly report: string;
}

/**
 * `millrace cells trace MESSAGE_ID`: the history of an event in every cell that knows it. Ends with 1 when none does, and when some cell
 * could not be asked. spec/contract.md, "Verbs that ask".
 */
export async function cellsTrace(options: CellsTraceOptions, place: Surroundings): Promise<ExitCode> {
  const { messageId, source } = options;
  const cells = await reachCells(options, place);
  if (cells === undefined) return 2;
  const paint = paintFor(place.out, place.env);
  const now = Date.now();
  // The report is a part of the reading: one that cannot be drawn must not hide those of other cells.
  const read = (answer: unknown): TraceInCell | undefined =>
    isTrace(answer) ? { data: answer.data, report: traceReport(answer, { now, paint }) } : undefined;
  const replies = await Promise.all(
    cells.map(async (cell) => {
      const asked = { method: 'GET', ...eventRequest(messageId, source) } as const;
      return knownSource(await askReached(cell, asked, { what: 'events', read }));
    }),
  );
  const found = replies.flatMap((reply) =>
    isUnanswered(reply) || reply.value.data.length === 0 ? [] : [reply],
  );
  if (options.json) place.out.write(`${JSON.stringify({ cells: replies.map(shownAsJson) })}\n`);
  else {
    const parts = found.map(
      ({ cell, value }) => `${paint.bold(`cell ${printable(cell)}`)}\n\n${value.report}`,
    );
    if (parts.length > 0) place.out.write(parts.join('\n'));
  }
  reportUnanswered(replies, place);
  if (found.length > 0) return replies.some(isUnanswered) ? 1 : 0;
  const whose = source === undefined ? '' : ` from source ${JSON.stringify(source)}`;
  place.err.write(
    `millrace: no cell that answered knows an event with the messageId ${JSON.stringify(messageId)}${whose}: it was never ` +
      'accepted there, or is older than retention.events, or was erased.\n',
  );
  return 1;
}

/** A source belongs to one cell: the others do not know its name, and so none of its events. */
function knownSource(reply: CellReply<TraceInCell>): CellReply<TraceInCell> {
  if (!isUnanswered(reply) || reply.problem?.code !== 'unknown_name') return reply;
  return { cell: reply.cell, value: { data: [], report: '' } };
}

function shownAsJson(reply: CellReply<TraceInCell>): object {
  if (isUnanswered(reply)) return { name: reply.cell, error: reply.error };
  return { name: reply.cell, data: reply.value.data };
}
