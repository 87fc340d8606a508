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
  /** Absent: an identify with the value alone. */
  readonly form?: ChangeForm;
}

/** The form of the event of a change. */
export interface ChangeForm {
  /** The name of a track event; absent for an identify. */
  readonly event?: string | undefined;
  readonly space?: string | undefined;
  readonly email?: string | undefined;
  /** Traits of the user that go with the value. */
  readonly traits?: JsonObject;
}

/**
 * The event of a change: an ordinary identify or track. The same change gives the same bytes, its messageId
 * included. spec/specification.md, "Computation events".
 */
export function computationEvent(change: ToldChange): Event {
  const { computation, recipient, at, now, sequence, number, only, preferences, form = {} } = change;
  const id = computationIdOf(computation);
  return {
    messageId: `${id}_v${computation.version}_${number}`,
    type: form.event === undefined ? 'identify' : 'track',
    channel: 'server',
    ...recipient,
    ...saidIn(change, form),
    context: {
      ...(form.event !== undefined && form.email !== undefined && { traits: { email: form.email } }),
      personas: {
        computation_class: computation.kind,
        computation_id: id,
        computation_key: computation.key,
        ...(form.space !== undefined && { namespace: form.space, space_id: form.space }),
        sequence,
      },
      ...(preferences !== undefined && { consent: { categoryPreferences: preferences } }),
    },
    integrations: only === undefined ? {} : onlyTo(only),
    timestamp: isoTime(at),
    receivedAt: isoTime(now),
  };
}

/** The fields that have the value: its key stands for it, whatever traits go with it. */
function saidIn(
  { computation: { key, kind }, value }: ToldChange,
  { event, email, traits }: ChangeForm,
): Pick<Event, 'event' | 'properties' | 'traits'> {
  if (event === undefined)
    return { traits: { ...traits, ...(email !== undefined && { email }), [key]: value } };
  return { event, properties: { ...traits, [`${kind}_key`]: key, [key]: value } };
}

/** An integrations object that enables these destinations alone. */
function onlyTo(destinations: readonly string[]): JsonObject {
  return { All: false, ...Object.fromEntries(destinations.map((name) => [name, true])) };
}

/** Reads value and recipient from an event that `computationEvent` made, for the report of a split. */
export function noticeIn(json: string): SplitNotice {
  const event = JSON.parse(json) as Event;
  const { userId, anonymousId, integrations } = event;
  const { key, value } = valueIn(event);
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

/** The key and the value that `saidIn` wrote. */
function valueIn({ context, traits, properties }: Event): { readonly key: string; readonly value: Json } {
  const key = String((context['personas'] as JsonObject)['computation_key']);
  return { key, value: (properties ?? traits)?.[key] ?? null };
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
  const event = JSON.parse(json) as Event;
  const { userId, anonymousId, context, integrations, timestamp } = event;
  const recipient = userId === undefined ? { anonymousId: anonymousId! } : { userId };
  const personas = context['personas'] as JsonObject;
  const { All: all = true, ...named } = integrations;
  return {
    ids: { user: reader.identity(...identityIn(recipient)), anonymous: undefined, external: [] },
    key: keyOf(recipient),
    computation: Number(String(computationIdIn(context)).replace(/^[a-z]+_/, '')),
    to: all === false ? Object.keys(named) : undefined,
    isLeave: personas['computation_class'] === 'audience' && valueIn(event).value === false,
    at: Date.parse(timestamp),
    sequence: Number(personas['sequence'] ?? 0),
  };
}
