import * as z from 'zod';
import { CALL_TYPES } from '../model/call.ts';
import type { Attempt } from '../model/delivery.ts';
import type { Destination } from '../model/destination.ts';
import type { Event } from '../model/event.ts';
import type { Mask } from '../model/secrets.ts';
import { shownUrl } from '../model/shown-url.ts';
import type { OutboundRequest } from '../ports/transport.ts';
import { changesOf } from './changes.ts';
import { destinationNamed } from './destination-named.ts';
import { type Input, type Operation, operation } from './operation.ts';
import { mask, type RecordTools } from './records.ts';
import { sampleEvent } from './sample-event.ts';
import { shownDestination } from './shown.ts';

/** One request of a trial as it was sent, and what came of it. */
export interface Trial {
  readonly request: OutboundRequest;
  readonly attempt: Attempt;
}

export interface ActionTools extends Pick<RecordTools, 'settings' | 'clock'> {
  /** Sends an event to every endpoint once, the way of every delivery, owed to nobody. */
  readonly tryOut: (event: Event, destination: Destination) => Promise<readonly Trial[]>;
  readonly newMessageId: () => string;
  readonly statusOf: (destination: Destination) => Promise<Waiting>;
}

/** What of a destination waits. Times are ISO 8601. */
interface Waiting {
  readonly pending: number;
  readonly oldestPendingAt?: string;
  readonly oldestKeptUntil?: string;
}

/** How it stands after the switch, and how much waits. */
const switched = z.object({
  name: z.string(),
  enabled: z.boolean(),
  paused: z.boolean(),
  pending: z.int(),
  oldestPendingAt: z.string().exactOptional(),
  oldestKeptUntil: z.string().exactOptional(),
});

const tried = z.object({
  data: z.array(
    z.object({
      request: z.object({
        method: z.literal('POST'),
        url: z.string(),
        headers: z.record(z.string(), z.union([z.string(), mask])),
        body: z.string(),
      }),
      startedAt: z.string(),
      latencyMs: z.number(),
      outcome: z.enum(['accepted', 'retryable', 'refused']),
      reason: z.string(),
      status: z.int().exactOptional(),
      answer: z.string().exactOptional(),
    }),
  ),
});

/** contract.md section 4, `destinations/{name}/…`. */
export function actionOperations(tools: ActionTools): Operation[] {
  const { settings } = tools;
  return [
    ...switchOperations(tools),
    operation({
      ...{ method: 'POST', path: 'destinations/:name/test', role: 'editor', isInMemory: true },
      summary: 'Sends an example of an event to every endpoint, once, and shows what was sent and answered',
      body: z.strictObject({ type: z.enum(CALL_TYPES).default('track') }),
      answer: tried,
      problems: ['unknown_name'],
      run: async ({ names, body }) => {
        const destination = destinationNamed(names['name'] ?? '', settings.now());
        const event = sampleEvent(body.type, tools.newMessageId(), tools.clock.now());
        const trials = await tools.tryOut(event, destination);
        const { endpoints } = shownDestination(destination).settings;
        return { data: trials.map((trial, nth) => shown(trial, endpoints[nth]?.headers ?? {})) };
      },
    }),
  ];
}

/** Two switches: `paused` makes everything wait, `enabled` decides whether what arrives is owed at all. */
function switchOperations(tools: ActionTools): Operation[] {
  const one = (
    verb: 'pause' | 'resume' | 'enable' | 'disable',
    to: { readonly paused: boolean } | { readonly enabled: boolean },
    summary: string,
  ) =>
    operation({
      ...{ method: 'POST', path: `destinations/:name/${verb}`, role: 'editor', summary },
      answer: switched,
      problems: ['unknown_name'],
      run: (input) => switchTo(input, to, tools),
    });
  return [
    one(
      'pause',
      { paused: true },
      'Holds everything of a destination: what it is owed waits, and so does what arrives for it',
    ),
    one('resume', { paused: false }, 'Sends to a paused destination again, what has waited first'),
    one(
      'disable',
      { enabled: false },
      'Skips what arrives for a destination, which is never sent; what it is owed already waits',
    ),
    one(
      'enable',
      { enabled: true },
      'Owes a disabled destination what arrives again, and sends what has waited',
    ),
  ];
}

async function switchTo(
  { names, by }: Pick<Input, 'names' | 'by'>,
  to: { readonly paused: boolean } | { readonly enabled: boolean },
  { settings, clock, statusOf }: ActionTools,
): Promise<z.output<typeof switched>> {
  const name = names['name'] ?? '';
  const now = await settings.change((now) => {
    const destination = { ...destinationNamed(name, now), ...to };
    return changesOf({ destinations: [destination] }, now, { by, clock });
  });
  const destination = destinationNamed(name, now);
  const { enabled, paused = false } = destination;
  const { pending, oldestPendingAt, oldestKeptUntil } = await statusOf(destination);
  return {
    ...{ name, enabled, paused, pending },
    ...(oldestPendingAt === undefined ? {} : { oldestPendingAt }),
    ...(oldestKeptUntil === undefined ? {} : { oldestKeptUntil }),
  };
}

/**
 * The request as it was sent, and the answer. The body is text, as the signature is over its exact bytes. `configured`:
 * the headers of the endpoint as they are shown; its secrets, and those in its URL, are as little to be read here as there.
 */
function shown({ request, attempt }: Trial, configured: Readonly<Record<string, string | Mask>>): object {
  const masks = Object.entries(configured).filter(([, value]) => typeof value !== 'string');
  const headers = { ...request.headers, ...Object.fromEntries(masks) };
  const { startedAt, latencyMs, outcome, answer } = attempt;
  return {
    request: { method: 'POST', url: shownUrl(request.url), headers, body: request.body.toString() },
    ...{
      startedAt: new Date(startedAt).toISOString(),
      latencyMs,
      outcome: outcome.kind,
      reason: outcome.reason,
    },
    ...(outcome.status === undefined ? {} : { status: outcome.status }),
    ...(answer === undefined ? {} : { answer }),
  };
}
