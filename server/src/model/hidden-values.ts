import { isObject, type JsonObject } from './json.ts';
import { isSecretHeader } from './secrets.ts';

/**
 * Where settings have what is not for everybody's eyes. A place is a path such as `endpoints[].url`, `[]`
 * standing for every entry of a list, or `signingSecrets[]`, which is every entry itself.
 */
export interface HiddenPlaces {
  /** URLs that something is sent to. Values in them may be secrets, and the egress rules judge them. */
  readonly addresses: readonly string[];
  /** Texts that are never shown and sent nowhere, such as keys of signatures. */
  readonly secrets: readonly string[];
  /** Texts that are never shown, and are sent to the address beside them: they go to no other address. */
  readonly credentials?: readonly string[];
  /**
   * Mappings of header names to values, sent to the address beside them. Those whose names say so are
   * credentials.
   */
  readonly headers?: readonly string[];
}

/** Path of a value below the settings. */
export type ValuePath = readonly (string | number)[];

export type HiddenKind = 'address' | 'secret' | 'credential' | 'header';

/** Called for each text that is found; gives what takes its place. */
export type HiddenChange = (
  text: string,
  found: { readonly kind: HiddenKind; readonly path: ValuePath },
) => unknown;

/**
 * A copy of settings in which something takes the place of every address, secret, credential, and value of a
 * header that is a credential. Keys keep their order, and what is no text stays.
 */
export function mapHidden(settings: object, places: HiddenPlaces, change: HiddenChange): JsonObject {
  return mapValue(settings, hiddenTree(places), { path: [], change }) as JsonObject;
}

/** Every text that stands at these places. */
export function hiddenTexts(
  settings: object,
  places: HiddenPlaces,
): { readonly kind: HiddenKind; readonly path: ValuePath; readonly text: string }[] {
  const found: { kind: HiddenKind; path: ValuePath; text: string }[] = [];
  mapHidden(settings, places, (text, { kind, path }) => {
    found.push({ kind, path, text });
    return text;
  });
  return found;
}

/** Hidden values at a value and below it. */
export interface HiddenTree {
  readonly kind?: HiddenKind;
  readonly keys: ReadonlyMap<string, HiddenTree>;
}

/** Stands for every entry of a list. */
const EVERY = '[]';

/** One for each form, because every record is looked through with it. */
const trees = new WeakMap<HiddenPlaces, HiddenTree>();

export function hiddenTree(places: HiddenPlaces): HiddenTree {
  let tree = trees.get(places);
  if (tree === undefined) {
    tree = makeTree(places);
    trees.set(places, tree);
  }
  return tree;
}

interface GrowingTree {
  kind?: HiddenKind;
  readonly keys: Map<string, GrowingTree>;
}

function makeTree({ addresses, secrets, credentials = [], headers = [] }: HiddenPlaces): HiddenTree {
  const root: GrowingTree = { keys: new Map() };
  const add = (kind: HiddenKind, places: readonly string[]) => {
    for (const place of places) {
      let node = root;
      for (const step of stepsOf(place)) {
        const next = node.keys.get(step) ?? { keys: new Map() };
        node.keys.set(step, next);
        node = next;
      }
      node.kind = kind;
    }
  };
  add('address', addresses);
  add('secret', secrets);
  add('credential', credentials);
  add('header', headers);
  return root;
}

function stepsOf(path: string): string[] {
  return path
    .split('.')
    .flatMap((part) => (part.endsWith(EVERY) ? [part.slice(0, -EVERY.length), EVERY] : [part]));
}

/** Hidden values below a key, or below every entry of a list; undefined when there are none. */
export function treeBelow(tree: HiddenTree, key: string = EVERY): HiddenTree | undefined {
  return tree.keys.get(key);
}

interface Walk {
  readonly path: ValuePath;
  readonly change: HiddenChange;
}

function mapValue(value: unknown, tree: HiddenTree, { path, change }: Walk): unknown {
  const { kind, keys } = tree;
  if (kind === 'header' && isObject(value)) return mapHeaders(value, { path, change });
  if (kind !== undefined) return typeof value === 'string' ? change(value, { kind, path }) : value;
  if (Array.isArray(value)) {
    const inner = treeBelow(tree);
    if (inner === undefined) return value;
    return value.map((one: unknown, nth) => mapValue(one, inner, { path: [...path, nth], change }));
  }
  if (!isObject(value)) return value;
  const mapped: Record<string, unknown> = { ...value };
  for (const [key, inner] of keys)
    if (Object.hasOwn(mapped, key))
      mapped[key] = mapValue(mapped[key], inner, { path: [...path, key], change });
  return mapped;
}

function mapHeaders(headers: object, { path, change }: Walk): unknown {
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]: [string, unknown]) => [
      name,
      typeof value === 'string' && isSecretHeader(name)
        ? change(value, { kind: 'header', path: [...path, name] })
        : value,
    ]),
  );
}
