import { type Computation, computationIdOf } from '../model/definition.ts';
import type { Event } from '../model/event.ts';
import type { Json, JsonObject } from '../model/json.ts';
import { isoTime, type Time } from '../model/time.ts';

/** To whom a change belongs: a userId, or an anonymousId where anonymous profiles are members. */
export type Addressee = { readonly userId: string } | { readonly anonymousId: string };

/** A change that destinations are told. */
export interface ToldChange {
  readonly computation: Computation;
  readonly addressee: Addressee;
  /** True or false for an audience; the value of a computed trait, null when it has none any more. */
  readonly value: Json;
  /** When the value came about. */
  readonly at: Time;
  /** When the service noticed. */
  readonly now: Time;
  /** Unique among all changes of this computation and version. */
  readonly number: string;
  /** Names of the destinations that get it, if not all of the computation. */
  readonly only?: readonly string[];
}

/**
 * The event of a change: an ordinary identify. The same change gives the same bytes, its messageId included.
 * spec/specification.md, "Computation events".
 */
export function computationEvent(change: ToldChange): Event {
  const { computation, addressee, value, at, now, number, only } = change;
  const id = computationIdOf(computation);
  return {
    messageId: `${id}_v${computation.version}_${number}`,
    type: 'identify',
    channel: 'server',
    ...addressee,
    traits: { [computation.key]: value },
    context: {
      personas: {
        computation_class: computation.kind,
        computation_id: id,
        computation_key: computation.key,
      },
    },
    integrations: only === undefined ? {} : onlyTo(only),
    timestamp: isoTime(Math.min(at, now)),
    receivedAt: isoTime(now),
  };
}

/** An integrations object that enables these destinations alone. */
function onlyTo(destinations: readonly string[]): JsonObject {
  return { All: false, ...Object.fromEntries(destinations.map((name) => [name, true])) };
}
