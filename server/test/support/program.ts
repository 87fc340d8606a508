import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { databaseOf } from './test-database.ts';
import { within } from './until.ts';

export const ROOT = fileURLToPath(new URL('../../../', import.meta.url));
/** The bundle of the program, where the run has made one (program-bundle.ts). */
const BUNDLE = process.env['MILLRACE_TEST_BUNDLE'];

export const MILLRACE = join(BUNDLE ?? ROOT, 'cli/bin/millrace.js');

/** The compiled code of a bundle is kept in it and goes with it. */
export const COMPILE_CACHE: { readonly NODE_COMPILE_CACHE?: string } =
  BUNDLE === undefined ? {} : { NODE_COMPILE_CACHE: join(BUNDLE, 'compile') };

/** A file of the program or of its tests for Node to run, `path` without its extension. */
export function runnable(path: string): string {
  return BUNDLE === undefined ? join(ROOT, `${path}.ts`) : join(BUNDLE, `${path}.js`);
}

/**
 * The first option is that of the unit and of the image. The second one saves collections, a tenth of the
 * cost of a start; people who run the program would have ten more megabytes in memory for it.
 */
const OPTIONS = ['--max-semi-space-size=16', '--min-semi-space-size=8'];

/** The real program in a process of its own. */
export interface Program {
  readonly url: string;
  readonly pid: number;
  /** The output so far. */
  readonly out: { stdout: string; stderr: string };
  /** Resolves when the output matches. */
  saw(pattern: RegExp): Promise<RegExpMatchArray>;
  /** Resolves to the exit code, when it ends. */
  ended(): Promise<number | null>;
  /** SIGKILL: no goodbye. */
  kill(): Promise<void>;
  /** SIGTERM; resolves to the exit code. */
  stop(): Promise<number | null>;
}

export interface ProgramOptions {
  readonly args: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** A program that runs ours, such as `strace` with its options. */
  readonly under?: readonly string[];
  /** The file of another version of the program (earlier-program.ts). */
  readonly millrace?: string;
}

/** Starts `millrace` and waits for its ready line; rejects with the output if it ends before. */
export async function startProgram(options: ProgramOptions): Promise<Program> {
  const started = launch(options);
  const [, url] = await started.saw(/ready on (https?:\/\/\S+)/);
  return { ...started, url: url! };
}

/** The server of a place, on a port of its own. */
export function startServer(
  place: Pick<Place, 'config' | 'data'>,
  options: Omit<ProgramOptions, 'args'> = {},
): Promise<Program> {
  return startProgram({ args: startArguments(place), ...options });
}

/** The command line of `startServer`. */
export function startArguments({ config, data }: Pick<Place, 'config' | 'data'>): string[] {
  return ['start', '--config', config, '--data', data, '--port', '0', '--host', '127.0.0.1'];
}

/** Runs `millrace` to its end. */
export async function runProgram(
  options: ProgramOptions,
): Promise<{ code: number | null; stdout: string; stderr: string }> {
  const { child, out } = launch(options);
  const [code] = (await once(child, 'exit')) as [number | null];
  return { code, ...out };
}

/** One line of the log of a program. */
export interface LogLine {
  readonly level: string;
  readonly event: string;
  readonly msg: string;
  readonly [fact: string]: unknown;
}

/**
 * The log of a program: everything that `start` writes to a stderr that is no terminal. Throws where a line
 * is no JSON.
 */
export function logOf(stderr: string): LogLine[] {
  const lines = stderr.split('\n').filter((line) => line !== '');
  return lines.map((line) => JSON.parse(line) as LogLine);
}

/** Messages of a program about its failed start. */
export function failuresOf(stderr: string): string[] {
  const events = ['server.not_started', 'settings.refused'];
  return logOf(stderr).flatMap(({ event, msg }) => (events.includes(event) ? [msg] : []));
}

function launch({ args, env, under = [], millrace = MILLRACE }: ProgramOptions) {
  const [command, ...rest] = [...under, process.execPath, ...OPTIONS, millrace, ...args];
  const child = spawn(command!, rest, {
    cwd: ROOT,
    env: { ...cleanEnvironment(), ...COMPILE_CACHE, NO_COLOR: '1', ...databaseOf(args), ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const out = { stdout: '', stderr: '' };
  const watchers = new Set<() => void>();
  for (const name of ['stdout', 'stderr'] as const) {
    child[name].setEncoding('utf8').on('data', (text: string) => {
      out[name] += text;
      for (const watch of watchers) watch();
    });
  }
  const exited = once(child, 'exit') as Promise<[number | null]>;
  return {
    child,
    out,
    pid: child.pid!,
    saw: (pattern: RegExp) => saw(pattern, { child, out, watchers }),
    ended: async () => (await within('millrace ends', exited))[0],
    kill: async () => {
      child.kill('SIGKILL');
      await exited;
    },
    stop: async () => {
      child.kill('SIGTERM');
      const [code] = await exited;
      return code;
    },
  };
}

interface Watched {
  readonly child: ChildProcess;
  readonly out: { stdout: string; stderr: string };
  readonly watchers: Set<() => void>;
}

function saw(pattern: RegExp, { child, out, watchers }: Watched): Promise<RegExpMatchArray> {
  const said = new Promise<RegExpMatchArray>((resolve, reject) => {
    const look = () => {
      const match = `${out.stdout}${out.stderr}`.match(pattern);
      if (match === null) return;
      watchers.delete(look);
      resolve(match);
    };
    watchers.add(look);
    child.once('exit', (code) =>
      reject(new Error(`millrace ended with ${code} before it said ${pattern}:\n${out.stdout}${out.stderr}`)),
    );
    look();
  });
  return within(`millrace said ${pattern}`, said, () => `It said:\n${out.stdout}${out.stderr}`);
}

/** Removes settings of the person who runs the tests: they must not reach the program under test. */
function cleanEnvironment(): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('MILLRACE_')));
}

/** A folder of its own for one test, with a configuration file in it. */
export interface Place {
  readonly folder: string;
  readonly config: string;
  readonly data: string;
  remove(): void;
}

/** Token that the server wrote there at its start. */
export function adminTokenOf({ data }: Pick<Place, 'data'>): string {
  return readFileSync(join(data, 'admin-token'), 'utf8').trim();
}

export function makePlace(yaml: string): Place {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-e2e-'));
  const config = join(folder, 'millrace.yaml');
  writeFileSync(config, yaml);
  return {
    folder,
    config,
    data: join(folder, 'data'),
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}

/** A configuration with one source (`website`, key `wk`) and one destination (`crm`) for these endpoints. */
export function oneDestination(endpoints: readonly string[], secret = 's3cret-of-the-tests'): string {
  return `
egress: { allow: [127.0.0.0/8, ::1/128] }
sources:
  - name: website
    writeKeys: [wk]
destinations:
  - name: crm
    type: webhooks
    sources: [website]
    settings:
      endpoints:
${endpoints.map((url) => `        - { url: "${url}" }`).join('\n')}
      sharedSecret: ${secret}
`;
}
