import type { Destination } from '../model/destination.ts';
import { defined } from '../model/json.ts';
import { everyLaneIdOf } from '../model/lane.ts';
import {
  type Replay,
  type ReplayPreview,
  type ReplayRequest,
  type ReplayStatus,
  revives,
} from '../model/replay.ts';
import { type Duration, type Monotonic, SECOND } from '../model/time.ts';
import { type Clock, InterruptibleSleep, waitAtMost } from '../ports/clock.ts';
import type { DeliveryQueue, ReplayProgress } from '../ports/delivery-queue.ts';
import type { Logger } from '../ports/logger.ts';
import type { SettingsChanges, SettingsSnapshot } from '../ports/settings-store.ts';
import type { DeadLetterView, HistoryView, LogView } from '../ports/store-view.ts';
import { nextStep, pauseAfter, ThroughputMeter } from './policy.ts';
import { previewRedelivery, previewReplay, storedFrom } from './preview.ts';
import { DeadLetterRedelivery } from './redelivery.ts';
import {
  cursorRangeOf,
  type EventSlice,
  LogCursor,
  type ReplayFilterFactory,
  type RoutingRules,
  replayFilters,
  selectDelivered,
  type WithholdingFactory,
} from './selection.ts';

export interface ReplayerDependencies extends Omit<ReplayJobDependencies, 'log' | 'filterFor'>, RoutingRules {
  readonly log: Pick<LogView, 'find' | 'read' | 'rangeSize'>;
  readonly settings: ReplayJobDependencies['settings'] & {
    follow(tell: (snapshot: SettingsSnapshot) => void): void;
  };
}

/** Runs every replay whose record says `running`: new ones, and those that a restart has interrupted. */
export class Replayer {
  readonly #dependencies: ReplayerDependencies & ReplayJobDependencies;
  readonly #jobs = new Map<string, ReplayJob>();
  #isFollowing = false;
  #isStopped = true;

  constructor(dependencies: ReplayerDependencies) {
    this.#dependencies = { ...dependencies, filterFor: replayFilters(dependencies) };
  }

  start(): void {
    const { settings } = this.#dependencies;
    this.#isStopped = false;
    if (this.#isFollowing) this.#startJobs(settings.now().replays);
    else settings.follow(({ replays }) => this.#startJobs(replays));
    this.#isFollowing = true;
  }

  /** Starts nothing new and waits for the slices under way. It can be started again. Idempotent. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    await Promise.all([...this.#jobs.values()].map((job) => job.stop()));
  }

  /** Counts the events that a replay would enqueue; `request.destination` must exist. */
  readonly preview = async (request: ReplayRequest): Promise<ReplayPreview> => {
    const { settings, filterFor, log, clock, history, lanesOf } = this.#dependencies;
    const snapshot = settings.now();
    const destination = snapshot.destinations.find(({ name }) => name === request.destination);
    if (destination === undefined) return { count: 0, deliveries: 0, bytes: 0, isExact: true };
    if (revives(request)) return await previewRedelivery(request, destination, this.#dependencies);
    const logCursor = new LogCursor(log, cursorRangeOf(request, snapshot));
    const lanes = lanesOf(destination);
    const readSlice = async (cursor: number): Promise<EventSlice & { readonly deliveries: number }> => {
      const slice = await logCursor.next(cursor, Number.POSITIVE_INFINITY, filterFor(request, snapshot));
      if (request.redelivers === undefined)
        return { ...slice, deliveries: slice.events.length * lanes.length };
      const all = slice.events.map(({ position }) => position);
      const { positions, only } = await selectDelivered(all, { id: destination.id, lanes }, history);
      const delivered = new Set(positions);
      return {
        to: slice.to,
        events: slice.events.filter(({ position }) => delivered.has(position)),
        deliveries: [...only.values()].reduce((sum, { length }) => sum + length, 0),
      };
    };
    return await previewReplay(request, { log, clock, readSlice });
  };

  /** Progress of a replay, also of one that has ended. */
  readonly status = async (replay: Replay): Promise<ReplayStatus> => {
    const { events, pending, cursor } = await this.#dependencies.history.progress(replay.id);
    const job = this.#jobs.get(replay.id);
    const [waiting, speed] = [job?.waiting, job?.speed];
    return {
      events,
      pending: [...pending.values()].reduce((sum, n) => sum + n, 0),
      ...(await this.#remainingOf(replay, { events, cursor })),
      ...defined({ speed, waiting }),
    };
  };

  /** Resolves when a replay has ended, or after `limit`. */
  readonly waitForEnd = async (id: string, limit: Duration): Promise<void> => {
    const job = this.#jobs.get(id);
    if (job !== undefined) await waitAtMost(job.finished, limit, this.#dependencies.clock);
  };

  /** Improves on an estimated preview, by the share of wanted events among those read so far. */
  async #remainingOf(replay: Replay, { events, cursor }: Pick<ReplayProgress, 'events' | 'cursor'>) {
    if (replay.state !== 'running' || replay.preview.isExact || revives(replay)) return {};
    const { log } = this.#dependencies;
    const [whole, left] = [await storedFrom(log, replay, 0), await storedFrom(log, replay, cursor)];
    const scanned = whole.events - left.events;
    const guess = Math.max(0, replay.preview.count - events);
    const expected = scanned <= 0 ? guess : Math.round((left.events * events) / scanned);
    return { left: Math.min(left.events, expected) };
  }

  #startJobs(replays: readonly Replay[]): void {
    if (this.#isStopped) return;
    const running = replays.filter(({ state }) => state === 'running');
    for (const job of this.#jobs.values()) job.settingsChanged();
    for (const replay of running) {
      const { id } = replay;
      if (this.#jobs.has(id)) continue;
      this.#dependencies.logger.info({ replay: id, destination: replay.destination }, 'replay.running');
      const job = new ReplayJob(replay, this.#dependencies);
      this.#jobs.set(id, job);
      void job.finished.then(() => this.#jobs.delete(id));
    }
  }
}

/** How soon a destination that is behind is checked again. */
const WAIT_INTERVAL: Duration = SECOND / 5;

/** A failed call of the store is repeated after this delay, without a limit. */
const STORAGE_RETRY: Duration = SECOND;

export interface ReplayJobDependencies {
  readonly log: Pick<LogView, 'find' | 'read'>;
  readonly deliveryQueue: Pick<DeliveryQueue, 'enqueue'>;
  readonly history: Pick<HistoryView, 'progress' | 'read'>;
  readonly deadLetters: Pick<DeadLetterView, 'list' | 'count' | 'redeliver'>;
  readonly settings: {
    now(): SettingsSnapshot;
    change(decide: (now: SettingsSnapshot) => SettingsChanges): Promise<SettingsSnapshot>;
  };
  readonly clock: Clock;
  readonly logger: Logger;
  /** Deliveries of a destination, or of one of its endpoints, are due on disk. */
  readonly parked: (destination: number, at: Monotonic) => void;
  readonly filterFor: ReplayFilterFactory;
  readonly withholding: WithholdingFactory;
  /** Ids of the lanes of a destination as its settings are now (`laneIdsOf`). */
  readonly lanesOf: (destination: Destination) => readonly number[];
}

/**
 * Runs one replay: slice, pause, slice. Its cursor is committed with the deliveries of each slice, so after a
 * crash the next process goes on behind the last slice on disk.
 */
export class ReplayJob {
  readonly #id: string;
  readonly #dependencies: ReplayJobDependencies;
  readonly #cursor: LogCursor;
  readonly #throughput = new ThroughputMeter();
  readonly #pause: InterruptibleSleep;
  /** Present for a redelivery of dead letters. */
  readonly #redelivery: DeadLetterRedelivery | undefined;
  /** Resolves when the job has ended. Never rejects. */
  readonly finished: Promise<void>;
  /** Absent until it has been read from the store. */
  #progress: ReplayProgress | undefined;
  #waiting: ReplayStatus['waiting'];
  #isOver = false;

  constructor(replay: Replay, dependencies: ReplayJobDependencies) {
    this.#id = replay.id;
    this.#dependencies = dependencies;
    this.#cursor = new LogCursor(dependencies.log, cursorRangeOf(replay, dependencies.settings.now()));
    this.#pause = new InterruptibleSleep(dependencies.clock);
    this.#redelivery = revives(replay) ? new DeadLetterRedelivery(replay, dependencies) : undefined;
    this.finished = this.#run();
  }

  /** Recent throughput in events a second; absent while it is not known. */
  get speed(): number | undefined {
    return this.#throughput.perSecond(this.#dependencies.clock.monotonic());
  }

  /** The reason why nothing is enqueued at the moment. */
  get waiting(): ReplayStatus['waiting'] {
    return this.#waiting;
  }

  /** Cuts the pause short: a change of the settings may end what the job waits for. */
  settingsChanged(): void {
    this.#pause.interrupt();
  }

  /** Starts no further slice and waits for the one under way. Idempotent. */
  async stop(): Promise<void> {
    this.#isOver = true;
    this.#pause.interrupt();
    await this.finished;
  }

  async #run(): Promise<void> {
    while (!this.#isOver) {
      let pause = STORAGE_RETRY;
      try {
        pause = await this.#step();
      } catch (error) {
        // Logged once for all retries.
        if (this.#waiting !== 'storage_unavailable')
          this.#dependencies.logger.error({ error, replay: this.#id }, 'replay.failed');
        this.#progress = undefined;
        this.#waiting = 'storage_unavailable';
      }
      if (!this.#isOver) await this.#pause.sleep(pause);
    }
  }

  /** @returns the pause before the next step */
  async #step(): Promise<Duration> {
    const { history, settings, lanesOf } = this.#dependencies;
    this.#progress ??= await history.progress(this.#id);
    this.#throughput.record(this.#progress.events, this.#dependencies.clock.monotonic());
    const replay = this.#currentReplay();
    if (replay === undefined) return 0;
    const destination = settings.now().destinations.find(({ name }) => name === replay.destination);
    if (this.#redelivery !== undefined && destination !== undefined)
      return await this.#redeliverSlice(this.#redelivery, destination);
    const step = nextStep(
      replay,
      destination,
      this.#progress,
      destination === undefined ? [] : lanesOf(destination),
    );
    this.#waiting = step.kind === 'wait' ? step.reason : undefined;
    if (step.kind === 'wait') {
      this.#progress = undefined;
      return WAIT_INTERVAL;
    }
    if (step.kind === 'enqueue') return await this.#enqueueSlice(replay, this.#progress.cursor, step.max);
    await this.#finish(step);
    return 0;
  }

  /** Dead letters were owed before, so they are redelivered whatever the state of the destination. */
  async #redeliverSlice(redelivery: DeadLetterRedelivery, destination: Destination): Promise<Duration> {
    const { clock, parked } = this.#dependencies;
    const startedAt = clock.monotonic();
    const { count, isLast } = await redelivery.next(destination);
    this.#progress = undefined;
    if (count > 0) for (const id of everyLaneIdOf(destination)) parked(id, clock.monotonic());
    if (isLast) await this.#finish({ state: 'done' });
    return clock.monotonic() - startedAt;
  }

  async #enqueueSlice(replay: Replay, cursor: number, max: number): Promise<Duration> {
    const { deliveryQueue, clock, history, parked, settings, filterFor, lanesOf } = this.#dependencies;
    const startedAt = clock.monotonic();
    const { events, to } = await this.#cursor.next(cursor, max, filterFor(replay, settings.now()));
    // Meanwhile the replay may have been cancelled, or the endpoints changed: the settings of now decide.
    const destination = settings.now().destinations.find(({ name }) => name === replay.destination);
    if (destination === undefined || this.#currentReplay() === undefined) return 0;
    const now = clock.monotonic();
    const all = events.map(({ position }) => position);
    const lanes = lanesOf(destination);
    const selected =
      replay.redelivers === undefined
        ? { positions: all }
        : await selectDelivered(all, { id: destination.id, lanes }, history);
    this.#progress = await deliveryQueue.enqueue({
      origin: this.#id,
      from: cursor,
      to,
      now,
      destinations: lanes,
      ...selected,
    });
    if (events.length > 0) for (const id of lanes) parked(id, now);
    return pauseAfter(events.length, replay.rate, clock.monotonic() - startedAt);
  }

  /** The record of the replay. Ends the job when the record says that the replay is over, or is gone. */
  #currentReplay(): Replay | undefined {
    const replay = this.#dependencies.settings.now().replays.find(({ id }) => id === this.#id);
    if (replay?.state === 'running') return replay;
    this.#isOver = true;
    this.#dependencies.logger.info(
      { replay: this.#id, state: replay?.state, events: this.#progress?.events },
      'replay.ended',
    );
    return undefined;
  }

  async #finish({ state, reason }: Pick<Replay, 'state' | 'reason'>): Promise<void> {
    const { clock, logger, settings } = this.#dependencies;
    const endedAt = clock.now();
    await settings.change(({ replays }) => ({
      sources: [],
      destinations: [],
      replays: replays
        .filter((one) => one.id === this.#id && one.state === 'running')
        .map((one) => ({ ...one, state, endedAt, ...defined({ reason }) })),
    }));
    this.#isOver = true;
    logger.info({ replay: this.#id, state, reason, events: this.#progress?.events }, 'replay.ended');
  }
}
