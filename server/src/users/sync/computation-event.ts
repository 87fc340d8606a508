import type { Preferences } from '../../model/consent.ts';
import { type Computation, computationIdIn, computationIdOf } from '../../model/definition.ts';
import type { Event } from '../../model/event.ts';
import { defined, type Json, type JsonObject } from '../../model/json.ts';
import { isoTime, type Time } from '../../model/time.ts';
import type { SplitNotice } from '../../ports/users.ts';
import type { EventIdentities, IdentityReader } from '../identity/identity-reader.ts';
import { identityIn, keyOf, type Recipient } from './recipient.ts';

/** A change that destinations are told. */
export interface ToldChange {
  readonly computation: Computation;
  readonly recipient: Recipient;
  /** True or false for an audience; the value of a computed trait, null when it has none any more. */
  readonly value: Json;
  /** Time of the change, never before the last event of this user and computation. */
  readonly at: Time;
  /** Time at which the service noticed the change. */
  readonly now: Time;
  /** Greater than that of every earlier event of this user and computation. */
  readonly sequence: number;
  /** Unique among all changes of this computation and version. */
  readonly number: string;
  /** Consent of the user, where destinations ask for it: the plan of the event asks it again. */
  readonly preferences?: Preferences;
  /** Names of the destinations that get it, if not all of the computation. */
  readonly only?: readonly string[] | undefined;
}

/**
 * The event of a change: an ordinary identify. The same change gives the same bytes, its messageId included.
 * spec/specification.md, "Computation events".
 */
export function computationEvent(change: ToldChange): Event {
  const { computation, recipient, value, at, now, sequence, number, only, preferences } = change;
  const id = computationIdOf(computation);
  return {
    messageId: `${id}_v${computation.version}_${number}`,
    type: 'identify',
    channel: 'server',
    ...recipient,
    traits: { [computation.key]: value },
    context: {
      personas: {
        computation_class: computation.kind,
        computation_id: id,
        computation_key: computation.key,
        sequence,
      },
      ...(preferences !== undefined && { consent: { categoryPreferences: preferences } }),
    },
    integrations: only === undefined ? {} : onlyTo(only),
    timestamp: isoTime(at),
    receivedAt: isoTime(now),
  };
}

/** An integrations object that enables these destinations alone. */
function onlyTo(destinations: readonly string[]): JsonObject {
  return { All: false, ...Object.fromEntries(destinations.map((name) => [name, true])) };
}

/** Reads value and recipient from an event that `computationEvent` made, for the report of a split. */
export function noticeIn(json: string): SplitNotice {
  const { userId, anonymousId, traits = {}, integrations } = JSON.parse(json) as Event;
  const [key = '', value = null] = Object.entries(traits)[0] ?? [];
  const { All: all = true, ...named } = integrations;
  return {
    ...defined({
      userId,
      anonymousId: userId === undefined ? anonymousId : undefined,
      destinations: all === false ? Object.keys(named) : undefined,
    }),
    ...{ key, value },
  };
}

/** A change that was told, as far as it can be read from its event. */
export interface ReadChange {
  /** Ids of the recipient. */
  readonly ids: EventIdentities;
  readonly key: string;
  /** The id of the computation. */
  readonly computation: number;
  /** Names of its destinations; undefined for all of the computation. */
  readonly to: readonly string[] | undefined;
  /** True when the event says that somebody left an audience. */
  readonly isLeave: boolean;
  readonly at: Time;
  readonly sequence: number;
}

/** Reads what `computationEvent` made. */
export function readComputationEvent(json: string, reader: IdentityReader): ReadChange {
  const { userId, anonymousId, context, integrations, traits, timestamp } = JSON.parse(json) as Event;
  const recipient = userId === undefined ? { anonymousId: anonymousId! } : { userId };
  const personas = context['personas'] as JsonObject;
  const { All: all = true, ...named } = integrations;
  return {
    ids: { user: reader.identity(...identityIn(recipient)), anonymous: undefined, external: [] },
    key: keyOf(recipient),
    computation: Number(String(computationIdIn(context)).replace(/^[a-z]+_/, '')),
    to: all === false ? Object.keys(named) : undefined,
    isLeave: personas['computation_class'] === 'audience' && Object.values(traits ?? {})[0] === false,
    at: Date.parse(timestamp),
    sequence: Number(personas['sequence'] ?? 0),
  };
}
