import { Worker } from 'node:worker_threads';
import type { Config } from '../config/load.ts';
import type { Dispatcher } from '../delivery/dispatcher.ts';
import { DESTINATION_TYPES } from '../destinations/list.ts';
import { hearsOfComputations } from '../model/destination.ts';
import { defined } from '../model/json.ts';
import { retentionPeriods } from '../model/retention.ts';
import { AUDIENCES_SOURCE, everySource, type Source, trustOf } from '../model/settings.ts';
import type { Clock, ClockMark } from '../ports/clock.ts';
import { categoriesOf } from '../ports/destination-type.ts';
import type { Logger } from '../ports/logger.ts';
import type { SettingsSnapshot } from '../ports/settings-store.ts';
import type { CurrentObserver } from '../ports/telemetry.ts';
import type { Users } from '../ports/users.ts';
import type { Router } from '../routing/router.ts';
import { announcedLog, type StartUsersThread, UsersClient } from '../users/client.ts';
import type { UsersSettings } from '../users/contract.ts';
import { Publisher } from '../users/sync/publisher.ts';
import type { SettingsService } from './settings-service.ts';
import type { ProgramStore } from './storage.ts';

/** Parts from which the main thread's side of profiles is built. */
interface UsersParts {
  readonly store: ProgramStore;
  readonly clock: Clock & { mark(): ClockMark };
  readonly settings: SettingsService;
  readonly config: Config;
  readonly options: { readonly logger: Logger };
}

interface ThreadParts {
  readonly startUsersThread: StartUsersThread;
  readonly busyShare: () => number;
}

/** Profiles, which live on a thread of their own. They follow the settings from here on. */
export function createUsers(parts: UsersParts & ThreadParts): UsersClient {
  const { store, clock, settings, config, options, startUsersThread, busyShare } = parts;
  const settingsNow = () => usersSettings(settings.now(), { config, isBounded: store.isBounded });
  const users = new UsersClient(
    {
      profiles: config.profiles,
      options: () => ({ ...store.profilesPlace(), store: store.identity, clock: clock.mark() }),
      hasFile: store.hasProfiles,
      isShared: store.nodes !== undefined,
      startThread: startUsersThread,
      busyShare,
      clock,
      logger: options.logger,
    },
    settingsNow(),
  );
  settings.follow(() => users.configure(settingsNow()));
  return users;
}

/** Starts the users thread as a thread of this process. */
export const startUsersThread: StartUsersThread = (options) => {
  // The published package is compiled; the repository runs from its sources.
  const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js';
  const url = new URL(`./users-thread.${extension}`, import.meta.url);
  const worker = new Worker(url, { workerData: options, name: 'millrace-users' });
  return {
    post: (message) => worker.postMessage(message),
    listen: ({ heard, ended }) => {
      let reason = 'it has come to its end';
      worker.on('message', heard);
      worker.on('error', (error) => {
        reason = error.message;
      });
      worker.on('exit', () => ended(reason));
    },
  };
};

/** As `UsersClientDependencies.busyShare`, of the thread that calls this. */
export function busyShareOfThisThread(): () => number {
  let last = performance.eventLoopUtilization();
  return () => {
    const now = performance.eventLoopUtilization();
    const { utilization } = performance.eventLoopUtilization(now, last);
    last = now;
    return utilization;
  };
}

function usersSettings(
  { audiences, traits, sources, destinations, gone, splits }: SettingsSnapshot,
  { config, isBounded }: { readonly config: Config; readonly isBounded: boolean },
): UsersSettings {
  const { identities } = config;
  const own = sources.find(({ name }) => name === AUDIENCES_SOURCE.name);
  const computations = [...audiences, ...traits];
  const trusted = (those: readonly Source[]) =>
    those.flatMap((source) => (trustOf(source) === 'server' ? [source.id] : []));
  const shadows = [...sources, ...gone.sources].flatMap(({ id, shadow }) => (shadow === true ? [id] : []));
  const serverSources = trusted(sources);
  const protectedSources = [...serverSources, ...trusted(gone.sources)];
  const hearing = destinations.filter(hearsOfComputations).map(({ name }) => name);
  return {
    computations,
    identities,
    serverSources,
    newestSource: Math.max(0, ...[...sources, ...gone.sources].map(({ id }) => id)),
    hearing,
    consent: consentIn({ destinations, sources, gone }),
    forms: formsIn(destinations),
    destinations: destinations.map(({ name }) => name),
    retention: { ...profileRetention(config, isBounded), protectedSources },
    apart: splits.map(({ keys }) => keys),
    ...defined({ ownSource: own?.id, shadows: shadows.length === 0 ? undefined : shadows }),
  };
}

/** Undefined where all destinations hear of computations in the usual form. */
function formsIn(destinations: SettingsSnapshot['destinations']): UsersSettings['forms'] {
  const forms = destinations.flatMap(({ name, computations }) =>
    computations === undefined ? [] : [[name, computations] as const],
  );
  return forms.length === 0 ? undefined : forms;
}

/** Undefined where no destination asks for consent. */
function consentIn(
  snapshot: Pick<SettingsSnapshot, 'destinations' | 'sources' | 'gone'>,
): UsersSettings['consent'] {
  const asking = snapshot.destinations.flatMap((one) => {
    const categories = categoriesOf(one, DESTINATION_TYPES);
    return categories === undefined ? [] : [[one.name, categories] as const];
  });
  if (asking.length === 0) return undefined;
  const required = everySource(snapshot).filter(({ consent }) => consent === 'required');
  return { asking, requiredSources: required.map(({ id }) => id) };
}

/**
 * Profiles may take half of what the data folder may: the events, from which they are made again, have the
 * other half at least.
 */
const PROFILE_SHARE = 0.5;

function profileRetention(
  { retention, limits }: Pick<Config, 'retention' | 'limits'>,
  isBounded: boolean,
): Omit<UsersSettings['retention'], 'protectedSources'> {
  const { periods, advised } = retentionPeriods(retention, isBounded);
  const { anonymous, known } = periods;
  return {
    ...defined({
      anonymous,
      known,
      advised: advised.anonymous === undefined ? undefined : { anonymous: advised.anonymous },
      bytes: limits.disk === undefined ? undefined : PROFILE_SHARE * limits.disk,
    }),
  };
}

interface PublisherParts extends UsersParts {
  readonly dispatcher: Dispatcher;
  readonly users: UsersClient;
  readonly tail: CurrentObserver;
  readonly routerFor: (snapshot: SettingsSnapshot) => Router;
  readonly newId: () => string;
}

/** Brings what follows from profiles into the log. */
export function createPublisher(parts: PublisherParts): Publisher {
  const { store, clock, settings, options, dispatcher, users, tail, routerFor, newId } = parts;
  let router = routerFor(settings.now());
  settings.follow((now) => {
    router = routerFor(now);
  });
  const publisher = new Publisher({
    outbox: users,
    log: announcedLog(store.log, users.committed),
    source: () => settings.now().sources.find(({ name }) => name === AUDIENCES_SOURCE.name),
    plan: (event, source) => router.plan(event, source),
    hasCalls: users.hasCalls,
    liveDelivery: dispatcher,
    currentObserver: tail,
    newBatchId: newId,
    clock,
    logger: options.logger,
  });
  users.followOutbox(publisher.announce);
  return publisher;
}

/**
 * The profiles, for deletions. Events of an erased profile that were on their way into the log are in it
 * afterwards.
 */
export function erasableUsers(
  users: UsersClient,
  publisher: Publisher,
): Pick<Users, 'joinedIds' | 'usersOf' | 'visitors' | 'erase'> {
  return {
    joinedIds: (userIds) => users.joinedIds(userIds),
    usersOf: (anonymousIds) => users.usersOf(anonymousIds),
    visitors: (anonymousIds) => users.visitors(anonymousIds),
    erase: async (userIds, anonymousIds) => {
      const profiles = await users.erase(userIds, anonymousIds);
      await publisher.readEntriesStored();
      return profiles;
    },
  };
}
