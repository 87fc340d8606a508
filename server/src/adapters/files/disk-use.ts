import { readdir, stat, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import type { DiskParts, DiskUse } from '../../ports/disk-use.ts';

/** Kinds of files of the data folder, by name. The first match counts. */
const PARTS: readonly (readonly [RegExp, keyof DiskParts])[] = [
  [/\.db-wal$/, 'writeAheadLog'],
  [/^millrace\.db/, 'store'],
  [/^users\.db/, 'profiles'],
  [/^timeline-/, 'timeline'],
];

/** Asks the disk of a data folder, on the threads of Node. Undefined where it cannot be asked. */
export async function readDiskUse(folder: string): Promise<DiskUse | undefined> {
  try {
    const [{ bsize, blocks, bavail }, files] = await Promise.all([statfs(folder), sizesIn(folder)]);
    const parts: { -readonly [Part in keyof DiskParts]: number } = {};
    for (const [name, bytes] of files) {
      const part = partOf(name);
      parts[part] = (parts[part] ?? 0) + bytes;
    }
    const used = files.reduce((sum, [, bytes]) => sum + bytes, 0);
    return { size: blocks * bsize, free: bavail * bsize, used, parts };
  } catch {
    return undefined;
  }
}

/** Names and sizes. Directories are left out: the data folder has none of ours. */
async function sizesIn(folder: string): Promise<readonly (readonly [name: string, bytes: number])[]> {
  const sizes = await Promise.all(
    (await readdir(folder)).map(async (name) => {
      // A file may be gone by now.
      const facts = await stat(join(folder, name)).catch(() => undefined);
      return [name, facts?.isFile() ? facts.size : 0] as const;
    }),
  );
  return sizes.filter(([, bytes]) => bytes > 0);
}

function partOf(name: string): keyof DiskParts {
  return PARTS.find(([pattern]) => pattern.test(name))?.[1] ?? 'other';
}
