import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { answerText } from './answer-text.ts';
import { count, printable } from './column.ts';
import {
  type ControlAddress,
  type ControlFlags,
  controlAddress,
  replyIn,
  targetOf,
  whyNoAnswer,
} from './control-api.ts';
import { EventStream, type StreamEvent } from './event-stream.ts';
import { happeningLine } from './happening-line.ts';
import { type Paint, paintFor } from './paint.ts';
import type { ExitCode, RunContext } from './run-context.ts';
import { parseActivity } from './tail-event.ts';

export interface TailOptions extends ControlFlags {
  readonly source?: string;
  readonly destination?: string;
  readonly type?: string;
  readonly failed?: boolean;
  readonly body?: boolean;
  readonly json?: boolean;
}

const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 10_000;

/**
 * `millrace tail`: prints the activity of a running server line by line until Ctrl-C. It reconnects after a
 * restart, but never shows the activity in between (`trace` and `status` know it). spec/contract.md, "Verbs
 * that ask".
 */
export async function tail(options: TailOptions, context: RunContext): Promise<ExitCode> {
  const address = controlAddress(options, context.env);
  if (typeof address === 'string') {
    context.err.write(`millrace: ${address}.\n`);
    return 2;
  }
  const end = new AbortController();
  void context.stopping.then(() => end.abort());
  const { signal } = end;
  const { origin } = address.url;
  let failures = 0;
  let hasWatched = false;
  while (!signal.aborted) {
    const reply = await openControlStream(address, 'tail', { query: queryOf(options), signal });
    if (reply.kind === 'open') {
      context.err.write(`millrace: watching ${origin}${hasWatched ? ' again' : ', until Ctrl-C'}.\n`);
      hasWatched = true;
      failures = 0;
      await showAll(reply.chunks, options, { context, signal });
      if (!signal.aborted) context.err.write(`millrace: ${origin} ended the connection; trying again.\n`);
    } else if (!signal.aborted && (!hasWatched || !reply.passing)) {
      context.err.write(`millrace: ${reply.message}.\n`);
      return 1;
    }
    await pause(failures++, signal);
  }
  return 0;
}

function queryOf(options: TailOptions): Record<string, string | undefined> {
  const { source, destination, type, failed, body } = options;
  return {
    ...{ source, destination, type },
    failed: failed ? 'true' : undefined,
    body: body ? 'true' : undefined,
  };
}

interface Watched {
  readonly context: RunContext;
  readonly signal: AbortSignal;
}

/** Resolves when the connection has ended, from either side. */
async function showAll(
  chunks: AsyncIterable<Uint8Array>,
  options: TailOptions,
  { context, signal }: Watched,
): Promise<void> {
  const events = new EventStream();
  const shown = { ...options, paint: paintFor(context.out, context.env), err: context.err };
  const arriving = chunks[Symbol.asyncIterator]();
  for (;;) {
    // A failed connection counts as ended.
    const next = await arriving.next().catch(() => undefined);
    if (next === undefined || next.done) return;
    const text = events.take(next.value).reduce((before, event) => before + textOf(event, shown), '');
    if (text === '' || context.out.write(text)) continue;
    // This wait tells the server that the reader is slow. The server then counts the activity that it leaves
    // out.
    await once(context.out, 'drain', { signal }).catch(() => undefined);
  }
}

function textOf(
  event: StreamEvent,
  { json = false, body = false, paint, err }: TailOptions & { paint: Paint; err: RunContext['err'] },
): string {
  if (json) return `${JSON.stringify({ kind: event.name, ...JSON.parse(event.data) })}\n`;
  if (event.name === 'lost') {
    const { count: lost } = JSON.parse(event.data) as { count: number };
    err.write(`millrace: ${count(lost)} lines are missing here: they came faster than they were read.\n`);
    return '';
  }
  const activity = parseActivity(event);
  if (activity === undefined) return '';
  const line = `${happeningLine(activity.shown, { now: activity.at, paint })}\n`;
  return body && activity.event !== undefined ? line + indented(activity.event) : line;
}

function indented(event: object): string {
  const lines = JSON.stringify(event, null, 2).split('\n');
  return lines.map((line) => `    ${printable(line)}\n`).join('');
}

/**
 * Waits before it reconnects, twice as long after each failure. Jitter keeps many programs from reconnecting
 * at once.
 */
async function pause(failures: number, signal: AbortSignal): Promise<void> {
  const longest = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** failures);
  try {
    await sleep(longest * (0.5 + Math.random() / 2), undefined, { signal });
  } catch {
    // Ctrl-C ends the wait.
  }
}

type StreamReply =
  | { readonly kind: 'open'; readonly chunks: AsyncIterable<Uint8Array> }
  /**
   * `message` is one line for the person at the terminal. `passing`: the request may succeed a little later.
   */
  | { readonly kind: 'failed'; readonly message: string; readonly passing: boolean };

/** Milliseconds to wait for the head of the answer. The body has no limit. */
const HEAD_PATIENCE_MS = 10_000;

/**
 * Opens a streamed answer of the control API. It lasts until `signal` or the server ends it. Never rejects.
 */
async function openControlStream(
  address: ControlAddress,
  path: string,
  {
    query,
    signal,
  }: { readonly query: Readonly<Record<string, string | undefined>>; readonly signal: AbortSignal },
): Promise<StreamReply> {
  const target = targetOf(address, path);
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined) target.searchParams.set(name, value);
  }
  const { token } = address;
  const patience = new AbortController();
  const timer = setTimeout(() => patience.abort(), HEAD_PATIENCE_MS);
  try {
    const response = await fetch(target, {
      headers: {
        accept: 'text/event-stream',
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      },
      redirect: 'manual',
      signal: AbortSignal.any([signal, patience.signal]),
    });
    const isStream = response.headers.get('content-type')?.startsWith('text/event-stream') === true;
    if (response.status === 200 && isStream && response.body !== null) {
      return { kind: 'open', chunks: response.body };
    }
    const { status } = response;
    const reply = replyIn({ status, text: await answerText(response) }, address, target);
    // The answer is no stream and comes from another program.
    const message = reply.kind === 'failed' ? reply.message : `${target.href} did not answer with a stream`;
    return { kind: 'failed', message, passing: status === 429 || status >= 500 };
  } catch (error) {
    return { kind: 'failed', message: whyNoAnswer(address, error), passing: true };
  } finally {
    clearTimeout(timer);
  }
}
