/** Owner and rights of a file or folder. */
export interface FileRights {
  /** The owner. */
  readonly uid: number;
  readonly mode: number;
}

const GROUP_MAY_WRITE = 0o020;
const ALL_MAY_WRITE = 0o002;
const ROOT = 0;

/**
 * Why a file is not to be relied on: another user of the machine has written it, or may. Undefined for a file
 * that only this user and root may have written. `user`: of this process; undefined on systems without such
 * ids, where nothing is known.
 */
export function distrustOf({ uid, mode }: FileRights, user: number | undefined): string | undefined {
  if (user === undefined) return undefined;
  if (uid !== user && uid !== ROOT)
    return `belongs to user ${uid}, and neither to this user (${user}) nor to root`;
  return (mode & ALL_MAY_WRITE) === 0 ? undefined : 'may be written by everybody on this machine';
}

/** Whether more users than the owner may write a file, which may be meant. */
export function isGroupWritable({ mode }: Pick<FileRights, 'mode'>): boolean {
  return (mode & GROUP_MAY_WRITE) !== 0;
}
