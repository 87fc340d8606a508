import { readFileSync } from 'node:fs';
import { InvariantError } from '@millrace/server/crash-files';
import { type Command, CommanderError } from 'commander';
import { grammar } from './grammar.ts';
import type { Run } from './grammar-options.ts';
import { type Notices, noticesOf, sentences } from './notices.ts';
import { guarded, watchOutput } from './output.ts';
import { type ExitCode, INVARIANT_FAILED, type RunContext } from './run-context.ts';
import { stopOnSignals } from './stopping.ts';

/** Milliseconds that forgotten open handles may keep the process alive after its work. */
const LINGER_MS = 1000;

/**
 * The program `millrace`: runs the command line and sets the exit code. Call it once: it handles signals and
 * uncaught errors of the whole process.
 */
export async function main(argv: readonly string[]): Promise<void> {
  const notices = (argv[2] === 'start' ? noticesOf : sentences)(guarded(process.stderr));
  process.on('uncaughtException', (error) => reportBug(error, notices));
  // Node would print them as text.
  process.removeAllListeners('warning').on('warning', ({ name, message }) => {
    notices.warn({ event: 'process.warning', msg: `${name}: ${message}` });
  });
  const stopping = stopOnSignals({
    signals: process,
    now: () => performance.now(),
    abandon: () => process.exit(1),
  });
  const output = watchOutput(process.stdout, stopping.request);
  // A closed log must not end a server.
  process.stderr.on('error', () => {});
  const code = await runCommandLine(argv.slice(2), {
    env: process.env,
    version: version(),
    // Created on first use: a server does not need stdin.
    get in() {
      return process.stdin;
    },
    out: output.stream,
    err: process.stderr,
    stopping: stopping.requested,
  });
  const failure = await output.finished();
  if (failure !== undefined)
    process.stderr.write(
      `millrace: the output could not be written, and is not complete: ${failure.message}\n`,
    );
  process.exitCode = failure === undefined ? code : Math.max(1, code);
  // By default, Node restores the system's signal handlers while it tears its heap down. A second SIGINT of
  // the same key press would then end the process with the signal instead of the code. `exit` keeps our
  // handlers to the end.
  process.on('beforeExit', () => process.exit());
  setTimeout(() => process.exit(), LINGER_MS).unref();
}

/**
 * Runs one verb as `typed`. Results go to `context.out`, all other text to `context.err`, both with control
 * characters made visible. Resolves to the exit code.
 */
export async function runCommandLine(typed: readonly string[], context: RunContext): Promise<ExitCode> {
  const out = guarded(context.out);
  const err = guarded(context.err);
  const visible: RunContext = {
    env: context.env,
    version: context.version,
    get in() {
      return context.in;
    },
    out,
    err,
    stopping: context.stopping,
  };
  let code: ExitCode = 0;
  // A log has no other lines than JSON, also where a server does not understand its own command line.
  const isLog = typed[0] === 'start' && !err.isTTY;
  const misunderstood: string[] = [];
  const run: Run = (verb) => async (options) => {
    code = await (await verb())(options, visible);
  };
  try {
    const program = grammar(run, context.version, {
      writeOut: (text) => out.write(text),
      writeErr: (text) => (isLog ? misunderstood.push(text) : err.write(text)),
    });
    await program.parseAsync(typed[0] === 'help' ? await helpFor(program, typed.slice(1)) : typed, {
      from: 'user',
    });
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    // Commander has already printed the error, the help or the version.
    code = error.exitCode === 0 ? 0 : 2;
  }
  if (misunderstood.length > 0) {
    const msg = misunderstood
      .join('')
      .trim()
      .replace(/^millrace: /, '');
    noticesOf(err).error({ event: 'server.not_started', msg });
  }
  return code;
}

function version(): string {
  const manifest: unknown = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'));
  const found = typeof manifest === 'object' && manifest !== null && 'version' in manifest;
  return found ? String(manifest.version) : 'unknown';
}

/** Reports a bug in this program and exits. Data on disk is safe at every moment. */
function reportBug(error: unknown, notices: Notices): void {
  const { message, stack } = error instanceof Error ? error : new Error(String(error));
  notices.error({
    event: 'server.crashed',
    msg: `unexpected error, please report it: ${message}\n${stack ?? ''}`,
  });
  process.exit(error instanceof InvariantError ? INVARIANT_FAILED : 1);
}

/**
 * Turns `help VERB` into `VERB --help`, also for nested verbs. When the words name no verb, prints the error
 * and throws a `CommanderError`.
 */
async function helpFor(program: Command, words: readonly string[]): Promise<readonly string[]> {
  let command = program;
  const path: string[] = [];
  for (const word of words.filter((word) => !word.startsWith('-') && word !== 'help')) {
    const below = command.commands.find((one) => one.name() === word);
    if (below === undefined) {
      // The parser reports this with a suggestion. A verb with an argument would take the word for its
      // argument.
      if (command.registeredArguments.length === 0)
        await program.parseAsync([...path, word], { from: 'user' });
      command.error(`millrace: '${command.name()}' has no verb '${word}'`);
    } else {
      path.push(word);
      command = below;
    }
  }
  return [...path, '--help'];
}
