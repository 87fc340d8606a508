import type { Attempt, Decision } from '../model/delivery.ts';
import type { Event } from '../model/event.ts';
import { shownUrl } from '../model/shown-url.ts';
import type { Time } from '../model/time.ts';
import type { Happening } from '../ports/observer.ts';

/** What names an event, and is shown of it when its body is not wanted. */
const NAMING = [
  ...['messageId', 'type', 'userId', 'anonymousId', 'previousId', 'groupId', 'event', 'name'],
] as const;

export interface LineOptions {
  readonly at: Time;
  /** The whole event, and not only what names it. */
  readonly body: boolean;
}

/**
 * A happening as one server-sent event: its kind as the event's name, the rest as JSON. contract.md section 4, `tail`.
 * Attempts have the shape they have in a trace, without what the endpoint answered: that is kept, and `trace` shows it.
 * Write keys and secrets are in none of it, as events do not have them.
 */
export function tailLine(happening: Happening, { at, body }: LineOptions): string {
  return streamEvent(happening.kind, { at: isoOf(at), ...factsOf(happening, body) });
}

/** Between two lines so many were left out, because the viewer read too slowly. */
export function lostLine(count: number): string {
  return streamEvent('lost', { count });
}

/** JSON has no line feed, so it is one field. */
function streamEvent(name: string, data: object): string {
  return `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`;
}

function factsOf(happening: Happening, body: boolean): object {
  const { source } = happening;
  if (happening.kind === 'discarded') {
    return { ...(source === undefined ? {} : { source }), reason: happening.reason };
  }
  const event = body ? happening.event : namingOf(happening.event);
  if (happening.kind !== 'settled') return { source, event, latencyMs: happening.latencyMs };
  const { destination, attempts, decision } = happening;
  return { source, destination, event, ...stateOf(decision), attempts: attempts.map(attemptOf) };
}

function namingOf(event: Event): object {
  const naming: Record<string, unknown> = {};
  for (const field of NAMING) if (event[field] !== undefined) naming[field] = event[field];
  return naming;
}

/** In the words of a trace. */
function stateOf(decision: Decision): object {
  switch (decision.kind) {
    case 'delivered':
      return { state: 'delivered' };
    case 'retry':
      return { state: 'retrying', nextAttemptAt: isoOf(decision.at) };
    case 'dead':
      return { state: 'dead', reason: decision.reason };
  }
}

function attemptOf({ endpoint, startedAt, latencyMs, outcome }: Attempt): object {
  const { kind, reason, status } = outcome;
  return {
    ...{ endpoint: shownUrl(endpoint), startedAt: isoOf(startedAt), latencyMs, outcome: kind, reason },
    ...(status === undefined ? {} : { status }),
  };
}

function isoOf(time: Time): string {
  return new Date(time).toISOString();
}
