import { isObject, type Json, type JsonObject } from '../model/json.ts';
import type { DestinationRecord } from '../ports/settings.ts';

/** What stands for a secret that is to stay as it is. See `Mask`. */
function isMask(value: Json | undefined): boolean {
  return isObject(value) && value['set'] === true;
}

/**
 * A destination as somebody sends it, with the stored secrets where it holds what stands for them: what was read can be
 * sent back. A header is looked for at the endpoint with the same URL, so that endpoints can change places, then at the
 * same place, where the host is the same: nobody gets to know a secret by naming a host of their own. Where nothing is
 * stored the mask stays, and validation refuses it.
 */
export function restored(wanted: JsonObject, stored: DestinationRecord | undefined): JsonObject {
  const { settings } = wanted;
  if (stored === undefined || !isObject(settings)) return wanted;
  const { endpoints, sharedSecret, signingSecrets } = stored.settings;
  const secret = (value: Json, kept: string | undefined): Json =>
    isMask(value) && kept !== undefined ? kept : value;
  const headersAt = ({ url: wanted }: JsonObject, place: number) =>
    [...endpoints.filter(({ url }) => url === wanted), ...endpoints.slice(place, place + 1)].find(
      ({ url }) => originOf(url) === originOf(wanted),
    )?.headers ?? {};
  return {
    ...wanted,
    settings: {
      ...settings,
      ...whereThere(settings, 'sharedSecret', (value) => secret(value, sharedSecret)),
      ...whereThere(settings, 'signingSecrets', (list) =>
        Array.isArray(list) ? list.map((value: Json, nth) => secret(value, signingSecrets?.[nth])) : list,
      ),
      ...whereThere(settings, 'endpoints', (list) =>
        Array.isArray(list)
          ? list.map((endpoint: Json, place) => {
              if (!isObject(endpoint) || !isObject(endpoint['headers'])) return endpoint;
              const kept = headersAt(endpoint, place);
              const headers = Object.entries(endpoint['headers']).map(([name, value]) => [
                name,
                secret(value, Object.hasOwn(kept, name) ? kept[name] : undefined),
              ]);
              return { ...endpoint, headers: Object.fromEntries(headers) };
            })
          : list,
      ),
    },
  };
}

function originOf(url: Json | undefined): string | undefined {
  return typeof url === 'string' && URL.canParse(url) ? new URL(url).origin : undefined;
}

function whereThere(object: JsonObject, key: string, change: (value: Json) => Json): JsonObject {
  const value = object[key];
  return value === undefined ? {} : { [key]: change(value) };
}
