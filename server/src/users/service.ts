import type { Duration, Monotonic } from '../model/time.ts';
import { type Clock, nextTurn } from '../ports/clock.ts';
import { type LogReader, StorageError } from '../ports/event-log.ts';
import type { Logger } from '../ports/logger.ts';
import type { ProfileStore } from '../ports/profile-store.ts';
import type { RebuildReport } from '../ports/users.ts';
import {
  NO_COUNTS,
  type ProcessorCounts,
  type RunningList,
  type RunningPreview,
  type UsersProcessor,
  type UsersProgress,
  type UsersSettings,
} from './contract.ts';
import type { FromUsersThread, ToUsersThread, UsersCall } from './thread-protocol.ts';

/**
 * Pause while the log holds nothing new. A commit of this process ends it at once; this is for all others.
 */
const IDLE_PAUSE: Duration = 1000;

/** Pause after a slice: a multiple of its length, with a longest pause. */
interface Rest {
  readonly perSlice: number;
  readonly longest: Duration;
}

/**
 * Pause while the log grows faster than profiles can follow. They lag in any case then, and working harder
 * would cost calls and deliveries, which share caches of the processor and the disk even with a thread of the
 * lowest priority.
 */
const BEHIND_THE_LOG: Rest = { perSlice: 2, longest: 2000 };

/**
 * Pause while calls and deliveries take all processors. Every slice takes from them, so profiles get a
 * twentieth of the time and catch up afterwards.
 */
const BESIDE_FULL_LOAD: Rest = { perSlice: 19, longest: 10_000 };

/**
 * Share of its time in which a slice had a processor. A slice with less had to share it with calls and
 * deliveries.
 */
const CROWDED = 0.85;

/** Pauses after failures: the first one, and the longest. */
const FIRST_RETRY: Duration = 200;
const LAST_RETRY: Duration = 30_000;

/** A moment on both clocks of the thread. */
interface Moment {
  readonly at: Monotonic;
  readonly processorTime: Duration;
}

interface WaitingCall {
  readonly id: number;
  readonly run: () => Promise<void>;
  readonly reject: (error: Error) => void;
}

/** A preview that is computed between the slices. */
interface PreviewAtWork {
  readonly id: number;
  readonly ended: Promise<void>;
}

/** The file of profiles, and what works on it. */
export interface OpenUsers {
  readonly store: ProfileStore;
  readonly processor: UsersProcessor;
}

export interface UsersServiceDependencies {
  /** Opens the file. Throws a `StorageError` when that is impossible. */
  readonly open: () => OpenUsers;
  /** Puts an empty file in the place of one that cannot be opened. */
  readonly replace: () => void;
  readonly settings: UsersSettings;
  readonly reader: LogReader;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Processor time of this thread so far. */
  readonly processorTime: () => Duration;
  readonly report: (progress: UsersProgress) => void;
  /** True for a thread that applies nothing and only answers calls. */
  readonly isPaused?: boolean;
}

/** Advice for a file that does not fit the log. */
const REBUILD = 'apply the log again with millrace profiles rebuild';

/**
 * The loop of the users thread: a slice, then the calls that came meanwhile, then the next slice or a pause.
 * After a failure it waits and tries again, and still answers calls. While the file cannot be opened, only a
 * rebuild helps.
 */
export class UsersService {
  readonly #dependencies: UsersServiceDependencies;
  readonly #calls: WaitingCall[] = [];
  /** The id of the call at work. */
  #atWork: number | undefined;
  #preview: PreviewAtWork | undefined;
  /** Lists that are worked out between the slices. */
  readonly #lists = new Set<Promise<void>>();
  #users: OpenUsers | undefined;
  #settings: UsersSettings;
  #settingsWaiting = 0;
  #wake: (() => void) | undefined;
  #restsUntil: Monotonic = Number.NEGATIVE_INFINITY;
  #isMainThreadBusy = false;
  /** True when the log may hold more than the last slice has seen. */
  #isDue = true;
  #isStopping = false;
  #failure: string | undefined;
  #retry: Duration = FIRST_RETRY;
  #slices = 0;
  #applied = 0;
  #lastOutbox = 0;
  #counts: ProcessorCounts = NO_COUNTS;
  #failedComputations: readonly string[] = [];
  #hasReported = false;

  constructor(dependencies: UsersServiceDependencies) {
    this.#dependencies = dependencies;
    this.#settings = dependencies.settings;
  }

  /** Resolves when `stop` was called and everything is closed. */
  async run(): Promise<void> {
    const { reader } = this.#dependencies;
    while (!this.#isStopping) {
      await this.#answerAll();
      if (this.#isStopping) break;
      const rest = this.#restsUntil - this.#dependencies.clock.monotonic();
      await this.#pause(rest > 0 ? rest : await this.#step());
    }
    await this.#answerAll();
    if (this.#preview !== undefined) this.#users?.processor.cancelPreview();
    if (this.#lists.size > 0) this.#users?.processor.cancelAll();
    await this.#preview?.ended;
    await Promise.all(this.#lists);
    await this.#users?.store.stop();
    await reader.stop();
  }

  /** Call when the log has grown. */
  wake(): void {
    this.#isDue = true;
    if (!this.#isResting()) this.#wake?.();
  }

  /** Call when calls and deliveries begin or cease to keep the main thread busy. */
  yieldTo(isBusy: boolean): void {
    this.#isMainThreadBusy = isBusy;
    if (isBusy) return;
    this.#restsUntil = Number.NEGATIVE_INFINITY;
    this.#wake?.();
  }

  /** Ends the loop after the slice under way. */
  stop(): void {
    this.#isStopping = true;
    this.#wake?.();
  }

  /** Runs a call between two slices. */
  call({ id, name, arguments: given }: UsersCall): Promise<unknown> {
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    const run = async () => {
      try {
        const answer = await this.#answer(name, given);
        if (name === 'preview') this.#follow(id, (answer as RunningPreview).result.then(resolve, reject));
        else if (name === 'doubtfulMerges')
          this.#followList((answer as RunningList).result.then(resolve, reject));
        else resolve(answer);
      } catch (error) {
        reject(error);
      }
    };
    this.#calls.push({ id, run, reject });
    if (name === 'configure') {
      this.#settingsWaiting++;
      this.#users?.processor.settingsWait();
    }
    // These may make work for the next slice.
    if (['configure', 'rebuild', 'repeat', 'sent'].includes(name)) this.#isDue = true;
    this.#wake?.();
    return promise;
  }

  /**
   * Cancels a call whose caller no longer waits: ends its preview under way, or drops it if it has not begun.
   */
  cancel(id: number): void {
    const place = this.#calls.findIndex((call) => call.id === id);
    if (place >= 0) this.#calls.splice(place, 1)[0]!.reject(new StorageError('nobody waits for it any more'));
    else if (this.#atWork === id || this.#preview?.id === id) this.#users?.processor.cancelPreview();
  }

  /** Lets a preview go on between the slices. */
  #follow(id: number, result: Promise<void>): void {
    const preview = {
      id,
      ended: result.finally(() => {
        if (this.#preview === preview) this.#preview = undefined;
      }),
    };
    this.#preview = preview;
  }

  #followList(result: Promise<void>): void {
    const ended = result.finally(() => this.#lists.delete(ended));
    this.#lists.add(ended);
  }

  /** Answers the calls that have come by now. */
  async #answerAll(): Promise<void> {
    for (let left = this.#calls.length; left > 0 && this.#calls.length > 0; left--) {
      const { id, run } = this.#calls.shift()!;
      this.#atWork = id;
      await run();
    }
    this.#atWork = undefined;
  }

  async #answer(name: UsersCall['name'], given: readonly unknown[]): Promise<unknown> {
    if (name === 'progress') return this.#progress();
    if (name === 'stop') {
      this.#isStopping = true;
      return undefined;
    }
    if (name === 'configure') {
      this.#settings = given[0] as UsersSettings;
      this.#settingsWaiting--;
    }
    const opened = this.#users;
    try {
      const { processor } = await this.#open();
      // A file that was opened by this call has the settings already.
      if (name === 'configure' && opened === undefined) return undefined;
      const method = processor[name] as (...given: readonly unknown[]) => Promise<unknown>;
      return await method.apply(processor, [...given]);
    } catch (error) {
      if (name !== 'rebuild' || this.#users !== undefined) throw error;
      return this.#replace(given[0] as { readonly dryRun: boolean });
    }
  }

  async #open(): Promise<OpenUsers> {
    if (this.#users !== undefined) return this.#users;
    const { open, reader } = this.#dependencies;
    const users = open();
    try {
      const [{ position }, { end }] = await Promise.all([users.store.cursor(), reader.bounds()]);
      if (position > end) {
        throw new StorageError(
          `users.db has seen ${position - end} events that millrace.db does not hold, as after the restore of a backup: ${REBUILD}`,
        );
      }
      await users.processor.configure(this.#settings);
    } catch (error) {
      await users.store.stop();
      throw error;
    }
    this.#users = users;
    return users;
  }

  /** Rebuilds in a new file, because the old one cannot be opened and its content is unknown. */
  async #replace({ dryRun }: { readonly dryRun: boolean }): Promise<RebuildReport> {
    const { reader, replace } = this.#dependencies;
    const { first, end } = await reader.bounds();
    if (!dryRun) {
      replace();
      await this.#open();
    }
    return { profiles: 0, events: end - first, poorer: 0 };
  }

  /** One slice. Resolves to the pause after it; 0 for none. */
  async #step(): Promise<Duration> {
    const { logger, reader, report, isPaused = false } = this.#dependencies;
    if (isPaused) return IDLE_PAUSE;
    this.#isDue = false;
    const begun = this.#moment();
    try {
      const { processor } = await this.#open();
      // They came while the file was opened, and are older than events that may be there by now.
      if (this.#settingsWaiting > 0) return 0;
      const { end } = await reader.bounds();
      const { done, hasMore, nextAt, lastOutbox, counts, failed } = await processor.slice();
      this.#lastOutbox = lastOutbox;
      this.#counts = counts;
      this.#failedComputations = failed;
      const hadFailed = this.#failure !== undefined;
      if (hadFailed) logger.info({}, 'profiles.recovered');
      this.#failure = undefined;
      this.#retry = FIRST_RETRY;
      if (done > 0) {
        this.#slices++;
        this.#applied += done;
      }
      // After a start the main thread knows nothing yet, and there may be nothing new for days.
      if (done > 0 || hadFailed || !this.#hasReported) report(await this.#progress());
      this.#hasReported = true;
      if (hasMore) return this.#rest(begun, (await reader.bounds()).end - end > done);
      return nextAt === undefined
        ? IDLE_PAUSE
        : Math.min(IDLE_PAUSE, Math.max(1, nextAt - this.#dependencies.clock.now()));
    } catch (error) {
      return this.#failed(error);
    }
  }

  #moment(): Moment {
    const { clock, processorTime } = this.#dependencies;
    return { at: clock.monotonic(), processorTime: processorTime() };
  }

  /** The pause after a slice that began at `begun` and left something to do; 0 for none. */
  #rest(begun: Moment, hasLogOutgrown: boolean): Duration {
    const { at, processorTime } = this.#moment();
    const took = at - begun.at;
    const isCrowded = processorTime - begun.processorTime < CROWDED * took;
    let rest: Rest | undefined;
    if (this.#isMainThreadBusy && isCrowded) rest = BESIDE_FULL_LOAD;
    else if (hasLogOutgrown && isCrowded) rest = BEHIND_THE_LOG;
    const pause = rest === undefined ? 0 : Math.min(rest.longest, rest.perSlice * took);
    this.#restsUntil = at + pause;
    return pause;
  }

  #isResting(): boolean {
    return this.#dependencies.clock.monotonic() < this.#restsUntil;
  }

  async #failed(error: unknown): Promise<Duration> {
    const { logger, report } = this.#dependencies;
    const reason = reasonOf(error);
    if (this.#failure !== reason) logger.error({ reason, error }, 'profiles.failed');
    this.#failure = reason;
    report(await this.#progress());
    const pause = this.#retry;
    this.#retry = Math.min(LAST_RETRY, pause * 2);
    return pause;
  }

  async #progress(): Promise<UsersProgress> {
    const { reader, clock } = this.#dependencies;
    const own = {
      ...{ slices: this.#slices, applied: this.#applied, lastOutbox: this.#lastOutbox },
      ...{ counts: this.#counts, failed: this.#failedComputations },
    };
    const failure = this.#failure === undefined ? {} : { failure: this.#failure };
    try {
      if (this.#users === undefined && this.#failure !== undefined) throw new StorageError(this.#failure);
      // A thread that has just begun would otherwise call itself failed.
      const { store } = await this.#open();
      const [{ position }, size, { first, end }] = await Promise.all([
        store.cursor(),
        store.size(),
        reader.bounds(),
      ]);
      const next = Math.max(position, first);
      const behind = Math.max(0, end - next);
      const [at] = behind === 0 ? [] : (await reader.page(next, 1)).times;
      const lag = at === undefined || at === 0 ? 0 : Math.max(0, clock.monotonic() - at);
      return { ...failure, ...size, behind, lag, ...own };
    } catch (error) {
      const unknown = { profiles: 0, bytes: 0, damaged: 0, behind: 0, lag: 0 };
      return { ...unknown, ...own, failure: this.#failure ?? reasonOf(error) };
    }
  }

  /** Pauses. Ends early when a call comes, and when the log grows unless the last slice failed. */
  #pause(pause: Duration): Promise<void> {
    const mayStart =
      this.#isDue &&
      !this.#isResting() &&
      this.#failure === undefined &&
      this.#dependencies.isPaused !== true;
    if (this.#calls.length > 0 || this.#isStopping || mayStart) return nextTurn(this.#dependencies.clock);
    if (pause === 0) return nextTurn(this.#dependencies.clock);
    return new Promise((resolve) => {
      const cancel = this.#dependencies.clock.after(pause, () => end());
      const end = () => {
        this.#wake = undefined;
        cancel();
        resolve();
      };
      this.#wake = () => {
        if (this.#failure === undefined || this.#calls.length > 0 || this.#isStopping) end();
      };
    });
  }
}

/** Takes the messages to a users thread, and posts what it answers. */
export function serveMessages(
  service: UsersService,
  post: (message: FromUsersThread) => void,
): (message: ToUsersThread) => void {
  return (message) => {
    if (message.kind === 'wake') return service.wake();
    if (message.kind === 'load') return service.yieldTo(message.isBusy);
    const { id } = message;
    if (message.kind === 'cancel') return service.cancel(id);
    service.call(message).then(
      (answer) => post({ kind: 'done', id, answer }),
      (error: unknown) => post({ kind: 'failed', id, reason: reasonOf(error) }),
    );
  };
}

function reasonOf(error: unknown): string {
  if (error instanceof StorageError) return error.reason;
  return `profiles cannot be kept up because of a fault in Millrace (${error}): please report it with the log`;
}
