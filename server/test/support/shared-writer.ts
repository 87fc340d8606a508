import { once } from 'node:events';
import { MessageChannel, type MessagePort, Worker } from 'node:worker_threads';
import {
  openSqliteStore,
  type SqliteStore,
  type SqliteStoreOptions,
} from '../../src/adapters/sqlite/store.ts';
import type { WriterOptions, WriterRequest } from '../../src/adapters/sqlite/writer.ts';
import type { WriterHandle } from '../../src/adapters/sqlite/writer-thread.ts';
import { COMPILE_CACHE, runnable } from './program.ts';
import type { SharedWriterRequest } from './shared-writer-thread.ts';

const env = { ...process.env, ...COMPILE_CACHE };

/**
 * One thread for the writers of many stores. The start of a thread costs four times as much as opening an
 * empty store. Every store has a writer, a folder and a port of its own, and messages cross the threads as
 * always.
 */
class SharedWriter {
  #thread: Worker | undefined;
  /** Ports of the open stores, by folder. */
  readonly #ports = new Map<string, MessagePort>();

  /** For `startWriter` of a store. */
  readonly start = (options: WriterOptions): WriterHandle => {
    const thread = this.#running();
    const { port1, port2 } = new MessageChannel();
    this.#ports.set(options.folder, port1);
    port1.once('close', () => this.#ports.delete(options.folder));
    thread.postMessage({ port: port2, options } satisfies SharedWriterRequest, [port2]);
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

  /**
   * Ends the store of a folder as a SIGKILL would, and leaves its files in `to`: as they are between two
   * operations of the thread, after the last answer that the store has heard. A store opened there starts as
   * after a crash, for a twentieth of the cost of a thread that is killed.
   */
  async crash(folder: string, to: string): Promise<void> {
    const port = this.#ports.get(folder)?.removeAllListeners('message');
    const { port1, port2 } = new MessageChannel();
    const copied = once(port1, 'message');
    this.#running().postMessage({ from: folder, to, copied: port2 } satisfies SharedWriterRequest, [port2]);
    const [problem] = await copied;
    if (problem !== undefined) throw problem;
    if (port === undefined) return;
    // The writer closes its files, which nobody reads any more.
    port.postMessage([{ id: 0, name: 'stop' }] satisfies WriterRequest[]);
    await once(port, 'close');
  }

  #running(): Worker {
    // Each store listens for its errors.
    this.#thread ??= new Worker(runnable('server/test/support/shared-writer-thread'), {
      env,
    }).setMaxListeners(0);
    // The end of the process ends it.
    this.#thread.unref();
    return this.#thread;
  }
}

/** The thread of all stores that the tests of this process open with `openStore`. */
const writer = new SharedWriter();

/** Opens a store whose writer shares a thread with those of other tests. */
export function openStore(options: SqliteStoreOptions): Promise<SqliteStore> {
  return openSqliteStore({ startWriter: writer.start, ...options });
}

/**
 * Ends the store of a folder as a SIGKILL would, and leaves its files in another: see `SharedWriter.crash`.
 */
export function crashStore(folder: string, to: string): Promise<void> {
  return writer.crash(folder, to);
}
