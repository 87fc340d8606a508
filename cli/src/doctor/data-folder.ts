import { accessSync, constants, statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { isBeingFilled, movedTo } from '@millrace/server/migration';
import type { Finding } from './finding.ts';

export interface FolderFacts {
  readonly path: string;
  /** `missing`: the server creates it in `parent` when it starts. */
  readonly kind: 'folder' | 'file' | 'missing';
  readonly isWritable: boolean;
  /** True when the folder once held a store and holds none now. */
  readonly isStoreGone: boolean;
  /** New home of the installation that was here, and when it moved; absent if it did not move. */
  readonly moved?: { readonly to: string; readonly at: string } | undefined;
  /** True while an installation is moved into it. */
  readonly isBeingFilled: boolean;
  /** The nearest existing folder above a missing one. */
  readonly parent?: string;
  /** Ids of the owner and of the current user. Absent on systems without them. */
  readonly owner?: number;
  readonly user?: number;
  /** Permission bits as `chmod` takes them, without the file type. */
  readonly mode: number;
}

const OTHERS = 0o077;
const ALL_MAY_WRITE = 0o002;

export function dataFolder(facts: FolderFacts): Finding {
  const { path, kind, isWritable, isStoreGone, moved, parent, owner, user, mode } = facts;
  const check = 'data folder';
  if (kind === 'file') {
    const advice = 'name a folder with --data, MILLRACE_DATA or data of the configuration';
    return { check, verdict: 'fail', found: `${path} is a file`, advice };
  }
  if (!isWritable) {
    const where = kind === 'missing' ? `${path} does not exist, and ${parent ?? '/'}` : path;
    const whose = owner === undefined ? '' : ` (it belongs to user ${owner}, you are ${user})`;
    const advice = `give it to the user that the server runs as (chown), or run doctor as that user`;
    return { check, verdict: 'fail', found: `${where} cannot be written${whose}`, advice };
  }
  if (kind === 'missing') {
    const advice =
      'the first start makes it; if there has been one, the folder is another: name it with --data';
    return { check, verdict: 'warn', found: `${path} does not exist`, advice };
  }
  if (moved !== undefined) {
    const advice =
      'name that under "database", or the data folder of this server with --data: a start ends with 1';
    return { check, verdict: 'fail', found: `${path} was moved to ${moved.to} at ${moved.at}`, advice };
  }
  if (facts.isBeingFilled) {
    const advice = 'go on with the database, which is as it was, and remove the folder: a start ends with 1';
    const found = `${path} holds a part of what an earlier version was moving out of a database`;
    return { check, verdict: 'fail', found, advice };
  }
  if (isStoreGone) {
    const advice = 'bring millrace.db back, or restore a backup into another folder: a start ends with 1';
    return {
      check,
      verdict: 'fail',
      found: `${path} has lost its store: millrace.db is missing or empty`,
      advice,
    };
  }
  if ((mode & ALL_MAY_WRITE) !== 0 && user !== undefined) {
    const found = `${path} may be written by everybody on this machine (mode ${mode.toString(8)})`;
    return { check, verdict: 'fail', found, advice: `chmod 700 ${path}: a start ends with 1` };
  }
  if (owner !== user) {
    const advice = `run doctor and the server as one user: files of another cannot be written by the one who comes next`;
    return { check, verdict: 'warn', found: `${path} belongs to user ${owner}, you are ${user}`, advice };
  }
  if ((mode & OTHERS) !== 0 && user !== undefined) {
    const found = `${path} is open to other users of this machine (mode ${mode.toString(8)}), and holds events`;
    return { check, verdict: 'warn', found, advice: `chmod 700 ${path}` };
  }
  return { check, verdict: 'ok', found: path };
}

/** `isStore`: the server keeps its events there, and not in a database. */
export function lookAtFolder(written: string, isStore = true): FolderFacts {
  const path = resolve(written);
  const user = process.getuid?.();
  const stat = statSync(path, { throwIfNoEntry: false });
  if (stat === undefined) {
    const parent = nearest(path);
    return {
      path,
      kind: 'missing',
      isWritable: isWritable(parent),
      isStoreGone: false,
      isBeingFilled: false,
      parent,
      mode: 0,
    };
  }
  const { uid, mode } = stat;
  const kind = stat.isDirectory() ? 'folder' : 'file';
  const owned = user === undefined ? {} : { owner: uid, user };
  const own = { path, kind, isWritable: isWritable(path), ...owned, mode: mode & 0o777 } as const;
  if (!isStore) return { ...own, isStoreGone: false, isBeingFilled: false };
  const moved = movedTo(path);
  const store = { isStoreGone: isStoreGone(path), isBeingFilled: isBeingFilled(path) };
  return { ...own, ...store, moved };
}

function isStoreGone(path: string): boolean {
  const sizeOf = (name: string) => statSync(join(path, name), { throwIfNoEntry: false })?.size;
  return sizeOf('high-water-mark') !== undefined && !sizeOf('millrace.db');
}

/** The nearest existing folder above. */
export function nearest(path: string): string {
  let folder = path;
  while (statSync(folder, { throwIfNoEntry: false }) === undefined && dirname(folder) !== folder)
    folder = dirname(folder);
  return folder;
}

function isWritable(path: string): boolean {
  try {
    accessSync(path, constants.W_OK | constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
