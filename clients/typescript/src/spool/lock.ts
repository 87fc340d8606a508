import { readFileSync, unlinkSync, writeFileSync } from 'node:fs';

/**
 * Makes a folder the property of this process, and returns how to give it back. Two processes that write and
 * clear the same files would lose calls.
 *
 * A lock left by a process that died is taken over. Process ids are used again, in a container even at once
 * (the first process is always 1), so the time the owner started is compared too, where the system tells it.
 */
export function lock(path: string): () => void {
  const own = `${process.pid} ${startOf('self')}`;
  try {
    writeFileSync(path, own, { flag: 'wx' });
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'EEXIST') throw cause;
    const owner = readFileSync(path, 'utf8');
    if (isAlive(owner)) {
      const message = `the folder of the spool is used by process ${Number.parseInt(owner, 10)}`;
      throw Object.assign(new Error(`Millrace client: ${message}`), { code: 'invalid_option' });
    }
    writeFileSync(path, own);
  }
  return () => unlinkSync(path);
}

function isAlive(owner: string): boolean {
  const [pid = '', start = ''] = owner.split(' ');
  // Signal 0 or a negative id would ask about this process or a group.
  if (!/^[1-9]\d*$/.test(pid)) return false;
  try {
    process.kill(Number(pid), 0);
  } catch (cause) {
    // EPERM: the process lives and belongs to another user.
    if ((cause as NodeJS.ErrnoException).code !== 'EPERM') return false;
  }
  return startOf(pid) === start;
}

/** When a process started, in ticks since the machine did; empty where there is no `/proc`. */
function startOf(pid: string): string {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The name of the program, in brackets, may contain anything.
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19] ?? '';
  } catch {
    return '';
  }
}
