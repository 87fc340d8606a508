import type { Overview } from '@millrace/server';
import { type ControlFlags, controlAddress, readControl } from './control-api.ts';
import { paintFor } from './paint.ts';
import { readinessOf, turnedAwayFor } from './readiness.ts';
import type { ExitCode, RunContext } from './run-context.ts';
import { statusReport, TURNED_AWAY } from './status-report.ts';

export interface StatusOptions extends ControlFlags {
  readonly json?: boolean;
}

/**
 * `millrace status`: shows the state of a running server to an operator on call. Ends with 1 when calls are
 * turned away or the ledger does not balance: a script needs only the exit code. spec/contract.md, "Verbs
 * that ask".
 */
export async function status(options: StatusOptions, context: RunContext): Promise<ExitCode> {
  const address = controlAddress(options, context.env);
  if (typeof address === 'string') {
    context.err.write(`millrace: ${address}.\n`);
    return 2;
  }
  const [reply, ready] = await Promise.all([readControl(address, 'status'), readinessOf(address.url)]);
  const { origin: url } = address.url;
  const reasons = turnedAwayFor(ready);
  if (reply.kind === 'failed') {
    context.err.write(`millrace: ${reply.message}.\n`);
    // A full disk also makes the ledger unreadable; these reasons name the cause.
    for (const reason of reasons) context.err.write(`millrace: ${url}: ${TURNED_AWAY}: ${reason}.\n`);
    return 1;
  }
  if (!isOverview(reply.value)) {
    context.err.write(
      `millrace: the server at ${address.url.origin} speaks of its status in another way: is it of this version?\n`,
    );
    return 1;
  }
  const overview = reply.value;
  const paint = paintFor(context.out, context.env);
  context.out.write(options.json ? `${reply.text}\n` : statusReport(overview, { url, paint, reasons }));
  if (reasons.length > 0) context.err.write(`millrace: ${url} turns calls away.\n`);
  if (overview.balanced) return reasons.length > 0 ? 1 : 0;
  context.err.write(`millrace: the ledger of ${address.url.origin} does not balance.\n`);
  return 1;
}

/** Checks only enough to recognise another program or version. */
function isOverview(value: unknown): value is Overview {
  if (typeof value !== 'object' || value === null) return false;
  const found = new Map(Object.entries(value));
  return (
    typeof found.get('balanced') === 'boolean' &&
    Array.isArray(found.get('differences')) &&
    Array.isArray(found.get('discards')) &&
    ['sources', 'destinations', 'lanes', 'callsOfNoSource', 'log', 'commits'].every((key) =>
      isRecord(found.get(key)),
    )
  );
}

function isRecord(value: unknown): boolean {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
