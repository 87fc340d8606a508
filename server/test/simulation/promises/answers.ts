import { SECOND } from '../../../src/model/time.ts';
import { isUnstorable } from '../world-store.ts';
import type { PromiseFamily, TakenCall, WorldView } from './promise.ts';

/** A node that does not reach its store knows that before its lease ends, and looks every second. */
const ANSWERED_WITHIN = 10 * SECOND;
/** For so long nothing may have been wrong where a refusal has no reason. */
const QUIET = 15 * SECOND;

/** Every call is answered: soon where several nodes share a store, and in the end everywhere. */
export const answers: PromiseFamily = {
  name: 'answers',
  headings: ['Success', 'Unavailable'],
  watch: (world) => ({
    taken(taken) {
      if (world.nodes.length === 1) return;
      const begunAt = world.kernel.now;
      world.kernel.later(ANSWERED_WITHIN, 'look whether a call is answered', () => {
        if (!taken.isAnswered && wasUp(world, taken, begunAt))
          world.fail(
            'calls are answered',
            `${taken.life.name} has not answered ${taken.call.events[0]?.id} for ${ANSWERED_WITHIN / SECOND} s`,
          );
      });
    },
    answered({ call, life }, { kind }) {
      if (kind !== 'unavailable' || world.nodes.length > 1) return;
      const { death, ready, still, store, slow } = world.troubles;
      const isQuiet = Math.max(death, ready, still, store, slow) < world.kernel.now - QUIET;
      const isRefusable = call.events.some(({ id }) => isUnstorable(id));
      if (isQuiet && !isRefusable && world.store.weather.refusesContents)
        world.fail(
          'calls go by themselves',
          `${life.name} refuses ${call.events[0]?.id} for what another holds`,
        );
    },
    ended() {
      if (world.callsWaiting > 0)
        world.fail('calls are answered', `${world.callsWaiting} calls have no answer after long good times`);
    },
  }),
};

/** Whether the process ran all the time, and its store was as quick as one is. */
function wasUp({ troubles }: WorldView, { life, node }: TakenCall, since: number): boolean {
  return !life.isOver && node.isReady && Math.max(troubles.still, troubles.slow) < since;
}
