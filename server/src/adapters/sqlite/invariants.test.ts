import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { MessageChannel } from 'node:worker_threads';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { batch, events } from '../../../test/conformance/batches.ts';
import { type Breach, itNotices } from '../../../test/support/invariants.ts';
import type { InvariantError } from '../../model/invariant.ts';
import { keyHash } from '../encoding/hashes.ts';
import { Quarantine } from './damage.ts';
import { LedgerTable } from './ledger-table.ts';
import { ChunkRows } from './log/chunk-rows.ts';
import { Chunks } from './log/chunks.ts';
import type { AppendMessage } from './log/log-tables.ts';
import { MEMTABLE_KEYS, Memtable } from './log/memtable.ts';
import { SortedRunBuilder } from './log/sorted-run.ts';
import { PendingTable } from './queue/pending.ts';
import { ReplayCursors } from './queue/replay-cursors.ts';
import { migrate } from './schema.ts';
import { openSqliteStore } from './store.ts';
import { startWriter, type WriterOptions } from './writer.ts';
import type { WriterHandle } from './writer-thread.ts';

function database(): DatabaseSync {
  const made = new DatabaseSync(':memory:');
  migrate(made);
  return made;
}

function queue(work: (pending: PendingTable, file: DatabaseSync, ledger: LedgerTable) => void): () => void {
  return () => {
    const file = database();
    const ledger = new LedgerTable(file);
    work(new PendingTable(file, { epoch: 1, ledger, damage: {} as never }), file, ledger);
  };
}

const QUEUE: readonly Breach[] = [
  ['deliveries that are parked are some', queue((pending) => pending.insertParked(1, [], 0))],
  ['deliveries that are enqueued again are some', queue((pending) => pending.requeue(1, [], 0))],
  ['deliveries that are retried are some', queue((pending) => pending.scheduleRetry(1, 0, []))],
  [
    'deliveries that are retried are due at a time',
    queue((pending) => pending.scheduleRetry(1, Number.NaN, [{ position: 1, rounds: 1 }])),
  ],
  ['a set that results were taken out of is in memory', queue((pending) => pending.writeSets([7]))],
  [
    'a new set has a number that no other has',
    queue((pending) => {
      const id = pending.insertHeld(1, [1], 0);
      pending.held.put(id + 1, pending.held.get(id)!);
      pending.insertHeld(1, [2], 0);
    }),
  ],
  [
    'a slice of a replay does not go back',
    queue((pending, file, ledger) =>
      new ReplayCursors(file, { pending, ledger }).enqueue({
        ...{ origin: 'o', destinations: [1], positions: [1], from: 2, to: 1, now: 0 },
      }),
    ),
  ],
];

describe('the queue of the SQLite store', () => itNotices(QUEUE));

describe('the ledger of the SQLite store', () => {
  it('is not written where a delivery would be lost', () => {
    const breach = queue((pending, _, ledger) => {
      ledger.add('destination', 1, 'owed', 2);
      pending.insertParked(1, [1], 0);
      ledger.balance.check();
    });
    expect(breach).toThrow('what a lane is owed is delivered, pending, dead, dropped or erased');
  });
});

const OPTIONS = {
  ...{ sumsFrom: 0, stored: 0, retainedFrom: () => 0, quarantine: new Quarantine() },
  ...{ hash: keyHash(Buffer.alloc(8)), onDamage: () => {} },
};

const COLUMNS = {
  ...{ n: 1, lines: Buffer.from('{}'), sources: new Uint32Array(1), times: new Float64Array(1) },
  ...{ plans: new Uint32Array(1), keys: new Uint32Array(2), users: new Uint32Array(2) },
};

const log = (fields: object, first?: number) => () => {
  const chunks = new Chunks(database(), OPTIONS);
  if (first === undefined) chunks.append({ ...COLUMNS, ...fields }, { batch: 'b', answer: '' });
  else chunks.put(first, COLUMNS, 0);
};

const LOG: readonly Breach[] = [
  ['a chunk of new events has one at least', log({ n: 0 })],
  ['a chunk of new events has a source for each', log({ sources: new Uint32Array(2) })],
  ['a chunk of new events has a time for each', log({ times: new Float64Array(2) })],
  ['a chunk of new events has a plan for each', log({ plans: new Uint32Array(2) })],
  ['a chunk of new events has a key for each', log({ keys: new Uint32Array(1) })],
  ['a chunk of new events has a user for each', log({ users: new Uint32Array(4) })],
  [
    'the log ends behind its newest event',
    () => {
      const put = vi.spyOn(ChunkRows.prototype, 'put').mockImplementation(() => {});
      try {
        log({})();
      } finally {
        put.mockRestore();
      }
    },
  ],
  ['a chunk leaves no gap behind the log', log({}, 5)],
  [
    'a memtable takes no more keys than a run has',
    () => {
      const full = new Memtable();
      for (let nth = 0; nth <= MEMTABLE_KEYS; nth++) full.add(Math.imul(nth, 0x9e3779b1) >>> 0, nth, nth);
    },
  ],
  [
    'the keys of a run ascend',
    () => {
      const run = new SortedRunBuilder(4096, () => {});
      run.add(2 ** 31, 0, 0);
      run.add(0, 0, 1);
    },
  ],
  [
    'a run has no more keys than it was made for',
    () => {
      const run = new SortedRunBuilder(1, () => {});
      run.add(1, 0, 0);
      run.add(2, 0, 1);
    },
  ],
];

describe('the log of the SQLite store', () => itNotices(LOG));

/** A writer in the thread of the test, so that a test can make its state wrong. */
const inThisThread = (options: WriterOptions): WriterHandle => {
  const { port1, port2 } = new MessageChannel();
  startWriter(port2, options);
  const on = (event: string, listener: never) => port1.on(event === 'exit' ? 'close' : event, listener);
  return {
    ...{ on, once: on, terminate: async () => port1.close() },
    postMessage: (message: unknown, moved: readonly ArrayBuffer[]) => port1.postMessage(message, moved),
  } as unknown as WriterHandle;
};

describe('the writer', () => {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-invariants-'));
  let nth = 0;
  afterEach(() => {
    vi.restoreAllMocks();
    rmSync(folder, { recursive: true, force: true });
  });

  /** The error with which a store ends at a call, and what another opening of its folder has stored. */
  async function endOf(
    wrong: () => void,
    message?: Partial<AppendMessage>,
  ): Promise<{ readonly error: InvariantError; readonly events: number; readonly answered: boolean }> {
    const broken = Promise.withResolvers<InvariantError>();
    const data = join(folder, String(nth++));
    let spoiled = (sent: unknown) => sent;
    const startSpoiled = (options: WriterOptions) => {
      const writer = inThisThread(options);
      const { postMessage } = writer;
      writer.postMessage = (sent, moved) => postMessage(spoiled(sent), moved as never);
      return writer;
    };
    const store = await openSqliteStore({
      folder: data,
      startWriter: startSpoiled,
      onBroken: broken.resolve,
    });
    await store.log.append(batch(events(1, 'first')));
    wrong();
    spoiled = (sent) =>
      (sent as { message?: object }[]).map((request) =>
        request.message === undefined ? request : { ...request, message: { ...request.message, ...message } },
      );
    let answered = false;
    const append = store.log.append(batch(events(2, 'second'))).then(() => {
      answered = true;
    });
    append.catch(() => {});
    const error = await broken.promise;
    vi.restoreAllMocks();
    await store.abandon();
    rmSync(join(data, 'millrace.lock'), { recursive: true, force: true });
    const after = new DatabaseSync(join(data, 'millrace.db'), { readOnly: true });
    const { n } = after.prepare('select coalesce(sum(n), 0) as n from chunk').get() as { n: number };
    after.close();
    return { error, events: n, answered };
  }

  const spoilt = (message: Partial<AppendMessage>) => async () => {
    const { error, events: stored, answered } = await endOf(() => {}, message);
    expect([stored, answered], 'what was under way is rolled back and not answered').toEqual([1, false]);
    expect(error.facts).toEqual({ commits: expect.any(Number), operations: ['append'] });
    expect(JSON.stringify(error.facts), 'nothing of an event').not.toContain('Order');
    throw error;
  };

  itNotices([
    [
      'a transaction counts as one commit',
      async () => {
        const { error } = await endOf(() => {
          vi.spyOn(LedgerTable.prototype, 'write').mockImplementation(() => {});
        });
        throw error;
      },
    ],
    ['a batch has no more plans than events', spoilt({ planIndexes: new Uint32Array(3) })],
    ['a batch has a source for each event', spoilt({ sources: new Uint32Array(1) })],
    ['a batch has a key for each event', spoilt({ keys: new Uint32Array(1) })],
    ['a batch has a user for each event', spoilt({ users: new Uint32Array(1) })],
    ['a batch has a line for each event', spoilt({ starts: new Uint32Array(1) })],
    [
      'what a batch owes is an event of it',
      spoilt({ owed: [{ destination: 1, held: true, indexes: Uint32Array.of(2), origin: undefined }] }),
    ],
  ]);
});
