/** A difference between two values of a record, as the control API shows them. `undefined` means absent. */
export interface Difference {
  /** `settings.endpoints[0].url`; empty for the value as a whole. */
  readonly path: string;
  readonly before: unknown;
  readonly after: unknown;
}

/**
 * Lists differences down to single values. A list without mappings is one value: a moved entry is one change.
 */
export function differencesOf(before: unknown, after: unknown, path = ''): Difference[] {
  if (JSON.stringify(before) === JSON.stringify(after)) return [];
  const keys = [...new Set([...keysOf(before), ...keysOf(after)])];
  if (keys.length === 0) return [{ path, before, after }];
  return keys.flatMap((key) => {
    const isItem = Array.isArray(before ?? after);
    const below = isItem ? `${path}[${key}]` : path === '' ? key : `${path}.${key}`;
    return differencesOf(at(before, key), at(after, key), below);
  });
}

/** Recognises a masked secret, `{"set":true,"hint":"…"}`. It counts as one value. */
export function isMask(value: unknown): value is { readonly hint?: string } {
  return isRecord(value) && value['set'] === true;
}

function keysOf(value: unknown): string[] {
  if (isMask(value)) return [];
  if (Array.isArray(value))
    return value.some((item) => isRecord(item) && !isMask(item)) ? Object.keys(value) : [];
  return isRecord(value) ? Object.keys(value) : [];
}

function at(value: unknown, key: string): unknown {
  if (Array.isArray(value)) return value[Number(key)];
  return isRecord(value) && !isMask(value) ? value[key] : undefined;
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
