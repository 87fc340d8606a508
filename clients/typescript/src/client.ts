import type { Callback, Entry } from './backlog.ts';
import type {
  AliasCall,
  AnyEvents,
  Fields,
  GroupCall,
  IdentifyCall,
  Message,
  PageCall,
  ScreenCall,
  TrackCall,
} from './call.ts';
import { type Encoding, encode } from './encode.ts';
import { type Failure, failure } from './failure.ts';
import { messageIds } from './message-id.ts';
import { type Edition, type Options, type Settings, settingsOf } from './options.ts';
import { type Counts, Reports } from './reports.ts';
import { Sender } from './sender.ts';

/** How long to wait, in milliseconds. */
export interface Patience {
  readonly timeout?: number | undefined;
}

/**
 * Sends calls to a Millrace server in the background, in batches.
 *
 *   const client = new Client('wk', { endpoint: 'https://events.example.com' });
 *   client.track({ userId: 'u1', event: 'Order Placed', properties: { total: 9 } });
 *   await client.close();
 *
 * A call that cannot be sent returns the reason at once, and never throws. Every other call is accepted, and
 * each accepted call is reported exactly once: to the callback given with it, and to `onSuccess` or
 * `onFailure`.
 *
 * A Node program ends when its calls have been answered for. `process.exit()` and signals end it before that:
 * await `close()` first, or use a spool.
 */
export class Client<Events = AnyEvents, Traits = Fields> {
  readonly #settings: Settings;
  readonly #encoding: Encoding;
  readonly #reports: Reports;
  readonly #sender: Sender;
  #closing: Promise<Counts> | undefined;

  /**
   * Throws a `TypeError` with the code `invalid_option` if an option is wrong. `edition`: what the client of
   * a page adds to its name.
   */
  constructor(writeKey: string, options: Options = {}, edition?: Edition) {
    this.#settings = settingsOf(writeKey, options, edition);
    const { clock, correctClock } = this.#settings;
    const { now } = clock;
    this.#encoding = { now, stamps: correctClock, newMessageId: messageIds(now) };
    this.#reports = new Reports(this.#settings);
    this.#sender = new Sender(this.#settings, this.#reports);
  }

  /** Ties a user to traits. */
  identify(call: IdentifyCall<Traits>, callback?: Callback): Failure | undefined {
    return this.#accept('identify', call, callback);
  }

  /** Records an action. */
  track(call: TrackCall<Events>, callback?: Callback): Failure | undefined {
    return this.#accept('track', call, callback);
  }

  /** Records the view of a page. */
  page(call: PageCall, callback?: Callback): Failure | undefined {
    return this.#accept('page', call, callback);
  }

  /** Records the view of a screen of an app. */
  screen(call: ScreenCall, callback?: Callback): Failure | undefined {
    return this.#accept('screen', call, callback);
  }

  /** Ties a user to a group. */
  group(call: GroupCall, callback?: Callback): Failure | undefined {
    return this.#accept('group', call, callback);
  }

  /** Says that two ids are the same person. */
  alias(call: AliasCall, callback?: Callback): Failure | undefined {
    return this.#accept('alias', call, callback);
  }

  /** Any of the six, for programs that pass calls on: the message says its type. */
  send(message: Message<Events, Traits>, callback?: Callback): Failure | undefined {
    return this.#accept((message as { type?: unknown } | undefined)?.type, message, callback);
  }

  /** Counts of the calls so far: `accepted = delivered + failed + pending`. */
  get counts(): Counts {
    return this.#reports.counts;
  }

  /**
   * Sends what waits, without waiting for more of it. Resolves when every call accepted before has been
   * answered for: `pending` is then 0, unless calls came in meanwhile or the time was over. Waits between
   * tries are kept.
   */
  async flush({ timeout }: Patience = {}): Promise<Counts> {
    await this.#sender.flush(timeout);
    return this.counts;
  }

  /**
   * Resolves when at least half of the memory is free, so that a program that makes calls faster than they
   * can be sent can wait; to `false` when the time is over.
   */
  room({ timeout }: Patience = {}): Promise<boolean> {
    return this.#sender.room(timeout);
  }

  /**
   * Accepts nothing more and flushes, in `closeTimeout` at most. What is not answered for then is reported as
   * `closed`, or stays in the spool and is counted as `pending`. May be called more than once; never rejects.
   */
  close({ timeout = this.#settings.closeTimeout }: Patience = {}): Promise<Counts> {
    this.#closing ??= this.#sender.close(timeout).then(() => this.counts);
    return this.#closing;
  }

  /**
   * Sends what is unanswered, up to so many bytes, in a request that survives the page; returns what it sent.
   */
  depart(bytes: number): readonly Entry[] {
    return this.#sender.depart(bytes);
  }

  /** Tries again now, because the network is back. */
  hurry(): void {
    this.#sender.hurry();
  }

  #accept(type: unknown, call: unknown, callback: Callback | undefined): Failure | undefined {
    if (this.#closing !== undefined) return this.#refuse(failure('closed'), callback);
    const encoded = encode(type, call, this.#encoding);
    if ('code' in encoded) return this.#refuse(encoded, callback);
    const code = this.#sender.accept({ ...encoded, callback });
    return code && this.#refuse(failure(code, { json: encoded.json }), callback);
  }

  #refuse(refusal: Failure, callback: Callback | undefined): Failure {
    this.#reports.refuse(refusal, callback);
    return refusal;
  }
}
