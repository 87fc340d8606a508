import { type ChildProcess, spawn } from 'node:child_process';
import { PassThrough, Readable } from 'node:stream';
import { finished } from 'node:stream/promises';
import { COMPILE_CACHE, MILLRACE } from '../../server/test/support/program.ts';
import { within } from '../../server/test/support/until.ts';
import { runCommandLine } from '../src/main.ts';
import type { RunContext } from '../src/run-context.ts';

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

/** The output of a program so far, and the tests that wait for more of it. */
class Said {
  readonly text = { out: '', err: '' };
  readonly #watchers = new Set<() => void>();

  readonly gather = (stream: 'out' | 'err') => (chunk: string) => {
    this.text[stream] += chunk;
    for (const watch of this.#watchers) watch();
  };

  /** As `says` of a program that has ended when `ended` resolves. */
  match(ended: Promise<Ended>, stream: 'out' | 'err', pattern: RegExp): Promise<RegExpExecArray> {
    const { text } = this;
    const said = new Promise<RegExpExecArray>((resolve, reject) => {
      const watch = () => {
        const match = pattern.exec(text[stream]);
        if (!match) return;
        this.#watchers.delete(watch);
        resolve(match);
      };
      this.#watchers.add(watch);
      watch();
      void ended.then(({ out, err }) => reject(new Error(`ended without saying ${pattern}:\n${out}${err}`)));
    });
    return within(`the program said ${pattern}`, said, () => `It said:\n${text.out}${text.err}`);
  }
}

/**
 * `input` is the content of its standard input, empty by default. For what is not about the process `runVerb`
 * and `startVerb` are cheaper.
 */
export function millrace(args: readonly string[], env: NodeJS.ProcessEnv = {}, input?: string): Program {
  const child = spawn(process.execPath, [MILLRACE, ...args], {
    env: { PATH: process.env['PATH'], TZ: 'UTC', ...COMPILE_CACHE, ...env },
    stdio: [input === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'],
  });
  child.stdin?.end(input);
  const said = new Said();
  child.stdout?.setEncoding('utf8').on('data', said.gather('out'));
  child.stderr?.setEncoding('utf8').on('data', said.gather('err'));
  const ended = new Promise<Ended>((resolve) => {
    child.on('close', (code) => resolve({ code, ...said.text }));
  });
  return { child, ended, says: (stream, pattern) => said.match(ended, stream, pattern) };
}

/** A verb that runs in this process. */
export interface Verb extends Pick<Program, 'ended' | 'says'> {
  /** Stops the verb as Ctrl-C does, and resolves when it has ended. */
  stop(): Promise<Ended>;
}

/**
 * Starts a verb in this process, which spares the start of one. The verb gets streams and an environment of
 * its own. Signals and the end of a process are those of `millrace`.
 */
export function startVerb(args: readonly string[], env: NodeJS.ProcessEnv = {}, input = ''): Verb {
  const said = new Said();
  const stream = (name: 'out' | 'err') => new PassThrough({ encoding: 'utf8' }).on('data', said.gather(name));
  const [out, err] = [stream('out'), stream('err')];
  const { promise: stopping, resolve: askToStop } = Promise.withResolvers<void>();
  const run = async (): Promise<Ended> => {
    const code = await runCommandLine(args, {
      env: { PATH: process.env['PATH'], TZ: 'UTC', ...env },
      version: '0.0.0',
      in: Readable.from([input]) as RunContext['in'],
      out: out as unknown as RunContext['out'],
      err: err as unknown as RunContext['err'],
      stopping,
    });
    await Promise.all([out, err].map((one) => finished(one.end())));
    return { code, ...said.text };
  };
  const ended = run();
  const stop = () => {
    askToStop();
    return ended;
  };
  return { ended, says: (name, pattern) => said.match(ended, name, pattern), stop };
}

/** Runs a verb that ends by itself in this process. */
export function runVerb(args: readonly string[], env: NodeJS.ProcessEnv = {}, input = ''): Promise<Ended> {
  return startVerb(args, env, input).ended;
}
