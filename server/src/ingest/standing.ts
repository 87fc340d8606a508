import { isObject, type Json } from '../model/json.ts';
import type { Source } from '../model/source.ts';
import type { DiscardReason, RefusalCode } from './reasons.ts';
import type { WriteKeys } from './write-keys.ts';

/** What a write key entitles to. */
export interface Standing {
  /** Undefined when no source has the key. */
  readonly source: Source | undefined;
  /** Why calls with this key are not accepted; undefined when they are. */
  readonly reason: DiscardReason | undefined;
  /** What the client is told; undefined when the settings want such calls discarded silently. */
  readonly refusal: RefusalCode | undefined;
}

const NO_KEY: Standing = {
  source: undefined,
  reason: 'unknown_write_key',
  refusal: 'missing_write_key',
};

export function standingOf(key: string | undefined, keys: WriteKeys): Standing {
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
 * The write key a call or a batch carries itself. `null` and an empty text are none; anything but a text is one that no
 * source has.
 */
export function ownKey(body: Json): string | undefined {
  if (!isObject(body)) return undefined;
  const { writeKey } = body;
  if (writeKey === undefined || writeKey === null || writeKey === '') return undefined;
  return typeof writeKey === 'string' ? writeKey : '';
}
