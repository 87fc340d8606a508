import { spawnSync } from 'node:child_process';
import { appendFileSync, mkdirSync, mkdtempSync, rmdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { FULL } from '../support/disk-faults/control-page.ts';
import { DiskFaults, HAS_DISK_FAULTS } from '../support/disk-faults/faults.ts';

/** A disk that a test can fill and free. */
export interface SmallDisk {
  /** Name of the disk in the line about the test. */
  readonly kind: string;
  /** A data folder on it. */
  readonly data: string;
  /** Variables that a program on it must be started with. */
  readonly env: Readonly<Record<string, string>>;
  /** Fills the disk: nothing more fits on it from now on. */
  fill(): void;
  free(): void;
  remove(): void;
}

const SIZE = '12m';
const BLOCK = Buffer.alloc(64 * 1024, 1);

/** Whether a disk can be mounted here: mostly as root, and not in every container. */
const CAN_MOUNT = (() => {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-mount-'));
  const can = mount(folder);
  if (can) unmount(folder);
  rmdirSync(folder);
  return can;
})();

/** Whether a small disk can be had here. */
export const HAS_SMALL_DISK = CAN_MOUNT || HAS_DISK_FAULTS;

/** A file system of its own where one can be mounted, else the errors of the shim. */
export function makeSmallDisk(place: string): SmallDisk {
  const folder = join(place, 'disk');
  mkdirSync(folder);
  if (CAN_MOUNT && mount(folder)) return mountedDisk(folder);
  const data = join(folder, 'data');
  const faults = new DiskFaults(data);
  return {
    kind: 'ENOSPC of the shim, because nothing can be mounted here',
    data,
    env: faults.env,
    fill: () => faults.fail(FULL, { with: 'ENOSPC' }),
    free: () => faults.heal(),
    remove: () => faults.remove(),
  };
}

function mount(folder: string): boolean {
  return spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${SIZE}`, 'tmpfs', folder]).status === 0;
}

function unmount(folder: string): void {
  const { status, stderr } = spawnSync('umount', [folder], { encoding: 'utf8' });
  if (status !== 0) throw new Error(`cannot unmount ${folder}: ${stderr}`);
}

function mountedDisk(folder: string): SmallDisk {
  const ballast = join(folder, 'ballast');
  return {
    kind: `a tmpfs of ${SIZE}`,
    data: join(folder, 'data'),
    env: {},
    fill: () => {
      // Smaller and smaller pieces, until not even one byte fits.
      for (let piece = BLOCK.length; piece >= 1; piece = Math.floor(piece / 16)) {
        try {
          for (;;) appendFileSync(ballast, BLOCK.subarray(0, piece));
        } catch (error) {
          if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
        }
      }
    },
    free: () => rmSync(ballast, { force: true }),
    remove: () => unmount(folder),
  };
}
