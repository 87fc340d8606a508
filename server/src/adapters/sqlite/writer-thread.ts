import { Worker } from 'node:worker_threads';
import { Slab } from '../../model/containers.ts';
import { endWith, InvariantError } from '../../model/invariant.ts';
import type { Duration } from '../../model/time.ts';
import { StorageError } from '../../ports/event-log.ts';
import { isFewResults, type SettleMessage } from './queue/settle.ts';
import type { RpcAnswer, RpcMessage } from './rpc.ts';
import type { StoreHandlers } from './tables.ts';
import type { WriterOptions, WriterReply, WriterRequest } from './writer.ts';

/**
 * Milliseconds in which a few results wait for the next request, whose message and commit they share: a
 * commit costs more than they do, and so does waking the writer. Many do not wait: a crash repeats the
 * deliveries whose results are not written.
 */
const SETTLE_WAIT: Duration = 10;

/** The part of a `Worker` that a store uses. Ends with `exit`. */
export type WriterHandle = Pick<Worker, 'on' | 'once' | 'postMessage' | 'terminate'>;

type Ready = Extract<WriterReply, { kind: 'ready' }>;

/** Operations without a message. */
type BareName = {
  [Name in keyof StoreHandlers]: undefined extends RpcMessage<StoreHandlers[Name]> ? Name : never;
}[keyof StoreHandlers];

export function startThread(options: WriterOptions): Worker {
  // The published package is compiled; the repository runs from its sources. The writer has the extension of
  // this file.
  const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js';
  return new Worker(new URL(`./writer.${extension}`, import.meta.url), {
    workerData: options,
    name: 'millrace-writer',
  });
}

/** The main thread's end of the writer: requests go out in order, replies come back by number. */
export class WriterThread {
  readonly #worker: WriterHandle;
  readonly #waiting = new Slab<{ resolve(answer: unknown): void; reject(error: Error): void }>();
  /** Not posted yet: the last request, and the results that have waited for it. */
  #unposted: WriterRequest[] = [];
  #moved: ArrayBuffer[] = [];
  /** Posts them if nothing else comes. */
  #timer: NodeJS.Timeout | undefined;
  #closed: StorageError | undefined;
  #stopping: Promise<void> | undefined;
  /** Resolves when the file is open. Rejects with a `StorageError` when it cannot be opened. */
  readonly ready: Promise<Ready>;

  /**
   * `filesChanged` is told why the open files are no longer those of the folder, and `undefined` when they
   * are again. `broken` is called when an invariant did not hold in the writer: the process has to end.
   */
  constructor(
    worker: WriterHandle,
    filesChanged: (problem: string | undefined) => void,
    broken: (error: InvariantError) => void = endWith,
  ) {
    this.#worker = worker;
    this.ready = new Promise((resolve, reject) => {
      this.#worker.on('message', (replies: readonly WriterReply[]) => {
        for (const reply of replies) {
          if (reply.kind === 'ready') resolve(reply);
          else if (reply.kind === 'refused') reject(new StorageError(reply.reason));
          else if (reply.kind === 'files') filesChanged(reply.problem);
          else if (reply.kind === 'broken') broken(brokenIn(reply));
          else this.#answer(reply);
        }
      });
      this.#worker.on('error', (error) => {
        const failure = new StorageError(`the writer thread failed (${error.message}): restart Millrace`, {
          cause: error,
        });
        reject(failure);
        this.#fail(failure);
      });
      this.#worker.on('exit', () => {
        const failure = new StorageError('the store is stopped');
        reject(failure);
        this.#fail(failure);
      });
    });
  }

  /**
   * Calls a handler of the tables. `moved` are buffers inside the message that move to the writer and are
   * empty here afterwards. Rejects with a `StorageError`.
   */
  request<Name extends BareName>(name: Name): Promise<RpcAnswer<StoreHandlers[Name]>>;
  request<Name extends keyof StoreHandlers>(
    name: Name,
    message: RpcMessage<StoreHandlers[Name]>,
    moved?: readonly ArrayBuffer[],
  ): Promise<RpcAnswer<StoreHandlers[Name]>>;
  request(name: string, message?: unknown, moved: readonly ArrayBuffer[] = []): Promise<unknown> {
    return this.#post(name, message, moved);
  }

  /** Resolves when the files hold no byte of earlier erasures. */
  async scrub(): Promise<void> {
    await this.#post('scrub');
  }

  #post(name: string, message?: unknown, moved: readonly ArrayBuffer[] = []): Promise<unknown> {
    if (this.#closed !== undefined) return Promise.reject(this.#closed);
    return new Promise((resolve, reject) => {
      const id = this.#waiting.add({ resolve, reject });
      this.#unposted.push({ id, name, message } as WriterRequest);
      this.#moved.push(...moved);
      if (name === 'settle' && isFewResults(message as SettleMessage))
        this.#timer ??= setTimeout(() => this.#send(), SETTLE_WAIT);
      else this.#send();
    });
  }

  #send(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const requests = this.#unposted;
    const moved = this.#moved;
    this.#unposted = [];
    this.#moved = [];
    try {
      this.#worker.postMessage(requests, moved);
    } catch (cause) {
      // A message that cannot be copied to another thread is a bug, and no caller may wait for ever because
      // of it.
      const reason = `a request could not be handed to the writer thread (${cause})`;
      for (const { id } of requests) this.#answer({ kind: 'failed', id, reason });
    }
  }

  /** Ends the thread after every earlier request is done. Idempotent. */
  stop(): Promise<void> {
    this.#stopping ??= this.#stop();
    return this.#stopping;
  }

  async #stop(): Promise<void> {
    if (this.#closed !== undefined) return;
    const exited = new Promise((resolve) => this.#worker.once('exit', resolve));
    await this.#post('stop');
    await exited;
  }

  /** Ends the thread at once, in the middle of its work. */
  async terminate(): Promise<void> {
    await this.#worker.terminate();
  }

  #answer(reply: Extract<WriterReply, { id: number }>): void {
    const waiting = this.#waiting.take(reply.id);
    if (reply.kind === 'done') waiting?.resolve(reply.answer);
    else waiting?.reject(new StorageError(reply.reason));
  }

  #fail(error: StorageError): void {
    clearTimeout(this.#timer);
    this.#closed ??= error;
    for (const { reject } of this.#waiting.drain()) reject(this.#closed);
  }
}

function brokenIn({ invariant, stack, facts }: Extract<WriterReply, { kind: 'broken' }>): InvariantError {
  const error = new InvariantError(invariant);
  if (stack !== undefined) error.stack = stack;
  error.facts = facts;
  return error;
}
