import type { Duration, Time } from './time.ts';

/**
 * What a node does where several share a database: take calls, send to destinations, keep profiles and carry out regulations, serve the
 * control API. A process with the embedded engine has all roles.
 */
export const NODE_ROLES = ['ingest', 'deliver', 'users', 'control'] as const;

export type NodeRole = (typeof NODE_ROLES)[number];

/** Work that only one node does at a time. Another takes it over when that one stops or dies. */
export const SINGLE_JOBS = ['maintenance', 'replays', 'users'] as const;

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
  /** What it alone does now. */
  readonly jobs: readonly SingleJob[];
}
