import { cpSync } from 'node:fs';
import { type MessagePort, parentPort } from 'node:worker_threads';
import { startWriter, type WriterOptions } from '../../src/adapters/sqlite/writer.ts';

/** A store to open, or a folder to copy while no store of this thread is in the middle of anything. */
export type SharedWriterRequest =
  | { readonly port: MessagePort; readonly options: WriterOptions }
  | { readonly from: string; readonly to: string; readonly copied: MessagePort };

/** Runs on the thread of `SharedWriter`. */
parentPort?.on('message', (request: SharedWriterRequest) => {
  if ('options' in request) {
    startWriter(request.port, request.options);
    return;
  }
  let problem: unknown;
  try {
    cpSync(request.from, request.to, { recursive: true });
  } catch (error) {
    problem = error;
  }
  request.copied.postMessage(problem);
  request.copied.close();
});
