import { systemClock } from './clock.ts';
import { createDisplay } from './display.ts';
import { paintFor } from './paint.ts';
import { type Received, type ReceiverAnswer, type RunningReceiver, startReceiver } from './receiver.ts';
import { requestLine } from './request-line.ts';
import type { ExitCode, RunContext } from './run-context.ts';

export interface ListenOptions {
  readonly host: string;
  readonly port: number;
  readonly secret?: string;
  readonly status: number;
  /** Milliseconds between a request and its answer. */
  readonly delay: number;
  /** Share of requests answered with 500, from 0 (none) to 1 (all). */
  readonly failRate: number;
  readonly body?: boolean;
  /** The program to which requests are forwarded. */
  readonly forwardTo?: URL;
}

/**
 * `millrace listen`: runs a receiver that prints each request as a line on stdout.
 * spec/contract.md, "Verbs that run a server".
 */
export async function listen(options: ListenOptions, context: RunContext): Promise<ExitCode> {
  const paint = paintFor(context.out, context.env);
  // The user wants to see every request: lines are counted instead only when the reader stops reading.
  const display = createDisplay<Received>({
    output: context.out,
    clock: systemClock,
    perSecond: Number.POSITIVE_INFINITY,
    urgentPerSecond: 0,
    isUrgent: () => false,
    draw: (received, now) => requestLine(received, { now, paint, body: options.body === true }),
  });
  const receiver = await listening(options, display.show, context);
  if (!receiver) return 1;
  const checks =
    options.secret === undefined ? 'signatures are not checked (--secret)' : 'checking signatures';
  const goesTo = options.forwardTo === undefined ? '' : `, forwarding to ${options.forwardTo.href}`;
  context.err.write(`millrace listens on ${receiver.url}, ${checks}${goesTo}. Ctrl-C stops it.\n`);
  await context.stopping;
  await receiver.stop();
  display.stop();
  return 0;
}

/** The answers of `listen`: the given status, or 500 for the failing share. `random` returns 0 ≤ n < 1. */
export function answerer(
  { status, delay, failRate }: Pick<ListenOptions, 'status' | 'delay' | 'failRate'>,
  random: () => number,
): () => ReceiverAnswer {
  return () => ({ status: random() < failRate ? 500 : status, delayMs: delay });
}

async function listening(
  options: ListenOptions,
  onRequest: (received: Received) => void,
  context: RunContext,
): Promise<RunningReceiver | undefined> {
  const { host, port, secret, forwardTo } = options;
  const answer = answerer(options, Math.random);
  try {
    return await startReceiver({
      host,
      port,
      answer,
      onRequest,
      forwardTo,
      secret,
    });
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : String(error);
    const reason =
      code === 'EADDRINUSE'
        ? 'another program has that port; choose one with --port, or 0 for any free one'
        : `the system answered ${code}; see --host and --port`;
    context.err.write(`millrace: cannot listen on ${host} port ${port}: ${reason}.\n`);
    return undefined;
  }
}
