import { Argument, type Command, InvalidArgumentError } from 'commander';
import type { Run } from './grammar-options.ts';
import type { SendOptions } from './send.ts';

/** The verb that sends calls. Its options are the fields of a call, or name a file of calls. */
export function addSend(program: Command, run: Run): void {
  program
    .command('send')
    .description(
      'send one call, as a program with the client library does, and print its messageId when it is stored; or all calls of a file',
    )
    .addArgument(
      new Argument('[type]', 'type of the call, where no file is given').choices([
        ...['identify', 'track', 'page', 'screen', 'group', 'alias'],
      ]),
    )
    .requiredOption('--write-key <key>', 'write key of the source')
    .option('--endpoint <url>', 'where the server is (MILLRACE_URL; default: http://127.0.0.1:8080)')
    .option('--user-id <id>', 'who it is')
    .option('--anonymous-id <id>', 'who it is, when they are not known')
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
    .option(
      '--file <file>',
      'send the calls of a file, one JSON object a line; goes on where it ended; - for standard input',
    )
    .option('--progress <file>', 'with --file: where to keep how far it is (default: FILE.progress)')
    .option('--rejects <file>', 'with --file: where to keep the lines that were refused')
    .addHelpText(
      'after',
      `
Examples:
  millrace send track --write-key dev --user-id u1 --event "Order Placed" --properties '{"total":9}'
  millrace send --file events.ndjson --write-key dev --rejects refused.ndjson
  zcat events.ndjson.gz | millrace send --file - --write-key dev`,
    )
    .action((type: string | undefined, options: Omit<SendOptions, 'type'>) =>
      run(async () => (await import('./send.ts')).send)({ ...options, type }),
    );
}

/** Parses a JSON object from the command line. Throws an `InvalidArgumentError` that names the right form. */
function jsonObject(text: string): object {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    // The throw below reports it.
  }
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value;
  throw new InvalidArgumentError(`It is a JSON object, such as '{"total":9}'.`);
}
