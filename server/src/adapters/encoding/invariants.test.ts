import { describe } from 'vitest';
import { itNotices } from '../../../test/support/invariants.ts';
import { RedeliveredDeadLetters, TakenDeadLetters } from './decisions/dead-letters.ts';
import { LedgerBalance } from './ledger.ts';
import { encodePositions, HeldSet, pushVarint, splitSet, summaryOf } from './pending-set.ts';
import { ResultGroups } from './results.ts';

/** A transaction that counts these, and has so many more deliveries pending. */
function balance(counts: readonly (readonly [scope: string, name: string, n: number])[], pending = 0) {
  return () => {
    const sums = new LedgerBalance();
    for (const [scope, name, n] of counts) sums.count({ scope: scope as 'source', id: 1, name, n });
    sums.pending(1, pending);
    sums.check();
  };
}

describe('the ledger of a transaction', () =>
  itNotices([
    [
      'what a lane is owed is delivered, pending, dead, dropped or erased',
      balance([['destination', 'owed', 2]], 1),
    ],
  ]));

describe('the ledger of a transaction that adds up', () => {
  const counts = [
    ['destination', 'owed', 6],
    ['destination', 'delivered', 1],
    ['destination', 'dead:status_400', 1],
    ['destination', 'dropped:no_form', 1],
    ['destination', 'erased', 1],
    ['destination', 'skipped:not_wanted', 7],
    ['source', 'received', 3],
    ['skip_set', '4', 1],
  ] as const;
  balance(counts, 2)();
  itNotices([['what a lane is owed is delivered, pending, dead, dropped or erased', balance(counts, 1)]]);
});

/** A row of dead letters out of which nothing is taken. */
class Emptied extends TakenDeadLetters {
  constructor() {
    super();
    const row = { id: 1, destination: 1, state: 'dead', reason: 'r', encoded: encodePositions([1]) };
    this.take(row as never, new Set(), 0);
  }
}

describe('the bytes of pending sets', () =>
  itNotices([
    ['a claim takes something of a set', () => splitSet(encodePositions([1]), 0)],
    ['a set that is stored has a delivery', () => summaryOf(encodePositions([]))],
    ['a number of a row is not below nothing', () => pushVarint([], -1)],
    ['a set of new deliveries has one at least', () => HeldSet.fromPositions(1, [])],
    ['the positions of a set of new deliveries ascend', () => HeldSet.fromPositions(1, [2, 2])],
    [
      'a result that is retried is due at a time',
      () => {
        const next = { position: 1, rounds: 1 };
        const result = { set: 1, destination: 1, position: 1, attempts: [] };
        new ResultGroups(0).add(
          { ...result, decision: { kind: 'delivered' } },
          { kind: 'retry', at: Number.NaN, next },
          undefined,
        );
      },
    ],
    [
      'what is taken out of the dead letters is pending again',
      () => {
        const taken = new RedeliveredDeadLetters();
        taken.count = 1;
        taken.requeued();
      },
    ],
    ['a row of dead letters is changed where something is taken out', () => new Emptied()],
  ]));
