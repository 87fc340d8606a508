import { expect } from 'vitest';
import type { Lease } from './cluster-line.ts';
import { largest } from './passed.ts';

/** One request as it came to the customer's endpoint. */
export interface Arrival {
  readonly id: string;
  /** By the monotonic clock. */
  readonly at: number;
  /** Where it came from. A node has each of its connections for itself. */
  readonly connection: Connection;
  /** The leases that the nodes sent under, by their place in the cluster. */
  readonly leases: readonly (Lease | undefined)[];
  /** `commits` of each of these when it was answered; undefined while it is not. */
  commits: readonly number[] | undefined;
}

/** A connection to the endpoint. */
export interface Connection {
  readonly port: number;
  /** The place of its node in the cluster, when that is known. */
  node: number | undefined;
  /** By the monotonic clock. */
  closedAt: number;
  /** Its node was ended or frozen by the test: what that left was not given up by the node. */
  isOfEnded: boolean;
}

/** An event that came again. */
export interface Repeat {
  readonly before: Arrival;
  readonly again: Arrival;
}

/**
 * The arrivals after the first one of an event, each with the one before. A request that its node has given
 * up counts for nothing: one without an answer for five seconds is made again, and a node closes no other
 * connection that it has used.
 */
export function repeatsIn(arrivals: readonly Arrival[]): Repeat[] {
  const last = new Map<string, Arrival>();
  return arrivals.flatMap((again) => {
    const before = last.get(again.id);
    last.set(again.id, again);
    return before === undefined || isGivenUp(before, again.at) ? [] : [{ before, again }];
  });
}

function isGivenUp({ connection: { closedAt, isOfEnded } }: Arrival, until: number): boolean {
  return closedAt < until && !isOfEnded;
}

/**
 * Transactions with results that a node may complete after an answer was sent to it, and that are without
 * this one: one that was under way, and those that begin before the answer is read. On a quiet machine that
 * is one. The threads that send have turns of their own: on a machine with eighteen programs for two cores,
 * one was without a turn for three seconds while another's results made 42. A node that never writes a result
 * makes hundreds.
 */
const MOST_COMMITS = 100;

/**
 * Expects that whatever came again had to: its node lost the lease under which it had sent it, and could not
 * have written the result before. Counted in transactions, which a slow machine makes longer and not more. A
 * crash of the database takes transactions with it, and no lease: `recoveredAt` is when it took calls again,
 * by the monotonic clock. Returns what to print.
 */
export function expectExplained(repeated: readonly Repeat[], recoveredAt = 0): Record<string, number> {
  const facts = repeated.map(({ before, again }) => {
    const { id, at, connection, leases, commits } = before;
    const lease = leases[connection.node ?? -1];
    const ended = lease?.endedAt ?? Number.POSITIVE_INFINITY;
    const isAnswered = lease !== undefined && commits !== undefined;
    return {
      ...{ id, node: connection.node, 'again from': again.connection.node },
      'again after, ms': Math.round(again.at - at),
      hasLostLease: ended < Number.POSITIVE_INFINITY,
      wasBeforeRecovery: at < recoveredAt,
      later: isAnswered ? lease.commits - commits[connection.node!]! : 0,
      age: Math.round(ended - at),
    };
  });
  const unexplained = facts.filter(
    ({ hasLostLease, later, wasBeforeRecovery }) =>
      !wasBeforeRecovery && (!hasLostLease || later > MOST_COMMITS),
  );
  expect(unexplained).toEqual([]);
  return {
    'oldest repeated, ms': largest(facts.map(({ age }) => age)),
    'commits after its answer': largest(facts.map(({ later }) => later)),
  };
}
