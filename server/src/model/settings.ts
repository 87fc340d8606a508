import type { AudienceDefinition, TraitDefinition } from './definition.ts';
import type { Destination } from './destination.ts';
import type { Duration, Time } from './time.ts';

/**
 * A source of calls: one website, app or server, known by its write keys. spec/contract.md, "Configuration
 * file".
 */
export interface Source {
  /** Given by the store when it first sees the name; never reused. */
  readonly id: number;
  readonly name: string;
  readonly writeKeys: readonly string[];
  readonly enabled: boolean;
  /** `strict` refuses a batch with an invalid call; `standard` keeps the valid ones. */
  readonly mode: 'standard' | 'strict';
  /** While the source is disabled, its calls are answered with 401, or with 200 and counted. */
  readonly whenDisabled: 'refuse' | 'discard';
  /** How long a second event with the same messageId is a duplicate. Absent: 24 hours. */
  readonly dedupeWindow?: Duration;
  /** Calls per second on average, beyond which clients are asked to wait. Absent: no limit. */
  readonly rateLimit?: number;
  /**
   * The same for each public address that calls come from; 0 for no limit. Absent: 200 for a client source,
   * and none for a server's.
   */
  readonly rateLimitPerAddress?: number;
  /** Absent in records of before there was a choice, and of the server's own source: `direct`. */
  readonly ip?: AddressRule;
  /** Absent in records of before there was a choice, and of the server's own source: `server`. */
  readonly trust?: Trust;
  /**
   * Its events are stored and found, and neither delivered nor part of profiles: they are there to be
   * compared with those of another source. Decided when the source is made. Absent: false.
   */
  readonly shadow?: true;
  /** The `projectId` of its events in the format `segment`. Absent: its name. */
  readonly projectId?: string;
  /** A call without preferences consents to nothing. Absent: nothing is withheld of it. */
  readonly consent?: 'required';
  /** A path of the browser library with the first write key of this source, beside the usual one. */
  readonly scriptPath?: string;
  /** How calls are checked that another service passes on for this source. Absent: by the key alone. */
  readonly forwarded?: { readonly sharedSecret?: string };
  /** Made by the server for events of its own: it has no write keys, and operators cannot change it. */
  readonly system?: true;
}

/**
 * Rules for the address of a caller, which is `context.ip`. spec/specification.md, "Address of the client".
 *
 * - `keep`: it is filled in for calls that come straight from a browser or a phone; one that the client gives
 * stays
 * - `shorten`: as `keep`, but only the beginning of any address is kept
 * - `drop`: no event has one
 * - `direct`: it is filled in if a call asks for it with `context.direct`; one that the client gives stays
 */
export const ADDRESS_RULES = ['keep', 'shorten', 'drop', 'direct'] as const;

export type AddressRule = (typeof ADDRESS_RULES)[number];

/** The rule that a source is given which is made without one. */
export const DEFAULT_ADDRESS_RULE: AddressRule = 'keep';

/** The rule of a source, also of one whose record has none. */
export function addressRuleOf({ ip = 'direct' }: Pick<Source, 'ip'>): AddressRule {
  return ip;
}

/**
 * The trust in the calls of a source. It follows from who can have the write keys, and decides which ids the
 * calls may join. spec/specification.md, "Identities".
 *
 * - `server`: only programs of the operator have the keys; its calls may join two users into one
 * - `client`: the keys are in a website or an app, where everybody can read them; its calls join anonymous
 *   ids to a user, and nothing else
 */
export const TRUSTS = ['server', 'client'] as const;

export type Trust = (typeof TRUSTS)[number];

/** The trust of a source that is made without one: nobody has said that its keys are secret. */
export const DEFAULT_TRUST: Trust = 'client';

/** The trust of a source, also of one whose record has none: it is older than the choice, and was trusted. */
export function trustOf({ trust = 'server' }: Pick<Source, 'trust'>): Trust {
  return trust;
}

/**
 * Calls a second from one public address; 0 for no limit. Nothing says so in most records: anybody may call a
 * client source.
 */
export function rateLimitPerAddressOf(source: Pick<Source, 'trust' | 'rateLimitPerAddress'>): number {
  return source.rateLimitPerAddress ?? (trustOf(source) === 'client' ? CLIENT_RATE_PER_ADDRESS : 0);
}

const CLIENT_RATE_PER_ADDRESS = 200;

interface EverySource {
  readonly sources: readonly Source[];
  readonly gone: { readonly sources: readonly Source[] };
}

/** The sources of a snapshot, and those that were removed. */
export function everySource({ sources, gone }: EverySource): Source[] {
  return [...gone.sources, ...sources];
}

/** Sources by their ids, also those that were removed. */
export function sourcesById(snapshot: EverySource): ReadonlyMap<number, Source> {
  return new Map(everySource(snapshot).map((source) => [source.id, source]));
}

/** Tells the name of a source by its id, also of one that was removed; `#7` for one that nobody knows. */
export function sourceNames(snapshot: EverySource): (id: number) => string {
  const byId = sourcesById(snapshot);
  return (id) => byId.get(id)?.name ?? `#${id}`;
}

/** The source of the events of audiences and computed traits. No other source may have this name. */
export const AUDIENCES_SOURCE: SourceRecord = {
  name: 'audiences',
  writeKeys: [],
  enabled: true,
  mode: 'standard',
  whenDisabled: 'refuse',
  system: true,
};

/** The kinds of records that operators write. */
export type RecordKind =
  | ('source' | 'destination' | 'audience' | 'trait')
  | ('alert' | 'token' | 'replay' | 'regulation' | 'split');

export interface RecordName {
  readonly kind: RecordKind;
  readonly name: string;
}

export type SourceRecord = Omit<Source, 'id'>;
export type DestinationRecord = Omit<Destination, 'id' | 'version'>;
export type AudienceRecord = Omit<AudienceDefinition, 'id' | 'version'>;
export type TraitRecord = Omit<TraitDefinition, 'id' | 'version'>;

/**
 * Two ids that are never ids of one profile, because an operator has taken a wrong merge apart. They are
 * known by their keyed hashes alone, so that a deletion has nothing to erase here.
 */
export interface SplitRecord {
  readonly id: string;
  /** The keys of the two ids, as profiles find them. */
  readonly keys: readonly [number, number];
  readonly createdAt: Time;
  /** The name of the token. */
  readonly by: string;
}

/** A token of the control API. The audit trail shows its name. */
export interface TokenRecord {
  readonly name: string;
  readonly role: Role;
  /** SHA-256 of the token in hexadecimal. The token itself is not stored. */
  readonly digest: string;
  /** The last characters of the token, to tell it from others. */
  readonly hint: string;
  readonly createdAt: Time;
  /** From when on it works no more. Absent: it works until it is revoked. */
  readonly expiresAt?: Time;
  /** Records that the token may see and change. Absent: everything that its role may. */
  readonly limits?: TokenLimits;
  /** False: its owner sees which events there are, and not what they hold. */
  readonly bodies?: false;
}

/** The names of the records that a token is for. */
export interface TokenLimits {
  readonly sources: readonly string[];
  readonly destinations: readonly string[];
}

/**
 * Roles of tokens, each with the rights of those before it. `metrics` reads the page for Prometheus and
 * nothing else. spec/contract.md, "Roles".
 */
export const ROLES = ['metrics', 'viewer', 'editor', 'admin'] as const;

export type Role = (typeof ROLES)[number];

export function hasRole(role: Role, least: Role): boolean {
  return ROLES.indexOf(role) >= ROLES.indexOf(least);
}
