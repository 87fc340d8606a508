import { isObject, type Json } from '../model/json.ts';
import type { Source } from '../model/settings.ts';
import type { DiscardReason, RefusalCode } from './normalize.ts';

/** The source of a write key, and whether calls with the key are accepted. */
export interface KeyAuthorization {
  /** Undefined when no source has the key. */
  readonly source: Source | undefined;
  /** Why calls with this key are not accepted; undefined when they are. */
  readonly reason: DiscardReason | undefined;
  /** The code that the client gets; undefined when the settings want such calls discarded silently. */
  readonly refusal: RefusalCode | undefined;
}

const NO_KEY: KeyAuthorization = {
  source: undefined,
  reason: 'unknown_write_key',
  refusal: 'missing_write_key',
};

export function authorizeKey(key: string | undefined, keys: WriteKeyLookup): KeyAuthorization {
  if (key === undefined) return NO_KEY;
  const source = keys.find(key);
  if (source === undefined) {
    const refusal = keys.unknown === 'refuse' ? 'invalid_write_key' : undefined;
    return { source, reason: 'unknown_write_key', refusal };
  }
  if (source.enabled) return { source, reason: undefined, refusal: undefined };
  const refusal = source.whenDisabled === 'refuse' ? 'invalid_write_key' : undefined;
  return { source, reason: 'source_disabled', refusal };
}

/**
 * The write key that a call or a batch carries itself. `null` and an empty text are no key. Anything else that is no text is a
 * key that no source has.
 */
export function writeKeyOf(body: Json): string | undefined {
  if (!isObject(body)) return undefined;
  const { writeKey } = body;
  if (writeKey === undefined || writeKey === null || writeKey === '') return undefined;
  return typeof writeKey === 'string' ? writeKey : '';
}

/** Finds the sources of write keys. */
export interface WriteKeyLookup {
  /** The source the key belongs to, enabled or not. */
  find(writeKey: string): Source | undefined;
  /** Answers a request with an unknown key with 401, or with 200 and counts it. spec/specification.md, "Write key". */
  readonly unknown: 'refuse' | 'discard';
}

/** When two sources have the same key, the first one gets its calls. */
export function indexWriteKeys(
  sources: readonly Source[],
  unknown: WriteKeyLookup['unknown'],
): WriteKeyLookup {
  const byKey = new Map<string, Source>();
  for (const source of sources) {
    for (const key of source.writeKeys) if (!byKey.has(key)) byKey.set(key, source);
  }
  return { find: (writeKey) => byKey.get(writeKey), unknown };
}
