import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { COMPILE_CACHE, MILLRACE, type Place, ROOT, startArguments } from '../support/program.ts';
import { within } from '../support/until.ts';

/** The program in a process of its own, which may end at any moment. */
export interface Instance {
  readonly pid: number;
  /** Resolves to where it listens when it says that it is ready; to nothing when it ended before. */
  readonly ready: Promise<string | undefined>;
  /** Resolves to the exit code; null when a signal ended it. */
  readonly ended: Promise<number | null>;
  /** Everything it has written so far. */
  said(): string;
  /** Sends SIGKILL. */
  kill(): Promise<void>;
  /** Sends SIGTERM. Rejects when the program has not ended after some minutes. */
  stop(): Promise<Stopped>;
}

export interface Stopped {
  readonly code: number | null;
  readonly ms: number;
}

export interface InstanceOptions {
  readonly env?: Readonly<Record<string, string>>;
  /** A script to run in place of the program, for tests of the instruments; it too says when it is ready. */
  readonly instead?: string;
}

/** Programs that were started and have not ended. */
const running = new Set<ChildProcess>();

/** Ends the programs that a failed test left running. */
export async function endAll(): Promise<void> {
  await Promise.all(
    Array.from(running, async (child) => {
      const ended = once(child, 'exit');
      child.kill('SIGKILL');
      await ended;
    }),
  );
}

/** Starts `millrace start` on the folder and the configuration of a place. */
export function launch(place: Place, { env = {}, instead }: InstanceOptions = {}): Instance {
  const script = ['--input-type=module', '--eval', instead ?? ''];
  const child = spawn(
    process.execPath,
    instead === undefined ? [MILLRACE, ...startArguments(place)] : script,
    {
      cwd: ROOT,
      env: { ...bareEnvironment(), ...COMPILE_CACHE, NO_COLOR: '1', ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    },
  );
  running.add(child);
  child.once('exit', () => running.delete(child));
  let said = '';
  const ended = once(child, 'exit').then(([code]) => code as number | null);
  const ready = new Promise<string | undefined>((resolve) => {
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (text: string) => {
        said += text;
        const [, url] = said.match(/ready on (http:\/\/\S+)/) ?? [];
        if (url !== undefined) resolve(url);
      });
    }
    void ended.then(() => resolve(undefined));
  });
  const describe = () => {
    child.kill('SIGKILL');
    return `It said:\n${said}`;
  };
  return {
    pid: child.pid!,
    ready: within('millrace is ready', ready, describe),
    ended,
    said: () => said,
    kill: async () => {
      child.kill('SIGKILL');
      await ended;
    },
    stop: async () => {
      const began = performance.now();
      child.kill('SIGTERM');
      const code = await within('millrace has stopped', ended, describe);
      return { code, ms: performance.now() - began };
    },
  };
}

/** Starts it and expects it to come up. */
export async function start(
  place: Place,
  options: InstanceOptions = {},
): Promise<Instance & { url: string }> {
  const instance = launch(place, options);
  const url = await instance.ready;
  if (url === undefined) throw new Error(`millrace ended before it was ready; it said:\n${instance.said()}`);
  return { ...instance, url };
}

/** Removes settings of the person who runs the tests: they must not reach the program under test. */
function bareEnvironment(): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('MILLRACE_')));
}
