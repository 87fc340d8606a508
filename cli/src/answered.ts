import {
  askControl,
  type ControlFlags,
  type ControlReply,
  controlAddress,
  exitCodeOf,
} from './control-api.ts';
import type { ExitCode, RunContext } from './run-context.ts';

/** A request to the control API. */
export type AskedFor = { readonly path: string } & Parameters<typeof askControl>[2];

/**
 * Asks the server that the flags name. Without an answer, writes the reason to stderr and returns the exit
 * code.
 */
export async function answered(
  flags: ControlFlags,
  context: RunContext,
  { path, ...request }: AskedFor,
): Promise<Extract<ControlReply, { kind: 'answered' }> | ExitCode> {
  const address = controlAddress(flags, context.env);
  if (typeof address === 'string') {
    context.err.write(`millrace: ${address}.\n`);
    return 2;
  }
  const reply = await askControl(address, path, request);
  if (reply.kind === 'answered') return reply;
  context.err.write(`millrace: ${reply.message}.\n`);
  return exitCodeOf(reply);
}
