import type { Event } from '../model/event.ts';
import { isObject, type Json } from '../model/json.ts';
import type { Source } from '../model/source.ts';
import type { Received } from '../ports/event-log.ts';
import type { CallRequest } from '../ports/receiver.ts';
import { Counts, oneCall } from './counts.ts';
import {
  type ClockCounts,
  type Envelope,
  envelopeOf,
  envelopeOfBatch,
  type RequestText,
} from './envelope.ts';
import { isTooDeep } from './nesting.ts';
import { normalise } from './normalise.ts';
import type { DiscardReason, RefusalCode } from './reasons.ts';
import { isTooLarge } from './size.ts';
import { ownKey, type Standing, standingOf } from './standing.ts';
import type { WriteKeys } from './write-keys.ts';

export { type WriteKeys, writeKeys } from './write-keys.ts';

/** More events in one batch are refused. decisions.md section 1, "limits". */
const MOST_CALLS = 2_500;

/**
 * What a batch shares with its calls is stored with each of them. Without a limit, half a megabyte of shared context and
 * two thousand calls would become a gigabyte of events.
 */
const MOST_REPEATED_BYTES = 16 * 1024 * 1024;

/** What one request came to, before anything is stored. */
export type ReceivedCall =
  | {
      readonly kind: 'refused';
      readonly code: RefusalCode;
      /** A sentence for the client that says what exactly is wrong. */
      readonly detail?: string;
      /** A single call that was parsed and refused counts as received and discarded. */
      readonly counts: readonly Received[];
    }
  | {
      readonly kind: 'received';
      readonly events: readonly AcceptedEvent[];
      /** Every call of the request that belongs to a source, those discarded too. */
      readonly counts: readonly Received[];
      /** Discarded calls that belong to no source, by reason. */
      readonly unattributed: Readonly<Record<string, number>>;
      readonly clock: ClockCounts;
    };

export interface AcceptedEvent {
  readonly source: Source;
  readonly event: Event;
  /** `JSON.stringify(event)`: a fixed point, parsing and writing it again gives the same text. */
  readonly json: string;
}

const NOT_COUNTED: readonly Received[] = Object.freeze([]);
const NO_REASONS: Readonly<Record<string, number>> = Object.freeze({});

/**
 * The bytes of one request → events to be stored, and calls discarded with a reason. Pure but for `newMessageId`.
 *
 * A source in `mode: strict` is treated like any other for now.
 */
export function receiveCall(request: CallRequest, keys: WriteKeys, newMessageId: () => string): ReceivedCall {
  let text = request.body.toString();
  // Some clients on Windows begin every text with a byte order mark.
  if (text.charCodeAt(0) === 0xfeff) text = text.slice(1);
  let body: Json;
  try {
    body = JSON.parse(text);
  } catch (error) {
    return refused('invalid_json', whereItBreaks(text, error));
  }
  const received = { request, text, newMessageId };
  return request.type === 'batch' ? receiveBatch(body, received, keys) : receiveSingle(body, received, keys);
}

function receiveSingle(body: Json, request: RequestText, keys: WriteKeys): ReceivedCall {
  const { source, reason, refusal } = standingOf(ownKey(body) ?? request.request.writeKey, keys);
  const counted = source === undefined ? NOT_COUNTED : oneCall(source.id, reason);
  if (refusal !== undefined) return { kind: 'refused', code: refusal, counts: counted };
  const envelope = envelopeOf(request);
  if (reason !== undefined || source === undefined) {
    const unattributed = source === undefined && reason !== undefined ? { [reason]: 1 } : NO_REASONS;
    return { kind: 'received', events: [], counts: counted, unattributed, clock: envelope.clock };
  }
  const accepted = accept(body, source, envelope);
  if (typeof accepted === 'string') {
    return { kind: 'refused', code: accepted, counts: oneCall(source.id, accepted) };
  }
  return {
    kind: 'received',
    events: [accepted],
    counts: counted,
    unattributed: NO_REASONS,
    clock: envelope.clock,
  };
}

function receiveBatch(body: Json, request: RequestText, keys: WriteKeys): ReceivedCall {
  if (!isObject(body) || !isList(body.batch)) return refused('batch_not_array');
  const { batch } = body;
  if (batch.length > MOST_CALLS) return refused('batch_too_large', `It holds ${batch.length} calls.`);
  const envelope = envelopeOfBatch(body, request);
  if (typeof envelope === 'string') return refused(envelope, 'It stands beside the array named batch.');
  if (repeatsTooMuch(envelope, batch.length)) {
    return refused('batch_too_large', 'Its context and integrations are repeated in every call.');
  }
  const shared = standingOf(ownKey(body) ?? request.request.writeKey, keys);
  const refusal = shared.reason === undefined ? undefined : refusalOf(batch, shared, keys);
  if (refusal !== undefined) return { kind: 'refused', code: refusal, counts: countsOf(batch, shared) };

  const counts = new Counts();
  const events: AcceptedEvent[] = [];
  for (let index = 0; index < batch.length; index++) {
    const call = batch[index]!;
    const key = ownKey(call);
    const { source = shared.source, reason } = key === undefined ? shared : standingOf(key, keys);
    envelope.written.index = index;
    const accepted = reason ?? (source === undefined ? 'unknown_write_key' : accept(call, source, envelope));
    if (typeof accepted === 'string') counts.add(source?.id, accepted);
    else {
      counts.add(source?.id);
      events.push(accepted);
    }
  }
  const { bySource, unattributed } = counts;
  return { kind: 'received', events, counts: bySource, unattributed, clock: envelope.clock };
}

/**
 * A batch is refused as a whole only when no call of it belongs to an enabled source, and the settings want at least one
 * of them refused. So a browser with a wrong key is told, and one stray item does not cost the others.
 */
function refusalOf(batch: readonly Json[], shared: Standing, keys: WriteKeys): RefusalCode | undefined {
  let refusal = batch.length === 0 ? shared.refusal : undefined;
  for (const call of batch) {
    const key = ownKey(call);
    const standing = key === undefined ? shared : standingOf(key, keys);
    if (standing.reason === undefined) return undefined;
    refusal ??= standing.refusal;
  }
  return refusal;
}

/** A refused batch of a disabled source is counted there; nobody else can be named. */
function countsOf(batch: readonly Json[], { source, reason }: Standing): readonly Received[] {
  if (source === undefined || reason === undefined || batch.length === 0) return NOT_COUNTED;
  return [{ source: source.id, calls: batch.length, discarded: { [reason]: batch.length } }];
}

function accept(call: Json, source: Source, envelope: Envelope): AcceptedEvent | DiscardReason {
  if (!isObject(call)) return 'not_an_object';
  const event = normalise(call, envelope);
  if (typeof event === 'string') return event;
  try {
    const json = JSON.stringify(event);
    if (envelope.type === 'batch' && isTooLarge(call, json)) return 'message_too_large';
    return isTooDeep(json) ? 'too_deeply_nested' : { source, event, json };
  } catch (error) {
    // Nested so deep that writing it overflowed the stack; nothing else can fail on what JSON.parse made.
    if (error instanceof RangeError) return 'too_deeply_nested';
    throw error;
  }
}

function repeatsTooMuch({ context, integrations }: Envelope, calls: number): boolean {
  if (calls < 2 || (context === undefined && integrations === undefined)) return false;
  try {
    const bytes = JSON.stringify([context, integrations]).length;
    return bytes * calls > MOST_REPEATED_BYTES;
  } catch {
    // Too deep to be written: every call will be discarded for that.
    return false;
  }
}

function isList(value: Json | undefined): value is readonly Json[] {
  return Array.isArray(value);
}

function refused(code: RefusalCode, detail?: string): ReceivedCall {
  return { kind: 'refused', code, counts: NOT_COUNTED, ...(detail === undefined ? {} : { detail }) };
}

/** The parser's own words quote the body, which may hold a write key; its position is enough. */
function whereItBreaks(text: string, error: unknown): string {
  if (text.trim() === '') return 'It is empty.';
  const position = /at position (\d+)/.exec(error instanceof Error ? error.message : '')?.[1];
  return position === undefined
    ? 'It breaks off or is no JSON at all.'
    : `The error is at character ${position}.`;
}
