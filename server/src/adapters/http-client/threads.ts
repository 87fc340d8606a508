import { availableParallelism } from 'node:os';
import { Worker } from 'node:worker_threads';
import { Slab } from '../../model/containers.ts';
import type { HttpClient, HttpResult, OutboundRequest } from '../../ports/http-client.ts';
import { createHttpClient, MAX_CONNECTIONS, STOPPED } from './client.ts';
import { callDone } from './connection.ts';
import { egressRules } from './egress.ts';
import {
  type FromSender,
  RequestBatch,
  readAnswers,
  type SenderOptions,
  type ToSender,
} from './thread-messages.ts';

/** The client for all requests of the program. `auto` takes as many threads as cores are free for. */
export function createSendingClient(options: SenderOptions, threads: number | 'auto'): HttpClient {
  const { allow, ...rest } = options;
  const count = threads === 'auto' ? threadsFor(availableParallelism()) : threads;
  if (count > 0) return createThreadedHttpClient(options, count);
  return createHttpClient({ ...rest, egress: egressRules(allow) });
}

/**
 * Two cores are for the main thread and the writer. Two senders do all that the main thread can give them.
 */
export function threadsFor(cores: number): number {
  return Math.max(0, Math.min(2, cores - 2));
}

/**
 * An HTTP client whose connections are on threads of their own, so that the main thread neither writes nor
 * reads their sockets. A pool belongs to one thread, and so do its connections and what it has learned of the
 * endpoint. docs/decisions/0034
 */
export function createThreadedHttpClient(options: SenderOptions, threads: number): HttpClient {
  const maxConnections = Math.ceil((options.maxConnections ?? MAX_CONNECTIONS) / threads);
  const senders = Array.from({ length: threads }, () => new SenderThread({ ...options, maxConnections }));
  let stopped: Promise<void> | undefined;
  return {
    send(request, done) {
      if (stopped === undefined) senders[Math.abs(request.pool) % threads]!.send(request, done);
      else process.nextTick(done, { kind: 'failed', ...STOPPED, latencyMs: 0 });
    },
    release() {
      for (const sender of senders) sender.release();
    },
    stop() {
      stopped ??= Promise.all(senders.map((sender) => sender.stop())).then(() => {});
      return stopped;
    },
  };
}

/** A batch crosses at this size too: a request that hangs keeps the memory of its batch. */
const MAX_BATCH_BYTES = 256 * 1024;

/** The main thread's end of a sender. */
class SenderThread {
  readonly #worker: Worker;
  readonly #waiting = new Slab<(answer: HttpResult) => void>();
  readonly #batch = new RequestBatch();
  readonly #ended: Promise<void>;

  constructor(options: SenderOptions) {
    // The published package is compiled; the repository runs from its sources.
    const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js';
    this.#worker = new Worker(new URL(`./sender.${extension}`, import.meta.url), {
      workerData: options,
      name: 'millrace-sender',
    });
    this.#worker.on('message', (message: FromSender) => readAnswers(message, this.#answer));
    // A bug, or no memory: what this thread was sending is not known any more, and a restart finds it in the
    // store.
    this.#worker.on('error', (error) => {
      throw error;
    });
    this.#ended = new Promise((resolve) => this.#worker.on('exit', () => resolve()));
  }

  send(request: OutboundRequest, done: (answer: HttpResult) => void): void {
    const id = this.#waiting.add(done);
    // One message for all requests of this turn of the event loop.
    if (this.#batch.size === 0) setImmediate(this.#post);
    this.#batch.add(id, request);
    if (this.#batch.bytes >= MAX_BATCH_BYTES) this.#post();
  }

  release(): void {
    this.#worker.postMessage({ kind: 'release' } satisfies ToSender);
  }

  async stop(): Promise<void> {
    this.#post();
    this.#worker.postMessage({ kind: 'stop' } satisfies ToSender);
    await this.#ended;
  }

  readonly #post = (): void => {
    if (this.#batch.size === 0) return;
    const message = this.#batch.take();
    this.#worker.postMessage(message, [message.bodies]);
  };

  readonly #answer = (id: number, answer: HttpResult): void => {
    callDone(this.#waiting.take(id)!, answer);
  };
}
