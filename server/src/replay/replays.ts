import type { Replay, ReplayPreview, ReplayStanding, ReplayWish } from '../model/replay.ts';
import type { Duration } from '../model/time.ts';
import type { Owing } from '../ports/backlog.ts';
import type { EventLog } from '../ports/event-log.ts';
import type { SettingsSnapshot } from '../ports/settings.ts';
import { extentOf, previewOf } from './preview.ts';
import { deliveredOf } from './redelivered.ts';
import { revivalPreview } from './revival.ts';
import { Run, type RunTools } from './run.ts';
import { Walk, type Walked } from './walk.ts';
import { type GoesTo, walkWishOf, wantedBy } from './wanted.ts';

export interface ReplaysOptions extends Omit<RunTools, 'log' | 'wantedBy'> {
  readonly log: Pick<EventLog, 'find' | 'read' | 'extent'>;
  readonly settings: RunTools['settings'] & {
    follow(tell: (snapshot: SettingsSnapshot) => void): void;
  };
  readonly goesTo: GoesTo;
}

/** Runs every replay that the settings say is running: those an operator has just started, and those of before a restart. */
export class Replays {
  readonly #tools: ReplaysOptions & RunTools;
  readonly #runs = new Map<string, Run>();
  #isStopped = false;

  constructor(options: ReplaysOptions) {
    this.#tools = { ...options, wantedBy: wantedBy(options.goesTo) };
  }

  start(): void {
    this.#tools.settings.follow(({ replays }) => this.#follow(replays));
  }

  /** Begins nothing new and waits for the slices under way. Idempotent. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    await Promise.all([...this.#runs.values()].map((run) => run.stop()));
  }

  /** What a replay would come to; `wish.destination` must exist. */
  readonly preview = async (wish: ReplayWish): Promise<ReplayPreview> => {
    const { settings, wantedBy, log, clock, history } = this.#tools;
    const snapshot = settings.now();
    const destination = snapshot.destinations.find(({ name }) => name === wish.destination);
    if (destination === undefined) return { count: 0, bytes: 0, isExact: true };
    if (wish.redelivers?.state === 'dead') return await revivalPreview(wish, destination, this.#tools);
    const walk = new Walk(log, walkWishOf(wish, snapshot));
    const look = async (cursor: number): Promise<Walked> => {
      const walked = await walk.next(cursor, Number.POSITIVE_INFINITY, wantedBy(wish, snapshot));
      if (wish.redelivers === undefined) return walked;
      const positions = walked.events.map(({ position }) => position);
      const wanted = new Set((await deliveredOf(positions, destination, history)).positions);
      return { ...walked, events: walked.events.filter(({ position }) => wanted.has(position)) };
    };
    return await previewOf(wish, { log, clock, look });
  };

  readonly standing = async (replay: Replay): Promise<ReplayStanding> => {
    const { events, pending, cursor } = await this.#tools.history.owing(replay.id);
    const run = this.#runs.get(replay.id);
    const [waiting, speed] = [run?.waiting, run?.speed];
    const sum = [...pending.values()].reduce((total, n) => total + n, 0);
    return {
      events,
      pending: sum,
      ...(await this.#leftOf(replay, { events, cursor })),
      ...(speed === undefined ? {} : { speed }),
      ...(waiting === undefined ? {} : { waiting }),
    };
  };

  /** Resolves when a replay has ended, or after this long. */
  readonly ended = async (id: string, patience: Duration): Promise<void> => {
    const run = this.#runs.get(id);
    if (run === undefined) return;
    let cancel = () => {};
    const over = new Promise<void>((resolve) => {
      cancel = this.#tools.clock.after(patience, resolve);
    });
    await Promise.race([run.over, over]);
    cancel();
  };

  /** Better than the preview where that is an estimate: by what was wanted of all that was looked at so far. */
  async #leftOf(replay: Replay, { events, cursor }: Pick<Owing, 'events' | 'cursor'>) {
    if (replay.state !== 'running' || replay.preview.isExact || replay.redelivers?.state === 'dead')
      return {};
    const { log } = this.#tools;
    const [whole, left] = [await extentOf(log, replay, 0), await extentOf(log, replay, cursor)];
    const looked = whole.events - left.events;
    const guess = Math.max(0, replay.preview.count - events);
    return { left: Math.min(left.events, looked <= 0 ? guess : Math.round((left.events * events) / looked)) };
  }

  #follow(replays: readonly Replay[]): void {
    if (this.#isStopped) return;
    const running = replays.filter(({ state }) => state === 'running');
    for (const run of this.#runs.values()) run.look();
    for (const replay of running) {
      const { id } = replay;
      if (this.#runs.has(id)) continue;
      this.#tools.logger.info({ replay: id, destination: replay.destination }, 'replay.running');
      const run = new Run(replay, this.#tools);
      this.#runs.set(id, run);
      void run.over.then(() => this.#runs.delete(id));
    }
  }
}
