import type { Json } from '../model/json.ts';
import type { Source } from '../model/source.ts';
import type { Received } from '../ports/event-log.ts';
import type { CallRequest } from '../ports/receiver.ts';
import type { AcceptedEvent } from './accepted.ts';
import { type Calls, parsedCalls, type Unreadable } from './calls.ts';
import { Counts, oneCall } from './counts.ts';
import type { ClockCounts, Envelope } from './envelope.ts';
import { scannedCalls } from './manuscript.ts';
import type { RefusalCode } from './reasons.ts';
import { type Standing, standingOf } from './standing.ts';
import type { WriteKeys } from './write-keys.ts';

export type { AcceptedEvent } from './accepted.ts';
export { type WriteKeys, writeKeys } from './write-keys.ts';

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
      /** The calls a strict source refused the batch for. */
      readonly invalid?: readonly { readonly index: number; readonly code: RefusalCode }[];
      /** Calls of a refused request count as received and discarded, where a source can be named. */
      readonly counts: readonly Received[];
      /** Its calls were not looked at: nothing of it takes from a rate limit. */
      readonly isWhole?: true;
      readonly discards: readonly Discard[];
    }
  | {
      readonly kind: 'received';
      readonly events: readonly AcceptedEvent[];
      /** Every call of the request that belongs to a source, those discarded too. */
      readonly counts: readonly Received[];
      /** Discarded calls that belong to no source, by reason. */
      readonly unattributed: Readonly<Record<string, number>>;
      readonly clock: ClockCounts;
      readonly discards: readonly Discard[];
    };

/** A call that was not accepted, to be shown to whoever looks for it. */
export interface Discard {
  /** Undefined when no source can be named. */
  readonly source: Source | undefined;
  readonly reason: RefusalCode;
  /** Its place in the batch; 0 for a single call. */
  readonly index: number;
  /**
   * The call as it came, to be read before the next request is received. Of a request that was refused before its calls
   * were looked at, `refused` and what its client was told.
   */
  readonly call: () => Json;
}

const NOT_COUNTED: readonly Received[] = Object.freeze([]);
const NO_REASONS: Readonly<Record<string, number>> = Object.freeze({});
const NO_DISCARDS: readonly Discard[] = Object.freeze([]);

/** The bytes of one request → events to be stored, and calls discarded with a reason. Pure but for `newMessageId`. */
export function receiveCall(request: CallRequest, keys: WriteKeys, newMessageId: () => string): ReceivedCall {
  const calls = scannedCalls(request, newMessageId) ?? parsedOf(request, newMessageId);
  if ('code' in calls) return refusedWhole(calls, request.writeKey, keys);
  return request.type === 'batch'
    ? receiveBatch(calls, request.writeKey, keys)
    : receiveSingle(calls, request.writeKey, keys);
}

function parsedOf(request: CallRequest, newMessageId: () => string): ReturnType<typeof parsedCalls> {
  let text = request.body.toString();
  // Some clients on Windows begin every text with a byte order mark.
  if (text.charCodeAt(0) === 0xfeff) text = text.slice(1);
  return parsedCalls({ request, text, newMessageId });
}

function receiveSingle(calls: Calls, headerKey: string | undefined, keys: WriteKeys): ReceivedCall {
  const { source, reason, refusal } = standingOf(calls.keyOf(0) ?? headerKey, keys);
  const accepted = reason ?? (source === undefined ? 'unknown_write_key' : calls.accept(0, source));
  const { clock } = calls.envelope;
  if (typeof accepted !== 'string') {
    const counts = oneCall(accepted.source);
    return {
      kind: 'received',
      events: [accepted],
      counts,
      unattributed: NO_REASONS,
      clock,
      discards: NO_DISCARDS,
    };
  }
  const counts = source === undefined ? NOT_COUNTED : oneCall(source.id, accepted);
  const discards = [{ source, reason: accepted, index: 0, call: () => calls.valueOf(0) }];
  if (refusal !== undefined) return { kind: 'refused', code: refusal, counts, discards };
  if (reason === undefined) return { kind: 'refused', code: accepted, counts, discards };
  const unattributed = source === undefined ? { [reason]: 1 } : NO_REASONS;
  return { kind: 'received', events: [], counts, unattributed, clock, discards };
}

function receiveBatch(calls: Calls, headerKey: string | undefined, keys: WriteKeys): ReceivedCall {
  const { envelope } = calls;
  if (repeatsTooMuch(envelope, calls.length)) {
    const detail = 'Its context and integrations are repeated in every call.';
    const whole = {
      code: 'batch_too_large',
      detail,
      writeKey: calls.sharedKey,
      calls: calls.length,
    } as const;
    return refusedWhole(whole, headerKey, keys);
  }
  const shared = standingOf(calls.sharedKey ?? headerKey, keys);
  const refusal = shared.reason === undefined ? undefined : refusalOf(calls, shared, keys);
  if (refusal !== undefined) {
    return {
      kind: 'refused',
      code: refusal,
      counts: countsOf(calls, shared),
      discards: firstOf(calls, shared),
    };
  }
  const counts = new Counts();
  const events: AcceptedEvent[] = [];
  const discards: Discard[] = [];
  let strict = false;
  for (let index = 0; index < calls.length; index++) {
    const key = calls.keyOf(index);
    const { source = shared.source, reason } = key === undefined ? shared : standingOf(key, keys);
    const accepted = reason ?? (source === undefined ? 'unknown_write_key' : calls.accept(index, source));
    if (typeof accepted !== 'string') {
      counts.add(accepted.source);
      events.push(accepted);
      continue;
    }
    counts.add(source?.id, accepted);
    discards.push({ source, reason: accepted, index, call: () => calls.valueOf(index) });
    // A call with a key that is not accepted is no invalid event: its batch goes on, whatever the mode.
    if (reason === undefined && source?.mode === 'strict') strict = true;
  }
  if (strict) return refusedStrictly(events, discards);
  const { bySource, unattributed } = counts;
  return { kind: 'received', events, counts: bySource, unattributed, clock: envelope.clock, discards };
}

/**
 * Nothing of the batch is kept, and the client is told of each call what is wrong with it. The valid ones are counted as
 * discarded too, for they were received. decisions.md section 1, "invalid event inside a batch".
 */
function refusedStrictly(events: readonly AcceptedEvent[], discards: readonly Discard[]): ReceivedCall {
  const counts = new Counts();
  for (const { source, reason } of discards) counts.add(source?.id, reason);
  for (const { source } of events) counts.add(source, 'batch_refused');
  const invalid = discards.map(({ index, reason }) => ({ index, code: reason }));
  return { kind: 'refused', code: 'invalid_calls', invalid, counts: counts.bySource, discards };
}

/**
 * A batch is refused as a whole only when no call of it belongs to an enabled source, and the settings want at least one
 * of them refused. So a browser with a wrong key is told, and one stray item does not cost the others.
 */
function refusalOf(calls: Calls, shared: Standing, keys: WriteKeys): RefusalCode | undefined {
  let refusal = calls.length === 0 ? shared.refusal : undefined;
  for (let index = 0; index < calls.length; index++) {
    const key = calls.keyOf(index);
    const standing = key === undefined ? shared : standingOf(key, keys);
    if (standing.reason === undefined) return undefined;
    refusal ??= standing.refusal;
  }
  return refusal;
}

/** A refused batch of a disabled source is counted there; nobody else can be named. */
function countsOf({ length }: Calls, { source, reason }: Standing): readonly Received[] {
  if (source === undefined || reason === undefined || length === 0) return NOT_COUNTED;
  return [{ source: source.id, calls: length, discarded: { [reason]: length } }];
}

/** Of a batch that is refused for its key, one call tells as much as all. */
function firstOf(calls: Calls, { source, reason }: Standing): readonly Discard[] {
  if (reason === undefined || calls.length === 0) return NO_DISCARDS;
  return [{ source, reason, index: 0, call: () => calls.valueOf(0) }];
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

/**
 * A request that cannot be taken apart is counted where its key says it belongs, enabled or not: as its calls where they were
 * counted, else as one.
 */
function refusedWhole(
  { code, detail, writeKey, calls = 1 }: Unreadable,
  headerKey: string | undefined,
  keys: WriteKeys,
): ReceivedCall {
  const key = writeKey ?? headerKey;
  const source = key === undefined ? undefined : keys.find(key);
  const told = detail === undefined ? {} : { detail };
  if (source === undefined) {
    return { kind: 'refused', code, counts: NOT_COUNTED, discards: NO_DISCARDS, ...told };
  }
  return {
    kind: 'refused',
    code,
    isWhole: true,
    counts: [{ source: source.id, calls, discarded: { [code]: calls } }],
    discards:
      detail === undefined
        ? NO_DISCARDS
        : [{ source, reason: code, index: 0, call: () => ({ refused: detail }) }],
    ...told,
  };
}
