import type { DatabaseSync } from 'node:sqlite';
import type { Duration } from '../../model/time.ts';
import type { PendingSetId } from '../../ports/delivery-queue.ts';
import { idHash, keyHash } from '../encoding/hashes.ts';
import type { SecretSeal } from '../encoding/secret-seal.ts';
import { DamageTable, type Quarantine } from './damage.ts';
import { Watermarks } from './installation.ts';
import { LedgerTable } from './ledger-table.ts';
import { Chunks } from './log/chunks.ts';
import { KeyIndex } from './log/key-index.ts';
import { LogTables, logHandlers } from './log/log-tables.ts';
import { PlanTable } from './log/plans.ts';
import { QueueTables, queueHandlers } from './queue/queue-tables.ts';
import { RegulationTable, regulationHandlers } from './regulations/regulation-table.ts';
import { SuppressionTable } from './regulations/suppression-table.ts';
import type { RpcAnswer, RpcHandlers, RpcRequest } from './rpc.ts';
import { RecordTable, settingsHandlers } from './settings/records.ts';
import { secretHandlers } from './settings/secret-keys.ts';
import { SessionTable, sessionHandlers } from './settings/session-table.ts';
import { idleHandlers } from './upkeep/idle.ts';
import { Maintenance } from './upkeep/maintenance.ts';
import { FileSpace } from './upkeep/retention.ts';

/** Every operation that the store can request from the writer thread. */
export type StoreHandlers = ReturnType<typeof logHandlers> &
  ReturnType<typeof queueHandlers> &
  ReturnType<typeof settingsHandlers> &
  ReturnType<typeof sessionHandlers> &
  ReturnType<typeof secretHandlers> &
  ReturnType<typeof regulationHandlers> &
  ReturnType<typeof idleHandlers>;

/**
 * Each operation in words for an operator. `Damage.others` shows them when damage keeps the operation from
 * being done.
 */
export const OPERATION_WORDS: Readonly<Record<keyof StoreHandlers, string>> = {
  append: 'storing events',
  read: 'reading events',
  producedTo: 'events of audiences',
  damaged: 'reading events',
  find: 'searching events',
  erase: 'erasing events',
  sharedIds: 'erasing events',
  hashed: 'erasing events',
  maintain: 'maintenance',
  size: 'the size of the log',
  rangeSize: 'previews of replays',
  stats: 'the state of deliveries',
  nextDue: 'deliveries that wait on disk',
  claim: 'deliveries that wait on disk',
  settle: 'results of deliveries',
  makeDue: 'deliveries that wait on disk',
  expire: 'the end of retry windows',
  enqueue: 'replays',
  recoverOrphans: 'deliveries of the last start',
  ledger: 'the ledger',
  readHistories: 'histories of events',
  findPending: 'searching pending deliveries',
  progress: 'progress of replays',
  pendingOf: 'progress of audiences',
  answersAfter: 'erasing answers of endpoints',
  putAnswers: 'erasing answers of endpoints',
  listDeadLetters: 'dead letters',
  countDeadLetters: 'dead letters',
  redeliver: 'redelivering dead letters',
  loadHealth: 'health of endpoints',
  saveHealth: 'health of endpoints',
  load: 'the settings',
  apply: 'changes of the settings',
  audit: 'the audit log',
  auditedBefore: 'the audit log',
  beginSession: 'sessions of the console',
  findSession: 'sessions of the console',
  endSession: 'sessions of the console',
  secretsScrubbed: 'the key of the secrets',
  createRegulation: 'regulations',
  regulation: 'regulations',
  listRegulations: 'regulations',
  openRegulations: 'regulations',
  endedRegulations: 'regulations',
  knowsRegulation: 'regulations',
  regulationSubjects: 'regulations',
  advanceRegulation: 'regulations',
  regulationHashes: 'regulations',
  reapplyRegulation: 'regulations',
  suppression: 'suppressed users',
  suppressions: 'suppressed users',
  suppressed: 'suppressed users',
  shrinkKeys: 'giving memory back',
  releaseMemory: 'giving memory back',
};

/** The answer to any of these operations. */
export type StoreAnswer = RpcAnswer<StoreHandlers[keyof StoreHandlers]>;

export interface TablesOptions {
  /** The data folder, in which profiles may stand beside. */
  readonly folder: string;
  readonly quarantine: Quarantine;
  /** Number of this start of the program. Sets that an earlier start held are orphans. */
  readonly epoch: number;
  readonly dedupeWindow: Duration;
  /** Secret of the key hash. */
  readonly keySecret: Uint8Array;
  /** Bytes of memory that filters of sorted runs may take. */
  readonly filterMemory: number;
  readonly seal: SecretSeal;
}

/**
 * The tables of one open file, in four groups: log, queue, settings with sessions, regulations. They keep
 * state in memory that follows the transaction step by step: after a failed transaction, make a new object
 * from the file.
 */
export class Tables {
  readonly handlers: StoreHandlers;
  readonly #chunks: Chunks;
  readonly #queue: QueueTables;
  readonly #ledger: LedgerTable;
  readonly #watermarks: Watermarks;
  readonly #space: FileSpace;

  /** Parts are made in the order of their dependencies. No part knows one that is made after it. */
  constructor(
    database: DatabaseSync,
    { folder, quarantine, epoch, dedupeWindow, keySecret, filterMemory, seal }: TablesOptions,
  ) {
    const watermarks = new Watermarks(database);
    const ledger = new LedgerTable(database);
    const damage = new DamageTable(database, quarantine);
    const plans = new PlanTable(database);
    const space = new FileSpace(database, folder);
    const hash = keyHash(keySecret);
    const chunks = new Chunks(database, {
      sumsFrom: watermarks.checksumsFrom,
      stored: ledger.total('source', 'accepted'),
      retainedFrom: () => watermarks.retainedFrom,
      hash,
      quarantine,
      onDamage: (first, n) => damage.note('chunk', first, n),
    });
    const keys = new KeyIndex(database, chunks, {
      watermarks,
      memory: filterMemory,
      quarantine,
    });
    const shared = { chunks, keys, plans, ledger, watermarks, damage, quarantine, space, dedupeWindow };
    const queue = new QueueTables(database, { ...shared, epoch });
    const records = new RecordTable(database, seal);
    const suppressions = new SuppressionTable(database, idHash(hash));
    const regulations = new RegulationTable(database, { suppressions, audit: records.audit, quarantine });
    const log = new LogTables(database, { ...shared, queue, hash, countErased: regulations.countErased });
    const { users, batches } = log;
    const { audit } = records;
    const maintenance = new Maintenance({ ...shared, queue, users, batches, audit, regulations });
    this.handlers = {
      ...logHandlers(log, maintenance),
      ...queueHandlers(queue),
      ...settingsHandlers(records),
      ...sessionHandlers(new SessionTable(database)),
      ...secretHandlers(database),
      ...regulationHandlers(regulations),
      ...idleHandlers(database, keys),
    };
    this.#chunks = chunks;
    this.#queue = queue;
    this.#ledger = ledger;
    this.#watermarks = watermarks;
    this.#space = space;
  }

  /** Runs the handler of a request. A write needs the caller's transaction. */
  handle({ name, message }: RpcRequest<StoreHandlers>): StoreAnswer {
    const handlers: RpcHandlers = this.handlers;
    this.#chunks.freeDropped();
    return handlers[name]!.run(message);
  }

  /** Buffers of an answer that move to the main thread. */
  buffersOf(name: keyof StoreHandlers, answer: StoreAnswer): readonly ArrayBuffer[] | undefined {
    const handlers: RpcHandlers = this.handlers;
    return handlers[name]!.buffersOf?.(answer);
  }

  /** Names of the handlers that need a transaction. */
  writes(): ReadonlySet<string> {
    const handlers = Object.entries<RpcHandlers[string]>(this.handlers);
    return new Set(handlers.filter(([, { access }]) => access === 'write').map(([name]) => name));
  }

  /** Ids of the sets that this process has come to hold since the last call. */
  drainNewlyHeld(): PendingSetId[] {
    return this.#queue.pending.drainNewlyHeld();
  }

  park(sets: readonly PendingSetId[]): void {
    this.#queue.pending.park(sets);
  }

  /** Free pages, which may still hold what was deleted. */
  freePages(): number {
    return this.#space.freePages();
  }

  vacuum(): void {
    this.#space.vacuumMore();
  }

  /**
   * The last step of a transaction: writes the clocks, what the ledger has changed and the number of the
   * transaction.
   */
  beforeCommit(): void {
    this.#ledger.balance.check();
    this.#watermarks.writeClocks();
    this.#ledger.write();
  }

  /** Number of transactions in this file. After a failed commit it tells whether the commit happened. */
  get commits(): number {
    return this.#ledger.commits;
  }
}
