import type catalogue from '../../../spec/errors.json';
import type { CallType } from '../model/event.ts';
import { isObject, type Json, type JsonObject } from '../model/json.ts';
import type { Time } from '../model/time.ts';
import type { IngestRequest } from '../ports/ingest.ts';
import type { ValueChange, ValueChanges } from '../ports/telemetry.ts';
import { formatTime, readTime } from './times.ts';

/** Reasons not to accept a call: the name in the ledger, and the answer to a request with this call alone. */
export type DiscardReason = keyof typeof catalogue.discard;

/** Reasons to refuse a whole request. */
export type RefusalCode = keyof typeof catalogue.request | DiscardReason;

/** Everything that the calls of one request share. */
export interface Envelope {
  readonly type: CallType | 'batch';
  readonly receivedAt: Time;
  readonly receivedAtText: string;
  /** Merged into each call of the batch. */
  readonly context: JsonObject | undefined;
  readonly integrations: JsonObject | undefined;
  /** For calls without their own; `NaN` when there is none. */
  readonly sentAt: Time;
  readonly sentAtText: string | undefined;
  readonly newMessageId: () => string;
  readonly peer: IngestRequest['peer'];
  /** The request itself shows that a browser sent it; else the library of each call tells. */
  readonly isFromBrowser: boolean;
  /** Another service has received the calls: their times are final. */
  readonly isForwarded: boolean;
  /** Changes of values in the calls since they were last taken. */
  readonly changes: ChangeTally;
}

export interface RequestContext {
  readonly request: IngestRequest;
  readonly newMessageId: () => string;
}

/** The envelope of a single call, which shares nothing with others. */
export function singleEnvelope({ request, newMessageId }: RequestContext): Envelope {
  return {
    type: request.type === 'forwarded' ? 'batch' : request.type,
    receivedAt: request.receivedAt,
    receivedAtText: formatTime(request.receivedAt),
    context: undefined,
    integrations: undefined,
    sentAt: Number.NaN,
    sentAtText: undefined,
    newMessageId,
    peer: request.passesOn === true ? undefined : request.peer,
    isFromBrowser: request.isFromBrowser === true,
    isForwarded: false,
    changes: new ChangeTally(),
  };
}

/**
 * The envelope of a batch, or why it is wrong. `timestamp` and `messageId` of a batch mean nothing and are
 * not read.
 */
export function batchEnvelope(body: JsonObject, request: RequestContext): Envelope | DiscardReason {
  const { sentAt = null } = body;
  const context = readObject(body.context);
  if (context === false) return 'context_not_object';
  const integrations = readObject(body.integrations);
  if (integrations === false) return 'integrations_not_object';
  const time = sentAt === null ? Number.NaN : readTime(sentAt);
  const single = singleEnvelope(request);
  if (sentAt !== null && Number.isNaN(time)) single.changes.note('unreadable_times', sentAt);
  return {
    ...single,
    context,
    integrations,
    sentAt: time,
    sentAtText: Number.isNaN(time) ? undefined : formatTime(time),
  };
}

const EMPTY: JsonObject = Object.freeze({});

/**
 * The object that a field holds; undefined where it is absent, false where it is no object. An empty list is
 * an empty object: PHP writes both alike.
 */
export function readObject(value: Json | undefined): JsonObject | undefined | false {
  if (value === undefined || value === null) return undefined;
  if (isObject(value)) return value;
  return Array.isArray(value) && value.length === 0 && EMPTY;
}

/** Characters of a sample of a changed value. */
const MAX_SAMPLE_LENGTH = 64;

/**
 * Counts changes of values: those of a call until its source is known, and those of a source. Every call of a
 * batch may have some.
 */
export class ChangeTally {
  /** Undefined while nothing is noted, which is the rule. */
  #counts: Partial<Record<ValueChange, number>> | undefined;
  #unreadableTime: string | undefined;

  /** `sample`: a value that was changed, where it says something to whoever mends the client. */
  note(kind: ValueChange, sample?: Json): void {
    this.add(kind, 1, sample);
  }

  add(kind: ValueChange, n: number, sample?: Json): void {
    if (n === 0) return;
    this.#counts ??= {};
    this.#counts[kind] = (this.#counts[kind] ?? 0) + n;
    if (sample !== undefined) this.#unreadableTime = shownValue(sample);
  }

  get isEmpty(): boolean {
    return this.#counts === undefined;
  }

  /** Moves here what another one has noted. */
  moveFrom(other: ChangeTally): void {
    const noted = other.#counts;
    if (noted === undefined) return;
    if (this.#counts === undefined) this.#counts = noted;
    else for (const kind in noted) this.add(kind as ValueChange, noted[kind as ValueChange]!);
    this.#unreadableTime = other.#unreadableTime ?? this.#unreadableTime;
    other.#forget();
  }

  /** Gives what was noted, and forgets it; undefined when nothing was. */
  take(): ValueChanges | undefined {
    const counts = this.#counts;
    const unreadableTime = this.#unreadableTime;
    this.#forget();
    if (counts === undefined) return undefined;
    return unreadableTime === undefined ? { counts } : { counts, unreadableTime };
  }

  #forget(): void {
    this.#counts = undefined;
    this.#unreadableTime = undefined;
  }
}

/** The beginning of a value as text: a text as it is, a number as it is written, anything else as JSON. */
export function shownValue(value: Json): string {
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  if (text.length <= MAX_SAMPLE_LENGTH) return text;
  const end = text.charCodeAt(MAX_SAMPLE_LENGTH - 1);
  const isFirstHalf = end >= 0xd800 && end <= 0xdbff;
  return text.slice(0, isFirstHalf ? MAX_SAMPLE_LENGTH - 1 : MAX_SAMPLE_LENGTH);
}
