import type { Position } from '../model/event.ts';
import { type Duration, type Monotonic, SECOND } from '../model/time.ts';
import { type Clock, InterruptibleSleep } from '../ports/clock.ts';
import type { Logger } from '../ports/logger.ts';
import type { Acknowledged, Nodes, SharedChanges } from '../ports/nodes.ts';

/**
 * How often this node asks whether others have changed something: within twice this time a change is in force
 * everywhere.
 */
const ASK_EVERY: Duration = SECOND;

/** How often this node looks for deliveries that others have parked or left behind. */
const LOOK_EVERY: Duration = 3 * SECOND;

/**
 * How often it asks while a deletion is young, and for how long: every step of a deletion waits for all
 * nodes.
 */
const ASK_SOON: Duration = 100;
const HURRY: Duration = 5 * SECOND;

/**
 * All suppressions are read when some have changed. A reading is followed by a rest of so many times what it
 * took, and of no more than this.
 */
const REST = 4;
const MAX_REST: Duration = SECOND;

/** No number of changes. */
const UNREAD = -1;

export interface SharedStateDependencies {
  readonly nodes: Pick<Nodes, 'changes' | 'erasedAfter' | 'acknowledge' | 'maySend'>;
  /** Loads the settings and tells everybody. */
  readonly reloadSettings: () => Promise<unknown>;
  /** Loads the suppressions, and looks for new regulations. */
  readonly reloadSuppressions: () => Promise<unknown>;
  /** Resolves when every call that this node took before is stored, or never will be. */
  readonly callsStored: () => Promise<void>;
  /** Events at these positions were erased by another node: nothing of them is sent any more. */
  readonly dropErased: (positions: readonly Position[]) => void;
  /** Resolves when requests in flight have ended and this node knows nothing of erased events any more. */
  readonly erasedForgotten: () => Promise<void>;
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
  /** Erased positions that this node has not acknowledged. */
  #erased: readonly Position[] = [];
  #hurriesUntil: Monotonic = 0;
  #lookedAt: Monotonic = Number.NEGATIVE_INFINITY;
  /** When the suppressions may be read again. */
  #restsUntil: Monotonic = Number.NEGATIVE_INFINITY;
  /** Work under way whose end is acknowledged. */
  readonly #underWay = new Set<keyof Acknowledged>();
  /** Work that failed at the last try, so that the log says so once. */
  readonly #unacknowledged = new Set<keyof Acknowledged>();
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

  /** Asks at once, and often for a while. */
  readonly hurry = (): void => {
    const now = this.#dependencies.clock.monotonic();
    const isAsking = now < this.#hurriesUntil;
    this.#hurriesUntil = now + HURRY;
    if (!isAsking) this.#sleep.interrupt();
  };

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#sleep.interrupt();
    await this.#loop;
  }

  async #run(): Promise<void> {
    const { clock } = this.#dependencies;
    while (!this.#isStopped) {
      try {
        const unread = await this.#ask();
        if (clock.monotonic() - this.#lookedAt >= LOOK_EVERY) await this.#look();
        if (unread !== undefined) throw unread.error;
        this.#isFailing = false;
      } catch (error) {
        if (!this.#isFailing) this.#dependencies.logger.warn({ error }, 'nodes.not_followed');
        this.#isFailing = true;
      }
      const isHurried = clock.monotonic() < this.#hurriesUntil;
      if (!this.#isStopped) await this.#sleep.sleep(isHurried ? ASK_SOON : ASK_EVERY);
    }
  }

  /**
   * Resolves to why the settings could not be read, such as a key that this node was not given: suppressions
   * and erasures do not wait for it.
   */
  async #ask(): Promise<{ readonly error: unknown } | undefined> {
    const { nodes, reloadSettings, dropErased } = this.#dependencies;
    const now = await nodes.changes();
    const before = this.#seen;
    const unread =
      now.settings === before?.settings
        ? undefined
        : await reloadSettings().then(
            () => undefined,
            (error: unknown) => ({ error }),
          );
    const suppressions = await this.#readSuppressions(now.suppressions);
    if (now.erasures !== before?.erasures) {
      const positions = await nodes.erasedAfter(before?.erasures ?? 0);
      if (positions.length > 0) dropErased(positions);
      this.#erased = this.#erased.concat(positions);
    }
    const isYoung = now.suppressions !== before?.suppressions || now.erasures !== before.erasures;
    if (isYoung && before !== undefined) this.hurry();
    const seen = { ...now, suppressions };
    this.#seen = unread === undefined ? seen : { ...seen, settings: before?.settings ?? UNREAD };
    if (now.acknowledged.suppressions < suppressions) this.#do('suppressions', seen, this.#knowSuppressions);
    if (now.acknowledged.erasures < now.erasures) this.#do('erasures', now, this.#forgetErased);
    return unread;
  }

  /** Resolves to the number of changes up to which this node knows the suppressions. */
  async #readSuppressions(changes: number): Promise<number> {
    const { reloadSuppressions, clock } = this.#dependencies;
    const known = this.#seen?.suppressions;
    const began = clock.monotonic();
    if (known !== undefined && (known === changes || began < this.#restsUntil)) return known;
    await reloadSuppressions();
    const ended = clock.monotonic();
    this.#restsUntil = ended + Math.min(MAX_REST, REST * (ended - began));
    return changes;
  }

  /**
   * Does it beside the asking, and acknowledges it. What failed, and what came meanwhile, is found at the
   * next question.
   */
  #do(what: keyof Acknowledged, { [what]: number }: SharedChanges, work: () => Promise<void>): void {
    const { nodes, logger } = this.#dependencies;
    if (this.#underWay.has(what)) return;
    this.#underWay.add(what);
    work()
      .then(() => nodes.acknowledge({ [what]: number }))
      .then(() => this.#unacknowledged.delete(what))
      .catch((error: unknown) => {
        if (!this.#isStopped && !this.#unacknowledged.has(what))
          logger.warn({ error }, 'nodes.not_acknowledged');
        this.#unacknowledged.add(what);
      })
      .finally(() => this.#underWay.delete(what));
  }

  readonly #knowSuppressions = (): Promise<void> => this.#dependencies.callsStored();

  readonly #forgetErased = async (): Promise<void> => {
    const { callsStored, dropErased, erasedForgotten } = this.#dependencies;
    const positions = this.#erased;
    if (positions.length === 0) return;
    // A call may be stored and erased before this node has the answer of the store, and comes into its memory
    // only then.
    await callsStored();
    dropErased(positions);
    await erasedForgotten();
    this.#erased = this.#erased.slice(positions.length);
  };

  async #look(): Promise<void> {
    const { nodes, adopt, lookAtDisk, logger } = this.#dependencies;
    this.#lookedAt = this.#dependencies.clock.monotonic();
    if (!nodes.maySend()) return;
    const deliveries = await adopt();
    if (deliveries > 0) logger.info({ deliveries }, 'backlog.adopted');
    await lookAtDisk();
  }
}
