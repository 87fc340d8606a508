import { execFileSync } from 'node:child_process';
import { freemem } from 'node:os';

const PAGE = 4096;
/** Twice what the model of the store keeps while it is measured. */
const BYTES = 2 ** 31 - 1;

/**
 * Has the machine give memory to a process that ends again, so that whoever comes next finds it at hand. On a virtual machine
 * a page that nobody has used for some seconds comes from the host, which may cost ten times what is measured here. Microseconds
 * a page.
 */
export function fetchMemory(): number {
  const bytes = Math.min(BYTES, Math.floor(freemem() / 2));
  const start = performance.now();
  execFileSync(process.execPath, ['--eval', `Buffer.alloc(${bytes}, 1)`]);
  return ((performance.now() - start) * 1000) / (bytes / PAGE);
}
