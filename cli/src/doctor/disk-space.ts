import { readdirSync, statfsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { size } from '../column.ts';
import { nearest } from './data-folder.ts';
import type { Finding } from './finding.ts';

/** Numbers are bytes. */
export interface SpaceFacts {
  readonly free: number;
  readonly total: number;
  /** Size of the data folder. */
  readonly used: number;
  /** `limits.disk` of the configuration. */
  readonly limit?: number | undefined;
  /** True when the folder is on a file system in memory, which a restart of the machine empties. */
  readonly isInMemory: boolean;
}

const MB = 1024 * 1024;
const TOO_LITTLE = 64 * MB;
const LITTLE = 1024 * MB;
const LITTLE_SHARE = 0.05;

/** The file system type of tmpfs in Linux's `statfs(2)`. */
const TMPFS = 0x01021994;
const RAMFS = 0x858458f6;

export function diskSpace({ free, total, used, limit, isInMemory }: SpaceFacts): Finding {
  const check = 'disk space';
  const found = `${size(free)} free of ${size(total)}, the data folder takes ${size(used)}`;
  if (free < TOO_LITTLE) {
    const advice = 'free some space now: without it every call is turned away with 503';
    return { check, verdict: 'fail', found, advice };
  }
  if (isInMemory) {
    const advice =
      'use a folder on a disk: this one is in memory, and all events are gone when the machine restarts';
    return { check, verdict: 'warn', found, advice };
  }
  if (limit !== undefined && limit - used > free) {
    const advice = `lower limits.disk, or free some space: ${size(limit)} is more than there is room for, so the disk fills first`;
    return { check, verdict: 'warn', found, advice };
  }
  if (limit === undefined && (free < LITTLE || free < total * LITTLE_SHARE)) {
    const advice =
      'free some space, shorten retention.events, or set limits.disk, which lets the oldest events go first';
    return { check, verdict: 'warn', found, advice };
  }
  return { check, verdict: 'ok', found: limit === undefined ? found : `${found}, at most ${size(limit)}` };
}

export function lookAtSpace(folder: string, limit: number | undefined): SpaceFacts {
  const { bavail, blocks, bsize, type } = statfsSync(nearest(folder));
  return {
    ...{ free: bavail * bsize, total: blocks * bsize, used: usedBy(folder) },
    limit,
    isInMemory: type === TMPFS || type === RAMFS,
  };
}

function usedBy(folder: string): number {
  try {
    return readdirSync(folder).reduce(
      (sum, name) => sum + (statSync(join(folder, name), { throwIfNoEntry: false })?.size ?? 0),
      0,
    );
  } catch {
    return 0;
  }
}
