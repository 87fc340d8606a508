import type { Trace } from '@millrace/server';
import { atMost, latency, printable, remaining, secondOfDay, span, timeOfDay } from './column.ts';
import type { Paint } from './paint.ts';
import { type Cell, table } from './table.ts';

type TracedCall = Trace['data'][number];
type Accepted = Extract<TracedCall, { verdict: 'accepted' }>;
type Delivery = Accepted['deliveries'][number];
type Attempt = Delivery['attempts'][number];

const CALL = 400;
const INDENT = '  ';

export interface TraceReportOptions {
  readonly now: number;
  readonly paint: Paint;
}

/**
 * Formats the history of a messageId for an operator on call.
 *
 * ```
 * order-1  track "Order Placed" of user u1
 * accepted from website at 2026-01-01T12:00:00.000Z, 3 min ago
 *
 * crm  retrying: next attempt at 12:03:20, in 12 s
 *   12:00:00.004  https://crm.example/in  status_503  34 ms  Overloaded
 *   12:01:00.004  https://crm.example/in  timeout     5.0 s
 * warehouse  skipped: integrations
 * ```
 */
export function traceReport({ data }: Trace, options: TraceReportOptions): string {
  return `${data.map((call) => reportOf(call, options).join('\n')).join('\n\n')}\n`;
}

function reportOf(call: TracedCall, { now, paint }: TraceReportOptions): string[] {
  if (call.verdict === 'damaged') {
    return [
      paint.red(
        'damaged: it was stored, and its bytes have changed on the disk since; it is never sent as it is',
      ),
      ...call.deliveries.flatMap((delivery) => deliveryLines(delivery, { now, paint })),
    ];
  }
  const at = `at ${call.receivedAt}, ${span(now - Date.parse(call.receivedAt))} ago`;
  const from = `from ${printable(call.source ?? 'an unknown source')}`;
  if (call.verdict === 'discarded') {
    return [
      `${paint.red('discarded')} ${from} ${at}: ${call.reason}`,
      INDENT + paint.dim(paint.columns === undefined ? printable(call.call) : atMost(call.call, CALL)),
    ];
  }
  const { event, deliveries, skipped } = call;
  const destinations = [
    ...deliveries.flatMap((delivery) => deliveryLines(delivery, { now, paint })),
    ...skipped.map(({ destination, reason }) => `${paint.bold(printable(destination))}  skipped: ${reason}`),
  ];
  return [
    `${paint.bold(printable(event.messageId))}  ${subjectOf(event)}`,
    `${paint.green('accepted')} ${from} ${at}`,
    '',
    ...(destinations.length > 0 ? destinations : ['no destination is connected to this source']),
  ];
}

function subjectOf({ type, event, name, userId, anonymousId }: Accepted['event']): string {
  const what = event ?? name;
  const who = userId === undefined ? `anonymous ${anonymousId}` : `user ${userId}`;
  return printable(`${type}${what ? ` ${JSON.stringify(what)}` : ''} of ${who}`);
}

function deliveryLines(delivery: Delivery, { now, paint }: TraceReportOptions): string[] {
  const { destination, attempts } = delivery;
  const { columns } = paint;
  const inner = columns === undefined ? paint : { ...paint, columns: columns - INDENT.length };
  const lines = table([LEFT, ENDPOINT, LEFT, RIGHT, ANSWER], attempts.map(attemptRow(paint)), inner);
  return [
    `${paint.bold(printable(destination))}  ${stateOf(delivery, { now, paint })}`,
    // The first line holds headings, which are not needed here.
    ...lines.slice(1).map((line) => INDENT + line),
  ];
}

function stateOf(
  { state, reason, note, nextAttemptAt }: Delivery,
  { now, paint }: TraceReportOptions,
): string {
  switch (state) {
    case 'delivered':
      return paint.green('delivered');
    case 'dead':
      return `${paint.red('dead')}: ${reason ?? ''}`;
    case 'dropped':
      return `${paint.bold('dropped')}: ${reason ?? ''}${note === undefined ? '' : `, ${printable(note)}`}`;
    default:
      return `${paint.yellow(state)}: ${whatIsNext(nextAttemptAt, now)}`;
  }
}

function whatIsNext(nextAttemptAt: string | undefined, now: number): string {
  if (nextAttemptAt === undefined) return 'about to be sent, or under way';
  const at = Date.parse(nextAttemptAt);
  // A due delivery that is not sent: its worker is busy, or an open circuit breaker lets one probe through at
  // a time.
  if (at <= now) return `due since ${secondOfDay(at)}, waits for its lane (millrace status says how that is)`;
  return `next attempt at ${secondOfDay(at)}, ${remaining(at - now)}`;
}

function attemptRow(paint: Paint): (attempt: Attempt) => Cell[] {
  return ({ startedAt, endpoint, outcome, reason, latencyMs, answer = '' }) => [
    { text: timeOfDay(Date.parse(startedAt)), draw: paint.dim },
    { text: endpoint },
    { text: reason, draw: outcome === 'accepted' ? paint.green : paint.red },
    { text: latency(latencyMs) },
    { text: answer.trim(), draw: paint.dim },
  ];
}

const LEFT = { title: '', align: 'left' } as const;
const RIGHT = { title: '', align: 'right' } as const;
const ENDPOINT = { ...LEFT, most: 60, least: 20 } as const;
const ANSWER = { ...LEFT, most: 100, least: 12 } as const;
