/**
 * Loaded into the real program by `--import`: makes invariants of it not hold, from outside of its code. Which one stands in
 * MILLRACE_TEST_BREAK.
 */
import { Worker } from 'node:worker_threads';

const which = process.env['MILLRACE_TEST_BREAK'];

// The writer gets batches without the sources of their events.
if (which === 'writer') {
  const { postMessage } = Worker.prototype;
  Worker.prototype.postMessage = function spoiled(message, moved) {
    const requests = Array.isArray(message) ? message : [];
    for (const { name, message: batch } of requests)
      if (name === 'append' && batch.events > 0) batch.sources = batch.sources.subarray(0, 0);
    return postMessage.call(this, message, moved);
  };
}

// Lots are from 0 to below 1: only a delivery that is tried again draws one.
if (which === 'lane') Object.assign(Math, { random: () => 1 });
