import type { Position } from '../model/event.ts';
import type { DatabaseStatus, GoneNode, NodeStatus, SingleJob } from '../model/node.ts';
import type { Duration } from '../model/time.ts';

/**
 * This process among those that share a database. Each has a lease that it renews. A process whose lease is
 * over holds nothing any more: others deliver what it held, and the store refuses its writes. It then joins
 * again as a new process.
 */
export interface Nodes extends ProbeTurns {
  /**
   * Whether this process may send. False before any other may send what this one held, whatever the clocks of
   * the machines show.
   */
  readonly maySend: () => boolean;

  /**
   * Why this process can store nothing now, as sentences: it has lost its lease, or the database does not
   * answer. Empty otherwise.
   */
  readonly problems: () => readonly string[];

  /** Tells of losses of the lease. Call once. */
  follow(follower: LeaseFollower): void;

  /**
   * Resolves to all processes that have a lease or had one until now, by name. Rejects with a `StorageError`.
   */
  list(): Promise<readonly NodeStatus[]>;

  /**
   * Resolves to those whose lease was taken in the last hour, by name: neither those that were stopped, nor
   * those that are back. Rejects with a `StorageError`.
   */
  gone(): Promise<readonly GoneNode[]>;

  /** Resolves to the state of the database, and what is wrong with it. Rejects with a `StorageError`. */
  database(): Promise<DatabaseStatus>;

  /**
   * Asks for a job that only one process does. Resolves to whether this one has it from now on, or still has
   * it; it keeps the job until it gives it back or its lease is over. Rejects with a `StorageError`.
   */
  take(job: SingleJob): Promise<boolean>;

  /** Lets another process take the job. Rejects with a `StorageError`. */
  giveBack(job: SingleJob): Promise<void>;

  /** Resolves to the numbers of changes that any process has made. Rejects with a `StorageError`. */
  changes(): Promise<SharedChanges>;

  /**
   * Resolves to the positions of events that other processes have erased after this number of erasures.
   * Rejects with a `StorageError`.
   */
  erasedAfter(erasures: number): Promise<readonly Position[]>;

  /**
   * Tells all processes that this one has done what a deletion waits for, up to these numbers. Rejects with a
   * `StorageError`.
   */
  acknowledge(done: Partial<Acknowledged>): Promise<void>;

  /**
   * Resolves to the processes, this one included, that have not acknowledged these numbers. The follower of
   * this one is told first. Rejects with a `StorageError`.
   */
  toWaitFor(asked: Partial<Acknowledged>): Promise<readonly NodeToWaitFor[]>;
}

/** Numbers of `SharedChanges` up to which a process has done its part. */
export interface Acknowledged {
  /** It knows the suppressions, and every call that it took before is stored or never will be. */
  readonly suppressions: number;
  /** It holds nothing of the erased events, and its requests with them have ended. */
  readonly erasures: number;
}

/** A process that has not acknowledged something. */
export type NodeToWaitFor =
  /** It has its lease, or nobody has taken it yet. */
  | { readonly state: 'behind'; readonly name: string }
  /** It has a lease, and acknowledges nothing because it is of an earlier version. */
  | { readonly state: 'earlier_version'; readonly name: string }
  /** It lost its lease so long ago, and stopped sending before. */
  | { readonly state: 'gone'; readonly goneFor: Duration };

/**
 * Turns at probing a failing lane: however many processes have deliveries for it, its endpoints get the
 * probes of one. Each process still decides by its own requests whether the lane fails, and closes its
 * breaker by a probe of its own.
 */
export interface ProbeTurns {
  /**
   * Asks for the turn. Resolves to 0 when this process has it, and keeps it until it gives it back, dies, or
   * a request would be over; otherwise to the time after which to ask again. Rejects with a `StorageError`.
   */
  takeProbe(lane: number): Promise<Duration>;

  /** Gives the turn back: no process has it for the length of the pause. Rejects with a `StorageError`. */
  giveBackProbe(lane: number, pause: Duration): Promise<void>;
}

export interface SharedChanges {
  readonly settings: number;
  readonly suppressions: number;
  readonly erasures: number;
  /** By this process. */
  readonly acknowledged: Acknowledged;
}

export interface LeaseFollower {
  /**
   * The lease is over. Resolves when nothing is under way any more that was begun with it; only then does the
   * process join again.
   */
  lost(): Promise<void>;
  /**
   * The process has a new lease, and neither takes calls nor sends before this resolves: it learns what the
   * others have changed without it. A deletion that did not wait for it may be over by now. Rejects when that
   * cannot be read; the process joins once more then.
   */
  catchUp(): Promise<void>;
  /** The process has a new lease, and knows what has changed. */
  joined(): void;
  /** This process waits for acknowledgements, also its own. */
  awaited(): void;
}
