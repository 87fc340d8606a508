import type { PromiseFamily } from './promise.ts';

/** Calls of suppressed users are discarded too, as many as came after their suppression was known. */
const SUPPRESSED = 'suppressed';

/** An invalid call that a node takes counts at most once as discarded, however often its count is written. */
export const discards: PromiseFamily = {
  name: 'discards',
  headings: ['Ledger', 'Invalid calls'],
  watch: (world) => {
    /** Invalid calls that nodes have taken, each repetition by itself. */
    let taken = 0;
    return {
      taken({ invalid }) {
        taken += invalid;
      },
      applied({ operation }) {
        if (operation !== 'append') return;
        let counted = 0;
        for (const { discarded } of world.store.ledger().sources.values())
          for (const [reason, count] of Object.entries(discarded))
            if (reason !== SUPPRESSED) counted += count;
        if (counted > taken)
          world.fail('discards count once', `${counted} invalid calls are counted, and ${taken} were taken`);
      },
    };
  },
};
