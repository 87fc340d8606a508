import type { Duration } from '../model/time.ts';
import { SECOND } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { Acknowledged, Nodes, NodeToWaitFor } from '../ports/nodes.ts';

/** How often this node looks whether all have acknowledged. */
const LOOK_EVERY: Duration = 50;

/** A node that is dead is gone before. One that is not, and is still waited for, needs a person. */
const WAIT_AT_MOST: Duration = 30 * SECOND;

export interface AcknowledgementLimits {
  /** After this time a node of an earlier version, which acknowledges nothing, has done it too. */
  readonly earlierVersion: Duration;
  /** A node that lost its lease so long ago has done it, or is dead. */
  readonly gone: Duration;
}

export interface AcknowledgementDependencies {
  readonly nodes: Pick<Nodes, 'changes' | 'toWaitFor'>;
  readonly clock: Clock;
  /** Throws when the wait is to end. */
  readonly checkStop: () => void;
}

/**
 * Resolves when every node has done what was asked of it until now. Rejects when a node that has its lease
 * does not do it, and when the database cannot be asked.
 */
export async function acknowledgedByAll(
  what: keyof Acknowledged,
  limits: AcknowledgementLimits,
  { nodes, clock, checkStop }: AcknowledgementDependencies,
): Promise<void> {
  const asked = { [what]: (await nodes.changes())[what] };
  const began = clock.monotonic();
  for (;;) {
    checkStop();
    const all = await nodes.toWaitFor(asked);
    const waited = clock.monotonic() - began;
    const left = all.filter((node) => !isOver(node, waited, limits));
    if (left.length === 0) return;
    if (waited > WAIT_AT_MOST) throw new Error(reasonOf(left));
    await new Promise<void>((resolve) => clock.after(LOOK_EVERY, resolve));
  }
}

function isOver(node: NodeToWaitFor, waited: Duration, limits: AcknowledgementLimits): boolean {
  if (node.state === 'gone') return node.goneFor > limits.gone;
  return node.state === 'earlier_version' && waited > limits.earlierVersion;
}

function reasonOf(left: readonly NodeToWaitFor[]): string {
  const names = left.flatMap((node) => (node.state === 'gone' ? [] : [node.name]));
  return `a deletion waits for ${names.join(', ')}, which has its lease and does not confirm that it knows of it: see its log, or restart it`;
}
