import { describe } from 'vitest';
import { type Breach, itNotices } from '../../../test/support/invariants.ts';
import { COMPACTED, FRESH } from '../encoding/chunk-lines.ts';
import { LedgerBalance } from '../encoding/ledger.ts';
import type { Transaction } from './database.ts';
import { positionsAt } from './log/append.ts';
import { putChunk } from './log/chunk-table.ts';
import { ClaimStarts } from './queue/claim-starts.ts';
import { count, countLost } from './queue/ledger.ts';
import { PendingSets } from './queue/pending.ts';

/** A transaction that sends nothing. */
const nothing = (): Transaction => ({
  ...{
    process: 1,
    balance: new LedgerBalance(),
    rows: async () => [],
    text: async () => {},
    later: () => {},
  },
});

const COLUMNS = {
  ...{ n: 1, lines: Buffer.from('{}'), sources: new Uint32Array(1), times: new Float64Array(1) },
  ...{ plans: new Uint32Array(1), keys: new Uint32Array(2), users: new Uint32Array(2) },
};

const chunk = (fields: object) => () =>
  putChunk(nothing(), { slot: 1, first: 0, stage: FRESH }, { ...COLUMNS, ...fields });

const retried = (deliveries: number, at: number) => () => {
  const group = { destination: 1, at, origin: undefined };
  const all = Array.from({ length: deliveries }, (_, nth) => ({ position: nth, rounds: 1 }));
  new PendingSets().scheduleRetries(nothing(), [{ ...group, deliveries: all }]);
};

const BREACHES: readonly Breach[] = [
  ['a new chunk of the database has an event', chunk({ n: 0 })],
  ['a new chunk of the database has a source for each event', chunk({ sources: new Uint32Array(2) })],
  ['a new chunk of the database has a time for each event', chunk({ times: new Float64Array(2) })],
  ['a new chunk of the database has a plan for each event', chunk({ plans: new Uint32Array(2) })],
  ['a new chunk of the database has a key for each event', chunk({ keys: new Uint32Array(1) })],
  ['a new chunk of the database has a user for each event', chunk({ users: new Uint32Array(4) })],
  ['a set for the database has a delivery', retried(0, 1)],
  ['a set for the database is due at a time', retried(1, Number.NaN)],
  ['what a batch owes in the database is an event of it', () => positionsAt([1], new Float64Array(1))],
  [
    'claims of a lane begin at a time',
    () => {
      const starts = new ClaimStarts();
      starts.move(1, starts.of(1, 0), Number.NaN);
    },
  ],
  ['what is due earlier is due at a time', () => new ClaimStarts().lower(1, Number.NaN)],
  [
    'what a lane is owed is delivered, pending, dead, dropped or erased',
    () => {
      const transaction = nothing();
      count(transaction, [{ scope: 'destination', id: 1, name: 'owed', n: 2 }]);
      new PendingSets().requeue(transaction, [{ destination: 1, positions: [1] }], 0);
      transaction.balance.check();
    },
  ],
];

describe('the PostgreSQL store', () => itNotices(BREACHES));

describe('the PostgreSQL store takes for granted', () => {
  // This process has not made the chunks of compaction and erasure, nor the contents of damaged rows.
  putChunk(nothing(), { slot: 1, first: 0, stage: COMPACTED }, { ...COLUMNS, users: new Uint32Array(4) });
  const transaction = nothing();
  countLost(transaction, [{ scope: 'destination', id: 1, name: 'dead:event_damaged', n: 3 }]);
  transaction.balance.check();
  itNotices([['a set for the database has a delivery', retried(0, 1)]]);
});
