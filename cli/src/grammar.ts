import { Command, Option } from 'commander';
import type { EgressOptions } from './egress.ts';
import { addReadingVerbs, addRepairVerbs } from './grammar-control.ts';
import { addServerOptions, type Run } from './grammar-options.ts';
import { addSend } from './grammar-send.ts';
import { duration, port, share, status } from './quantity.ts';

/** Everything that can be typed. Verbs load their code when they are run: `--help` must not wait for a server. */
export function grammar(run: Run, programVersion: string): Command {
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
  addRepairVerbs(program, run);
  return program;
}
