import { isObject, type Json, type JsonObject } from '../model/json.ts';

/** RFC 7396: keys of the patch replace, `null` removes, objects are merged, lists are replaced whole. */
export function mergePatch(target: JsonObject, patch: JsonObject): JsonObject {
  const merged = new Map(Object.entries(target));
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) merged.delete(key);
    else merged.set(key, isObject(value) ? mergePatch(asObject(merged.get(key)), value) : value);
  }
  return Object.fromEntries(merged);
}

function asObject(value: Json | undefined): JsonObject {
  return isObject(value) ? value : {};
}
