import type { AlertRecord, AlertWebhook } from '../model/alert.ts';
import { type DeliveryPolicy, policyOf } from '../model/delivery-policy.ts';
import type { Endpoint, WebhookSettings } from '../model/destination.ts';
import { isObject, type Json, type JsonObject } from '../model/json.ts';
import {
  type MaskedSettings,
  maskKey,
  maskSecret,
  maskUrl,
  replaceSecrets,
  type SecretMask,
  unmaskUrl,
} from '../model/secrets.ts';
import {
  type AddressRule,
  type AudienceRecord,
  addressRuleOf,
  type DestinationRecord,
  hasRole,
  type Role,
  type SourceRecord,
  type TokenRecord,
  type TraitRecord,
  type Trust,
  trustOf,
} from '../model/settings.ts';
import { DAY, type Duration, HOUR, isoTime, MINUTE, SECOND } from '../model/time.ts';

const UNITS: readonly [name: string, length: Duration][] = [
  ['d', DAY],
  ['h', HOUR],
  ['m', MINUTE],
  ['s', SECOND],
  ['ms', 1],
];

/** A duration as the configuration file writes it, in the largest unit that is exact: `7d`, `90m`, `250ms`. */
export function formatDuration(duration: Duration): string {
  const [name, length] = UNITS.find(([, length]) => duration % length === 0) ?? ['ms', 1];
  return `${duration / length}${name}`;
}

/** A source as the configuration file has it. spec/contract.md, "Configuration file" and "Control API". */
export type SourceView = Omit<SourceRecord, 'dedupeWindow' | 'ip' | 'trust'> & {
  readonly dedupeWindow?: string;
  readonly ip: AddressRule;
  readonly trust: Trust;
};

/** A destination as the configuration file has it, with a mask in the place of each secret. */
export type DestinationView<Secret = SecretMask> = Omit<
  DestinationRecord,
  'settings' | 'pauses' | 'paused' | 'signingKey' | keyof DeliveryPolicy
> & {
  readonly paused?: true;
  readonly settings: MaskedSettings<Secret> & DeliveryPolicy & Pick<Required<DeliveryPolicy>, 'success'>;
};

export interface TokenView {
  readonly name: string;
  readonly role: TokenRecord['role'];
  readonly hint: string;
  readonly createdAt: string;
  readonly expiresAt?: string;
  readonly sources?: readonly string[];
  readonly destinations?: readonly string[];
  readonly bodies?: false;
}

/** Lists the keys one by one, in the order of the file, so that a key added to the store does not show by itself. */
export function sourceView(source: SourceRecord): SourceView {
  const {
    name,
    writeKeys,
    enabled,
    mode,
    whenDisabled,
    dedupeWindow,
    rateLimit,
    rateLimitPerAddress,
    system,
  } = source;
  return {
    name,
    writeKeys,
    enabled,
    mode,
    whenDisabled,
    ...(dedupeWindow === undefined ? {} : { dedupeWindow: formatDuration(dedupeWindow) }),
    ...(rateLimit === undefined ? {} : { rateLimit }),
    ...(rateLimitPerAddress === undefined ? {} : { rateLimitPerAddress }),
    ip: addressRuleOf(source),
    trust: trustOf(source),
    ...(system === undefined ? {} : { system }),
  };
}

/**
 * A source as the owner of a token may see it. Whoever has a write key sends events as the source, and that is more than to read: a viewer
 * gets a mask in its place.
 */
export function sourceViewFor(role: Role | undefined, source: SourceRecord): SourceView {
  const view = sourceView(source);
  const maySee = role !== undefined && hasRole(role, 'editor');
  return maySee ? view : { ...view, writeKeys: view.writeKeys.map(maskKey) };
}

export function destinationView(destination: DestinationRecord): DestinationView {
  return destinationViewWith(destination, maskSecret, maskUrl);
}

/** A destination with its secrets, for checks only. It must never be shown. */
export function unmaskedDestination(destination: DestinationRecord): DestinationView<string> {
  const asItIs = (text: string) => text;
  return destinationViewWith(destination, asItIs, asItIs);
}

/** Without its last use, which is no part of the record. */
export function tokenView({
  name,
  role,
  hint,
  createdAt,
  expiresAt,
  limits,
  bodies,
}: TokenRecord): TokenView {
  return {
    name,
    role,
    hint,
    createdAt: isoTime(createdAt),
    ...(expiresAt === undefined ? {} : { expiresAt: isoTime(expiresAt) }),
    ...limits,
    ...(bodies === undefined ? {} : { bodies }),
  };
}

function destinationViewWith<Secret>(
  { name, type, sources, enabled, paused, settings, ...rest }: DestinationRecord,
  instead: (secret: string) => Secret,
  urlOf: (url: string) => string,
): DestinationView<Secret> {
  // Present only while paused: a file without the key neither pauses nor resumes.
  const held = paused === true ? { paused } : {};
  const policy = { success: 'any' as const, ...policyOf(rest) };
  const shown = { ...replaceSecrets(settings, instead, urlOf), ...policy };
  return { name, type, sources, enabled, ...held, settings: shown };
}

/** An audience or computed trait as the configuration file has it. */
export interface ComputationView {
  readonly name: string;
  /** The text form. */
  readonly definition: string;
  readonly destinations: readonly string[];
  /** Of audiences. */
  readonly includeAnonymous?: boolean;
  readonly enabled: boolean;
}

export function computationView(record: AudienceRecord | TraitRecord): ComputationView {
  const { name, text: definition, destinations, enabled } = record;
  const anonymous = record.kind === 'audience' ? { includeAnonymous: record.includeAnonymous } : {};
  return { name, definition, destinations, ...anonymous, enabled };
}

/** An alert as the configuration file has it, with a mask in the place of each secret. */
export interface AlertView<Secret = SecretMask> {
  readonly name: string;
  readonly type: AlertRecord['type'];
  readonly enabled: boolean;
  readonly on: AlertRecord['on'];
  readonly destinations?: readonly string[];
  readonly after: string;
  readonly remindEvery: string;
  readonly settings: AlertWebhookView<Secret> | AlertMailboxView<Secret>;
}

interface AlertWebhookView<Secret> {
  readonly url: string;
  readonly headers: Readonly<Record<string, string | Secret>>;
  readonly signingSecrets?: readonly Secret[];
}

interface AlertMailboxView<Secret> {
  readonly server: string;
  readonly user?: string;
  readonly password?: Secret;
  readonly from: string;
  readonly to: readonly string[];
}

export function alertView(alert: AlertRecord): AlertView {
  return alertViewWith(alert, maskSecret, maskUrl);
}

/** An alert with its secrets, for checks only. It must never be shown. */
export function unmaskedAlert(alert: AlertRecord): AlertView<string> {
  const asItIs = (text: string) => text;
  return alertViewWith(alert, asItIs, asItIs);
}

function alertViewWith<Secret>(
  alert: AlertRecord,
  instead: (secret: string) => Secret,
  urlOf: (url: string) => string,
): AlertView<Secret> {
  const { name, type, enabled, on, destinations, after, remindEvery } = alert;
  const settings =
    alert.type === 'webhook'
      ? webhookView(alert.settings, instead, urlOf)
      : {
          ...alert.settings,
          ...(alert.settings.password === undefined ? {} : { password: instead(alert.settings.password) }),
        };
  return {
    name,
    type,
    enabled,
    on,
    ...(destinations === undefined ? {} : { destinations }),
    after: formatDuration(after),
    remindEvery: formatDuration(remindEvery),
    settings: settings as AlertView<Secret>['settings'],
  };
}

/** The same secrets are masked as in a destination with this endpoint. */
function webhookView<Secret>(
  { signingSecrets, ...endpoint }: AlertWebhook,
  instead: (secret: string) => Secret,
  urlOf: (url: string) => string,
): AlertWebhookView<Secret> {
  const { endpoints, signingSecrets: masked } = replaceSecrets(
    destinationSettings({ ...endpoint, ...(signingSecrets === undefined ? {} : { signingSecrets }) }),
    instead,
    urlOf,
  );
  return { ...endpoints[0]!, ...(masked === undefined ? {} : { signingSecrets: masked }) };
}

function destinationSettings({ url, headers, signingSecrets }: AlertWebhook): WebhookSettings {
  const secrets = signingSecrets === undefined ? {} : { signingSecrets };
  return { endpoints: [{ url, headers }], ...secrets, format: 'documented' };
}

/** An alert from a request, with stored secrets in the place of their masks, as `unmaskSecrets` does it for destinations. */
export function unmaskAlert(wanted: JsonObject, stored: AlertRecord | undefined): JsonObject {
  const { settings } = wanted;
  if (stored === undefined || !isObject(settings) || wanted['type'] !== stored.type) return wanted;
  if (stored.type === 'email') {
    const { server, user, password } = stored.settings;
    // A foreign server must never be sent a stored password.
    if (settings['server'] !== server || settings['user'] !== user) return wanted;
    return {
      ...wanted,
      settings: { ...settings, ...mapKey(settings, 'password', (value) => unmaskSecret(value, password)) },
    };
  }
  const { url, headers, ...rest } = settings;
  const endpoint = {
    ...(url === undefined ? {} : { url }),
    ...(headers === undefined ? {} : { headers }),
  };
  const known = destinationSettings(stored.settings);
  const { endpoints, ...others } = unmaskSettings({ ...rest, endpoints: [endpoint] }, known);
  return { ...wanted, settings: { ...others, ...((endpoints as Json[])[0] as JsonObject) } };
}

/** A view as plain JSON, without undefined values. */
export function toJson(
  shown: SourceView | DestinationView | TokenView | ComputationView | AlertView,
): JsonObject {
  return JSON.parse(JSON.stringify(shown)) as Json as JsonObject;
}

/** Whether a value is the mask of a secret, which leaves the stored secret as it is. See `SecretMask`. */
function isMask(value: Json | undefined): boolean {
  return isObject(value) && value['set'] === true;
}

/** More endpoints than any destination may have. A longer list is left alone, and validation refuses it. */
const MAX_ENDPOINTS = 20;

/**
 * A destination from a request, with stored secrets in the place of their masks, so that an answer can be sent back. A mask
 * without a stored secret stays, and validation refuses it.
 */
export function unmaskSecrets(wanted: JsonObject, stored: DestinationRecord | undefined): JsonObject {
  const { settings } = wanted;
  if (stored === undefined || !isObject(settings)) return wanted;
  return { ...wanted, settings: unmaskSettings(settings, stored.settings) };
}

function unmaskSettings(settings: JsonObject, stored: WebhookSettings): JsonObject {
  const { endpoints, sharedSecret, nextSharedSecret, signingSecrets } = stored;
  return {
    ...settings,
    ...mapKey(settings, 'sharedSecret', (value) => unmaskSecret(value, sharedSecret)),
    ...mapKey(settings, 'nextSharedSecret', (value) => unmaskSecret(value, nextSharedSecret)),
    ...mapKey(settings, 'signingSecrets', (list) =>
      Array.isArray(list)
        ? list.map((value: Json, nth) => unmaskSigningSecret(value, nth, signingSecrets ?? []))
        : list,
    ),
    ...mapKey(settings, 'endpoints', (list) =>
      Array.isArray(list) && list.length <= MAX_ENDPOINTS
        ? list.map((endpoint: Json, place) => unmaskEndpoint(endpoint, place, endpoints))
        : list,
    ),
  };
}

function unmaskSecret(value: Json, kept: string | undefined): Json {
  return isMask(value) && kept !== undefined ? kept : value;
}

/**
 * The signing secret that a mask stands for. Secrets change places while one replaces another, so one with the hint of the mask
 * comes first, the one in the same place among several. A mask without a hint stands for the secret in its place.
 */
function unmaskSigningSecret(value: Json, place: number, stored: readonly string[]): Json {
  if (!isObject(value) || value['hint'] === undefined) return unmaskSecret(value, stored[place]);
  const candidates = [...stored.slice(place, place + 1), ...stored];
  return unmaskSecret(
    value,
    candidates.find((one) => maskSecret(one).hint === value['hint']),
  );
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
 * The stored endpoint that a URL in a request stands for. Endpoints can change places, so one with the same URL comes first, then
 * the one in the same place. Host and path must be equal: a stored secret must never be sent to a foreign host, and behind another path
 * of a shared host somebody else may listen.
 */
function findStoredEndpoint(url: string, place: number, stored: readonly Endpoint[]): Endpoint | undefined {
  const candidates = [...stored.slice(place, place + 1), ...stored];
  return (
    candidates.find((one) => one.url === url) ??
    candidates.find((one) => maskUrl(one.url) === url) ??
    candidates.find((one) => targetOf(unmaskUrl(url, one.url)) === targetOf(one.url))
  );
}

function unmaskHeaders(wanted: JsonObject, kept: Readonly<Record<string, string>>): JsonObject {
  const headers = Object.entries(wanted).map(([name, value]): [string, Json] => [
    name,
    unmaskSecret(value, Object.hasOwn(kept, name) ? kept[name] : undefined),
  ]);
  return Object.fromEntries(headers);
}

/** Host and path of a URL; itself where it is none, which validation refuses. */
function targetOf(url: string): string {
  const parsed = URL.parse(url);
  return parsed === null ? url : `${parsed.origin}${parsed.pathname}`;
}

function mapKey(object: JsonObject, key: string, change: (value: Json) => Json): JsonObject {
  const value = object[key];
  return value === undefined ? {} : { [key]: change(value) };
}
