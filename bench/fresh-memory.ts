import { execFileSync } from 'node:child_process';
import { freemem } from 'node:os';

const PAGE = 4096;
/** Twice what the model of the store keeps while it is measured. */
const BYTES = 2 ** 31 - 1;

/**
 * Takes memory from the machine in a process that ends again: the next process finds it at hand. On a virtual machine
 * a page that was unused for some seconds comes from the host, which may take ten times as long as the work measured here. Microseconds
 * a page.
 */
export function fetchMemory(): number {
  const bytes = Math.min(BYTES, Math.floor(freemem() / 2));
  const start = performance.now();
  execFileSync(process.execPath, ['--eval', `Buffer.alloc(${bytes}, 1)`]);
  return ((performance.now() - start) * 1000) / (bytes / PAGE);
}
