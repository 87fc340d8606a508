import { chmodSync, mkdirSync, readdirSync, statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { StorageError } from '../../ports/event-log.ts';
import { codeOf } from './database.ts';

/** What stands in a data folder is people's data: it is for its owner alone. */
export const OWNER_ONLY = 0o700;
const OTHERS = 0o077;

/** Names that Millrace gives in a data folder, and what file systems and orchestrators put into an empty one. */
const OURS = /^(millrace\.db.*|lock\.db.*|owner|high-water-mark.*|admin-token.*|lost\+found)$/;

/** Makes the data folder if need be, and the folders above it. */
export function makeFolder(folder: string): void {
  try {
    make(resolve(folder));
  } catch (error) {
    throw new StorageError(
      `cannot make the data folder ${folder} (${codeOf(error)}): choose another one with --data`,
      { cause: error },
    );
  }
}

/** One at a time: `recursive` of Node never ends where the system makes none though there is one above, such as in /proc. */
function make(path: string): void {
  const parent = dirname(path);
  if (statSync(path, { throwIfNoEntry: false })?.isDirectory()) return;
  if (parent !== path && statSync(parent, { throwIfNoEntry: false }) === undefined) make(parent);
  mkdirSync(path, { mode: OWNER_ONLY });
  // Whatever the umask.
  chmodSync(path, OWNER_ONLY);
}

/** An empty folder that somebody made beforehand is made theirs alone, where the system lets us. */
export function keepToOwner(folder: string): void {
  try {
    chmodSync(folder, OWNER_ONLY);
  } catch {
    // It belongs to somebody else; what is put into it has rights of its own.
  }
}

/** Rights that are looser than they should be and could not be changed. */
export interface LooseRights {
  readonly path: string;
  /** As `chmod` takes it. */
  readonly mode: string;
  readonly problem: string;
}

/**
 * Takes from everybody but its owner the rights on a data folder and on what Millrace has put there. A folder in which
 * something else lies too is left as it is: somebody may have named /tmp.
 */
export function tighten(folder: string): readonly LooseRights[] {
  const user = process.getuid?.();
  if (user === undefined) return [];
  const names = readdirSync(folder);
  const other = names.find((name) => !OURS.test(name));
  const loose: LooseRights[] = [];
  const tightenOne = (path: string, reason?: string) => {
    const { mode, uid } = statSync(path);
    if ((mode & OTHERS) === 0) return;
    const problem =
      reason ??
      (uid === user ? tryTo(() => chmodSync(path, mode & OWNER_ONLY)) : `it belongs to user ${uid}`);
    if (problem !== undefined) loose.push({ path, mode: (mode & 0o777).toString(8), problem });
  };
  tightenOne(folder, other === undefined ? undefined : `${other} is in it, which Millrace did not put there`);
  for (const name of names) if (OURS.test(name) && name !== 'lost+found') tightenOne(join(folder, name));
  return loose;
}

function tryTo(change: () => void): string | undefined {
  try {
    change();
    return undefined;
  } catch (error) {
    return codeOf(error);
  }
}
