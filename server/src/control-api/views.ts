import type { Endpoint } from '../model/destination.ts';
import { isObject, type Json, type JsonObject } from '../model/json.ts';
import {
  type MaskedSettings,
  maskSecret,
  maskUrl,
  replaceSecrets,
  type SecretMask,
  unmaskUrl,
} from '../model/secrets.ts';
import type { DestinationRecord, SourceRecord, TokenRecord } from '../model/settings.ts';
import { DAY, type Duration, HOUR, MINUTE, SECOND } from '../model/time.ts';

const UNITS: readonly [name: string, length: Duration][] = [
  ['d', DAY],
  ['h', HOUR],
  ['m', MINUTE],
  ['s', SECOND],
  ['ms', 1],
];

/** As the configuration file writes it, in the largest unit that says it exactly: `7d`, `90m`, `250ms`. */
export function formatDuration(duration: Duration): string {
  const [name, length] = UNITS.find(([, length]) => duration % length === 0) ?? ['ms', 1];
  return `${duration / length}${name}`;
}

/** A source as the configuration file has it. spec/contract.md, "Configuration file" and "Control API". */
export type SourceView = Omit<SourceRecord, 'dedupeWindow'> & { readonly dedupeWindow?: string };

/** A destination as the configuration file has it, with something in the place of its secrets. */
export type DestinationView<Secret = SecretMask> = Omit<
  DestinationRecord,
  'settings' | 'pauses' | 'paused'
> & {
  readonly paused?: true;
  readonly settings: MaskedSettings<Secret>;
};

export interface TokenView {
  readonly name: string;
  readonly role: TokenRecord['role'];
  readonly hint: string;
  readonly createdAt: string;
}

/** Keys in the order of the file, and nothing that a later version of the store may add. */
export function sourceView(source: SourceRecord): SourceView {
  const { name, writeKeys, enabled, mode, whenDisabled, dedupeWindow, rateLimit } = source;
  return {
    ...{ name, writeKeys, enabled, mode, whenDisabled },
    ...(dedupeWindow === undefined ? {} : { dedupeWindow: formatDuration(dedupeWindow) }),
    ...(rateLimit === undefined ? {} : { rateLimit }),
  };
}

export function destinationView(destination: DestinationRecord): DestinationView {
  return destinationViewWith(destination, maskSecret, maskUrl);
}

/** With its secrets, as a program checks it and nobody sees it. */
export function unmaskedDestination(destination: DestinationRecord): DestinationView<string> {
  const asItIs = (text: string) => text;
  return destinationViewWith(destination, asItIs, asItIs);
}

export function tokenView({ name, role, hint, createdAt }: TokenRecord): TokenView {
  return { name, role, hint, createdAt: new Date(createdAt).toISOString() };
}

function destinationViewWith<Secret>(
  { name, type, sources, enabled, paused, settings }: DestinationRecord,
  instead: (secret: string) => Secret,
  urlOf: (url: string) => string,
): DestinationView<Secret> {
  // Said only when it is so: a file that says nothing of it pauses nothing and resumes nothing.
  const held = paused === true ? { paused } : {};
  return { name, type, sources, enabled, ...held, settings: replaceSecrets(settings, instead, urlOf) };
}

/** What is shown is JSON: undefined nowhere, and no class. */
export function toJson(shown: SourceView | DestinationView | TokenView): JsonObject {
  return JSON.parse(JSON.stringify(shown)) as Json as JsonObject;
}

/** What stands for a secret that is to stay as it is. See `Mask`. */
function isMask(value: Json | undefined): boolean {
  return isObject(value) && value['set'] === true;
}

/** More than any destination may have: a longer list is refused as it is, and nothing is looked up for each of it. */
const MAX_ENDPOINTS = 20;

/**
 * A destination as somebody sends it, with the stored secrets where it holds what stands for them: what was read can be
 * sent back. Where nothing is stored the mask stays, and validation refuses it.
 */
export function unmaskSecrets(wanted: JsonObject, stored: DestinationRecord | undefined): JsonObject {
  const { settings } = wanted;
  if (stored === undefined || !isObject(settings)) return wanted;
  const { endpoints, sharedSecret, signingSecrets } = stored.settings;
  return {
    ...wanted,
    settings: {
      ...settings,
      ...mapKey(settings, 'sharedSecret', (value) => unmaskSecret(value, sharedSecret)),
      ...mapKey(settings, 'signingSecrets', (list) =>
        Array.isArray(list)
          ? list.map((value: Json, nth) => unmaskSecret(value, signingSecrets?.[nth]))
          : list,
      ),
      ...mapKey(settings, 'endpoints', (list) =>
        Array.isArray(list) && list.length <= MAX_ENDPOINTS
          ? list.map((endpoint: Json, place) => unmaskEndpoint(endpoint, place, endpoints))
          : list,
      ),
    },
  };
}

function unmaskSecret(value: Json, kept: string | undefined): Json {
  return isMask(value) && kept !== undefined ? kept : value;
}

function unmaskEndpoint(wanted: Json, place: number, stored: readonly Endpoint[]): Json {
  if (!isObject(wanted)) return wanted;
  const { url } = wanted;
  const known = typeof url === 'string' ? findStoredEndpoint(url, place, stored) : undefined;
  if (known === undefined) return wanted;
  const { headers } = wanted;
  return {
    ...wanted,
    url: unmaskUrl(String(url), known.url),
    ...(isObject(headers) ? { headers: unmaskHeaders(headers, known.headers) } : {}),
  };
}

/**
 * The stored endpoint with this URL, that of the same place first, as endpoints can change places; else the one of the same
 * place where the host is the same: nobody gets to know a secret by naming a host of their own.
 */
function findStoredEndpoint(url: string, place: number, stored: readonly Endpoint[]): Endpoint | undefined {
  const samePlace = stored.slice(place, place + 1);
  const candidates = [...samePlace, ...stored];
  const found =
    candidates.find((one) => one.url === url) ??
    candidates.find((one) => maskUrl(one.url) === url) ??
    samePlace[0];
  return originOf(found?.url) === originOf(url) ? found : undefined;
}

function unmaskHeaders(wanted: JsonObject, kept: Readonly<Record<string, string>>): JsonObject {
  const headers = Object.entries(wanted).map(([name, value]): [string, Json] => [
    name,
    unmaskSecret(value, Object.hasOwn(kept, name) ? kept[name] : undefined),
  ]);
  return Object.fromEntries(headers);
}

function originOf(url: string | undefined): string | undefined {
  return url !== undefined && URL.canParse(url) ? new URL(url).origin : undefined;
}

function mapKey(object: JsonObject, key: string, change: (value: Json) => Json): JsonObject {
  const value = object[key];
  return value === undefined ? {} : { [key]: change(value) };
}
