import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { IS_LONG } from '../../server/test/support/runs.ts';
import { GIVE_UP_AFTER, within } from '../../server/test/support/until.ts';

const HERE = fileURLToPath(new URL('.', import.meta.url));

/** A client library by way of its program; README.md describes what is said to it. */
export interface Library {
  readonly name: string;
  readonly command: readonly [string, ...string[]];
}

/** Where the Go program is built; Go itself knows when it has to be built again. */
const GO_PROGRAM = join(HERE, '../../node_modules/.cache/millrace-client-go');

/** The Go program is built with its race detector: a data race is then a failure like any other. */
export function libraries(): { readonly found: readonly Library[]; readonly missing: readonly string[] } {
  const typescript: Library = {
    name: 'TypeScript',
    command: [process.execPath, join(HERE, 'typescript', 'main.ts')],
  };
  try {
    execFileSync('go', ['version'], { stdio: 'ignore' });
  } catch {
    return { found: [typescript], missing: ['Go is not installed: its client is left out'] };
  }
  if (!existsSync(join(HERE, 'go', 'go.mod'))) {
    return { found: [typescript], missing: ['clients/e2e/go is not there: the Go client is left out'] };
  }
  const build = ['build', '-race', '-o', GO_PROGRAM, '.'];
  execFileSync('go', build, { cwd: join(HERE, 'go'), stdio: 'inherit' });
  return { found: [typescript, { name: 'Go', command: [GO_PROGRAM] }], missing: [] };
}

/**
 * The libraries that try a rule of the server: all of them in the long run, and in the gate one, by turns
 * from file to file. What a library does itself is tried with each of them in both.
 */
export function librariesBesideTheServer(turn: number): readonly Library[] {
  const { found } = libraries();
  return IS_LONG ? found : [found[turn % found.length]!];
}

export interface Answer {
  readonly ok: boolean;
  readonly error?: { readonly code: string; readonly message: string };
}

export interface Reported {
  readonly callback: 'success' | 'failure';
  readonly messageId: string;
  readonly type?: string;
  readonly tries: number;
  readonly error?: { readonly code: string; readonly message: string };
}

export type ClientOptions = Readonly<Record<string, unknown>>;

/** One run of a library's program. */
export interface Driver {
  readonly ready: { readonly ready: boolean; readonly library?: string; readonly error?: { code: string } };
  /** In the order of their lines. */
  readonly reported: readonly Reported[];
  /** Ids of the calls the client accepted. */
  readonly accepted: ReadonlySet<string>;
  /** Any of the six calls; the id of its message counts as accepted when the answer says so. */
  call(type: string, message: Readonly<Record<string, unknown>>, waitMs?: number): Promise<Answer>;
  flush(timeoutMs?: number): Promise<Answer>;
  /**
   * Takes as long as a test may wait unless it is told otherwise; the libraries give up after ten seconds.
   */
  close(timeoutMs?: number): Promise<Answer>;
  /** Resolves when the condition holds; looked at after every line. */
  until(condition: () => boolean): Promise<void>;
  /** Its stderr. */
  readonly log: () => string;
  /** SIGKILL. */
  kill(): Promise<void>;
  /** Ends its input, as a program that just ends; resolves to the exit code. */
  end(): Promise<number | null>;
}

type Line = Record<string, unknown>;

export async function startDriver(
  library: Library,
  options: ClientOptions,
  env: Readonly<Record<string, string>> = {},
): Promise<Driver> {
  const [command, ...args] = library.command;
  const child = spawn(command, args, {
    env: { ...process.env, ...env },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  const said = listen(child);
  child.stdin.write(`${JSON.stringify(options)}\n`);
  const ready = (await said.first) as Driver['ready'];
  let sent = 0;
  const accepted = new Set<string>();
  const ask = (line: Line, accept: () => void = () => {}): Promise<Answer> => {
    const id = ++sent;
    const answer = said.answer(id, accept);
    child.stdin.write(`${JSON.stringify({ id, ...line })}\n`);
    return answer;
  };
  return {
    ready,
    reported: said.reported,
    accepted,
    call: (type, message, waitMs) =>
      ask({ do: type, message, ...(waitMs === undefined ? {} : { waitMs }) }, () => {
        accepted.add(String(message['messageId']));
      }),
    flush: (timeoutMs) => ask({ do: 'flush', ...(timeoutMs === undefined ? {} : { timeoutMs }) }),
    close: (timeoutMs = GIVE_UP_AFTER) => ask({ do: 'close', timeoutMs }),
    until: said.until,
    log: said.log,
    async kill() {
      child.kill('SIGKILL');
      await said.exited;
    },
    async end() {
      child.stdin.end();
      const [code] = await said.exited;
      return code;
    },
  };
}

/** Sorts the output of a program: its first line, answers by id, callbacks. */
function listen(child: ChildProcess) {
  const reported: Reported[] = [];
  const waiting = new Map<number, PromiseWithResolvers<Answer> & { accept: () => void }>();
  const watchers = new Set<() => void>();
  const first = Promise.withResolvers<Line>();
  const exited = once(child, 'exit') as Promise<[number | null]>;
  let log = '';
  child.stderr!.setEncoding('utf8').on('data', (text: string) => {
    log += text;
  });
  // A killed program does not take what is still written to it.
  child.stdin!.on('error', () => {});
  let isFirst = true;
  const hear = (text: string) => {
    const line = JSON.parse(text) as Line;
    if (isFirst) {
      isFirst = false;
      first.resolve(line);
    } else if ('callback' in line) reported.push(line as unknown as Reported);
    else {
      const asked = waiting.get(Number(line['id']));
      waiting.delete(Number(line['id']));
      // At once, and not when a promise gets round to it: conditions are looked at after this line.
      if (line['ok'] === true) asked?.accept();
      asked?.resolve(line as unknown as Answer);
    }
    for (const watch of watchers) watch();
  };
  let rest = '';
  // Not by `node:readline`, which also ends a line at U+2028.
  child.stdout!.setEncoding('utf8').on('data', (part: string) => {
    const lines = (rest + part).split('\n');
    rest = lines.pop()!;
    for (const line of lines) hear(line);
  });
  void exited.then(([code]) => {
    const error = new Error(`the program ended with ${code}: ${log}`);
    first.reject(error);
    for (const { reject, promise } of waiting.values()) {
      // A test that killed it asks no more.
      promise.catch(() => {});
      reject(error);
    }
  });
  return {
    reported,
    exited,
    first: first.promise,
    log: () => log,
    /** `accept` is called with the line that says `ok`. */
    answer(id: number, accept: () => void): Promise<Answer> {
      const resolvers = Promise.withResolvers<Answer>();
      waiting.set(id, { ...resolvers, accept });
      return resolvers.promise;
    },
    until: (condition: () => boolean) => {
      const reached = new Promise<void>((resolve) => {
        const look = () => {
          if (!condition()) return;
          watchers.delete(look);
          resolve();
        };
        watchers.add(look);
        look();
      });
      return within('what a client reports is as wanted', reached, () => `${condition}; it said:\n${log}`);
    },
  };
}
