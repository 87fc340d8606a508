import type { DatabaseSync } from 'node:sqlite';
import { type MessagePort, parentPort, workerData } from 'node:worker_threads';
import type { Duration } from '../../model/time.ts';
import type { SetId } from '../../ports/backlog.ts';
import { StorageError } from '../../ports/event-log.ts';
import { Checkpoints } from './checkpoints.ts';
import { Contents } from './contents.ts';
import {
  believeDamage,
  DamageAvoided,
  isContained,
  isDamage,
  looksLikeDamage,
  rebuildIndexes,
} from './damage.ts';
import { asStorageError, openDatabase } from './database.ts';
import { makeFolder } from './folder.ts';
import { HighWaterMark, type Standing } from './high-water-mark.ts';
import { compare, inspect, refuseMissing } from './inspection.ts';
import { beginEpoch, standingIn } from './installation.ts';
import { lockFolder } from './lock.ts';
import { Lookout } from './lookout.ts';
import { clocksIn } from './marks.ts';
import { perform } from './perform.ts';
import type { Answers, OperationKind, Reply, Request } from './protocol.ts';

/**
 * The thread that owns the file. SQLite is synchronous: here a slow disk delays commits and nothing else.
 *
 * Everything that arrived while the last transaction ran makes up the next one (group commit), so settled deliveries
 * ride along with the next events and the slower the disk, the larger the groups.
 */
export interface WriterOptions {
  readonly folder: string;
  readonly dedupeWindow: Duration;
  readonly filterMemory: number;
}

const WRITES: ReadonlySet<OperationKind> = new Set([
  'append',
  'settle',
  'claim',
  'release',
  'expire',
  'adopt',
  'revive',
  'owe',
  'apply',
  'keepHealth',
  'maintain',
  'erase',
  'scrub',
]);

/** Milliseconds until the write-ahead log is tried again when the checkpointer is at it. */
const BUSY_RETRY = 20;

class Writer {
  readonly #port: MessagePort;
  readonly #options: WriterOptions;
  readonly #lock: { release(): void };
  readonly #epoch: number;
  readonly #keySecret: Uint8Array;
  readonly #id: string;
  readonly #mark: HighWaterMark;
  readonly #lookout: Lookout;
  #database: DatabaseSync;
  #contents: Contents | undefined;
  #requests: Request[] = [];
  /** Answers to erasures whose bytes are not gone yet. */
  readonly #scrubbing: Reply[] = [];
  #checkpoints: Checkpoints;
  /** What upkeep leaves alone, because damage was met there. */
  readonly #avoided = new DamageAvoided();
  #isRepaired = false;
  /** A handle was given up for what looked like damage. */
  #isDoubted = false;
  /** The last transaction failed: the next one is to show whether the disk is well again. */
  #isSuspect = false;
  /** Sets that a transaction took in hand of which nobody knows whether it happened. */
  #doubtful: SetId[] = [];

  constructor(port: MessagePort, options: WriterOptions) {
    this.#port = port;
    this.#options = options;
    makeFolder(options.folder);
    this.#lock = lockFolder(options.folder);
    const { isNew, isMarkDamaged } = inspect(options.folder);
    this.#database = openDatabase(options.folder, { isNew });
    this.#checkpoints = new Checkpoints(this.#database, options.folder);
    const { epoch, keySecret, id } = beginEpoch(this.#database);
    this.#epoch = epoch;
    this.#keySecret = keySecret;
    this.#id = id;
    this.#contents = this.#readFirst();
    this.#mark = markOf(options.folder, { id, commits: this.#contents.commits });
    this.#lookout = new Lookout(options.folder, {
      mark: this.#mark,
      checkpoints: this.#checkpoints,
      isOpen: () => this.#contents !== undefined,
      report: (reply) => this.#reply(reply),
    });
    port.on('message', (request: Request) => this.#receive(request));
    this.#reply({ kind: 'ready', keySecret, lastMark: clocksIn(this.#database), isMarkDamaged });
  }

  #read(): Contents {
    const options = { ...this.#options, epoch: this.#epoch, keySecret: this.#keySecret };
    return new Contents(this.#database, { ...options, avoided: this.#avoided });
  }

  /** At the start nobody waits for a second handle to show that damage is damage. */
  #readFirst(): Contents {
    believeDamage(false);
    try {
      return this.#read();
    } catch (error) {
      if (!looksLikeDamage(error)) throw error;
      believeDamage(true);
      try {
        return this.#read();
      } catch (again) {
        if (!this.#repair(again)) throw again;
        return this.#read();
      }
    }
  }

  /** Builds the indexes anew, once: they hold nothing that their tables do not. False when that cannot help. */
  #repair(error: unknown): boolean {
    if (this.#isRepaired || !isDamage(error)) return false;
    this.#isRepaired = true;
    try {
      if (this.#database.isTransaction) this.#database.exec('rollback');
      rebuildIndexes(this.#database);
      return true;
    } catch {
      return false;
    }
  }

  /**
   * After an operation has failed: whether it may go well when it is done again at once, around a damaged page. What looks like
   * damage for the first time is not believed: the handle is given up, and the next one shows whether it was the disk.
   */
  #goesAround(error: unknown): boolean {
    if (!looksLikeDamage(error) && !isContained(error)) {
      believeDamage(false);
      this.#isDoubted = false;
      return false;
    }
    const isCertain = isContained(error) || isDamage(error);
    if (isCertain && !this.#avoided.learn(error) && !this.#repair(error)) return false;
    if (!isCertain) {
      const wasDoubted = this.#isDoubted;
      this.#isDoubted = true;
      if (!wasDoubted) return false;
      believeDamage(true);
    }
    try {
      if (this.#database.isTransaction) this.#database.exec('rollback');
      this.#contents = this.#read();
      return true;
    } catch {
      return false;
    }
  }

  #receive(request: Request): void {
    // Not at once: first whatever else has arrived, so that it shares the commit.
    if (this.#requests.length === 0) setImmediate(() => this.#run());
    this.#requests.push(request);
  }

  #run(): void {
    const requests = this.#requests;
    this.#requests = [];
    const amiss = this.#lookout.amiss();
    const {
      stops = [],
      writes = [],
      reads = [],
    } = Object.groupBy(requests, ({ kind }) =>
      kind === 'stop' ? 'stops' : WRITES.has(kind) ? 'writes' : 'reads',
    );
    if (amiss !== undefined) {
      for (const { id } of [...writes, ...reads]) this.#reply({ kind: 'failed', id, reason: amiss });
    } else {
      if (writes.length > 0) this.#commit(writes);
      for (const request of reads) this.#answerRead(request);
    }
    for (const { id } of stops) void this.#stop(id);
  }

  /** One transaction for all of them: they are stored together or fail together. */
  #commit(writes: readonly Request[]): void {
    const answers: Answers[OperationKind][] = [];
    let contents: Contents | undefined;
    try {
      contents = this.#opened();
      const before = contents.commits;
      this.#database.exec('begin immediate');
      // Upkeep that finds nothing to do once a second must not cost a sync once a second.
      const mayBeIdle = !this.#isSuspect && writes.every(({ kind }) => kind === 'maintain');
      const state = mayBeIdle ? this.#state() : '';
      for (const request of writes) answers.push(perform(contents, request));
      if (mayBeIdle && this.#state() === state) this.#database.exec('rollback');
      else {
        contents.seal();
        try {
          this.#database.exec('commit');
        } catch (error) {
          // The commit may have happened all the same. Only the file knows.
          this.#reopen();
          if (this.#opened().commits !== before + 1) throw error;
        }
      }
      contents.taken();
      this.#mark.note(contents.commits);
      this.#isSuspect = false;
    } catch (error) {
      if (this.#goesAround(error)) {
        this.#commit(writes);
        return;
      }
      if (isDamage(error)) this.#avoided.failed(writes.map(({ kind }) => kind).join(' or '));
      const { reason } = asStorageError(error, this.#options.folder);
      this.#isSuspect = true;
      // Should it turn out to have happened, its callers have been told otherwise.
      if (contents !== undefined) this.#doubtful.push(...contents.taken());
      this.#giveUp();
      for (const { id } of writes) this.#reply({ kind: 'failed', id, reason });
      return;
    }
    writes.forEach(({ id, kind }, index) => {
      const reply: Reply = { kind: 'done', id, answer: answers[index] };
      if (kind === 'scrub') this.#scrubbing.push(reply);
      else this.#reply(reply);
    });
    this.#checkpoints.committed();
    if (this.#scrubbing.length > 0) setImmediate(() => this.#scrub());
  }

  /**
   * An erasure is answered when the bytes are gone: free pages, which may still hold them, are given back a slice at a
   * time, then the write-ahead log is emptied.
   */
  #scrub(): void {
    if (this.#scrubbing.length === 0) return;
    try {
      const contents = this.#opened();
      if (contents.freePages() > 0) {
        this.#database.exec('begin immediate');
        contents.giveBack();
        this.#database.exec('commit');
        setImmediate(() => this.#scrub());
        return;
      }
      this.#lookout.logEmptied();
      if (!this.#checkpoints.empty()) {
        setTimeout(() => this.#scrub(), BUSY_RETRY);
        return;
      }
      for (const reply of this.#scrubbing.splice(0)) this.#reply(reply);
    } catch (error) {
      const { reason } = asStorageError(error, this.#options.folder);
      this.#giveUp();
      for (const reply of this.#scrubbing.splice(0)) {
        if (reply.kind === 'done') this.#reply({ kind: 'failed', id: reply.id, reason });
      }
    }
  }

  #answerRead(request: Request): void {
    try {
      const answer = perform(this.#opened(), request);
      this.#reply({ kind: 'done', id: request.id, answer });
    } catch (error) {
      if (this.#goesAround(error)) {
        this.#answerRead(request);
        return;
      }
      if (isDamage(error)) this.#avoided.failed(request.kind);
      if (looksLikeDamage(error)) this.#giveUp();
      this.#reply({
        kind: 'failed',
        id: request.id,
        reason: asStorageError(error, this.#options.folder).reason,
      });
    }
  }

  /** Differs when rows were changed, or pages given back. */
  #state(): string {
    const sql = 'select total_changes() as changes, page_count as pages from pragma_page_count()';
    return JSON.stringify(this.#database.prepare(sql).get());
  }

  /** The contents, opened anew if the last handle was given up. */
  #opened(): Contents {
    if (this.#contents === undefined) this.#reopen();
    return this.#contents!;
  }

  /** After a failed write neither the handle nor what we believe of the file can be trusted: both are made anew. */
  #giveUp(): void {
    this.#contents = undefined;
    try {
      this.#database.close();
    } catch {
      // A handle that cannot even be closed is left to the end of the process.
    }
  }

  #reopen(): void {
    this.#giveUp();
    // Nobody may take the write-ahead log at its word before it has been synced anew.
    this.#checkpoints.pause();
    this.#lookout.pause();
    this.#database = this.#openAgain();
    // Shows that the disk writes and syncs again, and leaves a short log for the next time it does not.
    this.#database.exec('pragma wal_checkpoint(truncate)');
    const contents = this.#read();
    if (this.#doubtful.length > 0) {
      this.#database.exec('begin immediate');
      contents.park(this.#doubtful);
      this.#database.exec('commit');
      this.#doubtful = [];
    }
    this.#checkpoints.resume(this.#database);
    this.#lookout.resume();
    this.#contents = contents;
  }

  /** Only what was open before: never an empty store in its place, nor one that has lost a commit. */
  #openAgain(): DatabaseSync {
    const { folder } = this.#options;
    const standing: Standing = { id: this.#id, commits: this.#mark.commits };
    refuseMissing(folder, standing);
    return openDatabase(folder, {
      check: (database) => compare(folder, standing, standingIn(database)),
    });
  }

  async #stop(id: number): Promise<void> {
    await this.#checkpoints.stop();
    // The last one to close a database empties its write-ahead log into it.
    if (this.#contents !== undefined) this.#database.close();
    this.#lookout.end();
    this.#mark.close();
    this.#lock.release();
    this.#reply({ kind: 'done', id, answer: undefined });
    this.#port.close();
  }

  #reply(reply: Reply): void {
    const answer = reply.kind === 'done' ? reply.answer : undefined;
    const given = typeof answer === 'object' && 'lines' in answer ? [answer.lines.buffer as ArrayBuffer] : [];
    this.#port.postMessage(reply, given);
  }
}

function markOf(folder: string, standing: Standing): HighWaterMark {
  try {
    return HighWaterMark.of(folder, standing);
  } catch (error) {
    throw asStorageError(error, folder);
  }
}

if (parentPort !== null) {
  try {
    new Writer(parentPort, workerData as WriterOptions);
  } catch (error) {
    const reason =
      error instanceof StorageError
        ? error.reason
        : asStorageError(error, (workerData as WriterOptions).folder).reason;
    parentPort.postMessage({ kind: 'refused', reason } satisfies Reply);
    parentPort.close();
  }
}
