import { Worker } from 'node:worker_threads';
import { StorageError } from '../../ports/event-log.ts';
import type { RpcAnswer, RpcMessage } from './rpc.ts';
import type { StoreHandlers } from './tables.ts';
import type { WriterOptions, WriterReply } from './writer.ts';

type Ready = Extract<WriterReply, { kind: 'ready' }>;

/** Operations without a message. */
type BareName = {
  [Name in keyof StoreHandlers]: undefined extends RpcMessage<StoreHandlers[Name]> ? Name : never;
}[keyof StoreHandlers];

/** The main thread's end of the writer: requests go out in order, replies come back by number. */
export class WriterThread {
  readonly #worker: Worker;
  readonly #waiting = new Map<number, { resolve(answer: unknown): void; reject(error: Error): void }>();
  #lastId = 0;
  #closed: StorageError | undefined;
  #stopping: Promise<void> | undefined;
  /** Resolves when the file is open. Rejects with a `StorageError` when it cannot be opened. */
  readonly ready: Promise<Ready>;

  /** `filesChanged` is told why the open files are no longer those of the folder, and `undefined` when they are again. */
  constructor(options: WriterOptions, filesChanged: (problem: string | undefined) => void) {
    // The published package is compiled; the repository runs from its sources. The writer has the extension of this file.
    const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js';
    this.#worker = new Worker(new URL(`./writer.${extension}`, import.meta.url), {
      workerData: options,
      name: 'millrace-writer',
    });
    this.ready = new Promise((resolve, reject) => {
      this.#worker.on('message', (reply: WriterReply) => {
        if (reply.kind === 'ready') resolve(reply);
        else if (reply.kind === 'refused') reject(new StorageError(reply.reason));
        else if (reply.kind === 'files') filesChanged(reply.problem);
        else this.#settle(reply);
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
   * Calls a handler of the tables. `moved` are buffers inside the message that move to the writer and are empty here
   * afterwards. Rejects with a `StorageError`.
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
    const id = ++this.#lastId;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      this.#worker.postMessage({ id, name, message }, moved);
    });
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

  #settle(reply: Extract<WriterReply, { id: number }>): void {
    const waiting = this.#waiting.get(reply.id);
    this.#waiting.delete(reply.id);
    if (reply.kind === 'done') waiting?.resolve(reply.answer);
    else waiting?.reject(new StorageError(reply.reason));
  }

  #fail(error: StorageError): void {
    this.#closed ??= error;
    for (const { reject } of this.#waiting.values()) reject(this.#closed);
    this.#waiting.clear();
  }
}
