import type { Position } from '../model/event.ts';
import { defined } from '../model/json.ts';
import {
  isDeleting,
  type Regulation,
  type RegulationSubject,
  type RequestHashes,
  type Suppression,
  userIdsOf,
} from '../model/regulation.ts';
import { DAY, type Duration } from '../model/time.ts';
import type { StoredRegulation } from '../ports/regulations.ts';
import type {
  Foreseen,
  RegulationHealth,
  RegulationRequest,
  RegulationRequests,
  RepeatableRequest,
} from './contract.ts';
import { RegulationExecutor, type RegulationExecutorDependencies } from './executor.ts';
import { notifiedBy } from './notifications.ts';
import type { SuppressionFilter } from './suppression-filter.ts';
import { lookAt, type SurveyDependencies, surveyUsers, trustedSources } from './survey.ts';
import { surveyVisitors } from './visitors.ts';

export interface RegulationServiceDependencies
  extends Omit<RegulationExecutorDependencies, 'suppressJoined'> {
  readonly filter: SuppressionFilter;
  readonly newId: () => string;
}

/** Most ids for which a new regulation says at once whether they name somebody. */
const MOST_KNOWN_AT_ONCE = 100;

/** Time during which a repeated request finds the regulation of the first. */
const REPEATABLE_FOR: Duration = DAY;
const PAGE = 500;

/** Regulations as the control API makes and shows them. spec/specification.md, "Deletion and suppression". */
export class RegulationService implements RegulationRequests {
  readonly #dependencies: RegulationServiceDependencies;
  readonly #executor: RegulationExecutor;
  /** Changes of suppressions one after the other, on disk and in memory. */
  #lastChange: Promise<unknown> = Promise.resolve();

  constructor(dependencies: RegulationServiceDependencies) {
    this.#dependencies = dependencies;
    this.#executor = new RegulationExecutor({ ...dependencies, suppressJoined: this.#suppressJoined });
  }

  /** Continues regulations of an earlier process. Load the filter before the first call is taken. */
  start(): void {
    this.#executor.start();
  }

  stop(): Promise<void> {
    return this.#executor.stop();
  }

  readonly health = (): RegulationHealth => ({
    ...this.#executor.health(),
    suppressed: this.#dependencies.filter.size,
  });

  /** Call when the settings have changed: waiting regulations may go on. */
  settingsChanged(): void {
    this.#executor.wake();
  }

  /** Reloads regulations and suppressions after a change by another node. Rejects with a `StorageError`. */
  reload(): Promise<void> {
    const { regulations, filter } = this.#dependencies;
    const loaded = this.#lastChange.then(() => filter.load(regulations));
    this.#lastChange = loaded.catch(() => {});
    this.#executor.wake();
    return loaded;
  }

  /** Makes a regulation. Suppressions are in force when this resolves. Rejects with a `StorageError`. */
  create(request: RegulationRequest): Promise<Regulation> {
    const made = this.#lastChange.then(() => this.#create(request));
    this.#lastChange = made.catch(() => {});
    return made;
  }

  async repeated(request: RepeatableRequest): Promise<Regulation | 'other_body' | undefined> {
    const { regulations, clock } = this.#dependencies;
    const { key, body } = this.#hashesOf(request);
    const since = clock.now() - REPEATABLE_FOR;
    for (let below: number | undefined; ; ) {
      const page = await regulations.list(PAGE, below);
      const found = page.find(({ repeat, createdAt }) => repeat?.key === key && createdAt > since);
      if (found !== undefined) return found.repeat?.body === body ? found : 'other_body';
      const last = page.at(-1);
      if (page.length < PAGE || last === undefined || last.createdAt <= since) return undefined;
      below = last.number;
    }
  }

  /**
   * Hashes of a repeatable request. They are keyed, because a body may hold a single id, which nobody should
   * find by trying.
   */
  #hashesOf({ key, body }: RepeatableRequest): RequestHashes {
    const words = new Uint32Array(4);
    this.#dependencies.regulations.hashId('user', `Idempotency-Key ${key}`, words, 0);
    this.#dependencies.regulations.hashId('user', `body ${body}`, words, 2);
    const hex = (from: number) => Buffer.from(words.buffer, from * 4, 8).toString('hex');
    return { key: hex(0), body: hex(2) };
  }

  get(id: string): Promise<Regulation | undefined> {
    return this.#dependencies.regulations.get(id);
  }

  list(max: number, below?: number): Promise<readonly StoredRegulation[]> {
    return this.#dependencies.regulations.list(max, below);
  }

  async unknown({ userIds, anonymousIds, type }: Omit<RegulationRequest, 'by'>): Promise<string[]> {
    const { regulations, users, log } = this.#dependencies;
    const unknown: string[] = [];
    if (type === 'UNSUPPRESS') {
      for (const id of userIds)
        if ((await regulations.suppression(id, 'user')) === undefined) unknown.push(id);
      for (const id of anonymousIds)
        if ((await regulations.suppression(id, 'anonymous')) === undefined) unknown.push(id);
      return unknown;
    }
    const joined = await users.joinedIds(userIds);
    for (const [nth, userId] of userIds.entries())
      if (joined[nth]!.sources.length === 0 && !(await hasEvents({ userId }, log))) unknown.push(userId);
    const { subjects } = await surveyVisitors(anonymousIds, this.#terms());
    for (const { anonymousId = '', sources, belongsToUser } of subjects)
      if (belongsToUser !== true && sources.length === 0) unknown.push(anonymousId);
    return unknown;
  }

  async foresee(request: Omit<RegulationRequest, 'by'>): Promise<Foreseen> {
    const { userIds, anonymousIds, type, confirm = false, silent = false } = request;
    const nothing = { events: 0, profiles: 0, destinations: [] };
    if (type === 'UNSUPPRESS')
      return { unknown: await this.unknown(request), belongToUsers: [], found: [], ...nothing };
    const users = await surveyUsers(userIds, { ...this.#terms(), confirm });
    const visitors = await surveyVisitors(anonymousIds, this.#terms());
    const found = [...users.subjects, ...visitors.subjects].map((one) => ({
      ...one,
      isUnknown: one.sources.length === 0 && one.belongsToUser !== true,
    }));
    return {
      unknown: found.flatMap(({ userId, anonymousId, isUnknown }) =>
        isUnknown ? (userId ?? anonymousId ?? []) : [],
      ),
      belongToUsers: visitors.subjects.flatMap(({ anonymousId, belongsToUser }) =>
        belongsToUser === true ? (anonymousId ?? []) : [],
      ),
      found,
      ...nothing,
      ...(isDeleting(type)
        ? {
            events: await this.#countEvents(found),
            profiles: users.profiles + visitors.profiles,
            destinations: silent ? [] : this.#toldOf(users.subjects),
          }
        : {}),
    };
  }

  async #countEvents(subjects: readonly RegulationSubject[]): Promise<number> {
    let events = 0;
    const ids = {
      userIds: [...new Set(subjects.flatMap(userIdsOf))],
      anonymousIds: [...new Set(subjects.flatMap(({ anonymousIds }) => anonymousIds))],
    };
    await lookAt(ids, this.#terms(), () => {
      events++;
    });
    return events;
  }

  /** The names of the destinations that hear that these users are deleted. */
  #toldOf(subjects: readonly RegulationSubject[]): string[] {
    const { settings, plan } = this.#dependencies;
    const seenBy = [...new Set(subjects.flatMap(({ sources }) => sources))];
    const told = seenBy.flatMap((source) => notifiedBy(source, { sources: settings().sources, plan }));
    return [...new Set(told.map(({ name }) => name))].sort();
  }

  #terms(): Omit<SurveyDependencies, 'confirm' | 'users'> & Pick<RegulationServiceDependencies, 'users'> {
    const { log, users, settings, identities } = this.#dependencies;
    return { log, users, identities, trusted: trustedSources(settings()), checkStop: () => {} };
  }

  subjects(id: string): Promise<readonly RegulationSubject[]> {
    return this.#dependencies.regulations.subjects(id);
  }

  suppression(id: string, kind: 'user' | 'anonymous'): Promise<Suppression | undefined> {
    return this.#dependencies.regulations.suppression(id, kind);
  }

  suppressions(max: number, after?: string): Promise<readonly Suppression[]> {
    return this.#dependencies.regulations.suppressions(max, after);
  }

  async #create(request: RegulationRequest): Promise<Regulation> {
    const { type, userIds, anonymousIds, by, confirm = false, silent = false, repeat } = request;
    const { regulations, filter, clock, newId, logger } = this.#dependencies;
    // More are counted while it is carried out.
    const ids = userIds.length + anonymousIds.length;
    const unknown = ids <= MOST_KNOWN_AT_ONCE ? (await this.unknown(request)).length : undefined;
    const made = await regulations
      .create({
        ...{ id: newId(), type, userIds, anonymousIds, by, createdAt: clock.now() },
        ...defined({ unknown, confirm: confirm || undefined, silent: silent || undefined }),
        ...defined({ repeat: repeat && this.#hashesOf(repeat) }),
      })
      .catch((error: unknown) => this.#takeStored(error));
    if (type === 'UNSUPPRESS') await filter.load(regulations);
    else if (type !== 'DELETE_ONLY') {
      filter.add('user', userIds);
      filter.add('anonymous', anonymousIds);
    }
    logger.info({ regulation: made.id, type, users: ids, by }, 'regulation.made');
    this.#executor.wake();
    return made;
  }

  /**
   * A regulation may be stored although its answer is an error, as when a connection breaks. What is stored
   * is in force and is carried out. Rejects with the error.
   */
  async #takeStored(error: unknown): Promise<never> {
    const { regulations, filter } = this.#dependencies;
    await filter.load(regulations).catch(() => {});
    this.#executor.wake();
    throw error;
  }

  /** The ids that belong to users whose suppression has not ended meanwhile. */
  readonly #suppressJoined = (subjects: readonly RegulationSubject[]): void => {
    const { filter, regulations } = this.#dependencies;
    this.#lastChange = this.#lastChange.then(async () => {
      for (const { userId = null, anonymousId = null, formerUserIds, anonymousIds } of subjects) {
        if (!filter.names({ userId, anonymousId })) continue;
        filter.add('user', formerUserIds);
        filter.add('anonymous', anonymousIds);
      }
      // The suppression of visitors who belong to users has ended.
      if (subjects.some(({ belongsToUser }) => belongsToUser === true))
        await filter.load(regulations).catch(() => {});
    });
  };
}

/** Tells whether there are events. A page may be empty although there are more. */
async function hasEvents(
  query: { readonly userId: string },
  log: RegulationServiceDependencies['log'],
): Promise<boolean> {
  let below: Position | undefined;
  do {
    const { positions, next } = await log.find(query, below);
    if (positions.length > 0) return true;
    below = next;
  } while (below !== undefined);
  return false;
}
