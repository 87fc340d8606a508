import { readFileSync } from 'node:fs';
import { Command, CommanderError, Option } from 'commander';
import type { ControlFlags } from './control-api.ts';
import type { RedeliverOptions } from './control-verbs.ts';
import type { EgressOptions } from './egress.ts';
import { jsonObject } from './json-object.ts';
import { duration, port, share, status } from './quantity.ts';
import type { SendOptions } from './send.ts';
import { type Stopping, stopOnSignals } from './stopping.ts';
import type { ExitCode, Surroundings } from './surroundings.ts';
import type { TraceOptions } from './trace.ts';

/** How long after its work is done a process may still live on what somebody forgot to close. */
const LINGER_MS = 1000;

type Run = <Options>(verb: Verb<Options>) => (options: Options) => Promise<void>;
/** Loads a verb and gives what it does. Loaded only when it is used: `--help` must not wait for a server. */
type Verb<Options> = () => Promise<(options: Options, place: Surroundings) => Promise<ExitCode>>;

/**
 * The program `millrace`: reads the command line, runs one verb, and sets the exit code. Results go to stdout,
 * everything else to stderr. Takes signals and uncaught errors of the whole process, so it is called once.
 */
export async function main(argv: readonly string[]): Promise<void> {
  process.on('uncaughtException', confess);
  const stopping = stopOnSignals({ signals: process, now: Date.now, abandon: () => process.exit(1) });
  tolerateGoneReaders(stopping);
  const place: Surroundings = {
    env: process.env,
    version: version(),
    out: process.stdout,
    err: process.stderr,
    stopping: stopping.requested,
  };
  let code: ExitCode = 0;
  const run: Run = (verb) => async (options) => {
    code = await (await verb())(options, place);
  };
  try {
    await grammar(run, place.version).parseAsync(argv);
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    // Commander has already said what is wrong, or printed the help or version that was asked for.
    code = error.exitCode === 0 ? 0 : 2;
  }
  process.exitCode = code;
  setTimeout(() => process.exit(), LINGER_MS).unref();
}

function grammar(run: Run, programVersion: string): Command {
  const program = new Command('millrace')
    .description('Event collection that anyone can run: calls in, signed webhooks out.')
    .version(programVersion, '--version', 'print the version')
    .helpOption('-h, --help', 'print help')
    .showHelpAfterError('Run it with --help to see what there is.')
    .configureOutput({ outputError: (text, write) => write(text.replace(/^error: /, 'millrace: ')) })
    .exitOverride();
  addServerOptions(
    program
      .command('dev')
      .description('everything on this machine: a source, a receiver, and what happens, live')
      .option('--demo', 'send one call of every type when ready')
      .action(run(async () => (await import('./dev.ts')).dev)),
  );
  addServerOptions(
    program
      .command('start')
      .description('the server')
      .option('--config <file>', 'configuration file, YAML (MILLRACE_CONFIG)')
      .action(run(async () => (await import('./start.ts')).start)),
  );
  program
    .command('listen')
    .description('a receiver that prints and verifies what it gets')
    .option('--host <address>', 'address to listen on', '127.0.0.1')
    .option('--port <number>', 'port to listen on, 0 for any free one', port, 4000)
    .option('--secret <text>', 'shared secret to check signatures against')
    .option('--status <number>', 'status to answer with', status, 200)
    .addOption(
      new Option('--delay <duration>', 'time to wait before answering: 200ms, 6s')
        .argParser(duration)
        .default(0, '0ms'),
    )
    .option('--fail-rate <share>', 'share of requests to answer with 500: 0 to 1', share, 0)
    .option('--body', 'print bodies too')
    .action(run(async () => (await import('./listen.ts')).listen));
  program
    .command('egress')
    .description('where requests to endpoints may go')
    .command('explain')
    .description('which rule allows or refuses a URL, and the address that would be used; sends nothing')
    .argument('<url>', 'URL of an endpoint')
    .option('--config <file>', 'configuration file, YAML (MILLRACE_CONFIG)')
    .option('--json', 'print it as JSON')
    .action((target: string, options: Omit<EgressOptions, 'target'>) =>
      run(async () => (await import('./egress.ts')).explain)({ ...options, target }),
    );
  addSend(program, run);
  addReadingVerbs(program, run);
  return program;
}

/** The verb that makes a call; its options are the fields of calls. */
function addSend(program: Command, run: Run): void {
  program
    .command('send')
    .description(
      'send one call, as a program with the client library does; prints its messageId when it is stored',
    )
    .argument('<type>', 'identify, track, page, screen, group or alias')
    .requiredOption('--write-key <key>', 'write key of the source')
    .option('--endpoint <url>', 'where the server is (MILLRACE_URL; default: http://127.0.0.1:8080)')
    .option('--user-id <id>')
    .option('--anonymous-id <id>')
    .option('--previous-id <id>', 'alias: the id that was used before')
    .option('--group-id <id>', 'group: the id of the group')
    .option('--event <name>', 'track: the name of the action')
    .option('--name <name>', 'page, screen: its name')
    .option('--category <name>', 'page, screen: its category')
    .option('--properties <json>', 'track, page, screen', jsonObject)
    .option('--traits <json>', 'identify, group', jsonObject)
    .option('--context <json>', 'of any type', jsonObject)
    .option('--message-id <id>', 'default: a new one')
    .option('--timestamp <time>', 'when it happened; default: now')
    .addHelpText(
      'after',
      `\nExample:\n  millrace send track --write-key dev --user-id u1 --event "Order Placed" --properties '{"total":9}'`,
    )
    .action((type: string, options: Omit<SendOptions, 'type'>) =>
      run(async () => (await import('./send.ts')).send)({ ...options, type }),
    );
}

/** Verbs that ask a running server. */
function addReadingVerbs(program: Command, run: Run): void {
  addControlOptions(
    program
      .command('status')
      .description(
        'what a running server has received, delivered and still owes, and whether its ledger balances',
      ),
  ).action(run(async () => (await import('./status.ts')).status));
  addRepairVerbs(program, run);
  addControlOptions(
    program
      .command('trace')
      .description("one event's whole life: received, planned, every attempt, what happens next")
      .argument('<messageId>', 'messageId of the event')
      .option('--source <name>', 'only what this source sent'),
  ).action((messageId: string, options: Omit<TraceOptions, 'messageId'>) =>
    run(async () => (await import('./trace.ts')).trace)({ ...options, messageId }),
  );
}

/** Without defaults here: what is not given is left to the environment and the file. */
function addServerOptions(command: Command): void {
  command
    .option('--host <address>', 'address to listen on (MILLRACE_HOST)')
    .option('--port <number>', 'port to listen on (MILLRACE_PORT)', port)
    .option('--data <folder>', 'where everything is kept (MILLRACE_DATA)')
    .option('--log <level>', 'least level to log: debug, info, warn, error (MILLRACE_LOG)');
}

/** Verbs that change what a running server does. */
function addRepairVerbs(program: Command, run: Run): void {
  const verb = (name: string, description: string) =>
    addControlOptions(
      program.command(name).description(description).argument('<destination>', 'name of the destination'),
    );
  const load = () => import('./control-verbs.ts');
  verb('pause', 'sends nothing more to a destination until it is resumed; what it is owed waits').action(
    (destination: string, options: ControlFlags) =>
      run(async () => (await load()).pause)({ ...options, destination }),
  );
  verb('resume', 'sends to a paused destination again').action((destination: string, options: ControlFlags) =>
    run(async () => (await load()).resume)({ ...options, destination }),
  );
  verb('redeliver', 'sends the dead letters of a destination once more')
    .option('--id <id...>', 'only these deliveries, as trace --json shows their ids')
    .option('--reason <reason>', 'only those that died of this, such as status_410')
    .option('--from <time>', 'only those that died from this time on: 2026-03-04T05:06:07Z')
    .option('--to <time>', 'only those that died before this time')
    .option('--dry-run', 'only say how many there are')
    .action((destination: string, options: Omit<RedeliverOptions, 'destination'>) =>
      run(async () => (await load()).redeliver)({ ...options, destination }),
    );
}

/** Where the server is that is asked. */
function addControlOptions(command: Command): Command {
  return command
    .option('--url <url>', 'where the server is (MILLRACE_URL; default: http://127.0.0.1:8080)')
    .option('--token <text>', 'token of the control API (MILLRACE_ADMIN_TOKEN)')
    .option('--data <folder>', 'data folder of the server, whose file admin-token is read (MILLRACE_DATA)')
    .option('--json', 'print the answer of the control API');
}

function version(): string {
  const manifest: unknown = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'));
  const found = typeof manifest === 'object' && manifest !== null && 'version' in manifest;
  return found ? String(manifest.version) : 'unknown';
}

/** A mistake in this program: what is on disk is safe at every moment, so the best that can be done is to end. */
function confess(error: unknown): void {
  const { message, stack } = error instanceof Error ? error : new Error(String(error));
  process.stderr.write(`millrace: unexpected error, please report it: ${message}\n${stack ?? ''}\n`);
  process.exit(1);
}

/** `millrace listen | head -1` ends when nobody reads the results; a log nobody reads must not end a server. */
function tolerateGoneReaders(stopping: Stopping): void {
  process.stdout.on('error', () => stopping.request());
  process.stderr.on('error', () => {});
}
