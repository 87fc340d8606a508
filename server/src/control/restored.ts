import type { Endpoint } from '../model/destination.ts';
import { isObject, type Json, type JsonObject } from '../model/json.ts';
import { restoredUrl, shownUrl } from '../model/shown-url.ts';
import type { DestinationRecord } from '../ports/settings.ts';

/** What stands for a secret that is to stay as it is. See `Mask`. */
function isMask(value: Json | undefined): boolean {
  return isObject(value) && value['set'] === true;
}

/** More than any destination may have: a longer list is refused as it is, and nothing is looked up for each of it. */
const MOST_ENDPOINTS = 20;

/**
 * A destination as somebody sends it, with the stored secrets where it holds what stands for them: what was read can be
 * sent back. Where nothing is stored the mask stays, and validation refuses it.
 */
export function restored(wanted: JsonObject, stored: DestinationRecord | undefined): JsonObject {
  const { settings } = wanted;
  if (stored === undefined || !isObject(settings)) return wanted;
  const { endpoints, sharedSecret, signingSecrets } = stored.settings;
  return {
    ...wanted,
    settings: {
      ...settings,
      ...whereThere(settings, 'sharedSecret', (value) => restoredSecret(value, sharedSecret)),
      ...whereThere(settings, 'signingSecrets', (list) =>
        Array.isArray(list)
          ? list.map((value: Json, nth) => restoredSecret(value, signingSecrets?.[nth]))
          : list,
      ),
      ...whereThere(settings, 'endpoints', (list) =>
        Array.isArray(list) && list.length <= MOST_ENDPOINTS
          ? list.map((endpoint: Json, place) => restoredEndpoint(endpoint, place, endpoints))
          : list,
      ),
    },
  };
}

function restoredSecret(value: Json, kept: string | undefined): Json {
  return isMask(value) && kept !== undefined ? kept : value;
}

function restoredEndpoint(wanted: Json, place: number, stored: readonly Endpoint[]): Json {
  if (!isObject(wanted)) return wanted;
  const { url } = wanted;
  const known = typeof url === 'string' ? storedAt(url, place, stored) : undefined;
  if (known === undefined) return wanted;
  const { headers } = wanted;
  return {
    ...wanted,
    url: restoredUrl(String(url), known.url),
    ...(isObject(headers) ? { headers: restoredHeaders(headers, known.headers) } : {}),
  };
}

/**
 * The stored endpoint with this URL, that of the same place first, as endpoints can change places; else the one of the same
 * place where the host is the same: nobody gets to know a secret by naming a host of their own.
 */
function storedAt(url: string, place: number, stored: readonly Endpoint[]): Endpoint | undefined {
  const samePlace = stored.slice(place, place + 1);
  const candidates = [...samePlace, ...stored];
  const found =
    candidates.find((one) => one.url === url) ??
    candidates.find((one) => shownUrl(one.url) === url) ??
    samePlace[0];
  return originOf(found?.url) === originOf(url) ? found : undefined;
}

function restoredHeaders(wanted: JsonObject, kept: Readonly<Record<string, string>>): JsonObject {
  const headers = Object.entries(wanted).map(([name, value]): [string, Json] => [
    name,
    restoredSecret(value, Object.hasOwn(kept, name) ? kept[name] : undefined),
  ]);
  return Object.fromEntries(headers);
}

function originOf(url: string | undefined): string | undefined {
  return url !== undefined && URL.canParse(url) ? new URL(url).origin : undefined;
}

function whereThere(object: JsonObject, key: string, change: (value: Json) => Json): JsonObject {
  const value = object[key];
  return value === undefined ? {} : { [key]: change(value) };
}
