import { type MessagePort, parentPort } from 'node:worker_threads';
import { startWriter, type WriterOptions } from '../../src/adapters/sqlite/writer.ts';

/** Runs on the thread of `SharedWriter`: each message is a store to open. */
parentPort?.on('message', ({ port, options }: { port: MessagePort; options: WriterOptions }) => {
  startWriter(port, options);
});
