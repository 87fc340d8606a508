import type { Ledger } from '../../src/model/ledger.ts';
import type { ErasedCounts } from '../../src/model/regulation.ts';
import type { Monotonic } from '../../src/model/time.ts';
import type { Clock, ClockMark } from '../../src/ports/clock.ts';
import { type Batch, RefusedContentError, StorageError } from '../../src/ports/event-log.ts';
import type { Store } from '../../src/ports/store.ts';
import { MEMBERS_DOCUMENT } from '../../src/users/sync/membership-sync.ts';
import type { ProgramStore } from '../../src/wiring/storage.ts';
import { emptyContents, ledgerOf, type MemoryContents, type PendingSet } from '../memory-store/contents.ts';
import { openMemoryLogReader } from '../memory-store/log-reader.ts';
import type { Ask } from '../memory-store/nodes.ts';
import { emptyProfiles, type MemoryProfiles, openMemoryProfiles } from '../memory-store/profile-store.ts';
import { openMemoryStore, openSharedMemoryStore } from '../memory-store/store.ts';
import { type Kernel, type Life, START } from './kernel.ts';
import type { Chance } from './random.ts';
import {
  type Applied,
  type Beginning,
  FAIR,
  isUnstorable,
  type OpenedStore,
  type StoreChannel,
  type StoreListener,
  type Weather,
  type WorldStore,
} from './world-store.ts';

/** Operations that change nothing. */
export const READS = new Set([
  ...[
    'read',
    'damaged',
    'find',
    'size',
    'rangeSize',
    'producedTo',
    'sharedIds',
    'stats',
    'nextDue',
    'ledger',
  ],
  ...[
    'load',
    'get',
    'list',
    'count',
    'open',
    'audit',
    'auditedBefore',
    'endedBefore',
    'progress',
    'pendingOf',
  ],
  ...['subjects', 'suppression', 'suppressions', 'visitSuppressed', 'findPending', 'changes', 'erasedAfter'],
  ...['toWaitFor', 'gone', 'samples'],
  // The thread of profiles
  ...['page', 'bounds', 'cursor', 'resolve', 'due', 'scan', 'outbox', 'merges', 'document', 'usedBytes'],
]);

/** Operations that may have taken effect although their answer is an error. */
export const DOUBTFUL = new Set([
  'append',
  'settle',
  'claim',
  'makeDue',
  'expire',
  'create',
  'advance',
  'enqueue',
  'redeliver',
  'commit',
]);

/** One store in memory for all nodes of a world. */
export class SimulatedStore implements WorldStore {
  readonly contents: MemoryContents = emptyContents();
  readonly profiles: MemoryProfiles = emptyProfiles();
  weather: Weather = FAIR;
  readonly isShared: boolean;
  readonly #kernel: Kernel;
  readonly #chance: Chance;
  readonly #listener: StoreListener;
  /** Channels of a process: its own, and that of its thread of profiles. */
  readonly #channels = new Map<Life, readonly Channel[]>();
  /** The newest set that `newSets` has told of. */
  #toldSet = 0;

  constructor(
    {
      kernel,
      chance,
      isShared,
    }: { readonly kernel: Kernel; readonly chance: Chance; readonly isShared: boolean },
    listener: StoreListener,
  ) {
    this.#kernel = kernel;
    this.#chance = chance;
    this.isShared = isShared;
    this.#listener = listener;
  }

  prepare({ sources, destinations, audiences }: Beginning): void {
    const { sourceRecords, destinationRecords, audienceRecords } = this.contents;
    for (const record of audiences) audienceRecords.set(record.name, { record, isGone: false });
    for (const record of sources) sourceRecords.set(record.name, { record, isGone: false });
    for (const record of destinations) destinationRecords.set(record.name, { record, isGone: false });
  }

  get leases(): ReadonlyMap<number, unknown> {
    return this.contents.shared.members;
  }

  ledger(): Ledger {
    return ledgerOf(this.contents);
  }

  areProfilesBehind(): boolean {
    const { cursor, outbox } = this.profiles;
    return cursor.position <= this.contents.lastPosition || outbox.size > 0;
  }

  *newSets(): Iterable<PendingSet> {
    const { sets, lastSet } = this.contents;
    while (this.#toldSet < lastSet) {
      const set = sets.get(++this.#toldSet);
      if (set !== undefined) yield set;
    }
  }

  membersStored(): Readonly<Record<string, number>> {
    return JSON.parse(this.profiles.documents.get(MEMBERS_DOCUMENT) ?? '{}');
  }

  cut(life: Life): void {
    for (const channel of this.#channels.get(life) ?? []) channel.cut();
    this.#channels.delete(life);
  }

  async open(life: Life, name: string, clock: Clock, onLost: () => void): Promise<OpenedStore> {
    const options: ChannelOptions = {
      ...{ kernel: this.#kernel, chance: this.#chance, isShared: this.isShared, listener: this.#listener },
      weather: () => this.weather,
      park: (operation, answer) => this.park(operation, answer),
    };
    const channel = new Channel(life, options);
    const listener: StoreListener = {
      ...this.#listener,
      applied: ({ operation }) => this.#listener.appliedByThread(operation, life),
      looked: () => {},
    };
    const ofThread = new Channel(life, { ...options, listener, park: () => {} });
    this.#channels.set(life, [channel, ofThread]);
    const { contents } = this;
    const now = (): Monotonic => START + Math.floor(this.#kernel.now);
    const ask: Ask = (operation, apply) => channel.ask(operation, [], apply) as never;
    const shared = this.isShared
      ? await openSharedMemoryStore({ contents, name, clock, now, ask, onLost })
      : undefined;
    const inner: Store = shared ?? openMemoryStore({ contents });
    const nodes = shared?.nodes;
    const clockMark: ClockMark = { now: clock.now(), monotonic: now(), steps: clock.steps() };
    const store: ProgramStore = {
      ...portsThrough(channel, inner),
      ...(nodes !== undefined && { nodes, sharedClock: clockMark }),
      identity: { id: 'simulated', keySecret: KEY_SECRET },
      format: 1,
      problems: () => [],
      hasProfiles: () => this.profiles.states.size > 0,
      profilesPlace: () => ({ folder: '' }),
      isBounded: true,
      backup: inner.backup,
      stop: () => inner.stop(),
    };
    return {
      ...{ store, channel, nodes },
      reader: () => portThrough(ofThread, openMemoryLogReader(contents)),
      openProfiles: () => portThrough(ofThread, openMemoryProfiles(this.profiles)),
    };
  }

  /** A process must not hold a set that it does not know of. */
  park(operation: string, answer: unknown): void {
    const { sets } = this.contents;
    for (const id of newlyHeld(operation, answer)) {
      const set = sets.get(id);
      if (set !== undefined) set.holder = undefined;
    }
  }
}

export const KEY_SECRET = Buffer.from('of a world');

function newlyHeld(operation: string, answer: unknown): readonly number[] {
  if (operation === 'append')
    return (answer as { held: readonly (number | undefined)[] }).held.filter((id) => id !== undefined);
  if (operation !== 'claim') return [];
  return (answer as { deliveries: readonly { set: number }[] }).deliveries.map(({ set }) => set);
}

type PortName =
  | 'log'
  | 'queue'
  | 'settings'
  | 'sessions'
  | 'history'
  | 'deadLetters'
  | 'endpointHealth'
  | 'regulations';
const PORTS: readonly PortName[] = [
  ...([
    'log',
    'queue',
    'settings',
    'sessions',
    'history',
    'deadLetters',
    'endpointHealth',
    'regulations',
  ] as const),
];

type Methods = Record<string, (...given: unknown[]) => unknown>;

/** The way to a store. */
export interface StoreAsker {
  ask<Answer>(operation: string, args: readonly unknown[], apply: () => Answer): Promise<Awaited<Answer>>;
}

/** The ports of a store, whose every method goes through the channel. */
export function portsThrough(channel: StoreAsker, inner: Pick<Store, PortName>): Pick<Store, PortName> {
  const ports = PORTS.map((name) => [name, portThrough(channel, inner[name])]);
  return Object.fromEntries(ports) as Pick<Store, PortName>;
}

function portThrough<Port extends object>(channel: StoreAsker, inner: Port): Port {
  const methods = inner as Methods;
  const made = new Map<string, unknown>();
  const get = (_: object, method: string) => {
    if (!made.has(method)) made.set(method, methodThrough(channel, methods, method));
    return made.get(method);
  };
  return new Proxy({}, { get }) as Port;
}

function methodThrough(channel: StoreAsker, methods: Methods, method: string): unknown {
  if (method === 'hashId' || method === 'stop') return methods[method];
  // Taken at once: what is begun under a lease is never done under the next one.
  const call = (given: readonly unknown[]) => {
    const own = methods[method]!;
    return channel.ask(method, given, () => own(...given));
  };
  if (method === 'erase' && 'append' in methods) return (erasure: Erasure) => eraseThrough(erasure, call);
  if (method !== 'visitSuppressed') return (...given: unknown[]) => call(given);
  return async (visit: (hashes: Uint32Array) => void) => {
    // Its caller hears of them with the answer, and not inside of the store.
    const seen: Uint32Array[] = [];
    await call([(hashes: Uint32Array) => seen.push(hashes)]);
    for (const hashes of seen) visit(hashes);
  };
}

interface Erasure {
  readonly onErased?: (positions: readonly number[]) => void;
}

async function eraseThrough(
  erasure: Erasure,
  call: (given: readonly unknown[]) => Promise<unknown>,
): Promise<ErasedCounts> {
  const erased: (readonly number[])[] = [];
  const inside = { ...erasure, onErased: (positions: readonly number[]) => erased.push(positions) };
  const counts = (await call([inside])) as ErasedCounts;
  for (const positions of erased) erasure.onErased?.(positions);
  return counts;
}

interface ChannelOptions {
  readonly kernel: Kernel;
  readonly chance: Chance;
  readonly isShared: boolean;
  readonly weather: () => Weather;
  readonly listener: StoreListener;
  readonly park: (operation: string, answer: unknown) => void;
}

/**
 * The way of a process to the store and back: an operation takes effect after a while, or not, and is
 * answered after a while, if somebody is there.
 */
class Channel implements StoreChannel, StoreAsker {
  readonly #life: Life;
  readonly #options: ChannelOptions;
  #lastApply = 0;
  #lastAnswer = 0;
  /** Operations that have not taken effect yet, and how many of them still may. */
  #open = 0;
  #mayApply = Number.POSITIVE_INFINITY;

  constructor(life: Life, options: ChannelOptions) {
    this.#life = life;
    this.#options = options;
  }

  /** Writes under way. */
  readonly underWay = new Map<string, number>();

  /** The process has died: of what was under way the first so many take effect. */
  cut(): void {
    this.#mayApply = this.#options.chance.below(this.#open + 1);
  }

  ask<Answer>(operation: string, args: readonly unknown[], apply: () => Answer): Promise<Awaited<Answer>> {
    const { kernel, chance, isShared, weather } = this.#options;
    const { latency, isAway, refuses, refusesOnly, refusesContents, doubts, doubtsOnly, silentUntil } =
      weather();
    const isWrite = !READS.has(operation);
    const isSilent = silentUntil > kernel.now;
    const lasts = isSilent
      ? silentUntil - kernel.now
      : 0.02 + chance.exponential(latency * (isWrite ? 1 : 0.4));
    // An engine does one after the other; a database has several connections.
    const at = isShared ? kernel.now + lasts : Math.max(kernel.now + lasts, this.#lastApply + 0.001);
    this.#lastApply = at;
    const isMeant = (only: string | undefined) => only === undefined || only === operation;
    // A disk goes on where it stood; a database has lost the connection.
    const isRefused = isAway || (isSilent && isShared) || (isMeant(refusesOnly) && chance.is(refuses));
    const isUnfit =
      !isRefused && refusesContents && operation === 'append' && hasUnstorable(args[0] as Batch);
    const isDoubted = !isRefused && DOUBTFUL.has(operation) && isMeant(doubtsOnly) && chance.is(doubts);
    const { promise, resolve, reject } = Promise.withResolvers<Awaited<Answer>>();
    this.#count(operation, 1);
    kernel.arrive(at - kernel.now, undefined, `apply ${operation}`, () => {
      this.#count(operation, -1);
      // A lease that comes after its process has died would take that of the next one, which has its name.
      const isTooLate = operation === 'join' || this.#mayApply-- <= 0;
      if (this.#life.isOver && isTooLate) return;
      if (isRefused || isUnfit) {
        if (isRefused) this.#options.listener.refused(operation);
        const error = isUnfit ? new RefusedContentError('an event is refused') : undefined;
        return this.#answer(operation, () => reject(error ?? new StorageError(`${operation} is refused`)));
      }
      this.#apply({ operation, args, isDoubted, isWrite }, apply).then(
        (answer) => {
          const error = new StorageError(`${operation}: nobody knows whether it was written`);
          this.#answer(operation, () => (isDoubted ? reject(error) : resolve(answer)));
        },
        (error: unknown) => this.#answer(operation, () => reject(error)),
      );
    });
    return promise;
  }

  async #apply<Answer>(
    { isWrite, ...asked }: Omit<Applied, 'answer' | 'life'> & { readonly isWrite: boolean },
    apply: () => Answer,
  ): Promise<Awaited<Answer>> {
    const answer = await apply();
    const { listener, park } = this.#options;
    if (isWrite) listener.applied({ ...asked, answer, life: this.#life });
    else listener.looked(asked.operation, answer, this.#life);
    if (asked.isDoubted) park(asked.operation, answer);
    return answer;
  }

  #answer(operation: string, end: () => void): void {
    const { kernel, chance, isShared, weather } = this.#options;
    const isRead = operation === 'read';
    let at = kernel.now + 0.02 + chance.exponential(0.05 + weather().latency * (isRead ? 0.5 : 0.05));
    // Events are read beside the writes: what was read may be older than what is known by then.
    const hasOrder = !isShared && !isRead;
    if (hasOrder) at = this.#lastAnswer = Math.max(at, this.#lastAnswer);
    kernel.arrive(at - kernel.now, this.#life, `answer ${operation}`, end);
  }

  #count(operation: string, by: number): void {
    this.#open += by;
    this.underWay.set(operation, (this.underWay.get(operation) ?? 0) + by);
  }
}

function hasUnstorable({ events }: Batch): boolean {
  return events.some(({ messageId }) => isUnstorable(messageId));
}

/** The longest time for which a store that is only slow keeps somebody waiting. */
export const LONG_SLOW = 300;
