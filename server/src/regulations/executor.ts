import type { Destination } from '../model/destination.ts';
import type { Event, Position } from '../model/event.ts';
import { defined } from '../model/json.ts';
import type { Target } from '../model/lane.ts';
import type { Plan } from '../model/plan.ts';
import {
  checkStep,
  isDeleting,
  isSuppressing,
  type RegulationStep,
  type RegulationSubject,
  userIdsOf,
} from '../model/regulation.ts';
import { type Source, sourceNames } from '../model/settings.ts';
import { type Duration, type Monotonic, SECOND } from '../model/time.ts';
import { attemptOnWallClock, type Clock, InterruptibleSleep } from '../ports/clock.ts';
import type { DeliveryHistories } from '../ports/delivery-queue.ts';
import type { EventLog } from '../ports/event-log.ts';
import type { Logger } from '../ports/logger.ts';
import type { RegulationChange, Regulations, StoredRegulation } from '../ports/regulations.ts';
import type { SettingsSnapshot } from '../ports/settings-store.ts';
import type { Users } from '../ports/users.ts';
import type { RegulationHealth } from './contract.ts';
import { IdRedactor } from './id-redactor.ts';
import { countJoined } from './joins.ts';
import { redactKeptAnswers } from './kept-answers.ts';
import {
  batchOf,
  type DeleteNotification,
  findNotifications,
  notificationsOf,
  notifiedBy,
  untoldBy,
} from './notifications.ts';
import {
  idsOfSubjects,
  isEnded,
  type NotificationHistory,
  overallStatusOf,
  streamsOf,
  textsOfSubjects,
} from './receipt.ts';
import { type SurveyedIdentities, surveyUsers, trustedSources } from './survey.ts';
import { Turns } from './turns.ts';
import { surveyVisitors } from './visitors.ts';

export interface RegulationExecutorDependencies {
  readonly regulations: Regulations;
  readonly log: Pick<EventLog, 'find' | 'read' | 'erase' | 'eraseAt' | 'sharedIds' | 'append' | 'size'>;
  readonly history: Pick<DeliveryHistories, 'read' | 'redactAnswers'>;
  readonly settings: () => SettingsSnapshot;
  readonly users: Pick<Users, 'joinedIds' | 'usersOf' | 'visitors' | 'erase'>;
  readonly identities: SurveyedIdentities;
  readonly plan: (event: Event, source: Source) => Plan;
  /** Where a destination sends to. */
  readonly targetsOf: (destination: Destination) => readonly Target[];
  /**
   * Resolves when every call that was taken before is stored, or never will be. Rejects when `checkStop`
   * throws.
   */
  readonly callsStored: (checkStop: () => void) => Promise<void>;
  /** Suppresses what the survey has found, in memory too, if the users still are suppressed. */
  readonly suppressJoined: (subjects: readonly RegulationSubject[]) => void;
  readonly delivery: MemoryOfDeliveries;
  /** Forgets samples of discarded calls that mention a subject. */
  readonly forgetSamples: (mentions: (text: string) => boolean) => void;
  readonly clock: Clock;
  readonly logger: Pick<Logger, 'debug' | 'info' | 'error'>;
}

/** The memory of deliveries, as far as an erasure must clear it. */
export interface MemoryOfDeliveries {
  /** Drops deliveries of erased events, so that nothing of them is sent. */
  drop(positions: readonly Position[]): void;
  /** Resolves when requests in flight have ended, or after `limit`. Rejects when `checkStop` throws. */
  requestsEnded(limit: Duration, checkStop: () => void): Promise<void>;
  /** Forgets answers of endpoints that mention a subject, also on disk. */
  redact(mentions: (text: string) => boolean): Promise<void>;
  /** Tells that deliveries of a destination or a lane are due on disk. */
  parked(lane: number, at: Monotonic): void;
}

/**
 * Time after which the result of a request is certain: it ends after five seconds at the latest, and its
 * result is seen a little later. spec/specification.md, "Timeout".
 */
export const REQUEST_LIMIT: Duration = 6 * SECOND;

/** Notifications appended in one commit. */
const BATCH = 500;

/** Histories read at once. Each is a few small reads, and commits wait meanwhile. */
const HISTORIES_AT_ONCE = 100;

/**
 * Pauses between looks at the deliveries of notifications: short at first, long for an endpoint that is down
 * for hours.
 */
const FIRST_LOOK: Duration = 50;
const LAST_LOOK: Duration = 10 * SECOND;

/** A step that failed is repeated after this delay, without a limit. */
const RETRY: Duration = SECOND;

/**
 * After a step longer than this it rests three times as long while events arrive: steps for thousands of
 * users keep the store busy, and calls wait meanwhile.
 */
const SHORT_STEP: Duration = 20;
const REST_FOR_STEP = 3;
const LONGEST_REST: Duration = 5 * SECOND;

class StoppedError extends Error {}

/** State in memory while the notifications of a regulation are under way. */
interface Awaited {
  readonly notifications: readonly DeleteNotification[];
  readonly redact: (text: string) => string;
  /** Undefined for a notification whose event is gone. */
  readonly positions: readonly (Position | undefined)[];
  /** Histories of notifications that have ended, by index. */
  readonly ended: (NotificationHistory | undefined)[];
  next: Duration;
  shown: string;
}

/**
 * Carries out regulations. Each step is repeatable and stored when it is done, so a crash repeats at most one
 * step. Regulations go through the steps up to their notifications one after the other, because notifications
 * of later ones have higher numbers; then the deliveries of all are awaited together.
 */
export class RegulationExecutor {
  readonly #dependencies: RegulationExecutorDependencies;
  readonly #sleep: InterruptibleSleep;
  /** Between two steps. */
  readonly #rest: InterruptibleSleep;
  readonly #awaited = new Map<string, Awaited>();
  #isStopped = false;
  #isWoken = false;
  #running: Promise<void> = Promise.resolve();
  /** The regulations that were not done when the store was last read, the oldest first. */
  #open: readonly StoredRegulation[] = [];
  /** Reason why the last step failed; logged once for all repetitions. */
  #failure: string | undefined;

  constructor(dependencies: RegulationExecutorDependencies) {
    this.#dependencies = dependencies;
    this.#sleep = new InterruptibleSleep(dependencies.clock);
    this.#rest = new InterruptibleSleep(dependencies.clock);
  }

  start(): void {
    this.#isStopped = false;
    this.#awaited.clear();
    this.#running = this.#run();
  }

  /** State at the last look. */
  health(): Omit<RegulationHealth, 'suppressed'> {
    const oldestOpenAt = this.#open[0]?.createdAt;
    const isFailing = this.#failure !== undefined;
    return { open: this.#open.length, isFailing, ...defined({ oldestOpenAt }) };
  }

  /** Call when a regulation was made or the settings have changed. */
  wake(): void {
    this.#isWoken = true;
    this.#sleep.interrupt();
  }

  /** Ends after the slice under way. It can be started again. Idempotent. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#sleep.interrupt();
    this.#rest.interrupt();
    await this.#running;
  }

  async #run(): Promise<void> {
    while (!this.#isStopped) {
      this.#isWoken = false;
      const pause = await this.#look();
      if (!this.#isStopped && !this.#isWoken) await this.#sleep.sleep(pause);
    }
  }

  /** Advances every open regulation as far as it goes. Resolves to the time until the next look. */
  async #look(): Promise<Duration> {
    let pause = NEVER;
    let failure: string | undefined;
    try {
      const open = await this.#dependencies.regulations.open();
      this.#open = open;
      for (const regulation of open) {
        // Later regulations must not send notifications before this one. Those that only await deliveries may
        // go on.
        if (failure !== undefined && !hasNotified(regulation)) continue;
        try {
          const next = await this.#advance(regulation);
          // A queue of many is worked on for minutes, and whoever watches it sees it go down.
          if (next === DONE) this.#open = this.#open.filter(({ id }) => id !== regulation.id);
          pause = Math.min(pause, next);
        } catch (error) {
          failure = this.#reportFailure(error);
        }
      }
    } catch (error) {
      failure = this.#reportFailure(error);
    }
    this.#failure = failure;
    if (failure === undefined) this.#open = await this.#stillOpen();
    return failure === undefined ? pause : RETRY;
  }

  async #stillOpen(): Promise<readonly StoredRegulation[]> {
    try {
      return await this.#dependencies.regulations.open();
    } catch {
      return this.#open;
    }
  }

  #reportFailure(error: unknown): string {
    const reason = error instanceof Error ? error.message : String(error);
    if (reason !== this.#failure && !(error instanceof StoppedError))
      this.#dependencies.logger.error({ error }, 'regulation.step_failed');
    return reason;
  }

  /** Does step after step until the regulation is done or waits. */
  async #advance({ id }: StoredRegulation): Promise<Duration> {
    const { regulations, log, clock, logger } = this.#dependencies;
    for (;;) {
      this.#checkStop();
      const startedAt = clock.monotonic();
      const { end } = await log.size();
      const regulation = await regulations.get(id);
      if (regulation === undefined || regulation.step === 'done') return DONE;
      logger.debug({ regulation: id, step: regulation.step }, 'regulation.step');
      const subjects = await regulations.subjects(id);
      const isLost = subjects.length === 0 && regulation.step !== 'clean';
      if (isLost && regulation.reason === undefined) await this.#giveUp(regulation);
      else if (regulation.step === 'survey') await this.#survey(regulation, subjects);
      else if (regulation.step === 'erase') await this.#erase(regulation, subjects);
      else if (regulation.step === 'notify') await this.#notify(regulation, subjects);
      else if (regulation.step === 'clean') await this.#clean(regulation);
      else if (regulation.step === 'finish') {
        if (await this.#isBehindAnother(regulation, subjects)) return LAST_LOOK;
        await this.#finish(regulation, subjects);
      } else {
        const pause = await this.#await(regulation, subjects);
        if (pause !== undefined) return pause;
      }
      await this.#restAfter(clock.monotonic() - startedAt, end);
    }
  }

  /** `end`: of the log, when the step began. */
  async #restAfter(step: Duration, end: Position): Promise<void> {
    if (step <= SHORT_STEP || this.#isStopped || (await this.#dependencies.log.size()).end === end) return;
    await this.#rest.sleep(Math.min(LONGEST_REST, step * REST_FOR_STEP));
  }

  readonly #checkStop = (): void => {
    if (this.#isStopped) throw new StoppedError();
  };

  async #survey(
    { id, step, type, confirm }: StoredRegulation,
    subjects: readonly RegulationSubject[],
  ): Promise<void> {
    const { regulations, callsStored, suppressJoined, ...dependencies } = this.#dependencies;
    await callsStored(this.#checkStop);
    const trusted = trustedSources(dependencies.settings());
    const terms = { ...dependencies, trusted, confirm: confirm === true, checkStop: this.#checkStop };
    const [users, visitors] = [
      await surveyUsers(
        subjects.flatMap(({ userId }) => userId ?? []),
        terms,
      ),
      await surveyVisitors(
        subjects.flatMap(({ anonymousId }) => anonymousId ?? []),
        terms,
      ),
    ];
    const found = [...users.subjects, ...visitors.subjects].map((one) => ({
      ...one,
      sources: one.sources.filter(this.#isAffected),
      // A source has seen everybody of whom there is an event or a profile.
      isUnknown: one.sources.length === 0 && one.belongsToUser !== true,
    }));
    const unknown = found.filter(({ isUnknown }) => isUnknown).length;
    const belongToUsers = found.filter(({ belongsToUser }) => belongsToUser === true).length;
    const leftOut = found.flatMap((one) => one.leftOut ?? []).length;
    // Counted now: after a crash the next step may find profiles gone that this regulation has erased.
    const next = isDeleting(type)
      ? ({ step: 'erase', profiles: users.profiles + visitors.profiles } as const)
      : ({ step: 'clean' } as const);
    await this.#goOn(
      { id, step },
      {
        ...{ ...next, overallStatus: 'RUNNING', subjects: found, unknown },
        joined: countJoined(found, sourceNames(this.#dependencies.settings())),
        ...defined({ leftOut: leftOut || undefined, belongToUsers: belongToUsers || undefined }),
      },
    );
    if (isSuppressing(type)) suppressJoined(found);
  }

  /** Tells whether a source feeds an enabled destination, so that its users must be announced. */
  readonly #isAffected = (source: number): boolean => {
    const { settings, plan } = this.#dependencies;
    return notifiedBy(source, { sources: settings().sources, plan }).length > 0;
  };

  async #erase(
    { id, step, profiles: surveyed = 0 }: StoredRegulation,
    subjects: readonly RegulationSubject[],
  ): Promise<void> {
    const { regulations, users, delivery, forgetSamples, clock, logger } = this.#dependencies;
    const begin = (part: string) => {
      this.#checkStop();
      logger.debug({ regulation: id, step: 'erase', part }, 'regulation.step');
    };
    begin('events');
    // The log goes first: what it still has of the users would be applied to new profiles.
    await this.#eraseEvents(id, subjects);
    begin('profiles');
    const erased = await users.erase(
      subjects.flatMap(userIdsOf),
      subjects.flatMap(({ anonymousIds }) => anonymousIds),
    );
    // Until then the profiles may have told changes of audiences, which are events of these users.
    if (erased > 0) await this.#eraseEvents(id, subjects);
    begin('requests');
    await delivery.requestsEnded(REQUEST_LIMIT, this.#checkStop);
    const redactor = new IdRedactor(textsOfSubjects(subjects));
    begin('samples');
    forgetSamples(redactor.mentions);
    begin('answers');
    await this.#forgetAnswers(redactor);
    begin('space');
    await regulations.scrub();
    const profiles = Math.max(surveyed, erased);
    await this.#goOn({ id, step }, { step: 'notify', profiles, erasedAt: clock.now() });
  }

  /**
   * Forgets what endpoints have answered about these users: in memory, on disk, and in the receipts of
   * others.
   */
  async #forgetAnswers(redactor: IdRedactor): Promise<void> {
    await this.#dependencies.delivery.redact(redactor.mentions);
    // It is read again from the store.
    const turns = new Turns(this.#dependencies.clock);
    for (const [id, { ended }] of this.#awaited) {
      for (const one of ended) {
        if (turns.isOver()) await turns.next();
        if (one === undefined || !hasAnswer(one, redactor.mentions)) continue;
        // It is read again from the store.
        this.#awaited.delete(id);
        break;
      }
    }
    await redactKeptAnswers(redactor, { ...this.#dependencies, checkStop: this.#checkStop });
  }

  async #eraseEvents(regulation: string, subjects: readonly RegulationSubject[]): Promise<void> {
    const { log, delivery } = this.#dependencies;
    const { end } = await log.size();
    await log.erase({
      userIds: subjects.flatMap(userIdsOf),
      anonymousIds: subjects.flatMap((one) => one.anonymousIds),
      below: end,
      regulation,
      onErased: (positions) => {
        delivery.drop(positions);
        this.#checkStop();
      },
    });
  }

  async #notify(regulation: StoredRegulation, subjects: readonly RegulationSubject[]): Promise<void> {
    const { log, plan, delivery, clock, logger } = this.#dependencies;
    const notifications = this.#notificationsOf(regulation, subjects);
    const sources = new Map(this.#allSources().map((one) => [one.id, one]));
    const positions: (Position | undefined)[] = [];
    const lanes = new Set<number>();
    for (let first = 0; first < notifications.length; first += BATCH) {
      this.#checkStop();
      const some = notifications.slice(first, first + BATCH);
      const batch = batchOf({
        regulation,
        notifications: some,
        first,
        sources,
        plan,
        now: clock.monotonic(),
      });
      const answer = await log.append(batch);
      positions.push(...answer.positions);
      for (const { destination } of batch.owed) lanes.add(destination);
    }
    const { redact } = new IdRedactor(textsOfSubjects(subjects));
    if (!positions.includes(undefined)) this.#remember(regulation, { notifications, positions, redact });
    // Before the step is stored: where the answer to that is lost although it was stored, nobody comes here
    // again.
    for (const lane of lanes) delivery.parked(lane, clock.monotonic());
    await this.#goOn(regulation, { step: 'await', ...this.#untoldBy(notifications) });
    logger.info({ regulation: regulation.id, notifications: notifications.length }, 'regulation.notifying');
  }

  /** Undefined when every delivery has ended, otherwise the time until the next look. */
  async #await(
    regulation: StoredRegulation,
    subjects: readonly RegulationSubject[],
  ): Promise<Duration | undefined> {
    const { regulations } = this.#dependencies;
    const awaited = this.#awaited.get(regulation.id) ?? (await this.#restore(regulation, subjects));
    const histories = await this.#historiesOf(awaited);
    const streamStatus = await streamsOf(histories, this.#allDestinations(), {
      redact: awaited.redact,
      turns: new Turns(this.#dependencies.clock),
      targetsOf: this.#dependencies.targetsOf,
    });
    if (histories.every(isEnded)) {
      await this.#goOn(regulation, { step: 'finish', streamStatus });
      return undefined;
    }
    const shown = JSON.stringify(streamStatus);
    if (shown !== awaited.shown) {
      await regulations.advance(regulation.id, { streamStatus });
      awaited.shown = shown;
      awaited.next = FIRST_LOOK;
    } else awaited.next = Math.min(LAST_LOOK, awaited.next * 2);
    return awaited.next;
  }

  #remember(
    { id }: StoredRegulation,
    known: Pick<Awaited, 'notifications' | 'positions' | 'redact'>,
  ): Awaited {
    const awaited: Awaited = { ...known, ended: [], next: FIRST_LOOK, shown: '' };
    this.#awaited.set(id, awaited);
    return awaited;
  }

  /** Finds the notifications that an earlier process has appended. */
  async #restore(regulation: StoredRegulation, subjects: readonly RegulationSubject[]): Promise<Awaited> {
    if (subjects.length === 0) {
      const sources = this.#allSources();
      const found = await findNotifications(regulation, sources, (query) => {
        this.#checkStop();
        return this.#dependencies.log.find(query);
      });
      return this.#remember(regulation, { ...found, redact: () => '…' });
    }
    const notifications = this.#notificationsOf(regulation, subjects);
    const positions: (Position | undefined)[] = [];
    for (const { messageId } of notifications) {
      this.#checkStop();
      positions.push((await this.#dependencies.log.find({ messageId })).positions[0]);
    }
    const { redact } = new IdRedactor(textsOfSubjects(subjects));
    return this.#remember(regulation, { notifications, positions, redact });
  }

  async #historiesOf({ notifications, positions, ended }: Awaited): Promise<NotificationHistory[]> {
    const { history, clock } = this.#dependencies;
    const sourceName = sourceNames(this.#dependencies.settings());
    const open = notifications.map((_, place) => place).filter((place) => ended[place] === undefined);
    const histories = [...ended];
    for (let from = 0; from < open.length; from += HISTORIES_AT_ONCE) {
      this.#checkStop();
      const places = open.slice(from, from + HISTORIES_AT_ONCE);
      const known = await history.read(places.map((place) => positions[place] ?? NOWHERE));
      for (const [nth, place] of places.entries()) {
        const deliveries = (known[nth]?.deliveries ?? []).map((delivery) => ({
          ...delivery,
          attempts: delivery.attempts.map((attempt) => attemptOnWallClock(attempt, clock)),
        }));
        const one = { source: sourceName(notifications[place]!.source), deliveries };
        histories[place] = one;
        if (isEnded(one)) ended[place] = one;
      }
    }
    return histories as NotificationHistory[];
  }

  /** Erases the notifications, which contain the ids. */
  async #finish(regulation: StoredRegulation, subjects: readonly RegulationSubject[]): Promise<void> {
    const { log } = this.#dependencies;
    const { positions } = this.#awaited.get(regulation.id) ?? (await this.#restore(regulation, subjects));
    const there = positions.filter((position) => position !== undefined);
    for (let from = 0; from < there.length; from += BATCH) {
      this.#checkStop();
      await log.eraseAt(there.slice(from, from + BATCH));
    }
    this.#awaited.delete(regulation.id);
    // Endpoints may have answered to events of others since the erasure.
    await this.#forgetAnswers(new IdRedactor(textsOfSubjects(subjects)));
    await this.#goOn(regulation, { step: 'clean' });
  }

  /** Stores the next step, which follows the one that the regulation was read with. */
  async #goOn(
    { id, step }: Pick<StoredRegulation, 'id' | 'step'>,
    change: RegulationChange & { readonly step: RegulationStep },
  ): Promise<void> {
    checkStep(step, change.step);
    await this.#dependencies.regulations.advance(id, change);
  }

  async #clean({ id, step, type, streamStatus, reason }: StoredRegulation): Promise<void> {
    const { regulations, clock, logger } = this.#dependencies;
    await regulations.scrub();
    const overallStatus = reason === undefined ? overallStatusOf(streamStatus) : 'FAILED';
    await this.#goOn({ id, step }, { step: 'done', overallStatus, finishedAt: clock.now() });
    logger.info({ regulation: id, type, status: overallStatus }, 'regulation.done');
  }

  /**
   * Gives up a regulation whose ids are lost. Notifications that are in the log already have ids: they are
   * awaited, and erased in the end.
   */
  async #giveUp({ id, step }: StoredRegulation): Promise<void> {
    const reason = 'its user ids are gone from the store, which was damaged: ask for it anew';
    const next = step === 'survey' || step === 'erase' ? 'clean' : step === 'notify' ? 'await' : step;
    await this.#goOn({ id, step }, { step: next, reason });
  }

  /**
   * Tells whether an earlier regulation about one of these users has not ended: its notifications still hold
   * the ids.
   */
  async #isBehindAnother(
    { number }: StoredRegulation,
    subjects: readonly RegulationSubject[],
  ): Promise<boolean> {
    const { regulations } = this.#dependencies;
    const ids = new Set(idsOfSubjects(subjects));
    for (const other of await regulations.open()) {
      if (other.number >= number || other.step === 'clean') continue;
      if (idsOfSubjects(await regulations.subjects(other.id)).some((id) => ids.has(id))) return true;
    }
    return false;
  }

  /** Destinations that hear nothing of it, for the receipt. */
  #untoldBy(notifications: readonly DeleteNotification[]): Pick<RegulationChange, 'untold'> {
    const { settings, plan } = this.#dependencies;
    const seenBy = new Set(notifications.map(({ source }) => source));
    const sources = this.#allSources().filter(({ id }) => seenBy.has(id));
    const untold = untoldBy(sources, { destinations: settings().destinations, plan });
    return untold.length === 0 ? {} : { untold };
  }

  #notificationsOf(
    regulation: StoredRegulation,
    subjects: readonly RegulationSubject[],
  ): DeleteNotification[] {
    return notificationsOf(regulation, subjects, sourceNames(this.#dependencies.settings()));
  }

  #allSources(): readonly Source[] {
    const { sources, gone } = this.#dependencies.settings();
    return [...sources, ...gone.sources];
  }

  #allDestinations(): Map<number, Destination> {
    const { destinations, gone } = this.#dependencies.settings();
    return new Map([...gone.destinations, ...destinations].map((one) => [one.id, one]));
  }
}

function hasAnswer({ deliveries }: NotificationHistory, matches: (answer: string) => boolean): boolean {
  return deliveries.some(({ attempts }) =>
    attempts.some(({ answer }) => answer !== undefined && matches(answer)),
  );
}

function hasNotified({ step }: StoredRegulation): boolean {
  return step === 'await' || step === 'finish' || step === 'clean';
}

/** Pause of an executor that waits to be woken. */
const NEVER: Duration = 60 * 60 * SECOND;

/** Result of a step after which the regulation is done. */
const DONE: Duration = Number.POSITIVE_INFINITY;

/** A position beyond every event. */
const NOWHERE: Position = Number.MAX_SAFE_INTEGER;
