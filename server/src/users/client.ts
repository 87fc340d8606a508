import { newSubject } from '../model/regulation.ts';
import { type Duration, type Monotonic, SECOND } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import { type EventLog, StorageError } from '../ports/event-log.ts';
import type { Logger } from '../ports/logger.ts';
import type { OutboxEntry } from '../ports/profile-store.ts';
import type { Preview, PreviewRequest, SplitId, UserIdentity, Users, UsersStatus } from '../ports/users.ts';
import { NO_COUNTS, type UsersHealth, type UsersProgress, type UsersSettings } from './contract.ts';
import type {
  FromUsersThread,
  ToUsersThread,
  UsersCall,
  UsersCallAnswer,
  UsersCallArguments,
  UsersCallName,
  UsersThreadOptions,
} from './thread-protocol.ts';

/**
 * Pause between two messages about commits: a thread that has caught up applies at most five slices a second.
 */
const WAKE_PAUSE: Duration = 200;

/** Pauses before the thread is started again: after the first failure, and the longest. */
const FIRST_RESTART: Duration = 1000;
const LAST_RESTART: Duration = 60_000;

/** Clients count as calling for this long after the last commit of calls. */
const CALLS_PAUSE: Duration = SECOND;

/** Pause between two looks at the main thread while it is busy. */
const LOOK_PAUSE: Duration = 250;

/**
 * Calls and deliveries count as busy from this share of the main thread's time on, until two looks in a row
 * find less.
 */
const BUSY_SHARE = 0.7;
const LOOKS_UNTIL_FREE = 2;

const OTHER_NODE = 'profiles are kept by another node: ask that one (millrace status names it)';

/** Profiles that lag less are up to date. */
const LIVE_LAG: Duration = 1000;

/** The main thread's end of the messages to and from a users thread. */
export interface UsersThreadChannel {
  post(message: ToUsersThread): void;
  /** Call once, at once. `ended` is the last to be called, with the reason. */
  listen(listener: { heard(message: FromUsersThread): void; ended(reason: string): void }): void;
}

export type StartUsersThread = (options: UsersThreadOptions) => UsersThreadChannel;

export interface UsersClientDependencies {
  /** `auto`: the thread starts with the first computation, or when profiles are asked for. */
  readonly profiles: 'off' | 'auto' | 'on';
  /** Options of the thread, read anew at each of its starts. */
  readonly options: () => Omit<UsersThreadOptions, 'settings' | 'isPaused'>;
  readonly startThread: StartUsersThread;
  /** Whether there is a file of profiles already. */
  readonly hasFile: () => boolean;
  /** True where several processes share the profiles; one of them applies the log to them. */
  readonly isShared?: boolean;
  /**
   * The share of the time since the last question in which the main thread had something to do, from 0 to 1.
   */
  readonly busyShare: () => number;
  readonly clock: Clock;
  readonly logger: Logger;
}

/**
 * Tells whether calls and deliveries keep the main thread busy. A short pause of theirs does not make it
 * free.
 */
export class BusyDetector {
  #looksFree = LOOKS_UNTIL_FREE;

  get isBusy(): boolean {
    return this.#looksFree < LOOKS_UNTIL_FREE;
  }

  /** @param share of the time since the last look in which the main thread had something to do */
  look(share: number): boolean {
    this.#looksFree = share >= BUSY_SHARE ? 0 : this.#looksFree + 1;
    return this.isBusy;
  }
}

/**
 * The main thread's end of the users thread. It starts the thread when profiles are needed, starts it again
 * with growing pauses when it dies, and tells it of commits. Until then it costs a comparison for each
 * commit.
 *
 * Calls reject with a `StorageError` when the thread cannot answer.
 */
export class UsersClient implements Users {
  readonly #dependencies: UsersClientDependencies;
  #settings: UsersSettings;
  #thread: UsersThread | undefined;
  #progress: UsersProgress | undefined;
  #failure: string | undefined;
  #restart: Duration = FIRST_RESTART;
  #restarts = 0;
  #cancelRestart: (() => void) | undefined;
  #cancelWake: (() => void) | undefined;
  #cancelLook: (() => void) | undefined;
  readonly #mainThread = new BusyDetector();
  #wokenAt: Monotonic = Number.NEGATIVE_INFINITY;
  #callsAt: Monotonic = Number.NEGATIVE_INFINITY;
  #isStopped = false;
  #isLeading: boolean;
  /** Resolves when the change of leadership under way is over: until then no thread can answer. */
  #handover: Promise<void> | undefined;
  #outboxListener: (last: number) => void = () => {};

  constructor(dependencies: UsersClientDependencies, settings: UsersSettings) {
    this.#dependencies = dependencies;
    this.#settings = settings;
    this.#isLeading = dependencies.isShared !== true;
  }

  /** The job of the one node that applies the log, for `nodes/single-jobs.ts`. */
  readonly leadership = {
    start: (): Promise<void> => this.#lead(true),
    stop: (): Promise<void> => this.#lead(false),
  };

  /** Starts the thread if profiles are needed now. Idempotent. */
  start(): void {
    if (this.#isStopped || this.#thread !== undefined || this.#handover !== undefined) return;
    if (this.#isLeading && this.#isNeeded()) this.#startThread();
  }

  /**
   * Whether this process applies the log to the profiles. Otherwise it only answers questions, with a thread
   * that starts with the first. Resolves when the thread so far has ended its last slice.
   */
  async #lead(isLeading: boolean): Promise<void> {
    while (this.#handover !== undefined) await this.#handover;
    if (this.#isStopped) return;
    const thread = this.#isLeading === isLeading ? undefined : this.#thread;
    this.#isLeading = isLeading;
    if (thread === undefined) return this.start();
    this.#thread = undefined;
    this.#failure = undefined;
    this.#progress = undefined;
    this.#handover = thread.stop().then(() => {
      this.#handover = undefined;
      this.start();
    });
    await this.#handover;
  }

  /** Takes the settings as they are now; the thread starts with the first computation. */
  configure(settings: UsersSettings): void {
    this.#settings = settings;
    if (this.#thread === undefined) {
      if (this.#cancelRestart === undefined) this.start();
      return;
    }
    // A failure stands in the progress of the thread.
    this.#thread.call('configure', settings).catch(() => {});
  }

  #isNeeded(): boolean {
    const { profiles, hasFile } = this.#dependencies;
    if (profiles !== 'auto') return profiles === 'on';
    return this.#settings.computations.length > 0 || hasFile();
  }

  /** Call after every commit of calls. */
  readonly callsCommitted = (): void => {
    this.#callsAt = this.#dependencies.clock.monotonic();
    this.committed();
  };

  /** Tells whether clients call now. */
  readonly hasCalls = (): boolean => this.#dependencies.clock.monotonic() - this.#callsAt <= CALLS_PAUSE;

  /** Call after every other commit of events. */
  readonly committed = (): void => {
    if (this.#thread === undefined || this.#cancelWake !== undefined) return;
    const { clock } = this.#dependencies;
    const wait = this.#wokenAt + WAKE_PAUSE - clock.monotonic();
    if (wait <= 0) this.#wake();
    else this.#cancelWake = clock.after(wait, () => this.#wake());
  };

  #wake(): void {
    this.#look();
    this.#cancelWake = undefined;
    this.#wokenAt = this.#dependencies.clock.monotonic();
    this.#thread?.wake();
  }

  /**
   * Lets the thread know when calls and deliveries begin to keep the main thread busy, and when they no
   * longer do.
   */
  #look(): void {
    const { busyShare, clock } = this.#dependencies;
    const wasBusy = this.#mainThread.isBusy;
    const isBusy = this.#mainThread.look(busyShare());
    if (isBusy !== wasBusy) this.#thread?.yieldTo(isBusy);
    this.#cancelLook?.();
    this.#cancelLook = isBusy ? clock.after(LOOK_PAUSE, () => this.#look()) : undefined;
  }

  /** `listener` is called with the number of the newest entry for the log, after every change of it. */
  followOutbox(listener: (last: number) => void): void {
    this.#outboxListener = listener;
  }

  /** As `ProfileStore.outbox`; nothing while no thread runs. */
  async outbox(after: number, max: number): Promise<readonly OutboxEntry[]> {
    return this.#thread === undefined ? [] : this.#thread.call('outbox', after, max);
  }

  /** Entries up to this sequence number are in the log. */
  async sent(to: number): Promise<void> {
    await this.#thread?.call('sent', to);
  }

  async profile(id: UserIdentity) {
    return (await this.#running())?.call('profile', id);
  }

  async joinedIds(userIds: readonly string[]) {
    const thread = await this.#knowing();
    return thread === undefined ? userIds.map(newSubject) : thread.call('joinedIds', userIds);
  }

  async usersOf(anonymousIds: readonly string[]) {
    const thread = await this.#knowing();
    return thread === undefined ? anonymousIds.map(() => undefined) : thread.call('usersOf', anonymousIds);
  }

  async visitors(anonymousIds: readonly string[]) {
    const thread = await this.#knowing();
    return thread === undefined ? anonymousIds.map(() => undefined) : thread.call('visitors', anonymousIds);
  }

  async erase(userIds: readonly string[], anonymousIds: readonly string[]) {
    const thread = await this.#knowing();
    if (thread !== undefined) return thread.call('erase', userIds, anonymousIds);
    const { hasFile } = this.#dependencies;
    if (!hasFile() || this.#isStopped) return 0;
    // Profiles are off; what was stored of a user is erased all the same.
    const eraser = this.#makeThread(true);
    try {
      return await eraser.call('erase', userIds, anonymousIds);
    } finally {
      await eraser.stop();
    }
  }

  async members(computation: number, limit: number, from?: string) {
    const thread = await this.#running();
    if (thread === undefined) return { members: [] };
    return from === undefined
      ? thread.call('members', computation, limit)
      : thread.call('members', computation, limit, from);
  }

  async preview(request: PreviewRequest, signal?: AbortSignal) {
    return (await this.#demanded()).preview(request, signal);
  }

  async repeat(computation: number, destination: string) {
    if (!this.#isLeading) throw new StorageError(OTHER_NODE);
    return (await this.#demanded()).call('repeat', computation, destination);
  }

  async doubtfulMerges(after?: number) {
    return (await this.#demanded()).call(
      'doubtfulMerges',
      ...(after === undefined ? [] : ([after] as const)),
    );
  }

  async foreseeSplit(ids: readonly [SplitId, SplitId]) {
    return (await this.#demanded()).call('foreseeSplit', ids);
  }

  /**
   * Does nothing for a node that does not keep the profiles: the one that does applies splits as soon as it
   * has the settings.
   */
  async applySplits() {
    if (this.#isLeading) await (await this.#demanded()).call('applySplits');
  }

  async rebuild(options: { readonly dryRun: boolean }) {
    if (!this.#isLeading && !options.dryRun) throw new StorageError(OTHER_NODE);
    return (await this.#demanded()).call('rebuild', options);
  }

  async status(): Promise<UsersStatus> {
    while (this.#handover !== undefined) await this.#handover;
    const { profiles = 0, bytes = 0, behind = 0, lag = 0 } = this.progress() ?? {};
    const none = { profiles, bytes, behind, lag, computations: [] };
    const failure = this.#failure ?? this.#progress?.failure;
    if (failure !== undefined) return { state: 'failed', reason: failure, ...none };
    const isAsked = this.#thread !== undefined || (!this.#isLeading && this.#isNeeded());
    const thread = isAsked ? await this.#running() : undefined;
    if (thread === undefined) return { state: 'off', ...none };
    try {
      return await statusOf(thread);
    } catch (error) {
      // Another thread answers from here on: this process has become the leading one, or no longer is.
      if (this.#thread === thread || this.#isStopped || this.#failure !== undefined) throw error;
      return this.status();
    }
  }

  /** As the thread reported last; undefined when it does not run. */
  readonly progress = (): UsersProgress | undefined =>
    this.#thread === undefined && this.#failure === undefined ? undefined : this.#progress;

  readonly health = (): UsersHealth => {
    const progress = this.progress();
    const reason = this.#failure ?? progress?.failure;
    return {
      progress,
      isFailed: reason !== undefined,
      reason,
      isLate: (progress?.lag ?? 0) >= LIVE_LAG,
      restarts: this.#restarts,
    };
  };

  /** Reasons why profiles are not kept up, or cannot be read in part; empty while all is well. */
  readonly degraded = (): readonly string[] => {
    const failure = this.#failure ?? this.#progress?.failure;
    const { damaged = 0, failed = [], counts = NO_COUNTS } = this.#progress ?? {};
    return [
      ...(failure === undefined ? [] : [`profiles stand still: ${failure}`]),
      ...(damaged === 0
        ? []
        : [
            `${damaged} rows of users.db cannot be read, because their bytes have changed on the disk: check the disk, then apply ` +
              'the log again with millrace profiles rebuild; everything else goes on',
          ]),
      ...(failed.length === 0
        ? []
        : [
            `${failed.map((name) => JSON.stringify(name)).join(', ')} cannot be computed: millrace audience list and trait list say why; ` +
              'everything else goes on',
          ]),
      ...(counts.skipped === 0
        ? []
        : [
            `${counts.skipped} events do not count for profiles, because Millrace failed on them: profiles.event_skipped in the log ` +
              'names them; please report it',
          ]),
    ];
  };

  /** Ends the thread after the slice under way. Idempotent. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#cancelRestart?.();
    this.#cancelWake?.();
    this.#cancelLook?.();
    await this.#thread?.stop();
  }

  /**
   * The thread that knows which profiles are stored; undefined where none are needed. Throws when it is not
   * there now: "nobody" would be no true answer.
   */
  async #knowing(): Promise<UsersThread | undefined> {
    const isAsked = this.#thread !== undefined || this.#failure !== undefined || this.#isNeeded();
    return isAsked || this.#dependencies.isShared === true ? this.#running() : undefined;
  }

  /** The thread; starts it unless profiles are off. */
  async #running(): Promise<UsersThread | undefined> {
    while (this.#handover !== undefined) await this.#handover;
    if (this.#thread !== undefined) return this.#thread;
    if (this.#failure !== undefined) throw new StorageError(this.#failure);
    if (this.#dependencies.profiles === 'off' || this.#isStopped) return undefined;
    return this.#startThread();
  }

  async #demanded(): Promise<UsersThread> {
    const thread = await this.#running();
    if (thread !== undefined) return thread;
    throw new StorageError('profiles are off: set profiles to auto or on, and start Millrace again');
  }

  #startThread(): UsersThread {
    if (this.#isStopped) throw new StorageError('the users thread is stopped');
    const { clock, logger } = this.#dependencies;
    this.#cancelRestart = undefined;
    const thread = this.#makeThread(!this.#isLeading);
    if (this.#mainThread.isBusy) thread.yieldTo(true);
    this.#thread = thread;
    this.#failure = undefined;
    const startedAt = clock.monotonic();
    logger.info({}, 'profiles.started');
    void thread.ended.then((reason) => {
      if (this.#isStopped || this.#thread !== thread) return;
      this.#thread = undefined;
      if (!this.#isLeading) return;
      if (clock.monotonic() - startedAt > LAST_RESTART) this.#restart = FIRST_RESTART;
      this.#failure = `the users thread has ended (${reason}): it is started again by itself; if that goes on, see the log`;
      logger.error({ reason, againInMs: this.#restart }, 'profiles.ended');
      this.#cancelRestart = clock.after(this.#restart, () => {
        this.#restarts++;
        this.#startThread();
      });
      this.#restart = Math.min(LAST_RESTART, this.#restart * 2);
    });
    return thread;
  }

  #makeThread(isPaused: boolean): UsersThread {
    const { options, startThread, logger } = this.#dependencies;
    const given = { ...options(), settings: this.#settings };
    return new UsersThread(startThread(isPaused ? { ...given, isPaused } : given), {
      logger,
      progress: (progress) => {
        const hasNew = progress.lastOutbox !== this.#progress?.lastOutbox;
        this.#progress = progress;
        if (hasNew) this.#outboxListener(progress.lastOutbox);
      },
    });
  }
}

async function statusOf(thread: UsersThread): Promise<UsersStatus> {
  const { failure, ...at } = await thread.call('progress');
  const sizes = { profiles: at.profiles, bytes: at.bytes, behind: at.behind, lag: at.lag };
  if (failure !== undefined) return { state: 'failed', reason: failure, ...sizes, computations: [] };
  const computations = await thread.call('computations');
  return { state: at.lag < LIVE_LAG ? 'live' : 'catching_up', ...sizes, computations };
}

interface ThreadListener {
  readonly logger: Logger;
  progress(progress: UsersProgress): void;
}

/** One life of the thread. */
class UsersThread {
  readonly #channel: UsersThreadChannel;
  readonly #waiting = new Map<number, { resolve(answer: unknown): void; reject(error: Error): void }>();
  #lastId = 0;
  #closed: StorageError | undefined;
  /** Resolves to the reason when the thread has ended. */
  readonly ended: Promise<string>;

  constructor(channel: UsersThreadChannel, listener: ThreadListener) {
    this.#channel = channel;
    const end = Promise.withResolvers<string>();
    this.ended = end.promise;
    channel.listen({
      heard: (message) => {
        if (message.kind === 'log') listener.logger[message.level](message.facts, message.event);
        else if (message.kind === 'progress') listener.progress(message.progress);
        else this.#settle(message);
      },
      ended: (reason) => {
        this.#closed = new StorageError(`the users thread has ended (${reason}): try again later`);
        for (const { reject } of this.#waiting.values()) reject(this.#closed);
        this.#waiting.clear();
        end.resolve(reason);
      },
    });
  }

  wake(): void {
    this.#channel.post({ kind: 'wake' });
  }

  yieldTo(isBusy: boolean): void {
    this.#channel.post({ kind: 'load', isBusy });
  }

  call<Name extends UsersCallName>(
    name: Name,
    ...given: UsersCallArguments<Name>
  ): Promise<UsersCallAnswer<Name>> {
    return this.#ask(++this.#lastId, name, given);
  }

  preview(request: PreviewRequest, signal?: AbortSignal): Promise<Preview> {
    const id = ++this.#lastId;
    const cancel = () => this.#channel.post({ kind: 'cancel', id });
    signal?.addEventListener('abort', cancel, { once: true });
    return this.#ask(id, 'preview', [request]).finally(() => signal?.removeEventListener('abort', cancel));
  }

  #ask<Name extends UsersCallName>(
    id: number,
    name: Name,
    given: UsersCallArguments<Name>,
  ): Promise<UsersCallAnswer<Name>> {
    if (this.#closed !== undefined) return Promise.reject(this.#closed);
    const { promise, resolve, reject } = Promise.withResolvers<UsersCallAnswer<Name>>();
    this.#waiting.set(id, { resolve: (answer) => resolve(answer as UsersCallAnswer<Name>), reject });
    // The compiler does not see that name and arguments belong together.
    this.#channel.post({ kind: 'call', id, name, arguments: given } as UsersCall);
    return promise;
  }

  async stop(): Promise<void> {
    if (this.#closed === undefined) await this.call('stop').catch(() => {});
    await this.ended;
  }

  #settle(reply: Extract<FromUsersThread, { id: number }>): void {
    const waiting = this.#waiting.get(reply.id);
    this.#waiting.delete(reply.id);
    if (reply.kind === 'done') waiting?.resolve(reply.answer);
    else waiting?.reject(new StorageError(reply.reason));
  }
}

/** The log, telling the profiles of every commit. */
export function announcedLog(log: Pick<EventLog, 'append'>, committed: () => void): Pick<EventLog, 'append'> {
  return {
    append: async (batch) => {
      const appended = await log.append(batch);
      committed();
      return appended;
    },
  };
}
