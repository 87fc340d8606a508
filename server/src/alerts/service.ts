import type { AlertMemory, AlertMessage, AlertRecord } from '../model/alert.ts';
import { defined } from '../model/json.ts';
import { type Duration, HOUR, isoTime, MINUTE, type Monotonic, SECOND } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { Logger } from '../ports/logger.ts';
import type { SettingsChanges, SettingsSnapshot } from '../ports/settings-store.ts';
import { conditionsOf, type Facts } from './conditions.ts';
import type { AlertHealth, AlertSending } from './contract.ts';
import { decideAlert, type Look, Steadiness } from './decide.ts';
import { testMessage } from './message.ts';
import type { AlertSender } from './sender.ts';

/** The pause between two looks at the state of the server. */
const LOOK_EVERY: Duration = 5 * SECOND;

/** Pauses before a message that was not taken is sent again; the last one repeats. */
const RETRY_PAUSES: readonly Duration[] = [10 * SECOND, 30 * SECOND, MINUTE, 5 * MINUTE, 15 * MINUTE];

/** A message that nobody took for so long is given up. What is still the case is told anew. */
const GIVE_UP_AFTER: Duration = 24 * HOUR;

/** How often a memory is stored that no message depends on. */
const KEEP_EVERY: Duration = MINUTE;

export interface AlertServiceDependencies {
  readonly settings: {
    now(): SettingsSnapshot;
    change(
      decide: (now: SettingsSnapshot) => SettingsChanges | Promise<SettingsChanges>,
    ): Promise<SettingsSnapshot>;
  };
  /** Reads the state of the server. Rejects with a `StorageError`. */
  readonly facts: () => Promise<Facts>;
  readonly sender: Pick<AlertSender, 'send'>;
  readonly newId: () => string;
  readonly clock: Clock;
  readonly logger: Pick<Logger, 'info' | 'warn' | 'error'>;
}

/** Progress of one alert that is not stored. */
interface Sending {
  /** Where it was sent to: another address is tried at once. */
  target: string;
  tries: number;
  nextAt: Monotonic;
  sent: number;
  failed: number;
  last?: AlertHealth['last'];
}

/**
 * Looks at the state of the server every five seconds and sends alerts about what has changed. A message is
 * stored with what it tells before it is sent, and removed when it was taken: no restart repeats or loses
 * one, and a crash in between sends it again under the same id.
 *
 * ```
 *   look ──▶ decideAlert ──message──▶ stored as `outgoing` ──sent──▶ taken: removed
 *     ▲                                     │  ▲
 *     └── every 5 s                         └──┘ not taken: again after 10 s … 15 min, given up after a day
 * ```
 */
export class AlertService {
  readonly #dependencies: AlertServiceDependencies;
  readonly #steadiness = new Steadiness();
  readonly #sendings = new Map<string, Sending>();
  #cancelTimer: (() => void) | undefined;
  #underWay: Promise<void> = Promise.resolve();
  #keptAt: Monotonic = Number.NEGATIVE_INFINITY;
  #isFailing = false;
  #stopped = true;

  constructor(dependencies: AlertServiceDependencies) {
    this.#dependencies = dependencies;
  }

  /** Takes the first look a little later, when the parts that it looks at have started. */
  start(): void {
    this.#stopped = false;
    this.#sleep();
  }

  /** Resolves when nothing is looked at or sent any more. It can be started again. Idempotent. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#cancelTimer?.();
    await this.#underWay;
  }

  readonly health = (): readonly AlertHealth[] =>
    this.#dependencies.settings.now().alerts.map(({ name, type, memory }) => {
      const { sent = 0, failed = 0, last } = this.#sendings.get(name) ?? {};
      return {
        alert: name,
        type,
        open: memory?.told.length ?? 0,
        sent,
        failed,
        ...defined({ last }),
        isWaiting: memory?.outgoing !== undefined,
      };
    });

  /** Sends a message that says that it is a test, once, and keeps nothing. */
  readonly test = (alert: AlertRecord): Promise<AlertSending> => {
    const { sender, clock, newId } = this.#dependencies;
    return sender.send(alert, testMessage(newId(), clock.now(), clock.monotonic()));
  };

  #sleep(): void {
    if (this.#stopped) return;
    this.#cancelTimer = this.#dependencies.clock.after(LOOK_EVERY, () => {
      this.#underWay = this.#look().finally(() => this.#sleep());
    });
  }

  async #look(): Promise<void> {
    const { logger, settings } = this.#dependencies;
    const alerts = settings.now().alerts.filter(({ enabled }) => enabled);
    if (alerts.length === 0) return;
    try {
      await this.#decide(alerts);
      if (this.#isFailing) logger.info({}, 'alert.looking_again');
      this.#isFailing = false;
    } catch (error) {
      // Messages that are stored already can be sent all the same.
      if (!this.#isFailing) logger.warn({ error }, 'alert.not_looked');
      this.#isFailing = true;
    }
    // Side by side: a receiver that does not answer holds up no other.
    await Promise.all(
      settings
        .now()
        .alerts.filter(({ enabled }) => enabled)
        .map((one) => this.#deliver(one)),
    );
  }

  /** Stores what every alert has to say now, in one change. */
  async #decide(alerts: readonly AlertRecord[]): Promise<void> {
    const { facts, clock, newId } = this.#dependencies;
    const known = await facts();
    const now = clock.monotonic();
    const look: Look = { at: known.at, now, ...conditionsOf(known) };
    this.#steadiness.note(
      look.troubles,
      alerts.flatMap(({ memory }) => memory?.told ?? []),
      now,
    );
    const isTimeToKeep = now - this.#keptAt >= KEEP_EVERY;
    const decided = alerts.map((alert) => {
      const { changes, memory } = decideAlert(alert, look, this.#steadiness);
      const outgoing: AlertMessage | undefined =
        changes.length === 0 ? undefined : { id: newId(), at: known.at, madeAt: now, changes };
      return {
        alert,
        memory: outgoing === undefined ? memory : { ...memory, outgoing },
        isUrgent: outgoing !== undefined,
      };
    });
    const changed = decided.filter(
      ({ alert, memory, isUrgent }) =>
        isUrgent || (memory !== alert.memory && (isTimeToKeep || alert.memory === undefined)),
    );
    if (changed.length === 0) return;
    this.#keptAt = now;
    await this.#remember(new Map(changed.map(({ alert, memory }) => [alert.name, memory])));
  }

  /** An alert that was removed meanwhile is not brought back. */
  async #remember(memories: ReadonlyMap<string, AlertMemory>): Promise<void> {
    await this.#dependencies.settings.change((now) => ({
      sources: [],
      destinations: [],
      alerts: now.alerts.flatMap((alert) => {
        const memory = memories.get(alert.name);
        return memory === undefined ? [] : [{ ...alert, memory }];
      }),
    }));
  }

  async #deliver(alert: AlertRecord): Promise<void> {
    const { clock, logger, sender } = this.#dependencies;
    const { outgoing } = alert.memory ?? {};
    if (outgoing === undefined) return;
    const sending = this.#sendingOf(alert);
    if (clock.monotonic() < sending.nextAt) return;
    const result = await sender.send(alert, outgoing);
    sending.last = { ...result, at: clock.now() };
    const facts = {
      alert: alert.name,
      receiver: result.receiver,
      answer: result.answer,
      changes: outgoing.changes.length,
    };
    if (result.kind === 'taken') {
      sending.sent++;
      sending.tries = 0;
      logger.info({ ...facts, latencyMs: result.latencyMs }, 'alert.sent');
      await this.#forget(alert.name, outgoing.id);
      return;
    }
    sending.failed++;
    const isOver = clock.monotonic() - outgoing.madeAt >= GIVE_UP_AFTER;
    const pause = RETRY_PAUSES[Math.min(sending.tries++, RETRY_PAUSES.length - 1)]!;
    sending.nextAt = clock.monotonic() + pause;
    if (!isOver) {
      logger.warn({ ...facts, nextAttemptAt: isoTime(clock.now() + pause) }, 'alert.not_sent');
      return;
    }
    logger.error(facts, 'alert.given_up');
    // Nobody was told: what is still the case is told anew.
    await this.#forget(alert.name, outgoing.id, []);
  }

  #sendingOf({ name, settings }: AlertRecord): Sending {
    const target = JSON.stringify(settings);
    const known = this.#sendings.get(name) ?? { sent: 0, failed: 0, target: '' };
    if ('tries' in known && known.target === target) return known;
    const sending: Sending = { ...known, target, tries: 0, nextAt: Number.NEGATIVE_INFINITY };
    this.#sendings.set(name, sending);
    return sending;
  }

  /** The message is done with. `told`: replaces what its receivers know. */
  async #forget(name: string, id: string, told?: AlertMemory['told']): Promise<void> {
    const { settings, logger } = this.#dependencies;
    try {
      await settings.change((now) => ({
        sources: [],
        destinations: [],
        alerts: now.alerts.flatMap((alert) => {
          if (alert.name !== name || alert.memory?.outgoing?.id !== id) return [];
          const { outgoing: _, ...memory } = alert.memory;
          return [{ ...alert, memory: told === undefined ? memory : { ...memory, told } }];
        }),
      }));
    } catch (error) {
      // It is sent once more under the same id, by which receivers recognise it.
      logger.warn({ error, alert: name }, 'alert.not_kept');
    }
  }
}
