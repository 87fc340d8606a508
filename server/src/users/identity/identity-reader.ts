import { BlockedIds, InvalidId, readId } from '../../model/ids.ts';
import type { Json, JsonObject } from '../../model/json.ts';
import type { IdentityKey } from '../../ports/profile-store.ts';
import type { IdentityHash, IdentitySettings } from '../contract.ts';
import { ANONYMOUS, USER } from './profile-state.ts';

/** An id with the key by which the store finds it. */
export interface KeyedIdentity {
  readonly kind: string;
  readonly value: string;
  readonly key: IdentityKey;
}

/** A previousId with its key as a userId and its key as an anonymous id. */
export interface PreviousId {
  readonly user: KeyedIdentity;
  readonly anonymous: KeyedIdentity;
  /** True when the event is older than the user who has the userId now, and is applied again. */
  readonly isBeforeUser?: true;
}

/** The ids of one event that can join something. */
export interface EventIdentities {
  readonly user: KeyedIdentity | undefined;
  readonly anonymous: KeyedIdentity | undefined;
  /** The previousId of an alias. */
  readonly previous?: PreviousId | undefined;
  /** Ids among the traits of an identify call. */
  readonly external: readonly KeyedIdentity[];
  /** Number of values there that are no ids: they stay traits. */
  readonly invalid?: number;
}

const NO_IDS = { external: [], invalid: 0 };

/**
 * Makes identities of values and leaves out those that stand for no one. spec/specification.md, "Identities".
 */
export class IdentityReader {
  readonly #hash: IdentityHash;
  readonly #blocked: BlockedIds;
  readonly #externalIds: readonly string[];

  constructor(hash: IdentityHash, { blocked, externalIds }: IdentitySettings) {
    this.#hash = hash;
    this.#blocked = new BlockedIds(blocked);
    this.#externalIds = externalIds;
  }

  /** The identity of a value; undefined for a value that stands for no one or is no text. */
  identity(kind: string, value: unknown): KeyedIdentity | undefined {
    const id = readId(value as Json | undefined);
    if (typeof id !== 'string' || this.#blocked.has(id)) return undefined;
    return { kind, value: id, key: this.#hash(kind, id) };
  }

  /** The previousId of an alias. */
  previous(value: unknown): PreviousId | undefined {
    const user = this.identity(USER, value);
    const anonymous = this.identity(ANONYMOUS, value);
    return user === undefined || anonymous === undefined ? undefined : { user, anonymous };
  }

  /** External ids among traits. A number counts as its text; a value that is no id binds nothing. */
  external(traits: JsonObject): Required<Pick<EventIdentities, 'external' | 'invalid'>> {
    if (this.#externalIds.length === 0) return NO_IDS;
    const ids: KeyedIdentity[] = [];
    let invalid = 0;
    for (const name of this.#externalIds) {
      const value = Object.hasOwn(traits, name) ? traits[name] : undefined;
      const id = this.identity(name, value);
      if (id !== undefined) ids.push(id);
      else if (readId(value) instanceof InvalidId) invalid++;
    }
    return { external: ids, invalid };
  }
}
