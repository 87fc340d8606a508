import type { AlertRecord } from '../model/alert.ts';
import { type DeliveryPolicy, policyOf } from '../model/delivery-policy.ts';
import { type HiddenChange, type HiddenPlaces, mapHidden } from '../model/hidden-values.ts';
import { defined, isObject, type Json, type JsonObject } from '../model/json.ts';
import { maskKey, maskSecret, maskUrl, type SecretMask } from '../model/secrets.ts';
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
import type { DestinationTypes } from '../ports/destination-type.ts';
import { unmaskSecret, unmaskSettings } from './unmask.ts';

const UNITS: readonly [name: string, length: Duration][] = [
  ['d', DAY],
  ['h', HOUR],
  ['m', MINUTE],
  ['s', SECOND],
  ['ms', 1],
];

/**
 * A duration as the configuration file writes it, in the largest unit that is exact: `7d`, `90m`, `250ms`.
 */
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
export type DestinationView = Omit<
  DestinationRecord,
  'settings' | 'pauses' | 'paused' | 'signingKey' | keyof DeliveryPolicy
> & {
  readonly paused?: true;
  /** The settings of its type, and its policy. */
  readonly settings: JsonObject;
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

/**
 * Lists the keys one by one, in the order of the file, so that a key added to the store does not show by
 * itself.
 */
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
    shadow,
    projectId,
    consent,
    scriptPath,
    forwarded,
    system,
  } = source;
  return {
    name,
    writeKeys,
    enabled,
    mode,
    whenDisabled,
    ...defined({
      dedupeWindow: dedupeWindow === undefined ? undefined : formatDuration(dedupeWindow),
      rateLimit,
      rateLimitPerAddress,
    }),
    ip: addressRuleOf(source),
    trust: trustOf(source),
    ...defined({ consent, shadow, scriptPath, forwarded, projectId, system }),
  };
}

/**
 * A source as the owner of a token may see it. Whoever has a write key sends events as the source, and that
 * is more than to read: a viewer gets a mask in its place.
 */
export function sourceViewFor(role: Role | undefined, source: SourceRecord): SourceView {
  const view = sourceView(source);
  const maySee = role !== undefined && hasRole(role, 'editor');
  if (maySee) return view;
  const secret = view.forwarded?.sharedSecret;
  const masked = secret === undefined ? {} : { forwarded: { sharedSecret: maskKey(secret) } };
  return { ...view, writeKeys: view.writeKeys.map(maskKey), ...masked };
}

export function destinationView(destination: DestinationRecord, types: DestinationTypes): DestinationView {
  return destinationViewWith(destination, types, masked);
}

/** A destination with its secrets, for checks only. It must never be shown. */
export function unmaskedDestination(
  destination: DestinationRecord,
  types: DestinationTypes,
): DestinationView {
  return destinationViewWith(destination, types, (text) => text);
}

/** The text that is shown in the place of a hidden value. */
const masked: HiddenChange = (text, { kind }) => (kind === 'address' ? maskUrl(text) : maskSecret(text));

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
    ...defined({ expiresAt: isoTime(expiresAt) }),
    ...limits,
    ...defined({ bodies }),
  };
}

function destinationViewWith(
  { name, type, sources, enabled, paused, settings, ...rest }: DestinationRecord,
  types: DestinationTypes,
  change: HiddenChange,
): DestinationView {
  // Present only while paused: a file without the key neither pauses nor resumes.
  const held = paused === true ? { paused } : {};
  const policy = { success: 'any' as const, ...policyOf(rest) };
  const shown = mapHidden(settings, hiddenPlacesOf(type, types), change);
  return {
    name,
    type,
    sources,
    enabled,
    ...held,
    settings: { ...shown, ...policy } as unknown as JsonObject,
  };
}

/**
 * Of a type that this program does not know nothing can be told apart, so nothing is taken for a secret that
 * is none.
 */
function hiddenPlacesOf(type: string, types: DestinationTypes): HiddenPlaces {
  return types.get(type)?.settings.hidden ?? { addresses: [], secrets: [] };
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
export interface AlertView {
  readonly name: string;
  readonly type: AlertRecord['type'];
  readonly enabled: boolean;
  readonly on: AlertRecord['on'];
  readonly destinations?: readonly string[];
  readonly after: string;
  readonly remindEvery: string;
  readonly settings: AlertSettingsView;
}

type AlertSettingsView =
  | {
      readonly url: string;
      readonly headers: Readonly<Record<string, string | SecretMask>>;
      readonly signingSecrets?: readonly SecretMask[];
    }
  | {
      readonly server: string;
      readonly user?: string;
      readonly password?: SecretMask;
      readonly from: string;
      readonly to: readonly string[];
    };

const HIDDEN_IN_ALERTS: Readonly<Record<AlertRecord['type'], HiddenPlaces>> = {
  webhook: { addresses: ['url'], secrets: ['signingSecrets[]'], headers: ['headers'] },
  email: { addresses: [], secrets: ['password'] },
};

export function alertView(alert: AlertRecord): AlertView {
  return alertViewWith(alert, masked);
}

/** An alert with its secrets, for checks only. It must never be shown. */
export function unmaskedAlert(alert: AlertRecord): object {
  return alertViewWith(alert, (text) => text);
}

function alertViewWith(alert: AlertRecord, change: HiddenChange): AlertView {
  const { name, type, enabled, on, destinations, after, remindEvery, settings } = alert;
  return {
    name,
    type,
    enabled,
    on,
    ...defined({ destinations }),
    after: formatDuration(after),
    remindEvery: formatDuration(remindEvery),
    settings: mapHidden(settings, HIDDEN_IN_ALERTS[type], change) as unknown as AlertSettingsView,
  };
}

/**
 * An alert from a request, with stored secrets in the place of their masks, as `unmaskSecrets` does it for
 * destinations.
 */
export function unmaskAlert(wanted: JsonObject, stored: AlertRecord | undefined): JsonObject {
  const { settings } = wanted;
  if (stored === undefined || !isObject(settings) || wanted['type'] !== stored.type) return wanted;
  if (stored.type === 'email') {
    const { server, user, password } = stored.settings;
    // A foreign server must never be sent a stored password.
    if (settings['server'] !== server || settings['user'] !== user || settings['password'] === undefined)
      return wanted;
    return { ...wanted, settings: { ...settings, password: unmaskSecret(settings['password'], password) } };
  }
  return { ...wanted, settings: unmaskSettings(settings, stored.settings, HIDDEN_IN_ALERTS.webhook) };
}

/** A view as plain JSON, without undefined values. */
export function toJson(
  shown: SourceView | DestinationView | TokenView | ComputationView | AlertView,
): JsonObject {
  return JSON.parse(JSON.stringify(shown)) as Json as JsonObject;
}

/**
 * A destination from a request, with stored secrets in the place of their masks, so that an answer can be
 * sent back. A mask without a stored secret stays, and validation refuses it.
 */
export function unmaskSecrets(
  wanted: JsonObject,
  stored: DestinationRecord | undefined,
  types: DestinationTypes,
): JsonObject {
  const { settings } = wanted;
  if (stored === undefined || !isObject(settings)) return wanted;
  // Settings of another type have nothing in common with these but names.
  if (wanted['type'] !== stored.type && types.has(String(wanted['type']))) return wanted;
  return {
    ...wanted,
    settings: unmaskSettings(settings, stored.settings, hiddenPlacesOf(stored.type, types)),
  };
}
