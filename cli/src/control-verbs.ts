import { visible } from '@millrace/server/visible-text';
import { count } from './column.ts';
import {
  type ControlFlags,
  type ControlReply,
  controlAddress,
  exitCodeOf,
  postControl,
} from './control-api.ts';
import type { ExitCode, RunContext } from './run-context.ts';
import { beginningOf, type TimeRange } from './time-range.ts';

export interface DestinationOptions extends ControlFlags {
  /** The argument of the verb. */
  readonly destination: string;
  readonly json?: boolean;
}

export interface RedeliverOptions extends DestinationOptions, TimeRange {
  readonly id?: readonly string[];
  readonly messageId?: readonly string[];
  readonly state?: string;
  readonly reason?: string;
  readonly source?: string;
  readonly type?: string;
  readonly rate?: number;
  readonly dryRun?: boolean;
}

/**
 * `millrace redeliver DESTINATION`: sends its dead letters again, or the deliveries that the flags name in
 * any state.
 */
export async function redeliver(options: RedeliverOptions, context: RunContext): Promise<ExitCode> {
  const { destination, id: ids, messageId: messageIds, state, reason, source, type, to, rate } = options;
  const { dryRun = false } = options;
  // JSON leaves out fields that are undefined.
  const filter = { ids, messageIds, state, reason, source, type, from: beginningOf(options), to, rate };
  const isOfDead = ids === undefined && messageIds === undefined && (state ?? 'dead') === 'dead';
  const code = await ask(options, context, {
    ...{ path: 'redeliveries', body: { destination, dryRun, ...filter } },
    said: (value) => redeliveredText(Object(value) as Redelivered, { destination, dryRun, isOfDead }),
    warned: (value) => missingIn(Object(value) as Redelivered),
  });
  return code;
}

/** The answer of `POST redeliveries`. An older server leaves fields out. */
interface Redelivered {
  readonly id?: string;
  readonly count?: number;
  readonly estimated?: boolean;
  readonly state?: string;
  readonly pending?: number;
  readonly withheld?: number;
  readonly missing?: readonly string[];
}

function redeliveredText(
  { id, count: n = Number.NaN, estimated = false, state, pending = 0, withheld = 0 }: Redelivered,
  asked: { readonly destination: string; readonly dryRun: boolean; readonly isOfDead: boolean },
): string {
  const one = asked.isOfDead ? 'dead letter' : 'delivery';
  const many = asked.isOfDead ? 'dead letters' : 'deliveries';
  const of = `${n === 1 ? one : many} of ${asked.destination}`;
  const are = n === 1 ? 'is' : 'are';
  const isRunning = state === 'running';
  const what = asked.dryRun
    ? 'would be sent once more'
    : isRunning
      ? `${are} being owed once more: millrace replay status ${id} tells how far it is`
      : `${are} owed once more`;
  const anyway = pending === 0 ? '' : ` ${count(pending)} ${pending === 1 ? 'is' : 'are'} pending anyway.`;
  const others =
    withheld === 0 ? '' : ` ${count(withheld)} ${withheld === 1 ? 'wants' : 'want'} for consent.`;
  return `${estimated ? 'about ' : ''}${count(n)} ${of} ${what}.${anyway}${others}`;
}

function missingIn({ missing = [] }: Redelivered): string | undefined {
  if (missing.length === 0) return undefined;
  return `no stored event has ${missing.length === 1 ? 'this id' : 'these ids'}: ${missing.map(visible).join(', ')}`;
}

interface Wish {
  readonly path: string;
  readonly body: object;
  /** The answer as a line for a person. */
  readonly said: (value: unknown) => string;
  /** A warning about the part that was not done. The verb then ends with 1. */
  readonly warned?: (value: unknown) => string | undefined;
}

async function ask(
  options: ControlFlags & { readonly json?: boolean },
  context: RunContext,
  { path, body, said, warned }: Wish,
): Promise<ExitCode> {
  const address = controlAddress(options, context.env);
  if (typeof address === 'string') {
    context.err.write(`millrace: ${address}.\n`);
    return 2;
  }
  const reply: ControlReply = await postControl(address, path, body);
  if (reply.kind === 'failed') {
    context.err.write(`millrace: ${withIds(reply.message, body)}.\n`);
    return exitCodeOf(reply);
  }
  context.out.write(options.json ? `${reply.text}\n` : `${said(reply.value)}\n`);
  const warning = warned?.(reply.value);
  if (warning === undefined) return 0;
  context.err.write(`millrace: ${warning}.\n`);
  return 1;
}

/** Replaces the position of a wrong id in the message with the id that was typed. */
function withIds(message: string, body: object): string {
  const { ids = [] } = body as { readonly ids?: readonly string[] };
  return message
    .replaceAll(/\bids\[(\d+)\]/g, (match, nth: string) => `--id ${visible(ids[Number(nth)] ?? match)}`)
    .replaceAll(/\bids (?=\d)/g, '--id ');
}
