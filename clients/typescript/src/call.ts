/** An object whose JSON is an object; an interface without an index signature is one too. */
export type Fields = object;

/**
 * The events of a program and their properties, for calls that the compiler checks:
 *
 *   interface Events { 'Order Placed': { total: number }; 'Signed Up': undefined }
 *   const client = new Client<Events>('wk');
 *
 * Without it every name and every object is taken.
 */
export type AnyEvents = Record<string, Fields | undefined>;

/** Fields that every call may carry. */
export interface Shared {
  /** At most 100 characters; made when absent, unique per call. Two calls with the same id are one event. */
  readonly messageId?: string | undefined;
  /** When it happened; the moment of the call when absent. A text is ISO 8601; without a zone it is UTC. */
  readonly timestamp?: Date | string | undefined;
  /** About the device, the page and so on; `library` is filled in. */
  readonly context?: Fields | undefined;
  /** Destinations by name: `{ All: false, crm: true }`. Without it, all get the call. */
  readonly integrations?: Fields | undefined;
}

/** The user: at least one of the two (spec/specification.md, "Required fields"). */
export type Who =
  | { readonly userId: string; readonly anonymousId?: string | undefined }
  | { readonly userId?: string | undefined; readonly anonymousId: string };

/** In a browser the client knows who it is. */
export type MaybeWho = { readonly userId?: string | undefined; readonly anonymousId?: string | undefined };

export type IdentifyCall<Traits = Fields, Id = Who> = Shared & Id & { readonly traits?: Traits | undefined };

/** Properties are required exactly when the event's type has a required key. */
export type TrackCall<Events = AnyEvents, Id = Who> = {
  [Name in keyof Events & string]: Shared &
    Id & { readonly event: Name } & (NonNullable<unknown> extends Events[Name]
      ? { readonly properties?: Events[Name] | undefined }
      : undefined extends Events[Name]
        ? { readonly properties?: Events[Name] | undefined }
        : { readonly properties: Events[Name] });
}[keyof Events & string];

export type ScreenCall<Id = Who> = Shared &
  Id & {
    readonly name?: string | undefined;
    readonly category?: string | undefined;
    readonly properties?: Fields | undefined;
  };

/**
 * `url`, `title`, `referrer` and `path` of the properties are recognised specially; `traits` is another name
 * of them.
 */
export type PageCall<Id = Who> =
  | ScreenCall<Id>
  | (Omit<ScreenCall<Id>, 'properties'> & {
      readonly traits?: Fields | undefined;
      readonly properties?: undefined;
    });

export type GroupCall<Id = Who> = Shared &
  Id & { readonly groupId: string; readonly traits?: Fields | undefined };

/** `previousId` was used until now, `userId` is used from now on. */
export type AliasCall = Shared & { readonly userId: string; readonly previousId: string };

export const TYPES = ['identify', 'track', 'page', 'screen', 'group', 'alias'] as const;

export type CallType = (typeof TYPES)[number];

/** A call that says its type itself, for programs that pass calls on. */
export type Message<Events = AnyEvents, Traits = Fields> =
  | ({ readonly type: 'identify' } & IdentifyCall<Traits>)
  | ({ readonly type: 'track' } & TrackCall<Events>)
  | ({ readonly type: 'page' } & PageCall)
  | ({ readonly type: 'screen' } & ScreenCall)
  | ({ readonly type: 'group' } & GroupCall)
  | ({ readonly type: 'alias' } & AliasCall);
