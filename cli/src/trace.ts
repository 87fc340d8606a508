import type { Trace } from '@millrace/server';
import { type ControlFlags, controlAddress, exitCodeOf, readControl } from './control-api.ts';
import { paintFor } from './paint.ts';
import type { ExitCode, RunContext } from './run-context.ts';
import { traceReport } from './trace-report.ts';

export interface TraceOptions extends ControlFlags {
  /** The argument of the verb. */
  readonly messageId: string;
  /** Limits the answer to events of this source. */
  readonly source?: string;
  readonly json?: boolean;
}

/**
 * `millrace trace MESSAGE_ID`: shows the whole history of an event. Ends with 1 when the server does not know
 * it. spec/contract.md, "Verbs that ask".
 */
export async function trace(options: TraceOptions, context: RunContext): Promise<ExitCode> {
  const { messageId, source } = options;
  const address = controlAddress(options, context.env);
  if (typeof address === 'string') {
    context.err.write(`millrace: ${address}.\n`);
    return 2;
  }
  const { path, query } = eventRequest(messageId, source);
  const reply = await readControl(address, path, query);
  if (reply.kind === 'failed') {
    context.err.write(`millrace: ${reply.message}.\n`);
    return exitCodeOf(reply);
  }
  if (!isTrace(reply.value)) {
    context.err.write(
      `millrace: the server at ${address.url.origin} speaks of events in another way: is it of this version?\n`,
    );
    return 1;
  }
  const { data } = reply.value;
  const paint = paintFor(context.out, context.env);
  if (options.json) context.out.write(`${reply.text}\n`);
  else if (data.length > 0) context.out.write(traceReport(reply.value, { now: Date.now(), paint }));
  if (data.length > 0) return 0;
  const whose = source === undefined ? '' : ` from source ${JSON.stringify(source)}`;
  context.err.write(
    `millrace: ${address.url.origin} knows no event with the messageId ${JSON.stringify(messageId)}${whose}: it was never ` +
      'accepted here, or is older than retention.events, or was erased. millrace status shows what was discarded and why.\n',
  );
  return 1;
}

/**
 * The request for the history of an event. A path cannot carry an id of dots: stored events are searched for
 * it.
 */
function eventRequest(messageId: string, source: string | undefined) {
  if (/^\.\.?$/.test(messageId)) return { path: 'events', query: { messageId, source } };
  return { path: `events/${encodeURIComponent(messageId)}`, query: { source } };
}

function isTrace(value: unknown): value is Trace {
  return typeof value === 'object' && value !== null && 'data' in value && Array.isArray(value.data);
}
