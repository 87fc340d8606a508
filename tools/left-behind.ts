import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

/** Milliseconds in which processes that were told to end may do so. */
const ENDING = 60_000;

/**
 * Names in a temporary folder that belong to tools and not to a test. Go leaves what it was building when it
 * is killed.
 */
const OF_TOOLS = /^(node-compile-cache|v8-compile-cache-\d+|go-build\d+)$/;

/**
 * Finds files that a suite left in its temporary folder, and processes that know this folder by their
 * environment, their arguments or the folder they run in: one line each. It kills these processes, so that
 * they do not disturb the next suite. Without `/proc`, as on macOS, it finds only files.
 */
export async function leftBehind(folder: string, ending: number = ENDING): Promise<readonly string[]> {
  const end = performance.now() + ending;
  while (processesOf(folder).length > 0 && performance.now() < end) await delay(100);
  const processes = processesOf(folder);
  for (const { pid } of processes) process.kill(pid, 'SIGKILL');
  const entries = readdirSync(folder).filter((name) => !OF_TOOLS.test(name));
  return [
    ...processes.map(({ pid, command }) => `process ${pid}, ${command}`),
    ...entries.map((name) => `${join(folder, name)} ${readdirOf(join(folder, name)).join(' ')}`.trimEnd()),
  ];
}

interface Process {
  readonly pid: number;
  readonly command: string;
}

/** A server of PostgreSQL overwrites its environment, and runs in its data folder. */
function processesOf(folder: string): Process[] {
  const pids = readdirOf('/proc').filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid);
  return pids.flatMap((pid) => {
    const [environment, command] = ['environ', 'cmdline'].map((name) => textOf(`/proc/${pid}/${name}`));
    const isOf = [environment!, command!, `${linkOf(`/proc/${pid}/cwd`)}/`].some(
      (text) => text.includes(`${folder}/`) || text.includes(`${folder}\0`),
    );
    return isOf ? [{ pid: Number(pid), command: command!.replaceAll('\0', ' ').trim().slice(0, 200) }] : [];
  });
}

/** A process may end, and a folder be removed, while it is looked at. */
function readdirOf(path: string): string[] {
  return orElse(() => readdirSync(path), []);
}

const textOf = (path: string) => orElse(() => readFileSync(path, 'latin1'), '');
const linkOf = (path: string) => orElse(() => readlinkSync(path), '');

function orElse<Value>(read: () => Value, otherwise: Value): Value {
  try {
    return read();
  } catch {
    return otherwise;
  }
}
