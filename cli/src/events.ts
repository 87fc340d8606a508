import type { Trace } from '@millrace/server';
import { find, type SearchOptions, type Sought } from './found.ts';
import { paintFor } from './paint.ts';
import type { ExitCode, RunContext } from './run-context.ts';
import { stateDraw } from './state-draw.ts';
import type { Cell } from './table.ts';
import { beginningOf } from './time-range.ts';

interface EventOptions extends SearchOptions {
  readonly event?: string;
}

type Accepted = Extract<Trace['data'][number], { verdict: 'accepted' }>;

const NAME = { align: 'left', most: 32, least: 10 } as const;
const HEADINGS = [
  { title: 'received', align: 'left' },
  { title: 'source', ...NAME },
  { title: 'type', align: 'left' },
  { title: 'event', ...NAME },
  { title: 'user', ...NAME },
  { title: 'messageId', align: 'left' },
  { title: 'deliveries', align: 'left', most: 100, least: 16 },
] as const;

/** `millrace events`: lists stored events, newest first. spec/contract.md, "Verbs that ask". */
export async function events(options: EventOptions, context: RunContext): Promise<ExitCode> {
  return await find(options, context, soughtEvents(options, context));
}

function soughtEvents(filters: EventOptions, context: RunContext): Sought<Accepted> {
  const { source, type, userId, anonymousId, event, to } = filters;
  const draw = stateDraw(paintFor(context.out, context.env));
  return {
    path: 'events',
    query: { source, type, userId, anonymousId, event, from: beginningOf(filters), to },
    what: 'event',
    headings: HEADINGS,
    row: (found) => rowOf(found, draw),
  };
}

function rowOf(
  { receivedAt, source, event, deliveries, skipped }: Accepted,
  draw: ReturnType<typeof stateDraw>,
): Cell[] {
  const states = deliveries.map(({ destination, state }) => `${destination} ${state}`);
  const worst = deliveries.find(({ state }) => state !== 'delivered') ?? deliveries[0];
  return [
    { text: receivedAt },
    { text: source },
    { text: event.type },
    { text: event.event ?? event.name ?? '' },
    { text: event.userId ?? `anonymous ${event.anonymousId ?? ''}` },
    { text: event.messageId },
    {
      text: [...states, ...skipped.map(({ destination }) => `${destination} skipped`)].join(', '),
      draw: worst && draw(worst.state),
    },
  ];
}
