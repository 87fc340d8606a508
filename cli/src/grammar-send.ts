import type { Command } from 'commander';
import type { Run } from './grammar-options.ts';
import { jsonObject } from './json-object.ts';
import type { SendOptions } from './send.ts';

/** The verb that makes a call; its options are the fields of calls. */
export function addSend(program: Command, run: Run): void {
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
