import { type ChildProcess, spawn } from 'node:child_process';
import { PassThrough, Readable } from 'node:stream';
import { finished } from 'node:stream/promises';
import { COMPILE_CACHE, MILLRACE } from '../../server/test/support/program.ts';
import { within } from '../../server/test/support/until.ts';
import { runCommandLine } from '../src/main.ts';
import type { Surroundings } from '../src/surroundings.ts';

export interface Ended {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

/** The program as a user runs it, in its own process. */
export interface Program {
  readonly child: ChildProcess;
  readonly ended: Promise<Ended>;
  /** Resolves to the first match in past or future output. Rejects if the program ends without one. */
  says(stream: 'out' | 'err', pattern: RegExp): Promise<RegExpExecArray>;
}

/**
 * `input` is the content of its standard input, empty by default. For a verb that ends by itself `runVerb` is cheaper.
 */
export function millrace(args: readonly string[], env: NodeJS.ProcessEnv = {}, input?: string): Program {
  const child = spawn(process.execPath, [MILLRACE, ...args], {
    env: { PATH: process.env['PATH'], TZ: 'UTC', ...COMPILE_CACHE, ...env },
    stdio: [input === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'],
  });
  child.stdin?.end(input);
  const text = { out: '', err: '' };
  const watchers = new Set<() => void>();
  const gather = (stream: 'out' | 'err') => (chunk: string) => {
    text[stream] += chunk;
    for (const watch of watchers) watch();
  };
  child.stdout?.setEncoding('utf8').on('data', gather('out'));
  child.stderr?.setEncoding('utf8').on('data', gather('err'));
  const ended = new Promise<Ended>((resolve) => {
    child.on('close', (code) => resolve({ code, ...text }));
  });
  const says = (stream: 'out' | 'err', pattern: RegExp) => {
    const said = new Promise<RegExpExecArray>((resolve, reject) => {
      const watch = () => {
        const match = pattern.exec(text[stream]);
        if (!match) return;
        watchers.delete(watch);
        resolve(match);
      };
      watchers.add(watch);
      watch();
      void ended.then(({ out, err }) => reject(new Error(`ended without saying ${pattern}:\n${out}${err}`)));
    });
    return within(`the program said ${pattern}`, said, () => `It said:\n${text.out}${text.err}`);
  };
  return { child, ended, says };
}

/**
 * Runs a verb in this process, which spares the start of one. The verb gets streams and an environment of its own. For verbs that
 * end by themselves; signals and the end of a process are those of `millrace`.
 */
export async function runVerb(
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
  input = '',
): Promise<Ended> {
  const text = { out: '', err: '' };
  const gather = (stream: 'out' | 'err') =>
    new PassThrough({ encoding: 'utf8' }).on('data', (chunk: string) => {
      text[stream] += chunk;
    });
  const [out, err] = [gather('out'), gather('err')];
  const code = await runCommandLine(args, {
    env: { PATH: process.env['PATH'], TZ: 'UTC', ...env },
    version: '0.0.0',
    in: Readable.from([input]) as Surroundings['in'],
    out: out as unknown as Surroundings['out'],
    err: err as unknown as Surroundings['err'],
    stopping: new Promise(() => {}),
  });
  await Promise.all([out, err].map((stream) => finished(stream.end())));
  return { code, ...text };
}
