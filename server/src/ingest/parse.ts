import type { Json } from '../model/json.ts';
import type { Source } from '../model/settings.ts';
import type { CallCounts } from '../ports/event-log.ts';
import type { IngestRequest } from '../ports/ingest.ts';
import type { ValueChanges } from '../ports/telemetry.ts';
import {
  type AcceptedEvent,
  authorizeKey,
  type KeyAuthorization,
  type ParseFailure,
  parseCalls,
  type RequestCalls,
  type WriteKeyLookup,
} from './calls.ts';
import { ChangeTally, type DiscardReason, type Envelope, type RefusalCode } from './envelope.ts';
import { parseCallsFast } from './fast-path/parser.ts';
import { readForwarded } from './forwarded.ts';

/**
 * The context and integrations of a batch are stored with each of its calls. Without a limit, half a megabyte
 * of context and two thousand calls would become a gigabyte of events.
 */
const MAX_REPEATED_BYTES = 16 * 1024 * 1024;

/** The outcome of parsing one request, before anything is stored. */
export type ParsedRequest =
  | {
      readonly kind: 'refused';
      readonly code: RefusalCode;
      /** A sentence for the client that says what exactly is wrong. */
      readonly detail?: string;
      /** The calls a strict source refused the batch for. */
      readonly invalid?: readonly { readonly index: number; readonly code: RefusalCode }[];
      /** Calls of a refused request count as received and discarded, where a source can be named. */
      readonly counts: readonly CallCounts[];
      /** Its calls were not read, and use up nothing of a rate limit. */
      readonly isUnread?: true;
      readonly discards: readonly Discard[];
    }
  | {
      readonly kind: 'received';
      readonly events: readonly AcceptedEvent[];
      /** Every call of the request that belongs to a source, those discarded too. */
      readonly counts: readonly CallCounts[];
      /** Discarded calls that belong to no source, by reason. */
      readonly unattributed: Readonly<Record<string, number>>;
      /** Changes of values, by the id of their source. */
      readonly changes: ReadonlyMap<number, ValueChanges>;
      readonly discards: readonly Discard[];
    };

/** A call that was not accepted, for the samples that operators read. */
export interface Discard {
  /** Undefined when no source can be named. */
  readonly source: Source | undefined;
  readonly reason: RefusalCode;
  /** Its place in the batch; 0 for a single call. */
  readonly index: number;
  /**
   * Gives the call as it came; valid only until the next request is parsed. Of a request whose calls were not
   * read, gives `refused` with the sentence that its client was told.
   */
  readonly call: () => Json;
}

const NO_COUNTS: readonly CallCounts[] = Object.freeze([]);
const NO_REASONS: Readonly<Record<string, number>> = Object.freeze({});
const NO_DISCARDS: readonly Discard[] = Object.freeze([]);
const NO_CHANGES: ReadonlyMap<number, ValueChanges> = new Map();

/**
 * Turns the bytes of one request into events to store and calls discarded with a reason. Pure but for
 * `newMessageId`.
 */
export function parseRequest(
  request: IngestRequest,
  keys: WriteKeyLookup,
  newMessageId: () => string,
): ParsedRequest {
  if (request.type === 'forwarded') return parseForwarded(request, keys, newMessageId);
  const fast = request.ignoresBodyKeys ? undefined : parseCallsFast(request, newMessageId);
  const calls = fast ?? parseCalls({ request, newMessageId });
  if ('code' in calls) return refuseUnparsed(calls, request.writeKey, keys);
  return request.type === 'batch'
    ? parseBatch(calls, request.writeKey, keys)
    : parseSingle(calls, request.writeKey, keys);
}

/** Reads calls that another service passes on: the key of the request alone decides. */
function parseForwarded(
  request: IngestRequest,
  keys: WriteKeyLookup,
  newMessageId: () => string,
): ParsedRequest {
  const { source, reason, refusal } = authorizeKey(request.writeKey, keys);
  // Refused before it is read: a list may be large.
  if (refusal !== undefined && reason !== undefined) {
    const counts = source === undefined ? NO_COUNTS : countOneCall(source.id, reason);
    return { kind: 'refused', code: refusal, counts, discards: NO_DISCARDS };
  }
  const calls = readForwarded({ request, newMessageId }, reason === undefined ? source : undefined);
  if ('code' in calls) return refuseUnparsed(calls, request.writeKey, keys);
  return calls.isList
    ? parseBatch(calls, request.writeKey, keys)
    : parseSingle(calls, request.writeKey, keys);
}

/** A notification that somebody was deleted elsewhere is no call, and nobody can mend it: it is counted. */
const isOnlyCounted = (reason: string) => reason === 'forwarded_delete';

function parseSingle(
  calls: RequestCalls,
  headerKey: string | undefined,
  keys: WriteKeyLookup,
): ParsedRequest {
  const { source, reason, refusal } = authorizeKey(calls.keyOf(0) ?? headerKey, keys);
  const accepted = reason ?? (source === undefined ? 'unknown_write_key' : calls.accept(0, source));
  const noted = calls.envelope.changes.take();
  if (typeof accepted !== 'string') {
    const counts = countOneCall(accepted.source);
    return {
      kind: 'received',
      events: [accepted],
      counts,
      unattributed: NO_REASONS,
      changes: noted === undefined ? NO_CHANGES : new Map([[accepted.source, noted]]),
      discards: NO_DISCARDS,
    };
  }
  const counts = source === undefined ? NO_COUNTS : countOneCall(source.id, accepted);
  const discards = [{ source, reason: accepted, index: 0, call: () => calls.valueOf(0) }];
  if (refusal !== undefined) return { kind: 'refused', code: refusal, counts, discards };
  if (reason === undefined && !isOnlyCounted(accepted))
    return { kind: 'refused', code: accepted, counts, discards };
  const unattributed = source === undefined ? { [accepted]: 1 } : NO_REASONS;
  return { kind: 'received', events: [], counts, unattributed, changes: NO_CHANGES, discards };
}

function parseBatch(calls: RequestCalls, headerKey: string | undefined, keys: WriteKeyLookup): ParsedRequest {
  const { envelope } = calls;
  if (repeatsTooMuch(envelope, calls.length)) {
    const detail = 'Its context and integrations are repeated in every call.';
    const failure = {
      code: 'batch_too_large',
      detail,
      writeKey: calls.sharedKey,
      calls: calls.length,
    } as const;
    return refuseUnparsed(failure, headerKey, keys);
  }
  const shared = authorizeKey(calls.sharedKey ?? headerKey, keys);
  const refusal = shared.reason === undefined ? undefined : refusalOf(calls, shared, keys);
  if (refusal !== undefined) {
    return {
      kind: 'refused',
      code: refusal,
      counts: countsOf(calls, shared),
      discards: firstDiscardOf(calls, shared),
    };
  }
  const counts = new RequestCounts();
  const events: AcceptedEvent[] = [];
  const discards: Discard[] = [];
  const changes = new RequestChanges(envelope.changes);
  let isRefused = false;
  for (let index = 0; index < calls.length; index++) {
    const key = calls.keyOf(index);
    const { source = shared.source, reason } = key === undefined ? shared : authorizeKey(key, keys);
    const accepted = reason ?? (source === undefined ? 'unknown_write_key' : calls.accept(index, source));
    if (typeof accepted !== 'string') {
      counts.add(accepted.source);
      events.push(accepted);
      changes.accept(accepted.source);
      continue;
    }
    changes.discard();
    counts.add(source?.id, accepted);
    discards.push({ source, reason: accepted, index, call: () => calls.valueOf(index) });
    // A call with a wrong key is not an invalid event, and does not refuse the batch of a strict source.
    if (reason === undefined && source?.mode === 'strict' && !isOnlyCounted(accepted)) isRefused = true;
  }
  if (isRefused) return refuseStrict(events, discards);
  const { bySource, unattributed } = counts;
  return { kind: 'received', events, counts: bySource, unattributed, changes: changes.bySource(), discards };
}

/**
 * Stores nothing of the batch and tells the client what is wrong with each invalid call. The valid calls were
 * received too, and count as discarded. spec/specification.md, "Strict sources".
 */
function refuseStrict(events: readonly AcceptedEvent[], discards: readonly Discard[]): ParsedRequest {
  const counts = new RequestCounts();
  for (const { source, reason } of discards) counts.add(source?.id, reason);
  for (const { source } of events) counts.add(source, 'batch_refused');
  const invalid = discards.map(({ index, reason }) => ({ index, code: reason }));
  return { kind: 'refused', code: 'invalid_calls', invalid, counts: counts.bySource, discards };
}

/**
 * The code with which a batch is refused as a whole for its keys. It is refused only when no call belongs to
 * an enabled source and the settings want at least one call refused: a browser with a wrong key is told, and
 * one stray call does not cost the others.
 */
function refusalOf(
  calls: RequestCalls,
  shared: KeyAuthorization,
  keys: WriteKeyLookup,
): RefusalCode | undefined {
  let refusal = calls.length === 0 ? shared.refusal : undefined;
  for (let index = 0; index < calls.length; index++) {
    const key = calls.keyOf(index);
    const authorization = key === undefined ? shared : authorizeKey(key, keys);
    if (authorization.reason === undefined) return undefined;
    refusal ??= authorization.refusal;
  }
  return refusal;
}

/** Counts a refused batch under its disabled source, the only source that can be named. */
function countsOf({ length }: RequestCalls, { source, reason }: KeyAuthorization): readonly CallCounts[] {
  if (source === undefined || reason === undefined || length === 0) return NO_COUNTS;
  return [{ source: source.id, calls: length, discarded: { [reason]: length } }];
}

/** Samples one call of a batch that is refused for its key: all calls would say the same. */
function firstDiscardOf(calls: RequestCalls, { source, reason }: KeyAuthorization): readonly Discard[] {
  if (reason === undefined || calls.length === 0) return NO_DISCARDS;
  return [{ source, reason, index: 0, call: () => calls.valueOf(0) }];
}

function repeatsTooMuch({ context, integrations }: Envelope, calls: number): boolean {
  if (calls < 2 || (context === undefined && integrations === undefined)) return false;
  try {
    const bytes = JSON.stringify([context, integrations]).length;
    return bytes * calls > MAX_REPEATED_BYTES;
  } catch {
    // The context is too deep to be written. Every call will be discarded for that.
    return false;
  }
}

/**
 * Refuses a request whose calls cannot be read. It counts under the source of its key, enabled or not: as
 * many calls as were counted, else as one.
 */
function refuseUnparsed(
  { code, detail, writeKey, calls = 1 }: ParseFailure,
  headerKey: string | undefined,
  keys: WriteKeyLookup,
): ParsedRequest {
  const key = writeKey ?? headerKey;
  const source = key === undefined ? undefined : keys.find(key);
  const told = detail === undefined ? {} : { detail };
  if (source === undefined) {
    return { kind: 'refused', code, counts: NO_COUNTS, discards: NO_DISCARDS, ...told };
  }
  return {
    kind: 'refused',
    code,
    isUnread: true,
    counts: [{ source: source.id, calls, discarded: { [code]: calls } }],
    discards:
      detail === undefined
        ? NO_DISCARDS
        : [{ source, reason: code, index: 0, call: () => ({ refused: detail }) }],
    ...told,
  };
}

const NONE_DISCARDED: CallCounts['discarded'] = Object.freeze({});

/** Counts one call without a `RequestCounts`: most requests hold one call, and most calls are accepted. */
function countOneCall(source: number, reason?: DiscardReason): readonly CallCounts[] {
  return [{ source, calls: 1, discarded: reason === undefined ? NONE_DISCARDED : { [reason]: 1 } }];
}

/** Counts the calls of one batch: every call once, and discards by reason too. */
class RequestCounts {
  readonly #sources: { source: number; calls: number; discarded: Record<string, number> }[] = [];
  readonly #unattributed: Record<string, number> = {};

  /** `source` is undefined where none can be named; such a call is always discarded. */
  add(source: number | undefined, reason?: RefusalCode): void {
    const discarded = source === undefined ? this.#unattributed : this.#call(source);
    if (reason !== undefined) discarded[reason] = (discarded[reason] ?? 0) + 1;
  }

  get bySource(): readonly CallCounts[] {
    return this.#sources;
  }

  get unattributed(): Readonly<Record<string, number>> {
    return this.#unattributed;
  }

  /** Searches a list instead of a map, because batches of more than one source are rare. */
  #call(source: number): Record<string, number> {
    let sums = this.#sources.find((entry) => entry.source === source);
    if (sums === undefined) {
      sums = { source, calls: 0, discarded: {} };
      this.#sources.push(sums);
    }
    sums.calls++;
    return sums.discarded;
  }
}

/**
 * Sums the changes of values in a batch by the sources of its calls. A discarded call has changed nothing.
 */
class RequestChanges {
  readonly #ofCall: ChangeTally;
  /** Changes in fields of the batch count for the source of the first call that is accepted. */
  readonly #ofBatch = new ChangeTally();
  readonly #sums = new Map<number, ChangeTally>();

  /** `ofCall` has those of the batch now, and later those of the call that was parsed last. */
  constructor(ofCall: ChangeTally) {
    this.#ofCall = ofCall;
    if (!ofCall.isEmpty) this.#ofBatch.moveFrom(ofCall);
  }

  accept(source: number): void {
    if (!this.#ofBatch.isEmpty) this.#sumOf(source).moveFrom(this.#ofBatch);
    if (!this.#ofCall.isEmpty) this.#sumOf(source).moveFrom(this.#ofCall);
  }

  discard(): void {
    this.#ofCall.take();
  }

  bySource(): ReadonlyMap<number, ValueChanges> {
    if (this.#sums.size === 0) return NO_CHANGES;
    return new Map([...this.#sums].map(([source, sum]) => [source, sum.take()!]));
  }

  #sumOf(source: number): ChangeTally {
    let sum = this.#sums.get(source);
    if (sum === undefined) {
      sum = new ChangeTally();
      this.#sums.set(source, sum);
    }
    return sum;
  }
}
