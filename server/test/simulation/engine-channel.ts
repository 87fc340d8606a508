import type { MessagePort } from 'node:worker_threads';
import { decodeAppended } from '../../src/adapters/encoding/chunk-codec.ts';
import type { ReadAnswer } from '../../src/adapters/sqlite/log/log-tables.ts';
import type { ClaimAnswer } from '../../src/adapters/sqlite/queue/pending.ts';
import type { SqliteStore } from '../../src/adapters/sqlite/store.ts';
import type { WriterReply, WriterRequest } from '../../src/adapters/sqlite/writer.ts';
import type { WriterHandle } from '../../src/adapters/sqlite/writer-thread.ts';
import type { Position } from '../../src/model/event.ts';
import { findLineOffsets } from '../../src/model/serialized-event.ts';
import type { AppendResult, Batch, Erasure } from '../../src/ports/event-log.ts';
import type { NewRegulation } from '../../src/ports/regulations.ts';
import type { EngineContents } from './engine-contents.ts';
import type { Kernel, Life } from './kernel.ts';
import type { Chance } from './random.ts';
import type { PowerCut } from './scenario.ts';
import type { Applied, StoreChannel, StoreListener } from './world-store.ts';

type Listener = (...given: unknown[]) => void;

/** The thread of the writer: it ends and stands still with its process, and waits for its own syncs. */
class WriterLife implements Life {
  readonly name: string;
  /** The thread has ended by itself. */
  hasEnded = false;
  /** A sync lasts until then. */
  syncsUntil = 0;
  readonly #process: Life;

  constructor(process: Life) {
    this.#process = process;
    this.name = `${process.name}w`;
  }

  get isOver(): boolean {
    return this.hasEnded || this.#process.isOver;
  }

  get stillUntil(): number {
    return Math.max(this.syncsUntil, this.#process.stillUntil);
  }

  get areSocketsFirst(): boolean {
    return this.#process.areSocketsFirst;
  }
}

/** Milliseconds that keep a message behind the one before it: at the same time either would be first. */
const ORDER = 0.000_001;

/** One end of the channel between two threads: messages keep their order, and each takes a moment. */
class End {
  readonly #options: Pick<ChannelOptions, 'kernel' | 'chance'>;
  readonly #life: Life;
  readonly #listeners = new Map<string, Listener[]>();
  #lastArrival = 0;
  peer!: End;
  /** Told of each message before it goes; answers how long it is held back. */
  posting: (message: never) => number = () => 0;

  constructor(life: Life, options: Pick<ChannelOptions, 'kernel' | 'chance'>) {
    this.#life = life;
    this.#options = options;
  }

  on(event: string, listener: Listener): this {
    this.#listeners.set(event, [...(this.#listeners.get(event) ?? []), listener]);
    return this;
  }

  once(event: string, listener: Listener): this {
    return this.on(event, listener);
  }

  emit(event: string, ...given: unknown[]): void {
    for (const listener of this.#listeners.get(event) ?? []) listener(...given);
  }

  postMessage(message: unknown, moved: readonly ArrayBuffer[] = []): void {
    const held = this.posting(message as never);
    const copy = structuredClone(message, { transfer: [...new Set(moved)] });
    this.#send(held, 'message', copy);
  }

  close(): void {
    this.#send(0, 'exit');
  }

  #send(held: number, event: string, ...given: unknown[]): void {
    const { kernel, chance } = this.#options;
    const { peer } = this;
    const at = Math.max(this.#lastArrival + ORDER, kernel.now + held + 0.005 + chance.exponential(0.02));
    this.#lastArrival = at;
    kernel.arrive(at - kernel.now, peer.#life, event, () => peer.emit(event, ...given));
  }
}

interface ChannelOptions {
  readonly kernel: Kernel;
  readonly chance: Chance;
  readonly contents: EngineContents;
  readonly listener: StoreListener;
  /** Bytes of the recording so far; 0 where nothing is recorded. */
  readonly moment: () => number;
  /** Mean milliseconds of a commit. */
  readonly latency: () => number;
}

/** A transaction that is in the file or not: the power has failed in its middle, or its commit. */
export interface Doubt {
  /** Without their answers where none was made. */
  readonly done: readonly Applied[];
  /** Transactions in the file, if it is there. */
  readonly commits: number;
}

/** How a process has ended. */
export interface Ended {
  readonly doubt: Doubt | undefined;
  /** Moments of the recording, between which the power may have failed: nobody heard of what came since. */
  readonly from: number;
  readonly to: number;
}

/** The machine is to die in that moment. */
interface PowerFailing {
  readonly when: PowerCut['when'];
  readonly die: () => void;
}

/** A request on its way, in the words of the port. */
interface Asked {
  readonly operation: string;
  readonly args: readonly unknown[];
}

/**
 * The channel between a process and the thread of its writer. It listens to both: what the writer answers has
 * taken effect.
 */
export class EngineChannel implements StoreChannel {
  readonly underWay = new Map<string, number>();
  isClosed = false;
  readonly #life: Life;
  readonly #options: ChannelOptions;
  readonly #writer: WriterLife;
  readonly #mainEnd: End;
  readonly #writerEnd: End;
  /** By the number of the request. */
  readonly #asked = new Map<number, Asked>();
  /** Arguments whose messages are bytes, in the order of their calls. */
  readonly #batches: unknown[] = [];
  readonly #results: unknown[] = [];
  /** Transactions in the file, at the last look. */
  #commits = 0;
  /** The same when the writer gave its handle up, before its answers to what it did then. */
  #commitsAtClosing: number | undefined;
  #isCut = false;
  #failing: PowerFailing | undefined;
  #doubt: Doubt | undefined;
  /** A power cut may not lose what was written before this moment. */
  #toldAt: number;
  /** The power fails before this moment. */
  #failsBefore: number | undefined;

  constructor(life: Life, options: ChannelOptions) {
    this.#life = life;
    this.#options = options;
    this.#toldAt = options.moment();
    this.#writer = new WriterLife(life);
    this.#mainEnd = new End(life, options);
    this.#writerEnd = new End(this.#writer, options);
    this.#mainEnd.peer = this.#writerEnd;
    this.#writerEnd.peer = this.#mainEnd;
    this.#mainEnd.posting = (requests: readonly WriterRequest[]) => this.#asking(requests);
    this.#writerEnd.posting = (replies: readonly WriterReply[]) => this.#answering(replies);
  }

  /** The end of the process, as a store uses it. */
  get main(): WriterHandle {
    return this.#mainEnd as unknown as WriterHandle;
  }

  /** Starts the thread. */
  start(run: (port: MessagePort) => void): void {
    const { kernel } = this.#options;
    kernel.arrive(0.1, this.#writer, 'thread', () => run(this.#writerEnd as unknown as MessagePort));
  }

  /** The same store; the arguments of its calls are known here. */
  overheard(store: SqliteStore): SqliteStore {
    const { log, queue } = store;
    return {
      ...store,
      log: {
        ...log,
        append: (batch) => {
          this.#batches.push(batch);
          return log.append(batch);
        },
      },
      queue: {
        ...queue,
        settle: (results) => {
          this.#results.push(results);
          return queue.settle(results);
        },
      },
    };
  }

  /** The writer is about to give its handle up. */
  closing(): void {
    this.#commitsAtClosing ??= this.#options.contents.commits();
  }

  /**
   * The writer has opened the file anew, and nothing is left in its log: what was in doubt is written or not.
   */
  opened(): void {
    if (this.#failing?.when === 'at a reopening') this.#die(this.#failing);
    const doubt = this.#doubt;
    if (doubt === undefined || this.#failsBefore !== undefined) return;
    const { contents, listener } = this.#options;
    this.#doubt = undefined;
    if (contents.commits() < doubt.commits)
      for (const { operation } of doubt.done) listener.refused(operation);
    else {
      this.#commits = doubt.commits;
      tellDoubt(doubt, contents.lastPosition, { contents, applied: listener.applied });
    }
    this.told();
  }

  /** Everything that is in the file is known. */
  told(): void {
    this.#toldAt = this.#options.moment();
  }

  /** The process has died. */
  cut(): Ended {
    this.#isCut = true;
    const to = this.#failsBefore ?? this.#options.moment();
    return { doubt: this.#doubt, from: this.#toldAt, to };
  }

  /** The machine dies in that moment, if it comes. */
  failPower(when: PowerCut['when'], die: () => void): void {
    this.#failing = { when, die };
  }

  /** The machine dies: what is written from here on is lost in any case, and nobody hears of it. */
  #die({ die }: PowerFailing): void {
    this.#failsBefore ??= this.#options.moment();
    die();
  }

  #asking(requests: readonly WriterRequest[]): number {
    for (const request of requests) {
      const asked = this.#askedBy(request);
      this.#asked.set(request.id, asked);
      this.#count(asked.operation, 1);
    }
    return 0;
  }

  #askedBy(request: WriterRequest): Asked {
    const { name } = request;
    const message = (request as { message?: unknown }).message;
    switch (name) {
      case 'append':
        return { operation: name, args: [this.#batches.shift()] };
      case 'settle':
        return { operation: name, args: [this.#results.shift()] };
      case 'claim':
        return { operation: name, args: [(message as { destination: number }).destination] };
      case 'createRegulation':
        return { operation: 'create', args: [message] };
      case 'advanceRegulation':
        return { operation: 'advance', args: [request.message.id, request.message.change] };
      case 'erase':
        // Of a deletion; the other is one of events that are too old.
        return {
          operation: (message as Erasure).regulation === undefined ? 'eraseAt' : 'erase',
          args: [message],
        };
      default:
        return { operation: name, args: [message] };
    }
  }

  /** Answers how long the sync takes whose end the writer waits for. */
  #answering(replies: readonly WriterReply[]): number {
    if (this.#isCut) return 0;
    const done: Applied[] = [];
    const failed: Asked[] = [];
    for (const reply of replies) {
      if (reply.kind !== 'done' && reply.kind !== 'failed') continue;
      const asked = this.#asked.get(reply.id)!;
      this.#asked.delete(reply.id);
      this.#count(asked.operation, -1);
      if (asked.operation === 'stop') this.#stopped();
      if (reply.kind === 'failed') failed.push(asked);
      else this.#heard(asked, reply.answer, done);
    }
    if (this.#failsBefore !== undefined) this.#putInDoubt(done);
    this.#failed(failed);
    this.#commitsAtClosing = undefined;
    if (done.length === 0 || this.#failsBefore !== undefined) return 0;
    if (this.#failing?.when === 'in a commit') this.#fail(done, this.#failing);
    else this.#tell(done);
    const { kernel, chance, latency } = this.#options;
    const sync = chance.exponential(latency());
    this.#writer.syncsUntil = kernel.now + sync;
    return sync;
  }

  /** An answer that is no error; writes are told of together. */
  #heard(asked: Asked, said: unknown, done: Applied[]): void {
    const { operation } = asked;
    const answer = answerOf(asked, said);
    if (isWrite(operation)) done.push({ ...asked, answer, life: this.#life, isDoubted: false });
    else this.#options.listener.looked(operation, answer, this.#life);
  }

  /**
   * Operations that failed together. Where their handle was given up, nobody knows whether they were written
   * before the file is opened anew. While an earlier one is in doubt it was not, and they did nothing.
   */
  #failed(failed: readonly Asked[]): void {
    const writes = failed.filter(({ operation }) => isWrite(operation));
    const isInDoubt = this.#putInDoubt(
      writes.map((one) => ({ ...one, answer: undefined, life: this.#life, isDoubted: true })),
    );
    const refused = isInDoubt ? failed.filter((one) => !writes.includes(one)) : failed;
    for (const { operation } of refused) this.#options.listener.refused(operation);
  }

  /** False where the operations have changed nothing. */
  #putInDoubt(writes: readonly Applied[]): boolean {
    const before = this.#commitsAtClosing;
    if (writes.length === 0 || before === undefined || this.#doubt !== undefined) return false;
    this.#doubt = { done: writes.map((one) => ({ ...one, isDoubted: true })), commits: before + 1 };
    return true;
  }

  /** The answer to this transaction is lost. It is on the disk, or not, or a part of it. */
  #fail(done: readonly Applied[], failing: PowerFailing): void {
    const { contents } = this.#options;
    // Nothing was written.
    if (!contents.isOpen || contents.commits() === this.#commits) return;
    this.#doubt = { done: done.map((one) => ({ ...one, isDoubted: true })), commits: contents.commits() };
    this.#die(failing);
  }

  #stopped(): void {
    this.isClosed = true;
    this.#writer.hasEnded = true;
  }

  #tell(done: readonly Applied[]): void {
    const { contents, listener } = this.#options;
    if (!contents.isOpen) return;
    // Maintenance without work changes nothing.
    const commits = contents.commits();
    if (commits === this.#commits && done.every(({ operation }) => operation === 'maintain')) return;
    this.#commits = commits;
    tellAll(done, contents, listener.applied);
    this.told();
  }

  #count(operation: string, by: number): void {
    this.underWay.set(operation, (this.underWay.get(operation) ?? 0) + by);
  }
}

/**
 * Tells of the operations of one transaction when it is over: first what is owed, then what became of it.
 */
function tellAll(done: readonly Applied[], contents: EngineContents, applied: (one: Applied) => void): void {
  const operations = new Set(done.map(({ operation }) => operation));
  contents.readSets();
  if (operations.has('append')) contents.readEvents(contents.lastPosition);
  if (operations.has('eraseAt') || operations.has('erase')) contents.readEvents(0);
  if (['create', 'advance', 'apply', 'erase', 'eraseAt'].some((one) => operations.has(one)))
    contents.readRecords();
  for (const one of joinAppends(done).toSorted((a, b) => placeOf(a.operation) - placeOf(b.operation))) {
    if (placeOf(one.operation) === LAST) contents.readLetters();
    applied(one);
  }
}

/**
 * Tells of a transaction that turned out to be in the file, which is read from there on.
 *
 * @param before positions that were given before it
 */
export function tellDoubt(
  { done }: Doubt,
  before: Position,
  { contents, applied }: Pick<ChannelOptions, 'contents'> & Pick<StoreListener, 'applied'>,
): void {
  contents.readEvents(before);
  contents.readRecords();
  const told = done.map((one) => ({ ...one, answer: one.answer ?? answerFound(one, contents, before) }));
  tellAll(told, contents, applied);
}

/** The answer to an operation whose caller has heard an error, by what is found in the file. */
function answerFound({ operation, args }: Applied, contents: EngineContents, before: Position): unknown {
  if (operation === 'create') return contents.regulations.get((args[0] as NewRegulation).id);
  if (operation === 'claim') return { deliveries: [] };
  if (operation !== 'append') return 0;
  const { events } = args[0] as Batch;
  const found = new Map<string, Position>();
  for (const [position, { source, messageId }] of contents.events)
    if (position >= before) found.set(`${source} ${messageId}`, position);
  const positions = events.map(({ source, messageId }) => {
    const key = `${source} ${messageId}`;
    const position = found.get(key);
    // The second of two is a duplicate of the first.
    found.delete(key);
    return position;
  });
  return { positions, held: [] } satisfies AppendResult;
}

/** Batches of one transaction as one: what is owed of either is seen at once. */
function joinAppends(done: readonly Applied[]): readonly Applied[] {
  const appends = done.filter(({ operation }) => operation === 'append');
  if (appends.length < 2) return done;
  const batches = appends.map(({ args }) => args[0] as Batch);
  const events = batches.flatMap((batch) => batch.events);
  const batch = { ...batches[0]!, events, received: batches.flatMap(({ received }) => received) };
  const answers = appends.map(({ answer }) => answer as AppendResult);
  const answer = {
    positions: answers.flatMap(({ positions }) => positions),
    held: answers.flatMap(({ held }) => held),
  };
  const joined = { ...appends[0]!, args: [batch], answer };
  return [joined, ...done.filter(({ operation }) => operation !== 'append')];
}

const LAST = 2;

/** Letters are looked at behind results: a delivery that a result ended was not ended by its window. */
function placeOf(operation: string): number {
  if (operation === 'append') return 0;
  return operation === 'settle' ? 1 : LAST;
}

const WRITES = new Set([
  ...[
    'append',
    'settle',
    'claim',
    'makeDue',
    'expire',
    'enqueue',
    'redeliver',
    'recoverOrphans',
    'erase',
    'eraseAt',
  ],
  ...['create', 'advance', 'apply', 'saveHealth', 'maintain', 'putAnswers', 'beginSession', 'endSession'],
]);

function isWrite(operation: string): boolean {
  return WRITES.has(operation);
}

function answerOf({ operation, args }: Asked, answer: unknown): unknown {
  if (operation === 'append') return decodeAppended(answer as string);
  if (operation === 'read') return linesOf(answer as ReadAnswer, (args[0] as Float64Array).length);
  if (operation !== 'claim') return answer;
  const { fresh, tried, nextDueAt } = answer as ClaimAnswer;
  const deliveries = [...Array.from({ length: fresh.length / 2 }), ...tried];
  return { deliveries, nextDueAt };
}

/** The lines of events; undefined for those that are gone. */
function linesOf({ lines }: ReadAnswer, n: number): readonly (Uint8Array | undefined)[] {
  const starts = findLineOffsets(lines, n);
  return Array.from({ length: n }, (_, nth) => {
    const line = lines.subarray(starts[nth]!, starts[nth + 1]! - 1);
    return line.length === 0 ? undefined : line;
  });
}
