import type { DeliverySummary } from '@millrace/server';
import { count, remaining } from './column.ts';
import { find, type SearchOptions, type Sought } from './found.ts';
import { paintFor } from './paint.ts';
import type { ExitCode, RunContext } from './run-context.ts';
import { stateDraw } from './state-draw.ts';
import type { Cell } from './table.ts';
import { beginningOf } from './time-range.ts';

interface DeliveryOptions extends SearchOptions {
  readonly destination?: string;
  readonly state?: string;
  readonly reason?: string;
}

const NAME = { align: 'left', most: 32, least: 10 } as const;
const HEADINGS = [
  { title: 'id', align: 'left' },
  { title: 'destination', ...NAME },
  { title: 'state', align: 'left' },
  { title: 'reason', align: 'left' },
  { title: 'attempts', align: 'right' },
  { title: 'next attempt', align: 'left' },
  { title: 'received', align: 'left' },
  { title: 'source', ...NAME },
  { title: 'type', align: 'left' },
  { title: 'event', ...NAME },
  { title: 'user', ...NAME },
  { title: 'messageId', align: 'left' },
] as const;

/**
 * `millrace deliveries`: lists deliveries by the time of their event, newest first, and dead and dropped ones
 * by the time they were given up. spec/contract.md, "Verbs that ask".
 */
export async function deliveries(options: DeliveryOptions, context: RunContext): Promise<ExitCode> {
  return await find(options, context, soughtDeliveries(options, context));
}

function soughtDeliveries(filters: DeliveryOptions, context: RunContext): Sought<DeliverySummary> {
  const { destination, state, reason, source, type, userId, anonymousId, to } = filters;
  const draw = stateDraw(paintFor(context.out, context.env));
  return {
    path: 'deliveries',
    query: {
      ...{ destination, state, reason, source, type, userId, anonymousId },
      ...{ from: beginningOf(filters), to },
    },
    what: 'delivery',
    headings: HEADINGS,
    row: (found) => rowOf(found, draw),
  };
}

function rowOf(found: DeliverySummary, draw: ReturnType<typeof stateDraw>): Cell[] {
  const { id, destination, state, attempts, messageId, receivedAt, source, type } = found;
  return [
    { text: id },
    { text: destination },
    { text: state, draw: draw(state) },
    { text: found.reason ?? attempts.at(-1)?.reason ?? '' },
    { text: count(attempts.length) },
    { text: nextOf(found) },
    { text: receivedAt ?? 'erased' },
    { text: source ?? '' },
    { text: type ?? '' },
    { text: found.event ?? found.name ?? '' },
    { text: userOf(found) },
    { text: messageId ?? '' },
  ];
}

function userOf({ userId, anonymousId }: DeliverySummary): string {
  return userId ?? (anonymousId === undefined ? '' : `anonymous ${anonymousId}`);
}

/** Time until the next attempt. `due`: the worker is busy or paused, or waits for its endpoint. */
function nextOf({ state, nextAttemptAt }: DeliverySummary): string {
  if (state === 'delivered' || state === 'dead' || state === 'dropped') return '';
  if (nextAttemptAt === undefined) return 'under way';
  const wait = Date.parse(nextAttemptAt) - Date.now();
  return wait <= 0 ? 'due' : remaining(wait);
}
