import { liftPolicy, withPolicyInSettings } from '../../model/delivery-policy.ts';
import { type HiddenTree, hiddenTree, treeBelow } from '../../model/hidden-values.ts';
import { isObject, type Json, type JsonObject } from '../../model/json.ts';
import { maskUrl } from '../../model/secrets.ts';
import { StorageError } from '../../ports/event-log.ts';
import { isSealed, type SealedText, type SecretSeal } from './secret-seal.ts';

/** Path of a secret, with its record: the secret is encrypted for this place and opens at no other. */
type SecretPath = readonly (string | number)[];

/**
 * The document of a record to be stored, with its secrets encrypted by the key of this name; as it is without
 * a name. Secrets are shared and signing secrets, private keys, values of headers, passwords, and URLs in
 * which a part may be a credential.
 */
export function sealRecord(
  seal: SecretSeal,
  key: string | undefined,
  { kind, name, record }: { readonly kind: string; readonly name: string; readonly record: object },
): string {
  const written = kind === 'destination' ? withPolicyInSettings(record as WrittenDestination) : record;
  if (key === undefined) return JSON.stringify(written);
  const document = mapSecrets({ kind, seal }, written as JsonObject, (value, path) =>
    typeof value === 'string' ? seal.seal(key, value, placeOf(kind, name, path)) : value,
  );
  return JSON.stringify(document);
}

/**
 * The record of a stored document, with its secrets. Throws a `StorageError` where one of them cannot be
 * read.
 */
export function openRecord(
  seal: SecretSeal,
  { kind, name, document }: { readonly kind: string; readonly name: string; readonly document: string },
  // biome-ignore lint/suspicious/noExplicitAny: what is stored is what was given to be stored
): any {
  const opened = mapSecrets({ kind, seal }, JSON.parse(document), (value, path) =>
    isSealed(value) ? openSecret(seal, value, { kind, name, path }) : value,
  );
  return kind === 'destination' ? liftPolicy(opened as unknown as WrittenDestination) : opened;
}

/**
 * Documents have the policy of a destination among its settings, as versions before there was a second type
 * of destination stored it.
 */
interface WrittenDestination {
  readonly settings: object;
}

/**
 * Opens records, those with encrypted secrets once as long as they are stored the same: to decrypt all of a
 * thousand destinations takes longer than calls may wait.
 */
export class RecordOpener {
  readonly #seal: SecretSeal;
  readonly #opened = new Map<string, { readonly document: string; readonly record: unknown }>();

  constructor(seal: SecretSeal) {
    this.#seal = seal;
  }

  // biome-ignore lint/suspicious/noExplicitAny: as `openRecord`
  open(row: { readonly kind: string; readonly name: string; readonly document: string }): any {
    if (this.#seal.isEmpty) return openRecord(this.#seal, row);
    const key = JSON.stringify([row.kind, row.name]);
    const known = this.#opened.get(key);
    if (known?.document === row.document) return known.record;
    const record = openRecord(this.#seal, row);
    this.#opened.set(key, { document: row.document, record });
    return record;
  }
}

/**
 * Whether every secret of a stored document is as the current key leaves it: encrypted with it, or without a
 * key as it is.
 */
export function isSealedBy(
  seal: SecretSeal,
  { kind, document }: { readonly kind: string; readonly document: string },
): boolean {
  const key = seal.current;
  let isSo = true;
  mapSecrets({ kind, seal }, JSON.parse(document), (value) => {
    isSo &&= isSealed(value) ? value.sealed.startsWith(`${key}.`) : key === undefined;
    return value;
  });
  return isSo;
}

interface SecretOf {
  readonly kind: string;
  readonly name: string;
  readonly path: SecretPath;
}

function openSecret(seal: SecretSeal, value: SealedText, { kind, name, path }: SecretOf): string {
  const opened = seal.open(value, placeOf(kind, name, path));
  if (typeof opened === 'string') return opened;
  if (opened.fault === 'unknown_key') throw new StorageError(unknownKey(opened.key, seal));
  throw new StorageError(
    `a secret of ${kind} ${JSON.stringify(name)} (${path.join('.')}) is not what was encrypted there: it was changed or moved ` +
      'in the store; restore a backup, with millrace restore or the tools of the database',
  );
}

/** The message for a process that was not given the key. */
export function unknownKey(needed: string, seal: SecretSeal): string {
  const given =
    seal.current === undefined ? 'and secrets.key is not set' : `and secrets.key is ${seal.current}`;
  return (
    `secrets are encrypted with the key ${needed}, ${given}: set secrets.key to that key, or list it under secrets.previousKeys ` +
    'beside a new one; nothing was changed'
  );
}

function placeOf(kind: string, name: string, path: SecretPath): string {
  return JSON.stringify([kind, name, ...path]);
}

/** The parts of a record that may have secrets, by its kind. */
const SEALED_PARTS: Readonly<Record<string, readonly string[]>> = {
  source: ['forwarded'],
  destination: ['settings', 'signingKey'],
  alert: ['settings', 'signingKey'],
};

type Replacement = (value: unknown, path: SecretPath) => unknown;

/** Replaces what may be secret in the settings of a record; kinds without secrets come back as they are. */
function mapSecrets(
  { kind, seal }: { readonly kind: string; readonly seal: SecretSeal },
  document: JsonObject,
  instead: Replacement,
): JsonObject {
  const parts = SEALED_PARTS[kind];
  if (parts === undefined) return document;
  const places = kind === 'destination' ? seal.placesOf(String(document['type'])) : undefined;
  const sealed = parts.flatMap((part) => {
    const value = document[part];
    if (!isObject(value)) return [];
    const mapped = mapSettings(value, instead, [part]);
    return [
      [part, places === undefined ? mapped : mapPlaces(mapped, hiddenTree(places), instead, [part])] as const,
    ];
  });
  return { ...document, ...Object.fromEntries(sealed) };
}

/**
 * The same where the type of a destination says that its secrets are. What was replaced before stays as it
 * is.
 */
function mapPlaces(value: unknown, tree: HiddenTree, instead: Replacement, path: SecretPath): Json {
  const { kind } = tree;
  if (kind === 'secret' || kind === 'credential') return instead(value, path) as Json;
  if (kind === 'address') return (hasCredential(value) ? instead(value, path) : value) as Json;
  const entry = treeBelow(tree);
  if (Array.isArray(value) && entry !== undefined)
    return value.map((one, nth) => mapPlaces(one, entry, instead, [...path, nth]));
  if (!isObject(value)) return value as Json;
  return Object.fromEntries(
    Object.entries(value).map(([key, one]) => {
      const inner = kind === 'header' ? EVERY_SECRET : treeBelow(tree, key);
      return [key, inner === undefined ? one : mapPlaces(one, inner, instead, [...path, key])];
    }),
  );
}

/** Every header may be a secret: what a name says is for people, and not for whoever finds a disk. */
const EVERY_SECRET: HiddenTree = { kind: 'secret', keys: new Map() };

const SECRETS = ['sharedSecret', 'nextSharedSecret', 'password', 'privateKey'];

/** Settings of a destination or an alert, or one endpoint: they keep the order of their fields. */
function mapSettings(
  settings: JsonObject,
  instead: (value: unknown, path: SecretPath) => unknown,
  path: SecretPath,
): JsonObject {
  const entries = Object.entries(settings).map(([field, value]) => {
    const at = [...path, field];
    if (SECRETS.includes(field)) return [field, instead(value, at)];
    if (field === 'url' && hasCredential(value)) return [field, instead(value, at)];
    if (field === 'signingSecrets' && Array.isArray(value))
      return [field, value.map((one, nth) => instead(one, [...at, nth]))];
    if (field === 'headers' && isObject(value))
      return [
        field,
        Object.fromEntries(Object.entries(value).map(([name, of]) => [name, instead(of, [...at, name])])),
      ];
    if (field === 'endpoints' && Array.isArray(value))
      return [
        field,
        value.map((one, nth) => (isObject(one) ? mapSettings(one, instead, [...at, nth]) : one)),
      ];
    return [field, value];
  });
  return Object.fromEntries(entries);
}

/** Whether a URL, encrypted or not, has a part that is never shown. */
function hasCredential(url: unknown): boolean {
  return typeof url === 'string' ? maskUrl(url) !== url : isSealed(url);
}
