import type { Source } from '../model/source.ts';

/** The write keys valid now. */
export interface WriteKeys {
  /** The source the key belongs to, enabled or not. */
  find(writeKey: string): Source | undefined;
  /** What a request with an unknown key gets: 401, or 200 and counted. decisions.md section 1. */
  readonly unknown: 'refuse' | 'discard';
}

/** A key that two sources claim belongs to the first of them. */
export function writeKeys(sources: readonly Source[], unknown: WriteKeys['unknown']): WriteKeys {
  const byKey = new Map<string, Source>();
  for (const source of sources) {
    for (const key of source.writeKeys) if (!byKey.has(key)) byKey.set(key, source);
  }
  return { find: (writeKey) => byKey.get(writeKey), unknown };
}
