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
}

const switched = z.object({ name: z.string(), enabled: z.boolean() });

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
  const { settings, clock } = tools;
  const switchTo = (enabled: boolean) => async (input: Pick<Input, 'names' | 'by'>) => {
    const name = input.names['name'] ?? '';
    await settings.change((now) => {
      const destination = { ...destinationNamed(name, now), enabled };
      return changesOf({ destinations: [destination] }, now, { by: input.by, at: clock.now() });
    });
    return { name, enabled };
  };
  return [
    operation({
      ...{ method: 'POST', path: 'destinations/:name/pause', role: 'editor' },
      summary: 'Sends nothing more to a destination: new events are skipped, what it is owed waits',
      answer: switched,
      problems: ['unknown_name'],
      run: switchTo(false),
    }),
    operation({
      ...{ method: 'POST', path: 'destinations/:name/resume', role: 'editor' },
      summary: 'Sends to a paused destination again, what it is owed first',
      answer: switched,
      problems: ['unknown_name'],
      run: switchTo(true),
    }),
    operation({
      ...{ method: 'POST', path: 'destinations/:name/test', role: 'editor', isInMemory: true },
      summary: 'Sends an example of an event to every endpoint, once, and shows what was sent and answered',
      body: z.strictObject({ type: z.enum(CALL_TYPES).default('track') }),
      answer: tried,
      problems: ['unknown_name'],
      run: async ({ names, body }) => {
        const destination = destinationNamed(names['name'] ?? '', settings.now());
        const event = sampleEvent(body.type, tools.newMessageId(), clock.now());
        const trials = await tools.tryOut(event, destination);
        const { endpoints } = shownDestination(destination).settings;
        return { data: trials.map((trial, nth) => shown(trial, endpoints[nth]?.headers ?? {})) };
      },
    }),
  ];
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
