/** A value as `JSON.parse` makes it. */
export type Json = null | boolean | number | string | readonly Json[] | JsonObject;

export interface JsonObject {
  readonly [key: string]: Json;
}

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The object without its fields that are undefined. */
export function defined<Fields extends object>(
  fields: Fields,
): { readonly [Name in keyof Fields]?: Exclude<Fields[Name], undefined> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as {
    readonly [Name in keyof Fields]?: Exclude<Fields[Name], undefined>;
  };
}

/** Reads own properties only: a name may be `constructor`, which every object inherits. */
export function ownValue(object: JsonObject, key: string): Json | undefined {
  return Object.hasOwn(object, key) ? object[key] : undefined;
}

/** Bytes of JSON that are looked for in text and in UTF-8 alike. */
export const LINE_FEED = 0x0a;
export const QUOTE = 0x22;
export const BACKSLASH = 0x5c;
