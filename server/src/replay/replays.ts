import type { Replay, ReplayPreview, ReplayStanding, ReplayWish } from '../model/replay.ts';
import type { EventLog } from '../ports/event-log.ts';
import type { SettingsSnapshot } from '../ports/settings.ts';
import { previewOf } from './preview.ts';
import { Run, type RunTools } from './run.ts';
import { type GoesTo, wantedBy } from './wanted.ts';

export interface ReplaysOptions extends Omit<RunTools, 'log' | 'wantedBy'> {
  readonly log: Pick<EventLog, 'find' | 'read' | 'size'>;
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
  readonly preview = (wish: ReplayWish): Promise<ReplayPreview> => {
    const { settings, wantedBy } = this.#tools;
    return previewOf(wish, wantedBy(wish, settings.now()), this.#tools);
  };

  readonly standing = async (id: string): Promise<ReplayStanding> => {
    const { events, pending } = await this.#tools.history.owing(id);
    const waiting = this.#runs.get(id)?.waiting;
    const sum = [...pending.values()].reduce((total, n) => total + n, 0);
    return { events, pending: sum, ...(waiting === undefined ? {} : { waiting }) };
  };

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
