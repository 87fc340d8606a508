import { type Destination, everyLaneIdOf, lanesOf } from '../model/destination.ts';
import type { Replay, ReplayPreview, ReplayRequest, ReplayStatus } from '../model/replay.ts';
import { type Duration, SECOND, type Time } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import type {
  DeadLetterQueue,
  DeliveryHistories,
  DeliveryQueue,
  ReplayProgress,
} from '../ports/delivery-queue.ts';
import type { EventLog } from '../ports/event-log.ts';
import type { Logger } from '../ports/logger.ts';
import type { SettingsChanges, SettingsSnapshot } from '../ports/settings-store.ts';
import { type EventSlice, LogCursor } from './cursor.ts';
import { nextStep, pauseAfter, ThroughputMeter } from './policy.ts';
import { extentOf, previewOf } from './preview.ts';
import { DeadLetterRedelivery, redeliveryPreview } from './redelivery.ts';
import {
  cursorRangeOf,
  type ReplayFilterFor,
  type RoutingPredicate,
  replayFilters,
  selectDelivered,
} from './selection.ts';

export interface ReplayerDependencies extends Omit<ReplayJobDependencies, 'log' | 'wantedBy'> {
  readonly log: Pick<EventLog, 'find' | 'read' | 'rangeSize'>;
  readonly settings: ReplayJobDependencies['settings'] & {
    follow(tell: (snapshot: SettingsSnapshot) => void): void;
  };
  readonly goesTo: RoutingPredicate;
}

/** Runs every replay that the settings say is running: those an operator has just started, and those of before a restart. */
export class Replayer {
  readonly #tools: ReplayerDependencies & ReplayJobDependencies;
  readonly #jobs = new Map<string, ReplayJob>();
  #isStopped = false;

  constructor(options: ReplayerDependencies) {
    this.#tools = { ...options, wantedBy: replayFilters(options.goesTo) };
  }

  start(): void {
    this.#tools.settings.follow(({ replays }) => this.#startJobs(replays));
  }

  /** Begins nothing new and waits for the slices under way. Idempotent. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    await Promise.all([...this.#jobs.values()].map((run) => run.stop()));
  }

  /** What a replay would come to; `wish.destination` must exist. */
  readonly preview = async (wish: ReplayRequest): Promise<ReplayPreview> => {
    const { settings, wantedBy, log, clock, history } = this.#tools;
    const snapshot = settings.now();
    const destination = snapshot.destinations.find(({ name }) => name === wish.destination);
    if (destination === undefined) return { count: 0, bytes: 0, isExact: true };
    if (wish.redelivers?.state === 'dead') return await redeliveryPreview(wish, destination, this.#tools);
    const walk = new LogCursor(log, cursorRangeOf(wish, snapshot));
    const look = async (cursor: number): Promise<EventSlice> => {
      const walked = await walk.next(cursor, Number.POSITIVE_INFINITY, wantedBy(wish, snapshot));
      if (wish.redelivers === undefined) return walked;
      const positions = walked.events.map(({ position }) => position);
      const wanted = new Set((await selectDelivered(positions, destination, history)).positions);
      return { ...walked, events: walked.events.filter(({ position }) => wanted.has(position)) };
    };
    return await previewOf(wish, { log, clock, look });
  };

  readonly standing = async (replay: Replay): Promise<ReplayStatus> => {
    const { events, pending, cursor } = await this.#tools.history.progress(replay.id);
    const run = this.#jobs.get(replay.id);
    const [waiting, speed] = [run?.waiting, run?.speed];
    const sum = [...pending.values()].reduce((total, n) => total + n, 0);
    return {
      events,
      pending: sum,
      ...(await this.#remainingOf(replay, { events, cursor })),
      ...(speed === undefined ? {} : { speed }),
      ...(waiting === undefined ? {} : { waiting }),
    };
  };

  /** Resolves when a replay has ended, or after this long. */
  readonly ended = async (id: string, patience: Duration): Promise<void> => {
    const run = this.#jobs.get(id);
    if (run === undefined) return;
    let cancel = () => {};
    const over = new Promise<void>((resolve) => {
      cancel = this.#tools.clock.after(patience, resolve);
    });
    await Promise.race([run.finished, over]);
    cancel();
  };

  /** Better than the preview where that is an estimate: by what was wanted of all that was looked at so far. */
  async #remainingOf(replay: Replay, { events, cursor }: Pick<ReplayProgress, 'events' | 'cursor'>) {
    if (replay.state !== 'running' || replay.preview.isExact || replay.redelivers?.state === 'dead')
      return {};
    const { log } = this.#tools;
    const [whole, left] = [await extentOf(log, replay, 0), await extentOf(log, replay, cursor)];
    const looked = whole.events - left.events;
    const guess = Math.max(0, replay.preview.count - events);
    return { left: Math.min(left.events, looked <= 0 ? guess : Math.round((left.events * events) / looked)) };
  }

  #startJobs(replays: readonly Replay[]): void {
    if (this.#isStopped) return;
    const running = replays.filter(({ state }) => state === 'running');
    for (const run of this.#jobs.values()) run.settingsChanged();
    for (const replay of running) {
      const { id } = replay;
      if (this.#jobs.has(id)) continue;
      this.#tools.logger.info({ replay: id, destination: replay.destination }, 'replay.running');
      const run = new ReplayJob(replay, this.#tools);
      this.#jobs.set(id, run);
      void run.finished.then(() => this.#jobs.delete(id));
    }
  }
}

/** How soon a destination that is behind is looked at again. */
const WAIT_INTERVAL: Duration = SECOND / 5;

/** A store that does not answer is asked again after this long, for as long as it takes. */
const STORAGE_RETRY: Duration = SECOND;

/** What a replay works with. */
export interface ReplayJobDependencies {
  readonly log: Pick<EventLog, 'find' | 'read'>;
  readonly backlog: Pick<DeliveryQueue, 'enqueue'>;
  readonly history: Pick<DeliveryHistories, 'progress' | 'read'>;
  readonly deadLetters: Pick<DeadLetterQueue, 'list' | 'count' | 'redeliver'>;
  readonly settings: {
    now(): SettingsSnapshot;
    change(decide: (now: SettingsSnapshot) => SettingsChanges): Promise<SettingsSnapshot>;
  };
  readonly clock: Clock;
  readonly logger: Logger;
  /** Something of a lane waits on disk, due at this time. */
  readonly parked: (lane: number, at: Time) => void;
  readonly wantedBy: ReplayFilterFor;
}

/**
 * One replay on its way: a slice, a pause, a slice. It holds nothing that it could not find again: where it stands is
 * written with what it owes, so after a crash the next process goes on behind the last slice that is on disk.
 */
export class ReplayJob {
  readonly #id: string;
  readonly #tools: ReplayJobDependencies;
  readonly #cursor: LogCursor;
  readonly #throughput = new ThroughputMeter();
  /** Of a redelivery of dead letters. */
  readonly #redelivery: DeadLetterRedelivery | undefined;
  /** Resolves when it has nothing more to do. */
  readonly finished: Promise<void>;
  /** Absent when it is to be asked for. */
  #progress: ReplayProgress | undefined;
  #waiting: ReplayStatus['waiting'];
  #isOver = false;
  #wake: (() => void) | undefined;

  constructor(replay: Replay, tools: ReplayJobDependencies) {
    this.#id = replay.id;
    this.#tools = tools;
    this.#cursor = new LogCursor(tools.log, cursorRangeOf(replay, tools.settings.now()));
    this.#redelivery =
      replay.redelivers?.state === 'dead' ? new DeadLetterRedelivery(replay, tools) : undefined;
    this.finished = this.#run();
  }

  /** Events a second that it has owed of late. */
  get speed(): number | undefined {
    return this.#throughput.perSecond(this.#tools.clock.monotonic());
  }

  /** Why it owes nothing just now. */
  get waiting(): ReplayStatus['waiting'] {
    return this.#waiting;
  }

  /** The settings have changed: what it waits for may be there. */
  settingsChanged(): void {
    this.#wake?.();
  }

  /** Begins no further slice; resolves when none is under way. Idempotent. */
  async stop(): Promise<void> {
    this.#isOver = true;
    this.#wake?.();
    await this.finished;
  }

  async #run(): Promise<void> {
    while (!this.#isOver) {
      let pause = STORAGE_RETRY;
      try {
        pause = await this.#step();
      } catch (error) {
        // Said once, however often it is tried again.
        if (this.#waiting !== 'storage_unavailable')
          this.#tools.logger.error({ error, replay: this.#id }, 'replay.failed');
        this.#progress = undefined;
        this.#waiting = 'storage_unavailable';
      }
      if (!this.#isOver) await this.#sleep(pause);
    }
  }

  /** @returns how long to wait before the next one */
  async #step(): Promise<Duration> {
    const { history, settings } = this.#tools;
    this.#progress ??= await history.progress(this.#id);
    this.#throughput.record(this.#progress.events, this.#tools.clock.monotonic());
    const replay = this.#currentReplay();
    if (replay === undefined) return 0;
    const destination = settings.now().destinations.find(({ name }) => name === replay.destination);
    if (this.#redelivery !== undefined && destination !== undefined)
      return await this.#reviveSlice(this.#redelivery, destination);
    const step = nextStep(replay, destination, this.#progress);
    this.#waiting = step.kind === 'wait' ? step.reason : undefined;
    if (step.kind === 'wait') {
      this.#progress = undefined;
      return WAIT_INTERVAL;
    }
    if (step.kind === 'end') await this.#finish(step);
    else return await this.#enqueueSlice(replay, this.#progress.cursor, step.most);
    return 0;
  }

  /** A slice of dead letters. They were owed before, so they wait where everything waits, whatever its destination does. */
  async #reviveSlice(revival: DeadLetterRedelivery, destination: Destination): Promise<Duration> {
    const { clock, parked } = this.#tools;
    const began = clock.monotonic();
    const { count, isLast } = await revival.next(destination);
    this.#progress = undefined;
    if (count > 0) for (const lane of everyLaneIdOf(destination)) parked(lane, clock.monotonic());
    if (isLast) await this.#finish({ state: 'done' });
    return clock.monotonic() - began;
  }

  async #enqueueSlice(replay: Replay, cursor: number, most: number): Promise<Duration> {
    const { backlog, clock, history, parked, settings, wantedBy } = this.#tools;
    const began = clock.monotonic();
    const { events, to } = await this.#cursor.next(cursor, most, wantedBy(replay, settings.now()));
    // It may have been cancelled meanwhile, or its destination have other endpoints: what is owed goes by what holds now.
    const destination = settings.now().destinations.find(({ name }) => name === replay.destination);
    if (destination === undefined || this.#currentReplay() === undefined) return 0;
    const now = clock.monotonic();
    const all = events.map(({ position }) => position);
    const owed =
      replay.redelivers === undefined ? { positions: all } : await selectDelivered(all, destination, history);
    this.#progress = await backlog.enqueue({
      ...{ origin: this.#id, from: cursor, to, now },
      destinations: lanesOf(destination).map(({ id }) => id),
      ...owed,
    });
    if (events.length > 0) for (const { id } of lanesOf(destination)) parked(id, now);
    return pauseAfter(events.length, replay.rate, clock.monotonic() - began);
  }

  /** The replay as it is wanted now; nothing when it is over. */
  #currentReplay(): Replay | undefined {
    const replay = this.#tools.settings.now().replays.find(({ id }) => id === this.#id);
    if (replay?.state === 'running') return replay;
    this.#isOver = true;
    this.#tools.logger.info(
      { replay: this.#id, state: replay?.state, events: this.#progress?.events },
      'replay.ended',
    );
    return undefined;
  }

  async #finish({ state, reason }: Pick<Replay, 'state' | 'reason'>): Promise<void> {
    const { clock, logger, settings } = this.#tools;
    const endedAt = clock.now();
    await settings.change(({ replays }) => ({
      ...{ sources: [], destinations: [] },
      replays: replays
        .filter((one) => one.id === this.#id && one.state === 'running')
        .map((one) => ({ ...one, state, endedAt, ...(reason === undefined ? {} : { reason }) })),
    }));
    this.#isOver = true;
    logger.info({ replay: this.#id, state, reason, events: this.#progress?.events }, 'replay.ended');
  }

  #sleep(pause: Duration): Promise<void> {
    const { clock } = this.#tools;
    return new Promise((resolve) => {
      const cancel = clock.after(pause, resolve);
      this.#wake = () => {
        cancel();
        resolve();
      };
    });
  }
}
