import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** A process of a benchmark, with the processor time it has used. */
export interface Bench {
  readonly child: ChildProcess;
  /** Resolves to the first match in what it writes. */
  saw(pattern: RegExp): Promise<RegExpMatchArray>;
  /** Seconds of processor time so far, user and system; not available outside Linux (NaN). */
  cpu(): number;
  /** Resident memory in MB. */
  memory(): number;
  ask(line: string): Promise<string>;
  stop(): Promise<void>;
}

const ROOT = fileURLToPath(new URL('..', import.meta.url));

/** `root`: the checkout whose program runs; by default this one. */
export function run(args: readonly string[], env: Record<string, string> = {}, root = ROOT): Bench {
  const child = spawn(process.execPath, args, {
    cwd: root,
    env: { ...process.env, ...env },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  let text = '';
  const watchers = new Set<() => void>();
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (part: string) => {
      text += part;
      for (const watch of watchers) watch();
    });
  }
  const saw = (pattern: RegExp) =>
    new Promise<RegExpMatchArray>((resolve, reject) => {
      const gone = () => reject(new Error(`${args.join(' ')} ended before it said ${pattern}:\n${text}`));
      const look = () => {
        const match = text.match(pattern);
        if (match === null) return;
        watchers.delete(look);
        child.off('exit', gone);
        resolve(match);
      };
      watchers.add(look);
      child.once('exit', gone);
      look();
    });
  return {
    child,
    saw,
    cpu: () => cpuOf(child.pid!),
    memory: () =>
      Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'))?.[1]) / 1024,
    ask: async (line) => {
      text = '';
      const answer = saw(/(\S+)\n/);
      child.stdin.write(`${line}\n`);
      return (await answer)[1]!;
    },
    stop: async () => {
      if (child.exitCode !== null || child.signalCode !== null) return;
      child.kill('SIGTERM');
      await once(child, 'exit');
    },
  };
}

/** Runs a process to its end and reads the JSON it prints. */
export async function result<Value>(
  args: readonly string[],
  env: Record<string, string> = {},
): Promise<Value> {
  const child = spawn(process.execPath, args, {
    cwd: ROOT,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let text = '';
  child.stdout.setEncoding('utf8').on('data', (part: string) => {
    text += part;
  });
  await once(child, 'close');
  return JSON.parse(text) as Value;
}

/**
 * Seconds of processor time of a process, or of a thread (`1234/task/1240`); on request with those of
 * children that have ended.
 */
export function cpuOf(pid: number | string, withEnded = false): number {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]!.split(' ');
    const counted = fields.slice(11, withEnded ? 15 : 13);
    return counted.reduce((sum, ticks) => sum + Number(ticks), 0) / 100;
  } catch {
    return Number.NaN;
  }
}

/** Seconds of processor time by the name of a thread, those of one name together. */
export function cpuOfThreads(pid: number): Map<string, number> {
  const seconds = new Map<string, number>();
  for (const thread of readdirSync(`/proc/${pid}/task`)) {
    const name = readFileSync(`/proc/${pid}/task/${thread}/comm`, 'utf8').trim();
    seconds.set(name, (seconds.get(name) ?? 0) + cpuOf(`${pid}/task/${thread}`));
  }
  return seconds;
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[sorted.length >> 1]!;
}
