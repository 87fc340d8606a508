import { type Command, Option } from 'commander';
import type { CompareOptions } from './comparison.ts';
import { addControlOptions, type Run } from './grammar-options.ts';
import { entries } from './quantity.ts';
import { addTimeRange } from './time-range.ts';

const TYPES = ['identify', 'track', 'page', 'screen', 'group', 'alias'];
const STATES = ['pending', 'retrying', 'delivered', 'dead', 'dropped'];

/** A verb that searches. */
function addSearchVerb(
  program: Command,
  { name, description, filters }: Readonly<{ name: string; description: string; filters: readonly Option[] }>,
): Command {
  const command = program.command(name).description(description);
  for (const filter of filters) command.addOption(filter);
  command
    .option('--source <name>', 'only of this source')
    .addOption(new Option('--type <type>', 'only events of this type').choices(TYPES))
    .option('--user-id <id>', 'only of this user')
    .option('--anonymous-id <id>', 'only of whoever has this anonymousId');
  const range = { from: 'only from this time on: 2026-03-04T05:06:07Z', to: 'only before this time' };
  addTimeRange(command, range).option('--limit <number>', 'so many at most', entries, 100);
  const whole = addControlOptions(command);
  for (const option of whole.options)
    if (option.long === '--json')
      option.description = 'print each as a line of JSON, as the control API gives it';
  return whole;
}

function addCompare(program: Command, run: Run): void {
  const range = {
    from: 'calls that arrived from this time on (default: a day ago)',
    to: 'and before this time (default: now)',
  };
  const command = program
    .command('compare')
    .description('what two sources have of the same calls: equal, different by field, missing on a side')
    .argument('<a>', 'name of a source')
    .argument('<b>', 'name of another one, such as the shadow that has what another service got')
    .option('--without <rules>', 'rules to switch off, with commas between them, as the answer names them');
  addControlOptions(addTimeRange(command, range))
    .addHelpText(
      'after',
      '\nEnds with 0 where they are equal, and with 1 where they differ.\n\nExamples:\n  millrace compare website incumbent --since 1h\n  millrace compare website incumbent --since 1d --without addresses,nulls',
    )
    .action((a: string, b: string, options: Omit<CompareOptions, 'a' | 'b'>) =>
      run(async () => (await import('./comparison.ts')).compare)({ ...options, a, b }),
    );
}

function addEventsVerb(program: Command): Command {
  const description = 'stored events, the newest first, each with what became of it';
  const named = 'only of this name: what was tracked, page, screen; a * at the end for any rest';
  const filters = [new Option('--event <name>', named)];
  return addSearchVerb(program, { name: 'events', description, filters });
}

function addDeliveriesVerb(program: Command): Command {
  const description =
    'deliveries, those of the newest events first: pending, retrying, delivered, dead, dropped';
  const reasons =
    'why dead or dropped, or what the last request came to (with --state dead, dropped or retrying)';
  const filters = [
    new Option('--destination <name>', 'only to this destination'),
    new Option('--state <state>', 'only in this state').choices(STATES),
    new Option('--reason <reason>', reasons),
  ];
  return addSearchVerb(program, { name: 'deliveries', description, filters });
}

/** The verbs that search stored events and deliveries. */
export function addSearch(program: Command, run: Run): void {
  addCompare(program, run);
  addEventsVerb(program)
    .addHelpText(
      'after',
      `
Examples:
  millrace events --user-id u1
  millrace events --type track --event 'Order *' --since 1h --limit 20
  millrace events --source website --json | jq .event.properties`,
    )
    .action(run(async () => (await import('./events.ts')).events));
  addDeliveriesVerb(program)
    .addHelpText(
      'after',
      `
Dead and dropped deliveries come by when they were given up, and --from and --to are about that.

Examples:
  millrace deliveries --destination crm --state retrying
  millrace deliveries --state dead --reason status_410 --from 2026-03-04T05:00:00Z
  millrace redeliver crm --id $(millrace deliveries --destination crm --state dead --type track --json | jq -r .id)`,
    )
    .action(run(async () => (await import('./deliveries.ts')).deliveries));
}
