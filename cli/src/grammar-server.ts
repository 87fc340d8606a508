import { type Command, Option } from 'commander';
import type { EgressOptions } from './egress.ts';
import { forwardTarget } from './forwarding.ts';
import { addServerOptions, type Run } from './grammar-options.ts';
import { duration, port, share, status } from './quantity.ts';

/** Verbs that run a server. */
export function addServers(program: Command, run: Run): void {
  addServerOptions(
    program
      .command('dev')
      .description('everything on this machine: a source, a receiver, and what happens, live')
      .option('--demo', 'send one call of every type when ready')
      .option(
        '--forward-to <url>',
        'pass webhooks on to a program of yours, and answer as it does',
        forwardTarget,
      )
      .addHelpText('after', '\nExamples:\n  millrace dev --demo\n  millrace dev --port 9000 --data /tmp/try')
      .action(run(async () => (await import('./dev.ts')).dev)),
  );
  addServerOptions(
    program
      .command('start')
      .description('the server')
      .option('--config <file>', 'configuration file, YAML (MILLRACE_CONFIG)')
      .option('--database <url>', 'postgres:// address, instead of the embedded engine (MILLRACE_DATABASE)')
      .option(
        '--no-delivery',
        'send nothing to anybody, neither deliveries nor alerts: for a look into a restored copy',
      )
      .option('--deliver', 'deliver again after bugs have ended the server three times within ten minutes')
      .addHelpText('after', '\nExample:\n  millrace start --config millrace.yaml --data /var/lib/millrace')
      .action(run(async () => (await import('./start.ts')).start)),
  );
}

/** Verbs for the developer of an endpoint. */
export function addEndpointVerbs(program: Command, run: Run): void {
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
    .addOption(
      new Option('--forward-to <url>', 'pass requests on to a program of yours, and answer as it does')
        .argParser(forwardTarget)
        .conflicts('status'),
    )
    .option('--body', 'print bodies too')
    .addHelpText(
      'after',
      '\nExample:\n  millrace listen --port 4000 --secret my-shared-secret --fail-rate 0.2',
    )
    .action(run(async () => (await import('./listen.ts')).listen));
  program
    .command('egress')
    .description('where requests to endpoints may go')
    .command('explain')
    .description('which rule allows or refuses a URL, and the address that would be used; sends nothing')
    .argument('<url>', 'URL of an endpoint')
    .option('--config <file>', 'configuration file, YAML (MILLRACE_CONFIG)')
    .option('--json', 'print it as JSON')
    .addHelpText(
      'after',
      '\nExample:\n  millrace egress explain https://crm.example/hook --config millrace.yaml',
    )
    .action((target: string, options: Omit<EgressOptions, 'target'>) =>
      run(async () => (await import('./egress.ts')).explain)({ ...options, target }),
    );
}
