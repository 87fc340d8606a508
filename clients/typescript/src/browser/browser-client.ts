import type { Callback, Limits } from '../backlog.ts';
import type {
  AliasCall,
  AnyEvents,
  Fields,
  GroupCall,
  IdentifyCall,
  MaybeWho,
  PageCall,
  ScreenCall,
  Shared,
  TrackCall,
} from '../call.ts';
import { Client, type Patience } from '../client.ts';
import type { Failure } from '../failure.ts';
import { messageIds } from '../message-id.ts';
import type { Options } from '../options.ts';
import type { Counts } from '../reports.ts';
import { type KeyValueStorage, pageContext, pageProperties, siteStorage, watchPage } from './page.ts';
import { StorageBacklog } from './storage-backlog.ts';
import { Visitor } from './visitor.ts';

export interface BrowserOptions extends Omit<Options, 'spool'> {
  /**
   * Where calls wait and the visitor's ids are kept; `localStorage` by default. `false` keeps nothing beyond
   * the page, for visitors who have not agreed to it.
   */
  readonly storage?: KeyValueStorage | false | undefined;
}

/** Browsers limit what may be on its way when a page is left to 64 KiB, the envelope included. */
const DEPARTING = 60_000;

type Call = Shared & MaybeWho;

/**
 * The client of a page. It knows who visits and where: calls need no ids, and say on which page they were
 * made. Calls wait in the storage of the site until they are answered for, so that neither leaving the page
 * nor being offline loses them.
 */
export class BrowserClient<Events = AnyEvents, Traits = Fields> {
  readonly #client: Client<AnyEvents, Traits>;
  readonly #visitor: Visitor;
  readonly #unwatch: () => void;

  /** Throws a `TypeError` with the code `invalid_option` if an option is wrong. */
  constructor(writeKey: string, { storage = siteStorage(), ...options }: BrowserOptions = {}) {
    const now = options.clock?.now ?? Date.now;
    const newId = messageIds(now);
    const kept = storage || undefined;
    this.#visitor = new Visitor(kept, newId);
    const limits: Limits = {
      maxCalls: options.maxCalls ?? 10_000,
      maxBytes: options.maxBytes ?? 1024 * 1024,
      whenFull: options.whenFull ?? 'refuse',
    };
    const spool = kept && new StorageBacklog(kept, limits, { writeKey, page: newId(), now });
    this.#client = new Client(writeKey, { ...options, ...limits, spool }, '/browser');
    this.#unwatch = watchPage({
      leaving: () => {
        const sent = this.#client.depart(DEPARTING);
        spool?.mark(sent.filter(({ settled }) => !settled));
      },
      back: () => this.#client.hurry(),
    });
  }

  /** Says who the visitor is; later calls carry the id until `reset`. */
  identify(call: IdentifyCall<Traits, MaybeWho>, callback?: Callback): Failure | undefined {
    const refusal = this.#client.send({ ...this.#filled(call), type: 'identify' }, callback);
    if (refusal === undefined && call.userId) this.#visitor.remember(call.userId);
    return refusal;
  }

  /** Records an action. */
  track(call: TrackCall<Events, MaybeWho>, callback?: Callback): Failure | undefined {
    const filled = this.#filled(call) as TrackCall;
    return this.#client.send({ ...filled, type: 'track' }, callback);
  }

  /** Records the view of this page. */
  page(call: PageCall<MaybeWho> = {}, callback?: Callback): Failure | undefined {
    const { traits, ...filled } = { traits: {}, ...this.#filled(call) };
    const properties = { ...pageProperties(), ...traits, ...call.properties };
    return this.#client.send({ ...filled, properties, type: 'page' }, callback);
  }

  /** Records the view of a screen of an app that runs in a browser. */
  screen(call: ScreenCall<MaybeWho>, callback?: Callback): Failure | undefined {
    return this.#client.send({ ...this.#filled(call), type: 'screen' }, callback);
  }

  /** Ties the visitor to a group. */
  group(call: GroupCall<MaybeWho>, callback?: Callback): Failure | undefined {
    return this.#client.send({ ...this.#filled(call), type: 'group' }, callback);
  }

  /** Says that the visitor, until now `previousId` or unknown, is `userId` from now on. */
  alias(
    call: Omit<AliasCall, 'previousId'> & { previousId?: string },
    callback?: Callback,
  ): Failure | undefined {
    const { anonymousId } = this.#visitor;
    const context = { ...pageContext(), ...call.context };
    const refusal = this.#client.alias({ previousId: anonymousId, ...call, context }, callback);
    if (refusal === undefined) this.#visitor.remember(call.userId);
    return refusal;
  }

  /** Another visitor begins here, for example after signing out. */
  reset(): void {
    this.#visitor.reset();
  }

  get anonymousId(): string {
    return this.#visitor.anonymousId;
  }

  get userId(): string | undefined {
    return this.#visitor.userId;
  }

  /** See `Client.counts`; calls that earlier pages left behind are among them. */
  get counts(): Counts {
    return this.#client.counts;
  }

  /** See `Client.flush`. */
  flush(patience?: Patience): Promise<Counts> {
    return this.#client.flush(patience);
  }

  /** See `Client.close`. There is no need for it when a page is left. */
  close(patience?: Patience): Promise<Counts> {
    this.#unwatch();
    return this.#client.close(patience);
  }

  /** The caller's word comes first, here as everywhere. */
  #filled<Given extends Call>(call: Given): Given & { userId?: string | undefined; anonymousId: string } {
    const { anonymousId, userId } = this.#visitor;
    const context = { ...pageContext(), ...call.context };
    return {
      anonymousId,
      ...(userId !== undefined && { userId }),
      ...call,
      context,
    } as Given & { userId?: string; anonymousId: string };
  }
}
