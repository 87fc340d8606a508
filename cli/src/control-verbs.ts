import { visible } from '@millrace/server/visible-text';
import { count } from './column.ts';
import {
  type ControlFlags,
  type ControlReply,
  controlAddress,
  exitCodeOf,
  postControl,
} from './control-api.ts';
import type { ExitCode, Surroundings } from './surroundings.ts';

export interface DestinationOptions extends ControlFlags {
  /** The argument of the verb. */
  readonly destination: string;
  readonly json?: boolean;
}

export interface RedeliverOptions extends DestinationOptions {
  readonly id?: readonly string[];
  readonly reason?: string;
  readonly from?: string;
  readonly to?: string;
  readonly dryRun?: boolean;
}

/** `millrace redeliver DESTINATION`: its dead letters once more, all of them or those that the flags name. */
export async function redeliver(options: RedeliverOptions, place: Surroundings): Promise<ExitCode> {
  const { destination, id: ids, reason, from, to, dryRun = false } = options;
  const body = {
    ...{ destination, dryRun },
    ...(ids === undefined ? {} : { ids }),
    ...(reason === undefined ? {} : { reason }),
    ...(from === undefined ? {} : { from }),
    ...(to === undefined ? {} : { to }),
  };
  const what = dryRun ? 'would be sent once more' : 'are owed once more';
  return await ask(options, place, {
    ...{ path: 'redeliveries', body },
    said: (value) => `${count(countIn(value))} dead letters of ${destination} ${what}.`,
  });
}

interface Wish {
  readonly path: string;
  readonly body: object;
  /** The answer as a line for a person. */
  readonly said: (value: unknown) => string;
}

async function ask(
  options: ControlFlags & { readonly json?: boolean },
  place: Surroundings,
  { path, body, said }: Wish,
): Promise<ExitCode> {
  const address = controlAddress(options, place.env);
  if (typeof address === 'string') {
    place.err.write(`millrace: ${address}.\n`);
    return 2;
  }
  const reply: ControlReply = await postControl(address, path, body);
  if (reply.kind === 'failed') {
    place.err.write(`millrace: ${withIds(reply.message, body)}.\n`);
    return exitCodeOf(reply);
  }
  place.out.write(options.json ? `${reply.text}\n` : `${said(reply.value)}\n`);
  return 0;
}

/** An id that the server finds wrong, as it was typed and not by its place. */
function withIds(message: string, body: object): string {
  const { ids = [] } = body as { readonly ids?: readonly string[] };
  return message
    .replaceAll(/\bids\[(\d+)\]/g, (place, nth: string) => `--id ${visible(ids[Number(nth)] ?? place)}`)
    .replaceAll(/\bids (?=\d)/g, '--id ');
}

function countIn(value: unknown): number {
  const has = typeof value === 'object' && value !== null && 'count' in value;
  return has ? Number(value.count) : Number.NaN;
}
