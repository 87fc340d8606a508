import type { CallType } from '../model/call.ts';
import { isObject, type JsonObject } from '../model/json.ts';
import type { Time } from '../model/time.ts';
import type { CallRequest } from '../ports/receiver.ts';
import { WrittenNumbers } from './identifiers.ts';
import type { DiscardReason } from './reasons.ts';
import { formatTime, readTime } from './timestamps.ts';

/** Times that clients sent and that were not used; a client with a broken clock shows here. */
export interface ClockCounts {
  /** Times that could not be read. */
  readonly unparseable: number;
  /** Events whose time was not corrected, because their client's clock is more than 24 hours off. */
  readonly skewed: number;
}

/** What all calls of one request share. */
export interface Envelope {
  readonly type: CallType | 'batch';
  readonly receivedAt: Time;
  readonly receivedAtText: string;
  /** Merged into each call of the batch. */
  readonly context: JsonObject | undefined;
  readonly integrations: JsonObject | undefined;
  /** For the calls without their own; `NaN` when there is none. */
  readonly sentAt: Time;
  readonly sentAtText: string | undefined;
  readonly newMessageId: () => string;
  readonly peer: CallRequest['peer'];
  readonly written: WrittenNumbers;
  /** Counts what was met so far. */
  readonly clock: { unparseable: number; skewed: number };
}

export interface RequestText {
  readonly request: CallRequest;
  /** The body as a string. */
  readonly text: string;
  readonly newMessageId: () => string;
}

/** The envelope of a single call: it shares nothing with others. */
export function envelopeOf({ request, text, newMessageId }: RequestText): Envelope {
  return {
    type: request.type,
    receivedAt: request.receivedAt,
    receivedAtText: formatTime(request.receivedAt),
    context: undefined,
    integrations: undefined,
    sentAt: Number.NaN,
    sentAtText: undefined,
    newMessageId,
    peer: request.peer,
    written: new WrittenNumbers(text),
    clock: { unparseable: 0, skewed: 0 },
  };
}

/** The envelope of a batch, or what is wrong with it. Its `timestamp` and `messageId` mean nothing and are not read. */
export function envelopeOfBatch(body: JsonObject, request: RequestText): Envelope | DiscardReason {
  const { context = null, integrations = null, sentAt = null } = body;
  if (context !== null && !isObject(context)) return 'context_not_object';
  if (integrations !== null && !isObject(integrations)) return 'integrations_not_object';
  const time = sentAt === null ? Number.NaN : readTime(sentAt);
  const single = envelopeOf(request);
  return {
    ...single,
    context: context ?? undefined,
    integrations: integrations ?? undefined,
    sentAt: time,
    sentAtText: Number.isNaN(time) ? undefined : formatTime(time),
    clock: { unparseable: sentAt !== null && Number.isNaN(time) ? 1 : 0, skewed: 0 },
  };
}
