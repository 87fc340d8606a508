import { readFileSync } from 'node:fs';
import { count } from '../column.ts';
import type { Finding } from './finding.ts';

export interface OpenFilesFacts {
  /** `Infinity` means no limit. */
  readonly limit: number;
  /** Owner of the limit. */
  readonly of: 'the running server' | 'this shell';
  /** `limits.connections` of the configuration. */
  readonly connections: number;
}

/** Reserve for connections to endpoints, files of the store, and other files. */
const BESIDE = 1000;

export function openFiles({ limit, of, connections }: OpenFilesFacts): Finding {
  const check = 'open files';
  const needed = connections + BESIDE;
  const found = `${limit === Number.POSITIVE_INFINITY ? 'no limit' : `at most ${count(limit)}`} for ${of}`;
  if (limit >= needed) return { check, verdict: 'ok', found };
  const advice = `allow ${count(needed)} (LimitNOFILE= of systemd, ulimit -n), or lower limits.connections, which is ${count(connections)}`;
  return { check, verdict: 'warn', found, advice };
}

/** Returns `undefined` where the system does not report its limit. */
export function lookAtOpenFiles(pid: number | undefined, connections: number): OpenFilesFacts | undefined {
  if (pid !== undefined) {
    const limit = limitIn(read(`/proc/${pid}/limits`));
    if (limit !== undefined) return { limit, of: 'the running server', connections };
  }
  const own = limitIn(read('/proc/self/limits'));
  return own === undefined ? undefined : { limit: own, of: 'this shell', connections };
}

/** The hard limit: Node raises its soft limit to it at start. */
function limitIn(text: string): number | undefined {
  const [, hard] = /^Max open files +\S+ +(\S+)/m.exec(text) ?? [];
  if (hard === undefined) return undefined;
  return hard === 'unlimited' ? Number.POSITIVE_INFINITY : Number(hard);
}

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
