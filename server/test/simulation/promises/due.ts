import { destinationOfLane } from '../../../src/model/lane.ts';
import { SECOND } from '../../../src/model/time.ts';
import { START } from '../kernel.ts';
import type { PromiseFamily, WorldView } from './promise.ts';

const LOOK_EVERY = 10 * SECOND;
/** For so long before a look nothing may have been wrong. */
const QUIET = 30 * SECOND;

/**
 * A delivery that is due is claimed, where its worker has nothing else to do. Without this promise one that
 * was forgotten is seen only where nothing else fails on its lane until the end of the world.
 */
export const due: PromiseFamily = {
  name: 'due',
  headings: ['Retries'],
  watch: (world) => {
    /** Sets that stood so at the last look too. */
    let before = new Set<number>();
    const look = () => {
      world.kernel.later(LOOK_EVERY, 'look whether what is due is claimed', look);
      const idle = idleSets(world);
      for (const [id, lane] of idle)
        if (before.has(id))
          return world.fail(
            'due is claimed',
            `a delivery on lane ${lane} is due for ten seconds, and its worker does nothing`,
          );
      before = new Set(idle.keys());
    };
    if (world.scenario.nodes === 1)
      world.kernel.later(LOOK_EVERY, 'look whether what is due is claimed', look);
    return {};
  },
};

/** Sets that are due on disk, whose worker holds nothing, with their lanes. */
function idleSets(world: WorldView): ReadonlyMap<number, number> {
  const found = new Map<number, number>();
  const [node] = world.nodes;
  const { now } = world.kernel;
  const { death, still, store, ready } = world.troubles;
  const isQuiet = Math.max(death, still, store, ready) < now - QUIET;
  if (!isQuiet || !node!.isReady || node!.life.isOver) return found;
  const states = node!.pipeline.dispatcher.states();
  for (const { id, destination: lane, holder, dueAt } of world.store.contents.sets.values()) {
    if (holder !== undefined || dueAt > START + now) continue;
    const destination = destinationOfLane(lane);
    const state = states.find((one) => one.destination === destination);
    const isIdle = state?.breaker === 'closed' && state.held === 0 && state.inFlight === 0;
    const pause = world.pauses.get(destination)?.at(-1);
    const isPaused = pause !== undefined && (pause.to ?? now) > now - QUIET;
    if (isIdle && !isPaused && world.planOf(destination).rateLimit === undefined) found.set(id, lane);
  }
  return found;
}
