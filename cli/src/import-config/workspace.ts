/**
 * A workspace of another product, in one form for every kind of export. Readers of exports make it, and
 * `translate.ts` makes records of it. Texts in it are as the export has them: nothing is checked yet.
 */
export interface Workspace {
  readonly origin: 'segment' | 'rudderstack';
  readonly id?: string;
  readonly name: string;
  readonly sources: readonly ExportedSource[];
  readonly destinations: readonly ExportedDestination[];
  readonly transformations: readonly Transformation[];
  readonly functions: readonly ExportedFunction[];
  readonly functionInstances: readonly FunctionInstance[];
  readonly trackingPlans: readonly TrackingPlan[];
  readonly computations: readonly ExportedComputation[];
  readonly suppressed: readonly SuppressedUser[];
  /** Things that have no counterpart whatever is in them. */
  readonly others: readonly OtherThing[];
  readonly unread: readonly UnreadPart[];
  /** Facts that no export of this kind has, and that a person has to look up there. */
  readonly untold: readonly string[];
}

/** A thing of the export, for the report and for the comment that keeps its text. */
export interface ExportedThing {
  readonly id: string;
  readonly name?: string;
  readonly enabled: boolean;
  readonly raw: unknown;
}

export interface ExportedSource extends ExportedThing {
  /** Absent where the export has none: exports of this kind leave them out, or the token had no right. */
  readonly writeKeys?: readonly string[];
  /** The name of its kind there, such as `Javascript`; absent where the export does not say. */
  readonly kind?: string;
  /** `server`: only programs of the operator can have the write keys. Absent: its kind is not known here. */
  readonly trust?: 'client' | 'server';
  /** A source that fetches by itself: nobody sends calls to it. */
  readonly isCloud: boolean;
  /** Settings that stop some of its events before any destination. */
  readonly blocks?: string;
  readonly projectId?: string;
}

/** Kinds of destinations that matter here. `webhook` is one URL and nothing else. */
export type DestinationKind =
  | ('classic' | 'actions' | 'extensible' | 'webhook')
  | ('list' | 'function' | 'storage' | 'other');

export interface ExportedDestination extends ExportedThing {
  readonly kind: DestinationKind;
  /** The name of its kind, as people there know it: `Webhooks (Actions)`. */
  readonly kindName: string;
  /** The id of its kind, by which transformations name it. */
  readonly kindId?: string;
  /** Names that switch it in an integrations object there. */
  readonly integrationNames: readonly string[];
  readonly sources: readonly { readonly id: string; readonly enabled: boolean }[];
  readonly hooks: readonly Hook[];
  readonly sharedSecret?: string;
  /** A way to sign in to the receiver that is not a static header. */
  readonly signIn?: string;
  /** Absent for kinds without mappings. */
  readonly mappings?: readonly Mapping[];
  readonly filters: readonly ExportedFilter[];
  /** Other reasons in words why it gets events there that it would not get here, or the other way round. */
  readonly holds?: readonly string[];
  /** Deleted there, or something else because of which it does nothing there. */
  readonly isGone?: boolean;
}

/** A URL with its headers. Values of other types than text are kept as they are: they may be computed. */
export interface Hook {
  readonly url: unknown;
  readonly method: unknown;
  readonly headers: readonly { readonly name: unknown; readonly value: unknown }[];
}

/** A request of an Actions destination: which events, where to, with which body. */
export interface Mapping extends ExportedThing {
  readonly hook: Hook;
  readonly trigger: unknown;
  readonly data: unknown;
  readonly isBatched: boolean;
  /** Oddities that change nothing. */
  readonly notes: readonly string[];
  readonly isReverseEtl: boolean;
}

export interface ExportedFilter extends ExportedThing {
  readonly condition: unknown;
}

export interface Transformation extends ExportedThing {
  /** A source alone, a source with a kind of destinations, or a destination; without any, everything. */
  readonly sourceId?: string;
  readonly destinationId?: string;
  readonly kindId?: string;
  /** Its text is not in the export. */
  readonly isTextMissing?: boolean;
}

export interface ExportedFunction extends ExportedThing {
  readonly resourceType: string;
  readonly code: string;
}

/** A function at work between a source and a destination. */
export interface FunctionInstance extends ExportedThing {
  /** Of a destination or of a source. */
  readonly integrationId: string;
}

export interface TrackingPlan extends ExportedThing {
  readonly rules: readonly unknown[];
  readonly sourceIds: readonly string[];
}

export interface ExportedComputation extends ExportedThing {
  readonly kind: 'audience' | 'trait';
  readonly key: string;
  readonly query: string;
  /** `USERS` where it is about users. */
  readonly subject: string;
  readonly includeAnonymous: boolean;
}

export interface SuppressedUser {
  readonly id: string;
  readonly idType: string;
}

export interface OtherThing {
  readonly kind: string;
  readonly id: string;
  readonly name?: string;
  readonly outcome?: 'taken';
  readonly reason: string;
}

/** A part of the export that could not be read. What it might say holds back whatever it is about. */
export interface UnreadPart {
  /** A request, a file, or the address of a thing. */
  readonly id: string;
  readonly reason: string;
  /** The words for the destinations that it is about: `its filters could not be read`. */
  readonly about: string;
  /** The destinations that stay off: all, none, one, or those of one source. */
  readonly holds: 'all' | 'none' | { readonly destination: string } | { readonly source: string };
}

/** The text of a value that may be of any type; numbers count as text, and everything else is absent. */
export function textOf(value: unknown): string | undefined {
  if (typeof value === 'string') return value;
  return typeof value === 'number' ? String(value) : undefined;
}

export type Fields = Readonly<Record<string, unknown>>;

/** The value as an object, or an empty one. */
export function fieldsOf(value: unknown): Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : {};
}

/** An own field: an export may name one `constructor`. */
export function fieldOf(value: unknown, key: string): unknown {
  const fields = fieldsOf(value);
  return Object.hasOwn(fields, key) ? fields[key] : undefined;
}

export function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/** JSON in a text, or the value itself. Undefined for a text that is none. */
export function jsonIn(value: unknown): unknown {
  if (typeof value !== 'string') return value;
  try {
    return JSON.parse(value);
  } catch {
    return undefined;
  }
}
