import type { CallType } from './call.ts';
import type { Json, JsonObject } from './json.ts';

/**
 * An accepted call, normalised: what is stored, and what every outbound body is made from. It never changes.
 *
 * Absent fields are left out, never `null`. Times are `YYYY-MM-DDTHH:mm:ss.sssZ`. Fields the protocol does not know
 * are kept as the client sent them (except `writeKey`, which is a credential). spec/specification.md, "Common fields".
 */
export interface Event {
  readonly messageId: string;
  readonly type: CallType;
  /** `server`, `browser` or `mobile`, or what the client said. */
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
  readonly [other: string]: Json | undefined;
}

/**
 * The place of an event in the event log. Given once, never reused, never moved: sealing and erasing keep it.
 * Opaque outside the adapter that made it; larger means later only among events of one writer.
 */
export type Position = number;
