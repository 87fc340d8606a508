import { setTimeout } from 'node:timers/promises';
import { type AskedFor, answered } from './answered.ts';
import type { ControlFlags } from './control-api.ts';
import {
  isPreview,
  isReplay,
  previewText,
  progressText,
  replayLine,
  type ShownReplay,
} from './replay-report.ts';
import type { ExitCode, RunContext } from './run-context.ts';
import { beginningOf, type TimeRange } from './time-range.ts';

export interface ReplayOptions extends ControlFlags, TimeRange {
  /** The argument of the verb: the name of a destination. */
  readonly destination: string;
  readonly source?: string;
  readonly types?: readonly string[];
  readonly rate?: number;
  readonly dryRun?: boolean;
  readonly detach?: boolean;
  readonly json?: boolean;
}

export interface OneReplayOptions extends ControlFlags {
  readonly id: string;
  readonly json?: boolean;
}

/** Milliseconds between two requests for the progress. */
const EVERY = 250;

/**
 * `millrace replay DESTINATION --from T`: sends stored events to one destination again. Shows their number
 * and the expected time, and waits for the end. The server continues when this program is stopped.
 */
export async function replay(options: ReplayOptions, context: RunContext): Promise<ExitCode> {
  const { destination, to = new Date().toISOString(), source, types, rate, dryRun } = options;
  const from = beginningOf(options);
  if (from === undefined) {
    context.err.write(
      'millrace: say from when on with --from or --since, such as --from 2026-03-04T05:06:07Z or --since 1h.\n',
    );
    return 2;
  }
  const body = { destination, from, to, source, types, rate, dryRun };
  const reply = await answered(options, context, { path: 'replays', method: 'POST', body });
  if (typeof reply === 'number') return reply;
  const { value, text } = reply;
  if (dryRun === true && isPreview(value)) {
    context.out.write(options.json ? `${text}\n` : `${previewText(value)} to ${destination}.\n`);
    return 0;
  }
  if (!isReplay(value)) return strange(context);
  if (options.detach) {
    context.out.write(options.json ? `${text}\n` : `${value.id}  ${previewText(value)} to ${destination}.\n`);
    return 0;
  }
  context.err.write(`millrace: replay ${value.id}: ${previewText(value)} to ${destination}.\n`);
  return await untilItEnds(value, options, context);
}

/** `millrace replay status ID`. */
export async function replayStatus(options: OneReplayOptions, context: RunContext): Promise<ExitCode> {
  const reply = await answered(options, context, shown(options.id));
  if (typeof reply === 'number') return reply;
  if (!isReplay(reply.value)) return strange(context);
  context.out.write(options.json ? `${reply.text}\n` : `${replayLine(reply.value)}.\n`);
  return 0;
}

/** `millrace replay cancel ID`: the replay creates no more deliveries. */
export async function cancelReplay(options: OneReplayOptions, context: RunContext): Promise<ExitCode> {
  const { method: _, ...rest } = shown(options.id);
  const reply = await answered(options, context, { ...rest, method: 'DELETE' });
  return typeof reply === 'number' ? reply : await replayStatus(options, context);
}

/** `millrace replay list`: running replays and the last ended ones, newest first. */
export async function listReplays(
  options: ControlFlags & { readonly json?: boolean },
  context: RunContext,
): Promise<ExitCode> {
  const reply = await answered(options, context, { path: 'replays', method: 'GET', query: { limit: '500' } });
  if (typeof reply === 'number') return reply;
  const { data = [] } = Object(reply.value) as { readonly data?: readonly unknown[] };
  if (options.json) context.out.write(`${reply.text}\n`);
  else for (const one of data.filter(isReplay)) context.out.write(`${replayLine(one)}\n`);
  return 0;
}

function shown(id: string): AskedFor {
  return { path: `replays/${encodeURIComponent(id)}`, method: 'GET' };
}

async function untilItEnds(
  { id }: ShownReplay,
  options: ReplayOptions,
  context: RunContext,
): Promise<ExitCode> {
  const isWatched = context.err.isTTY === true && context.env['TERM'] !== 'dumb';
  const draw = (text: string) => {
    if (isWatched) context.err.write(`\r\u001b[2K${text.slice(0, (context.err.columns || 80) - 1)}`);
  };
  for (;;) {
    const reply = await answered(options, context, shown(id));
    if (typeof reply === 'number') return reply;
    if (!isReplay(reply.value)) return strange(context);
    const now = reply.value;
    if (now.state !== 'running') {
      draw('');
      context.out.write(options.json ? `${reply.text}\n` : `${replayLine(now)}.\n`);
      return now.state === 'done' ? 0 : 1;
    }
    draw(progressText(now, Date.now()));
    const stopped = await Promise.race([setTimeout(EVERY), context.stopping.then(() => true)]);
    if (stopped !== true) continue;
    draw('');
    context.err.write(
      `millrace: the server goes on with it. millrace replay status ${id} tells how far it is, ` +
        `millrace replay cancel ${id} ends it.\n`,
    );
    return 1;
  }
}

function strange(context: RunContext): ExitCode {
  context.err.write('millrace: the server speaks of replays in another way: is it of this version?\n');
  return 1;
}
