import type { TokenRecord } from '../model/settings.ts';
import { MINUTE, type Time } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { Logger } from '../ports/logger.ts';

/** How often uses are saved while there are new ones. A crash loses no more than this. */
const SAVE_EVERY = MINUTE;

/** When each token was last used, by its name. */
type TokenUses = Readonly<Record<string, Time>>;

export interface TokenUseDependencies {
  /** Keeps the uses over restarts. What is lost costs a date on a page, so nothing waits for it. */
  readonly store: { load(): Promise<TokenUses>; save(uses: TokenUses): Promise<void> };
  /** The tokens that exist: uses of others are forgotten. */
  readonly tokens: () => readonly Pick<TokenRecord, 'name'>[];
  readonly clock: Pick<Clock, 'now'>;
  readonly logger: Logger;
}

/**
 * When each token was last used on this node. It is exact while the server runs, and up to a minute older
 * after a crash.
 */
export class TokenUseRecorder {
  readonly #dependencies: TokenUseDependencies;
  readonly #uses = new Map<string, Time>();
  #hasNew = false;
  #saving: Promise<void> = Promise.resolve();
  #timer: NodeJS.Timeout | undefined;

  constructor(dependencies: TokenUseDependencies) {
    this.#dependencies = dependencies;
  }

  async start(): Promise<void> {
    for (const [name, at] of Object.entries(await this.#dependencies.store.load())) this.#uses.set(name, at);
    this.#timer = setInterval(() => this.#save(), SAVE_EVERY);
    this.#timer.unref();
  }

  /** Saves what is new. Idempotent. */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    this.#save();
    await this.#saving;
  }

  readonly note = (name: string): void => {
    this.#uses.set(name, this.#dependencies.clock.now());
    this.#hasNew = true;
  };

  /** The last use of a token since it was made: one that was revoked may have had the same name. */
  readonly lastUse = (name: string, since: Time): Time | undefined => {
    const at = this.#uses.get(name);
    return at === undefined || at < since ? undefined : at;
  };

  #save(): void {
    if (!this.#hasNew) return;
    this.#hasNew = false;
    const { store, logger, tokens } = this.#dependencies;
    const names = new Set(tokens().map(({ name }) => name));
    for (const name of this.#uses.keys()) if (!names.has(name)) this.#uses.delete(name);
    const uses = Object.fromEntries(this.#uses);
    this.#saving = this.#saving
      .then(() => store.save(uses))
      .catch((error: unknown) => {
        this.#hasNew = true;
        logger.warn({ error }, 'token_uses.not_saved');
      });
  }
}
