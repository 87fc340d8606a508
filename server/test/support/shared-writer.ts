import { MessageChannel, Worker } from 'node:worker_threads';
import {
  openSqliteStore,
  type SqliteStore,
  type SqliteStoreOptions,
  type WriterHandle,
} from '../../src/adapters/sqlite/store.ts';
import type { WriterOptions } from '../../src/adapters/sqlite/writer.ts';
import { COMPILE_CACHE, runnable } from './program.ts';

const env = { ...process.env, ...COMPILE_CACHE };

/** Opens a store with a writer thread of its own, as in life; the thread runs from the bundle of the run. */
export function openStore(options: SqliteStoreOptions): Promise<SqliteStore> {
  const startWriter = (workerData: WriterOptions) =>
    new Worker(runnable('server/src/adapters/sqlite/writer'), { workerData, env });
  return openSqliteStore({ startWriter, ...options });
}

/**
 * One thread for the writers of many stores. The start of a thread costs four times as much as opening an empty store. Every store
 * has a writer, a folder and a port of its own, and messages cross the threads as always.
 */
export class SharedWriter {
  #thread: Worker | undefined;

  /** For `startWriter` of a store. */
  readonly start = (options: WriterOptions): WriterHandle => {
    // Each store listens for its errors.
    this.#thread ??= new Worker(runnable('server/test/support/shared-writer-thread'), {
      env,
    }).setMaxListeners(0);
    const thread = this.#thread;
    const { port1, port2 } = new MessageChannel();
    thread.postMessage({ port: port2, options }, [port2]);
    const on = (event: string, listener: (...given: unknown[]) => void) => {
      if (event === 'error') thread.on('error', listener);
      else port1.on(event === 'exit' ? 'close' : event, listener);
    };
    return {
      on,
      once: on,
      postMessage: (message: unknown, moved: readonly ArrayBuffer[]) => port1.postMessage(message, moved),
      terminate: () => {
        // The next store gets a new thread: this one dies with everything on it, as in a crash.
        if (this.#thread === thread) this.#thread = undefined;
        return thread.terminate();
      },
    } as unknown as WriterHandle;
  };

  async stop(): Promise<void> {
    await this.#thread?.terminate();
    this.#thread = undefined;
  }
}
