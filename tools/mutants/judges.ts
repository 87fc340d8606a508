import { type ChildProcess, fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Mutant } from './mutate.ts';
import type { Answer, Asked } from './units.ts';

/** Tells whether a mutant is noticed. */
export interface Judge {
  readonly name: string;
  /** Resolves to the place at which it was noticed; undefined where it was not. */
  judge(mutant: Mutant): Promise<string | undefined>;
  stop(): void;
}

/** A command that judges beside the unit tests, at the root of the copy. */
export interface CommandJudge {
  /** Ends with 0 when it noticed nothing. The mutant in force is in `MILLRACE_MUTANT`. */
  readonly command: string;
  /** The files that it runs. */
  readonly files: RegExp;
}

/** Asked in the long run about the mutants that no unit test has noticed. */
export const COMMANDS: readonly CommandJudge[] = [
  {
    command: 'node server/test/simulation/main.ts --seeds 20',
    files: /^server\/src\/(delivery|ingest|nodes|wiring)\//,
  },
];

/** A process that comes by so many places of mutants goes on for ever. */
const MOST_STEPS = 100_000_000;

/** The same for a command, which does more. */
const MOST_STEPS_OF_COMMAND = 20 * MOST_STEPS;

/**
 * Milliseconds after which tests without an answer are ended: what waits for ever takes no processor. A
 * command has ten times as long.
 */
const DEADLINE = 60_000;

/** Ends a process and whatever it has started. */
function end(child: ChildProcess | undefined): void {
  try {
    if (child?.pid !== undefined) process.kill(-child.pid, 'SIGKILL');
  } catch {
    // It has ended.
  }
}

/** The unit tests, in a copy of the repository that has the mutants in it. */
export class UnitTests implements Judge {
  readonly name = 'unit tests';
  readonly #copy: string;
  /** Test files by the mutants that they come by, and the milliseconds that each takes. */
  readonly #reaching = new Map<number, string[]>();
  readonly #took = new Map<string, number>();
  #child: ChildProcess | undefined;

  constructor(copy: string) {
    this.#copy = copy;
  }

  /** Runs a test file without any mutant. Resolves to why it cannot judge. */
  async learn(file: string): Promise<string | undefined> {
    const reached = join(this.#copy, 'reached');
    rmSync(reached, { force: true });
    writeFileSync(reached, '');
    const began = performance.now();
    const failed = await this.#run([file], { MILLRACE_MUTANT: '-1', MILLRACE_MUTANTS_REACHED: reached });
    if (failed !== undefined) return failed;
    this.#took.set(file, performance.now() - began);
    for (const id of new Set(readFileSync(reached, 'utf8').split('\n').filter(Boolean).map(Number)))
      this.#reaching.set(id, [...(this.#reaching.get(id) ?? []), file]);
    return undefined;
  }

  /** Shares what another one has learned. */
  learnFrom(other: UnitTests): void {
    for (const [id, files] of other.#reaching) this.#reaching.set(id, files);
    for (const [file, ms] of other.#took) this.#took.set(file, ms);
  }

  async judge({ id }: Mutant): Promise<string | undefined> {
    const took = (file: string) => this.#took.get(file)!;
    const files = (this.#reaching.get(id) ?? []).toSorted((one, other) => took(one) - took(other));
    return files.length === 0 ? undefined : await this.#run(files, { MILLRACE_MUTANT: String(id) });
  }

  stop(): void {
    end(this.#child);
    this.#child = undefined;
  }

  async #run(files: readonly string[], env: Asked['env']): Promise<string | undefined> {
    this.#child ??= await this.#start();
    const child = this.#child;
    const { promise, resolve } = Promise.withResolvers<string | undefined>();
    const timer = setTimeout(() => resolve(`no answer within ${DEADLINE / 1000} s`), DEADLINE);
    const answered = ({ failed }: Answer) => resolve(failed);
    const ended = () => resolve('the process of the tests ended');
    child.once('message', answered).once('exit', ended);
    const all = { MILLRACE_MUTANTS_REACHED: '', MILLRACE_MUTANT_STEPS: String(MOST_STEPS), ...env };
    child.send({ files, env: all } satisfies Asked);
    const failed = await promise;
    clearTimeout(timer);
    child.off('message', answered).off('exit', ended);
    // Neither a process that hangs nor one that is gone is asked again.
    if (failed !== undefined && !failed.includes('.test.ts')) this.stop();
    return failed;
  }

  async #start(): Promise<ChildProcess> {
    const child = fork(join(import.meta.dirname, 'units.ts'), [this.#copy], {
      cwd: this.#copy,
      detached: true,
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    });
    await Promise.race([once(child, 'message'), once(child, 'exit')]);
    return child;
  }
}

/** A command that ends with another code than 0 when it notices. */
export class Command implements Judge {
  readonly name: string;
  readonly #files: RegExp;
  readonly #copy: string;
  #child: ChildProcess | undefined;

  constructor({ command, files }: CommandJudge, copy: string) {
    this.name = command;
    this.#files = files;
    this.#copy = copy;
  }

  async judge({ id, path }: Mutant): Promise<string | undefined> {
    if (!this.#files.test(path)) return undefined;
    const env = {
      ...process.env,
      MILLRACE_MUTANT: String(id),
      MILLRACE_MUTANT_STEPS: String(MOST_STEPS_OF_COMMAND),
    };
    const child = spawn('bash', ['-c', this.name], {
      cwd: this.#copy,
      detached: true,
      stdio: 'ignore',
      env,
    });
    this.#child = child;
    const timer = setTimeout(() => end(child), 10 * DEADLINE);
    const [code] = (await once(child, 'exit')) as [number | null];
    clearTimeout(timer);
    return code === 0 ? undefined : `${this.name}: ${code === null ? 'was ended' : `exit code ${code}`}`;
  }

  stop(): void {
    end(this.#child);
  }
}

/** Writes a file of the copy, with its folder. */
export function place(copy: string, path: string, text: string | Uint8Array): void {
  mkdirSync(dirname(join(copy, path)), { recursive: true });
  writeFileSync(join(copy, path), text);
}
