import { type Destination, everyLaneOf, lanesOf } from '../model/destination.ts';
import type { Replay, ReplayStanding } from '../model/replay.ts';
import { type Duration, SECOND, type Time } from '../model/time.ts';
import type { Backlog, Owing } from '../ports/backlog.ts';
import type { Clock } from '../ports/clock.ts';
import type { DeadLetters } from '../ports/dead-letters.ts';
import type { EventLog } from '../ports/event-log.ts';
import type { History } from '../ports/history.ts';
import type { Logger } from '../ports/logger.ts';
import type { SettingsChanges, SettingsSnapshot } from '../ports/settings.ts';
import { decide, pauseAfter } from './decide.ts';
import { deliveredOf } from './redelivered.ts';
import { Revival } from './revival.ts';
import { Speed } from './speed.ts';
import { Walk } from './walk.ts';
import { type WantedBy, walkWishOf } from './wanted.ts';

/** How soon a destination that is behind is looked at again. */
const WAIT: Duration = SECOND / 5;

/** A store that does not answer is asked again after this long, for as long as it takes. */
const STORAGE_RETRY: Duration = SECOND;

/** What a replay works with. */
export interface RunTools {
  readonly log: Pick<EventLog, 'find' | 'read'>;
  readonly backlog: Pick<Backlog, 'owe'>;
  readonly history: Pick<History, 'owing' | 'of'>;
  readonly deadLetters: Pick<DeadLetters, 'list' | 'count' | 'revive'>;
  readonly settings: {
    now(): SettingsSnapshot;
    change(decide: (now: SettingsSnapshot) => SettingsChanges): Promise<SettingsSnapshot>;
  };
  readonly clock: Clock;
  readonly logger: Logger;
  /** Something of a lane waits on disk, due at this time. */
  readonly parked: (lane: number, at: Time) => void;
  readonly wantedBy: WantedBy;
}

/**
 * One replay on its way: a slice, a pause, a slice. It holds nothing that it could not find again: where it stands is
 * written with what it owes, so after a crash the next process goes on behind the last slice that is on disk.
 */
export class Run {
  readonly #id: string;
  readonly #tools: RunTools;
  readonly #walk: Walk;
  readonly #speed = new Speed();
  /** Of a redelivery of dead letters. */
  readonly #revival: Revival | undefined;
  /** Resolves when it has nothing more to do. */
  readonly over: Promise<void>;
  /** Absent when it is to be asked for. */
  #owing: Owing | undefined;
  #waiting: ReplayStanding['waiting'];
  #isOver = false;
  #wake: (() => void) | undefined;

  constructor(replay: Replay, tools: RunTools) {
    this.#id = replay.id;
    this.#tools = tools;
    this.#walk = new Walk(tools.log, walkWishOf(replay, tools.settings.now()));
    this.#revival = replay.redelivers?.state === 'dead' ? new Revival(replay, tools) : undefined;
    this.over = this.#run();
  }

  /** Events a second that it has owed of late. */
  get speed(): number | undefined {
    return this.#speed.perSecond(this.#tools.clock.monotonic());
  }

  /** Why it owes nothing just now. */
  get waiting(): ReplayStanding['waiting'] {
    return this.#waiting;
  }

  /** The settings have changed: what it waits for may be there. */
  look(): void {
    this.#wake?.();
  }

  /** Begins no further slice; resolves when none is under way. Idempotent. */
  async stop(): Promise<void> {
    this.#isOver = true;
    this.#wake?.();
    await this.over;
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
        this.#owing = undefined;
        this.#waiting = 'storage_unavailable';
      }
      if (!this.#isOver) await this.#sleep(pause);
    }
  }

  /** @returns how long to wait before the next one */
  async #step(): Promise<Duration> {
    const { history, settings } = this.#tools;
    this.#owing ??= await history.owing(this.#id);
    this.#speed.note(this.#owing.events, this.#tools.clock.monotonic());
    const replay = this.#current();
    if (replay === undefined) return 0;
    const destination = settings.now().destinations.find(({ name }) => name === replay.destination);
    if (this.#revival !== undefined && destination !== undefined)
      return await this.#revive(this.#revival, destination);
    const step = decide(replay, destination, this.#owing);
    this.#waiting = step.kind === 'wait' ? step.reason : undefined;
    if (step.kind === 'wait') {
      this.#owing = undefined;
      return WAIT;
    }
    if (step.kind === 'end') await this.#end(step);
    else return await this.#owe(replay, this.#owing.cursor, step.most);
    return 0;
  }

  /** A slice of dead letters. They were owed before, so they wait where everything waits, whatever its destination does. */
  async #revive(revival: Revival, destination: Destination): Promise<Duration> {
    const { clock, parked } = this.#tools;
    const began = clock.monotonic();
    const { count, isLast } = await revival.next(destination);
    this.#owing = undefined;
    if (count > 0) for (const lane of everyLaneOf(destination)) parked(lane, clock.monotonic());
    if (isLast) await this.#end({ state: 'done' });
    return clock.monotonic() - began;
  }

  async #owe(replay: Replay, cursor: number, most: number): Promise<Duration> {
    const { backlog, clock, history, parked, settings, wantedBy } = this.#tools;
    const began = clock.monotonic();
    const { events, to } = await this.#walk.next(cursor, most, wantedBy(replay, settings.now()));
    // It may have been cancelled meanwhile, or its destination have other endpoints: what is owed goes by what holds now.
    const destination = settings.now().destinations.find(({ name }) => name === replay.destination);
    if (destination === undefined || this.#current() === undefined) return 0;
    const now = clock.monotonic();
    const all = events.map(({ position }) => position);
    const owed =
      replay.redelivers === undefined ? { positions: all } : await deliveredOf(all, destination, history);
    this.#owing = await backlog.owe({
      ...{ origin: this.#id, from: cursor, to, now },
      destinations: lanesOf(destination).map(({ id }) => id),
      ...owed,
    });
    if (events.length > 0) for (const { id } of lanesOf(destination)) parked(id, now);
    return pauseAfter(events.length, replay.rate, clock.monotonic() - began);
  }

  /** The replay as it is wanted now; nothing when it is over. */
  #current(): Replay | undefined {
    const replay = this.#tools.settings.now().replays.find(({ id }) => id === this.#id);
    if (replay?.state === 'running') return replay;
    this.#isOver = true;
    this.#tools.logger.info(
      { replay: this.#id, state: replay?.state, events: this.#owing?.events },
      'replay.ended',
    );
    return undefined;
  }

  async #end({ state, reason }: Pick<Replay, 'state' | 'reason'>): Promise<void> {
    const { clock, logger, settings } = this.#tools;
    const endedAt = clock.now();
    await settings.change(({ replays }) => ({
      ...{ sources: [], destinations: [] },
      replays: replays
        .filter((one) => one.id === this.#id && one.state === 'running')
        .map((one) => ({ ...one, state, endedAt, ...(reason === undefined ? {} : { reason }) })),
    }));
    this.#isOver = true;
    logger.info({ replay: this.#id, state, reason, events: this.#owing?.events }, 'replay.ended');
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
