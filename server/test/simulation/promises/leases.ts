import { SECOND } from '../../../src/model/time.ts';
import type { ServerNode } from '../node.ts';
import type { PromiseFamily, WorldView } from './promise.ts';

/** Others deliver what a dead node held so soon: its lease is over after ten seconds. */
const TAKEN_OVER_WITHIN = 40 * SECOND;
/** A node whose lease is over is told so soon, if it does not stand still. */
const TOLD_WITHIN = SECOND;
/** Between two looks while nothing happens: a lease may be lost and back in such a time. */
const LOOK_EVERY = 100;

interface Lease {
  may: boolean;
  ever: boolean;
  /** Since when the answer is this one. */
  since: number;
}

/**
 * One node at a time may send what it holds: none does whose lease another has taken, and a lease that is
 * lost stays so (`ports/nodes.ts`). What a dead one held is taken over by the others.
 */
export const leases: PromiseFamily = {
  name: 'leases',
  headings: ['At least once', 'Isolation'],
  watch: (world) => {
    /** The last answer to whether it may send, by lease, and whether it ever might. */
    const answers = new Map<string, Lease>();
    /** When nodes were first seen dead, by their place. */
    const deadSince = new Map<number, number>();
    const look = () => {
      for (const node of world.nodes) {
        lookAt(world, node, answers);
        lookAtDead(world, node, { deadSince, answers });
      }
    };
    const lookOften = () => {
      look();
      world.kernel.later(LOOK_EVERY, 'look at the leases', lookOften);
    };
    if (world.nodes.length > 1) lookOften();
    return {
      sending: look,
      heard: look,
      applied: look,
      ended() {
        for (const { name, isReady, opened } of world.nodes)
          if (isReady && opened?.nodes?.maySend() === false)
            world.fail('nodes come back', `${name} may not send after long good times`);
      },
    };
  },
};

function lookAt(
  world: WorldView,
  { life, opened, lease, lostLease, isReady }: ServerNode,
  answers: Map<string, Lease>,
): void {
  const nodes = opened?.nodes;
  if (nodes === undefined || life.isOver) return;
  const { now } = world.kernel;
  const may = nodes.maySend();
  const before = answers.get(lease) ?? { may: false, ever: false, since: now };
  const since = may === before.may ? before.since : now;
  answers.set(lease, { may, ever: before.ever || may, since });
  if (may && before.ever && !before.may)
    world.fail('a lost lease stays lost', `${life.name} may send again under lease ${nodes.opening}`);
  if (may && world.store.leases?.has(nodes.opening) === false)
    world.fail(
      'nobody sends what another has taken',
      `${life.name} may send under lease ${nodes.opening}, which was taken from it`,
    );
  // When all is well at last, stand-stills are cut short, and timers wait as if they were not.
  const isOver = !may && before.ever && !before.may && isReady && now < world.scenario.lasts;
  if (isOver && lostLease !== lease && now - Math.max(since, life.stillUntil) > TOLD_WITHIN)
    world.fail('who lost a lease is told', `${life.name} was not told that lease ${nodes.opening} is lost`);
}

function lookAtDead(
  world: WorldView,
  { place, life, opened }: ServerNode,
  { deadSince, answers }: { readonly deadSince: Map<number, number>; readonly answers: Map<string, Lease> },
): void {
  const { now } = world.kernel;
  const since = deadSince.get(place);
  if (!life.isOver) deadSince.delete(place);
  else if (since === undefined) deadSince.set(place, now);
  const opening = opened?.nodes?.opening;
  if (since === undefined || !life.isOver || opening === undefined) return;
  if (now - since < TAKEN_OVER_WITHIN || !isServed(world, answers)) return;
  for (const { id, holder } of world.store.contents.sets.values())
    if (holder === opening)
      world.fail('what a dead node held is taken over', `set ${id} is held by ${life.name}, which is dead`);
}

/** Whether a node has had its lease for long, and the store was well. */
function isServed({ nodes, kernel, troubles }: WorldView, answers: Map<string, Lease>): boolean {
  const from = kernel.now - TAKEN_OVER_WITHIN;
  if (troubles.store > from + TAKEN_OVER_WITHIN / 2) return false;
  return nodes.some(({ life, lease, isReady }) => {
    const { may, since } = answers.get(lease) ?? { may: false, since: kernel.now };
    return isReady && life.stillUntil < from && may && since < from;
  });
}
