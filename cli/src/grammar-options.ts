import type { Command } from 'commander';
import { port } from './quantity.ts';
import type { ExitCode, RunContext } from './run-context.ts';

/** Loads the code of a verb when it is used, and returns its function. */
type Verb<Options> = () => Promise<(options: Options, context: RunContext) => Promise<ExitCode>>;

/** Runs a verb with its options and keeps its exit code. */
export type Run = <Options>(verb: Verb<Options>) => (options: Options) => Promise<void>;

/** Adds server options without defaults. The environment and the file supply absent ones. */
export function addServerOptions(command: Command): void {
  command
    .option('--host <address>', 'address to listen on (MILLRACE_HOST)')
    .option('--port <number>', 'port to listen on (MILLRACE_PORT)', port)
    .option('--data <folder>', 'where everything is kept (MILLRACE_DATA)')
    .option('--log <level>', 'least level to log: debug, info, warn, error (MILLRACE_LOG)');
}

/** Adds the options that name the server to ask. */
export function addControlOptions(command: Command): Command {
  return command
    .option('--url <url>', 'where the server is (MILLRACE_URL; default: http://127.0.0.1:8080)')
    .option('--token <text>', 'token of the control API (MILLRACE_ADMIN_TOKEN)')
    .option('--data <folder>', 'data folder of the server, whose file admin-token is read (MILLRACE_DATA)')
    .option('--json', 'print the answer of the control API');
}
