import { type HiddenPlaces, type HiddenTree, hiddenTree, treeBelow } from '../model/hidden-values.ts';
import { isObject, type Json, type JsonObject, ownValue } from '../model/json.ts';
import { maskSecret, maskUrl, unmaskUrl } from '../model/secrets.ts';

/** More entries than a list of a record may have. A longer list is left alone, and validation refuses it. */
const MAX_ENTRIES = 20;

/**
 * Settings from a request, with stored secrets in the place of their masks, so that an answer can be sent
 * back. A mask without a stored secret stays, and validation refuses it.
 */
export function unmaskSettings(wanted: JsonObject, stored: object, places: HiddenPlaces): JsonObject {
  return unmaskObject(wanted, stored as JsonObject, hiddenTree(places), true);
}

/**
 * A value that is sent to the addresses beside it, or above, comes back only where each of them has the host
 * and path that it had.
 */
function unmaskObject(
  wanted: JsonObject,
  stored: JsonObject,
  tree: HiddenTree,
  isSameAbove: boolean,
): JsonObject {
  const isSame = isSameAbove && hasSameTargets(wanted, stored, tree);
  return Object.fromEntries(
    Object.entries(wanted).map(([name, value]) => {
      const inner = treeBelow(tree, name);
      return [name, inner === undefined ? value : unmaskValue(value, ownValue(stored, name), inner, isSame)];
    }),
  );
}

function unmaskValue(value: Json, stored: Json | undefined, tree: HiddenTree, isSame: boolean): Json {
  const { kind } = tree;
  if (kind === 'secret') return unmaskSecret(value, stored);
  if (kind === 'address') return isSameTarget(value, stored) ? unmaskAddress(value, stored) : value;
  if (kind !== undefined && !isSame) return value;
  if (kind === 'credential') return unmaskSecret(value, stored);
  if (kind === 'header') return isObject(value) && isObject(stored) ? unmaskHeaders(value, stored) : value;
  if (Array.isArray(value)) {
    const entry = treeBelow(tree);
    const isKnown = entry !== undefined && Array.isArray(stored) && value.length <= MAX_ENTRIES;
    return isKnown ? unmaskList(value, stored, entry, isSame) : value;
  }
  return isObject(value) && isObject(stored) ? unmaskObject(value, stored, tree, isSame) : value;
}

function hasSameTargets(wanted: JsonObject, stored: JsonObject, tree: HiddenTree): boolean {
  for (const [key, inner] of tree.keys) {
    const [value, known] = [wanted[key], ownValue(stored, key)];
    if (value === undefined) continue;
    if (inner.kind === 'address' && !isSameTarget(value, known)) return false;
    if (treeBelow(inner)?.kind !== 'address' || !Array.isArray(value)) continue;
    const all: readonly Json[] = Array.isArray(known) ? known : [];
    if (!value.every((url: Json) => all.some((one) => isSameTarget(url, one)))) return false;
  }
  return true;
}

function unmaskList(list: readonly Json[], stored: readonly Json[], tree: HiddenTree, isSame: boolean): Json {
  if (tree.kind === 'secret') return list.map((value, nth) => unmaskByHint(value, nth, stored));
  const key = addressKeyOf(tree);
  return list.map((value, place) => {
    if (tree.kind === 'address')
      return unmaskAddress(
        value,
        findSameTarget(value, place, stored, (one) => one),
      );
    if (!isObject(value)) return value;
    const known =
      key === undefined
        ? stored[place]
        : findSameTarget(value[key], place, stored, (one) => (isObject(one) ? one[key] : undefined));
    return isObject(known) ? unmaskObject(value, known, tree, isSame) : value;
  });
}

/** The key of the address among the keys of an object. */
function addressKeyOf(tree: HiddenTree): string | undefined {
  for (const [key, { kind }] of tree.keys) if (kind === 'address' && key !== '[]') return key;
  return undefined;
}

/** Whether a value is the mask of a secret, which leaves the stored secret as it is. See `SecretMask`. */
function isMask(value: Json | undefined): boolean {
  return isObject(value) && value['set'] === true;
}

export function unmaskSecret(value: Json, kept: Json | undefined): Json {
  return isMask(value) && typeof kept === 'string' ? kept : value;
}

/**
 * The secret of a list that a mask stands for. Secrets change places while one replaces another, so one with
 * the hint of the mask comes first, the one in the same place among several. A mask without a hint stands for
 * the secret in its place.
 */
function unmaskByHint(value: Json, place: number, stored: readonly Json[]): Json {
  if (!isObject(value) || value['hint'] === undefined) return unmaskSecret(value, stored[place]);
  const candidates = [...stored.slice(place, place + 1), ...stored];
  return unmaskSecret(
    value,
    candidates.find((one) => typeof one === 'string' && maskSecret(one).hint === value['hint']),
  );
}

function unmaskAddress(value: Json, stored: Json | undefined): Json {
  return typeof value === 'string' && typeof stored === 'string' ? unmaskUrl(value, stored) : value;
}

/**
 * The stored entry that an address in a request stands for. Entries can change places, so one with the same
 * URL comes first, then the one in the same place. Host and path must be equal: a stored secret must never be
 * sent to a foreign host, and behind another path of a shared host somebody else may listen.
 */
function findSameTarget(
  url: Json | undefined,
  place: number,
  stored: readonly Json[],
  addressOf: (entry: Json) => Json | undefined,
): Json | undefined {
  if (typeof url !== 'string') return undefined;
  const candidates = [...stored.slice(place, place + 1), ...stored];
  return (
    candidates.find((one) => addressOf(one) === url) ??
    candidates.find((one) => maskOf(addressOf(one)) === url) ??
    candidates.find((one) => isSameTarget(url, addressOf(one)))
  );
}

function isSameTarget(url: Json | undefined, stored: Json | undefined): boolean {
  if (typeof url !== 'string' || typeof stored !== 'string') return false;
  return url === stored || maskUrl(stored) === url || targetOf(unmaskUrl(url, stored)) === targetOf(stored);
}

function maskOf(url: Json | undefined): string | undefined {
  return typeof url === 'string' ? maskUrl(url) : undefined;
}

/** Host and path of a URL; itself where it is none, which validation refuses. */
function targetOf(url: string): string {
  const parsed = URL.parse(url);
  return parsed === null ? url : `${parsed.origin}${parsed.pathname}`;
}

function unmaskHeaders(wanted: JsonObject, kept: JsonObject): JsonObject {
  return Object.fromEntries(
    Object.entries(wanted).map(([name, value]): [string, Json] => [
      name,
      unmaskSecret(value, ownValue(kept, name)),
    ]),
  );
}
