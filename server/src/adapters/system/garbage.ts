import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

let collect: NodeJS.GCFunction | undefined;

/**
 * Collects all garbage of this thread, also code that has not run for long, and gives free pages back to the
 * system. It takes tens of milliseconds, in which the thread does nothing else.
 *
 * Node has no call for it. V8's `gc` is there for programs with `--expose-gc`, and each context that is made
 * while the option is set has it. A process that is started with the option would not use the compiled code
 * that Node brings along for its own modules: V8 takes such code only with the options with which it was
 * compiled.
 *
 * The file has nothing else in it, because every thread that imports it loads it: those that send requests
 * need no SQLite.
 */
export function collectGarbage(): void {
  collect ??= exposedGc();
  collect?.({ type: 'major', execution: 'sync', flavor: 'last-resort' });
}

function exposedGc(): NodeJS.GCFunction | undefined {
  if (globalThis.gc !== undefined) return globalThis.gc;
  setFlagsFromString('--expose-gc');
  try {
    return runInNewContext('globalThis.gc') as NodeJS.GCFunction | undefined;
  } finally {
    setFlagsFromString('--no-expose-gc');
  }
}
