import { closeSync, fsyncSync, openSync, rmSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { latency } from '../column.ts';
import type { Finding } from './finding.ts';

/** Milliseconds of each synced write, or the error of a failed one. */
export type SyncTimes = readonly number[] | { readonly error: string };

const WRITES = 20;
const BYTES = 4096;

/** Milliseconds from which clients notice: every commit waits for one sync. */
const SLOW = 20;
const VERY_SLOW = 200;

/** Judges the time that a small write takes to reach the disk. Every answer to a client waits for it. */
export function syncTime(times: SyncTimes): Finding {
  const check = 'disk sync';
  if ('error' in times) {
    const isFull = times.error === 'ENOSPC' || times.error === 'EDQUOT';
    const advice = isFull
      ? 'free some space: until then every call is turned away with 503, and accepted again as soon as there is some'
      : 'make the disk writable (look at the system log: a damaged disk turns read-only)';
    return { check, verdict: 'fail', found: `nothing can be written (${times.error})`, advice };
  }
  const sorted = [...times].sort((one, other) => one - other);
  const median = sorted[Math.floor(sorted.length / 2)] ?? 0;
  const found = `${latency(median)} for a small write, the slowest of ${times.length} ${latency(sorted.at(-1) ?? 0)}`;
  if (median < SLOW) return { check, verdict: 'ok', found };
  const advice =
    median < VERY_SLOW
      ? 'calls are answered only after it; use a local SSD where that is too slow'
      : 'far too slow: put the data folder on a local disk, not on a network drive, and see who else uses it';
  return { check, verdict: 'warn', found, advice };
}

/** Writes into a file of its own in the folder, then removes it. */
export function measureSyncs(folder: string): SyncTimes {
  const file = join(folder, `doctor-${process.pid}.tmp`);
  let handle: number | undefined;
  try {
    handle = openSync(file, 'wx', 0o600);
    const block = Buffer.alloc(BYTES, 1);
    const times: number[] = [];
    for (let nth = 0; nth < WRITES; nth++) {
      const began = performance.now();
      if (writeSync(handle, block) < BYTES) return { error: 'ENOSPC' };
      fsyncSync(handle);
      times.push(performance.now() - began);
    }
    return times;
  } catch (error) {
    return { error: error instanceof Error && 'code' in error ? String(error.code) : String(error) };
  } finally {
    if (handle !== undefined) closeSync(handle);
    rmSync(file, { force: true });
  }
}
