// Loaded into the program under test with NODE_OPTIONS=--import: measures how late its main thread is, from inside.
// Writes the 99th percentile of the delay since the last signal, in milliseconds, to the file named by
// MILLRACE_FAULT_DELAYS, one line per SIGUSR2. Worker threads load it too and do nothing.
import { appendFileSync } from 'node:fs';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { isMainThread } from 'node:worker_threads';

const file = process.env.MILLRACE_FAULT_DELAYS;

if (isMainThread && file !== undefined) {
  const resolution = 1;
  const delay = monitorEventLoopDelay({ resolution });
  delay.enable();
  process.on('SIGUSR2', () => {
    appendFileSync(file, `${delay.percentile(99) / 1e6 - resolution} ${delay.count}\n`);
    delay.reset();
  });
}
