import { type Command, Option } from 'commander';
import { addControlOptions, type Run } from './grammar-options.ts';

/** The verb that follows a running server. */
export function addTail(program: Command, run: Run): void {
  addControlOptions(
    program
      .command('tail')
      .description('what happens on a running server, as it happens: calls, deliveries, every attempt')
      .option('--source <name>', 'only what this source sent')
      .option('--destination <name>', 'only deliveries to this destination')
      .addOption(
        new Option('--type <type>', 'only events of this type').choices([
          ...['identify', 'track', 'page', 'screen', 'group', 'alias'],
        ]),
      )
      .option('--failed', 'only deliveries that failed, and calls that were discarded')
      .option('--body', 'show events whole'),
  )
    .addHelpText(
      'after',
      `
Examples:
  millrace tail --failed
  millrace tail --destination crm --type track --body
  millrace tail --json | jq 'select(.state == "dead")'`,
    )
    .action(run(async () => (await import('./tail.ts')).tail));
}
