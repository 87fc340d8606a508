import { DAY, type Duration } from '../../src/model/time.ts';
import { StorageError } from '../../src/ports/event-log.ts';
import type { Store } from '../../src/ports/store.ts';
import { emptyContents, type MemoryContents, NO_OPENING, type Opening } from './contents.ts';
import { openDeliveryQueue } from './delivery-queue.ts';
import { openEventLog } from './event-log.ts';
import { openDeadLetters, openHistory } from './history.ts';
import { MemoryNodes, type MemoryNodesOptions } from './nodes.ts';
import { openRegulations } from './regulations.ts';
import { openSessions } from './sessions.ts';
import { openEndpointHealths, openSettings } from './settings.ts';

export { emptyContents, type MemoryContents } from './contents.ts';

export interface MemoryStoreOptions {
  /**
   * A repeated (source, messageId) is a duplicate for this long after the stored event arrived. Default 24
   * hours (spec/specification.md, "Duplicates").
   */
  readonly dedupeWindow?: Duration;
  /** Contents in place of a disk; empty by default. */
  readonly contents?: MemoryContents;
}

/**
 * The ports of the store as plain maps: their executable description. It keeps every promise except that
 * nothing survives the process, and it is not fast: most operations walk over everything stored.
 *
 * A second store opened on the same contents stands for a restart after a crash. The first store then stands
 * for a dead process: its results are ignored, and everything else it tries to write rejects with a
 * `StorageError`.
 */
export function openMemoryStore(options: MemoryStoreOptions = {}): Store {
  const contents = options.contents ?? emptyContents();
  const holder = ++contents.lastHolder;
  contents.holder = holder;
  return {
    ...portsOf(contents, holder, options.dedupeWindow ?? DAY),
    isBounded: true,
    ...lastMarkOf(contents),

    /** Its sets stay held, like those of a crashed process, until the next store recovers them. */
    async stop() {
      if (contents.holder === holder) contents.holder = NO_OPENING;
    },
  };
}

export interface SharedMemoryStoreOptions extends MemoryStoreOptions, MemoryNodesOptions {
  readonly contents: MemoryContents;
}

/** A store that has its contents open together with others, by a lease. */
export interface SharedMemoryStore extends Store {
  readonly nodes: MemoryNodes;
}

/** Opens contents for one of several processes: it has a lease when this resolves. */
export async function openSharedMemoryStore(options: SharedMemoryStoreOptions): Promise<SharedMemoryStore> {
  const nodes = new MemoryNodes(options);
  await nodes.join();
  const ports = openLeasedPorts(options, { opening: () => nodes.opening, adopt: async () => nodes.adopt() });
  return { ...ports, ...lastMarkOf(options.contents), nodes, isBounded: true, stop: () => nodes.stop() };
}

/** The lease of a process that has contents open together with others. */
export interface LeaseOfPorts {
  /** Under which it writes from now on; `contents.shared.members` says whether it may. */
  readonly opening: () => Opening;
  readonly adopt: () => Promise<number>;
}

/** The ports for a process whose lease somebody else looks after. */
export function openLeasedPorts(
  { contents, dedupeWindow = DAY }: MemoryStoreOptions & { readonly contents: MemoryContents },
  { opening, adopt }: LeaseOfPorts,
): Ports {
  const portsNow = (): Ports => {
    const ports = portsOf(contents, opening(), dedupeWindow);
    return { ...ports, queue: { ...ports.queue, recoverOrphans: adopt } };
  };
  let last = { opening: opening(), ports: portsNow() };
  return underCurrentLease(() => {
    if (opening() !== last.opening) last = { opening: opening(), ports: portsNow() };
    return last.ports;
  });
}

function lastMarkOf({ clocks }: MemoryContents): Pick<Store, 'lastClockMark'> {
  return clocks === undefined ? {} : { lastClockMark: clocks };
}

/** The ports of a store. */
export type Ports = Omit<Store, 'isBounded' | 'lastClockMark' | 'stop'>;

function portsOf(contents: MemoryContents, holder: Opening, dedupeWindow: Duration): Ports {
  return {
    log: openEventLog(contents, holder, dedupeWindow),
    queue: openDeliveryQueue(contents, holder),
    settings: openSettings(contents, holder),
    sessions: openSessions(contents, holder),
    history: openHistory(contents),
    deadLetters: openDeadLetters(contents, holder),
    endpointHealth: openEndpointHealths(contents, holder),
    regulations: openRegulations(contents, holder),

    async backup() {
      throw new StorageError(
        'the store is in memory and has no files to copy: start Millrace with a data folder',
      );
    },
  };
}

/** Ports whose methods are those of the lease that the process has when they are asked for. */
function underCurrentLease(current: () => Ports): Ports {
  type Methods = Record<string | symbol, (...given: unknown[]) => unknown>;
  const portNamed = (name: string) =>
    new Proxy(
      {},
      {
        get: (_, method) => (current() as unknown as Record<string, Methods>)[name]![method],
      },
    );
  const { backup, ...ports } = current();
  const shared = Object.fromEntries(Object.keys(ports).map((name) => [name, portNamed(name)]));
  return { ...shared, backup } as unknown as Ports;
}
