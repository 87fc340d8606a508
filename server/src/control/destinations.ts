import * as z from 'zod';
import { CALL_TYPES } from '../model/call.ts';
import type { Attempt } from '../model/delivery.ts';
import type { Destination } from '../model/destination.ts';
import type { Event } from '../model/event.ts';
import type { Clock } from '../ports/clock.ts';
import type { DestinationRecord, SettingsSnapshot } from '../ports/settings.ts';
import type { OutboundRequest } from '../ports/transport.ts';
import { type Operation, operation } from './operation.ts';
import { Problem } from './problem.ts';
import { sampleEvent } from './sample-event.ts';

/** One request of a trial as it was sent, and what came of it. */
export interface Trial {
  readonly request: OutboundRequest;
  readonly attempt: Attempt;
}

export interface DestinationTools {
  readonly settings: {
    now(): SettingsSnapshot;
    changeDestination(
      name: string,
      change: (destination: Destination) => Partial<DestinationRecord>,
    ): Promise<Destination | undefined>;
  };
  /** Sends an event to every endpoint once, the way of every delivery, owed to nobody. */
  readonly tryOut: (event: Event, destination: Destination) => Promise<readonly Trial[]>;
  readonly clock: Clock;
  readonly newMessageId: () => string;
}

/** contract.md section 4, `destinations/{name}/…`. */
export function destinationOperations(tools: DestinationTools): Operation[] {
  const switched = (enabled: boolean) => async (name: string) => {
    const destination = await tools.settings.changeDestination(name, () => ({ enabled }));
    if (destination === undefined) throw unknownName(name);
    return { name, enabled: destination.enabled };
  };
  const [pause, resume] = [switched(false), switched(true)];
  return [
    operation({
      method: 'POST',
      path: 'destinations/:name/pause',
      run: ({ names }) => pause(names['name'] ?? ''),
    }),
    operation({
      method: 'POST',
      path: 'destinations/:name/resume',
      run: ({ names }) => resume(names['name'] ?? ''),
    }),
    operation({
      method: 'POST',
      path: 'destinations/:name/test',
      body: z.strictObject({ type: z.enum(CALL_TYPES).default('track') }),
      run: async ({ names, body }) => {
        const destination = destinationNamed(names['name'] ?? '', tools.settings.now());
        const event = sampleEvent(body.type, tools.newMessageId(), tools.clock.now());
        const trials = await tools.tryOut(event, destination);
        return { data: trials.map(shown) };
      },
    }),
  ];
}

export function destinationNamed(name: string, { destinations }: SettingsSnapshot): Destination {
  const destination = destinations.find((one) => one.name === name);
  if (destination === undefined) throw unknownName(name);
  return destination;
}

function unknownName(name: string): Problem {
  return new Problem('unknown_name', {
    hint: `${JSON.stringify(name)} is no destination; GET /api/v1/status lists their names.`,
  });
}

/** The request as it was sent, and the answer. The body is text, as the signature is over its exact bytes. */
function shown({ request, attempt }: Trial): object {
  const { startedAt, latencyMs, outcome, answer } = attempt;
  return {
    request: { method: 'POST', url: request.url, headers: request.headers, body: request.body.toString() },
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
