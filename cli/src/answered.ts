import {
  askControl,
  type ControlFlags,
  type ControlReply,
  controlAddress,
  exitCodeOf,
} from './control-api.ts';
import type { ExitCode, Surroundings } from './surroundings.ts';

/** A request to the control API. */
export type AskedFor = { readonly path: string } & Parameters<typeof askControl>[2];

/** Asks the server that the flags name. Without an answer, writes the reason to stderr and returns the exit code. */
export async function answered(
  flags: ControlFlags,
  place: Surroundings,
  { path, ...request }: AskedFor,
): Promise<Extract<ControlReply, { kind: 'answered' }> | ExitCode> {
  const address = controlAddress(flags, place.env);
  if (typeof address === 'string') {
    place.err.write(`millrace: ${address}.\n`);
    return 2;
  }
  const reply = await askControl(address, path, request);
  if (reply.kind === 'answered') return reply;
  place.err.write(`millrace: ${reply.message}.\n`);
  return exitCodeOf(reply);
}
