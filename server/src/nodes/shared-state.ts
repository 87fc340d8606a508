import type { Position } from '../model/event.ts';
import { type Duration, SECOND } from '../model/time.ts';
import { type Clock, InterruptibleSleep } from '../ports/clock.ts';
import type { Logger } from '../ports/logger.ts';
import type { Nodes, SharedChanges } from '../ports/nodes.ts';

/** How often this node asks whether others have changed something: within twice this time a change is in force everywhere. */
const ASK_EVERY: Duration = SECOND;

/** How often this node looks for deliveries that others have parked or left behind, in times of asking. */
const LOOKS = 3;

export interface SharedStateDependencies {
  readonly nodes: Pick<Nodes, 'changes' | 'erasedAfter' | 'maySend'>;
  /** Loads the settings and tells everybody. */
  readonly reloadSettings: () => Promise<unknown>;
  /** Loads the suppressions, and looks for new regulations. */
  readonly reloadSuppressions: () => Promise<unknown>;
  /** Events at these positions were erased by another node: forgets what this one knows of them. */
  readonly forgetErased: (positions: readonly Position[]) => void;
  /** Parks what dead nodes held. Resolves to the number of deliveries. */
  readonly adopt: () => Promise<number>;
  /** Looks for deliveries on disk. */
  readonly lookAtDisk: () => Promise<void>;
  readonly clock: Clock;
  readonly logger: Pick<Logger, 'info' | 'warn'>;
}

/** Keeps this node up to date with what other nodes do to the store. */
export class SharedState {
  readonly #dependencies: SharedStateDependencies;
  readonly #sleep: InterruptibleSleep;
  #seen: SharedChanges | undefined;
  #isStopped = false;
  #isFailing = false;
  #loop: Promise<void> | undefined;

  constructor(dependencies: SharedStateDependencies) {
    this.#dependencies = dependencies;
    this.#sleep = new InterruptibleSleep(dependencies.clock);
  }

  start(): void {
    this.#loop = this.#run();
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#sleep.interrupt();
    await this.#loop;
  }

  async #run(): Promise<void> {
    for (let turn = 1; !this.#isStopped; turn++) {
      try {
        await this.#ask();
        if (turn % LOOKS === 0) await this.#look();
        this.#isFailing = false;
      } catch (error) {
        if (!this.#isFailing) this.#dependencies.logger.warn({ error }, 'nodes.not_followed');
        this.#isFailing = true;
      }
      if (!this.#isStopped) await this.#sleep.sleep(ASK_EVERY);
    }
  }

  async #ask(): Promise<void> {
    const { nodes, reloadSettings, reloadSuppressions, forgetErased } = this.#dependencies;
    const now = await nodes.changes();
    const before = this.#seen;
    if (now.settings !== before?.settings) await reloadSettings();
    if (now.suppressions !== before?.suppressions) await reloadSuppressions();
    if (now.erasures !== before?.erasures) {
      const positions = await nodes.erasedAfter(before?.erasures ?? 0);
      if (positions.length > 0) forgetErased(positions);
    }
    this.#seen = now;
  }

  async #look(): Promise<void> {
    const { nodes, adopt, lookAtDisk, logger } = this.#dependencies;
    if (!nodes.maySend()) return;
    const deliveries = await adopt();
    if (deliveries > 0) logger.info({ deliveries }, 'backlog.adopted');
    await lookAtDisk();
  }
}
