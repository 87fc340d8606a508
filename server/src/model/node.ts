import type { Duration, Time } from './time.ts';

/**
 * Roles of a node where several share a database: take calls, send to destinations, keep profiles and carry
 * out regulations, serve the control API. A process with the embedded engine has all roles.
 */
export const NODE_ROLES = ['ingest', 'deliver', 'users', 'control'] as const;

export type NodeRole = (typeof NODE_ROLES)[number];

/** Work that only one node does at a time. Another takes it over when that one stops or dies. */
export const SINGLE_JOBS = ['maintenance', 'replays', 'users', 'alerts'] as const;

export type SingleJob = (typeof SINGLE_JOBS)[number];

/** One of the processes that share a database. */
export interface NodeStatus {
  readonly name: string;
  /** Whether this is the node that answers. */
  readonly isSelf: boolean;
  readonly roles: readonly NodeRole[];
  /** Version of the program. */
  readonly version: string;
  /** Start of the process, by the clock of the database. */
  readonly since: Time;
  /** How long its lease is still valid; negative when it is over and nobody has taken over yet. */
  readonly leaseLeft: Duration;
  /** Jobs that only this node does now. */
  readonly jobs: readonly SingleJob[];
}

/** A node that died, or was out of reach until its lease was over, and did not come back under its name. */
export interface GoneNode {
  readonly name: string;
  readonly roles: readonly NodeRole[];
  /** Version of the program. */
  readonly version: string;
  /** Time of its last renewal of the lease, by the clock of the database, as `takenOverAt`. */
  readonly lastSeen: Time;
  /** Time at which its lease was taken over: its deliveries were free for all nodes from then on. */
  readonly takenOverAt: Time;
  /** Name of the node that did so. */
  readonly takenOverBy: string;
}

/** The database that nodes share. */
export interface DatabaseStatus {
  /** Version of PostgreSQL. */
  readonly version: string;
  readonly standbys: readonly StandbyStatus[];
  /** Problems that endanger events or slow all nodes down. */
  readonly problems: readonly DatabaseProblem[];
}

/** A copy that follows the database. What the user of the database may not see of it is absent. */
export interface StandbyStatus {
  readonly name: string;
  /** Commits wait for it, so it has every event that was answered 200. */
  readonly isSynchronous?: boolean;
  /** Bytes of the log that are not on its disk yet. */
  readonly behindBytes?: number;
  /** How long a commit took to reach its disk; 0 while nothing is written. */
  readonly behind?: Duration;
}

export interface DatabaseProblem {
  /** Events are in danger, or nothing is stored. */
  readonly isSevere: boolean;
  readonly found: string;
  /** Advice for the operator. */
  readonly advice: string;
}
