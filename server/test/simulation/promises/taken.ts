import { SECOND } from '../../../src/model/time.ts';
import { isUnstorable } from '../world-store.ts';
import type { PromiseFamily } from './promise.ts';

/** For so long nothing may have been wrong: the program looks every second whether its store is well. */
const QUIET = 10 * SECOND;

/** A server whose store is well again takes calls again, and nobody has to start it anew. */
export const taken: PromiseFamily = {
  name: 'taken',
  headings: ['Overload'],
  watch: (world) => ({
    answered({ node, call }, result) {
      const code = result.kind === 'unavailable' ? result.code : undefined;
      const { death, ready, still, store, lostLease } = world.troubles;
      const since = Math.max(death, ready, still, store, lostLease);
      if (code !== 'storage_unavailable' || since > world.kernel.now - QUIET) return;
      if (call.events.some(({ id }) => isUnstorable(id))) return;
      world.fail(
        'a well store takes calls',
        `${node.life.name} answers ${code}, and all is well since ${Math.round(since / SECOND)} s`,
      );
    },
  }),
};
