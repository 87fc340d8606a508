import type { Json, JsonObject } from './json.ts';

/**
 * An accepted call, normalised. Events are stored, never change, and every outbound body is made from one.
 *
 * Absent fields are left out, never `null`. Times are `YYYY-MM-DDTHH:mm:ss.sssZ`. Fields that the protocol
 * does not know are kept as the client sent them, except `writeKey`, which is a credential.
 * spec/specification.md, "Common fields".
 */
export interface Event {
  readonly messageId: string;
  readonly type: EventType;
  /** `server`, `browser` or `mobile`, or another channel that the client named. */
  readonly channel: string;
  readonly userId?: string;
  readonly anonymousId?: string;
  readonly previousId?: string;
  readonly groupId?: string;
  /** The name of a tracked action. */
  readonly event?: string;
  /** The name of a page or screen. */
  readonly name?: string;
  readonly category?: string;
  readonly properties?: JsonObject;
  readonly traits?: JsonObject;
  readonly context: JsonObject;
  readonly integrations: JsonObject;
  /** When it happened, corrected for the client's clock. */
  readonly timestamp: string;
  /** When it happened by the client's clock. */
  readonly originalTimestamp?: string;
  /** When it was sent by the client's clock. */
  readonly sentAt?: string;
  /** When it arrived here. All events of one request share it. */
  readonly receivedAt: string;
  /** When another service received it that has passed it on, where that has said so. */
  readonly originalReceivedAt?: string;
  /** Of a call that another service of the protocol has passed on; see `isForwarded`. */
  readonly receivedBy?: 'forwarded';
  readonly [other: string]: Json | undefined;
}

/**
 * Whether another service of the protocol has received the event first, and has passed it on. It has its
 * address, its times and its consent from there, and must not be sent back there. A client can write the same
 * into a call of its own, which makes no difference but for that call.
 */
export function isForwarded(event: Pick<Event, 'receivedBy'>): boolean {
  return event.receivedBy === 'forwarded';
}

/**
 * The place of an event in the event log. It is given once, never reused and never moved, not even by
 * compaction and erasing. Opaque outside the adapter that made it. Larger means later only among events of
 * one writer.
 */
export type Position = number;

/**
 * The six calls that a client library can make. spec/specification.md, "Purpose".
 */
export const CALL_TYPES = ['identify', 'track', 'page', 'screen', 'group', 'alias'] as const;

export type CallType = (typeof CALL_TYPES)[number];

/**
 * A call, or a delete notification, which no client can send: it tells receivers that a user was deleted.
 * spec/specification.md, "Delete notification".
 */
export type EventType = CallType | 'delete';

/**
 * The one-letter paths of browsers and mobile clients: `/v1/t` is `/v1/track`. spec/specification.md,
 * "Paths".
 */
export const SHORT_FORMS: Readonly<Record<string, CallType>> = {
  i: 'identify',
  t: 'track',
  p: 'page',
  s: 'screen',
  g: 'group',
  a: 'alias',
};

export function isCallType(value: unknown): value is CallType {
  return CALL_TYPES.includes(value as CallType);
}
