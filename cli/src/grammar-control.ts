import { type Command, Option } from 'commander';
import type { NamedAlertOptions } from './alerts.ts';
import type { ControlFlags } from './control-api.ts';
import type { RedeliverOptions } from './control-verbs.ts';
import { addControlOptions, type Run } from './grammar-options.ts';
import { entries } from './quantity.ts';
import type { TestOptions } from './test-destination.ts';
import { addTimeRange } from './time-range.ts';
import type { TraceOptions } from './trace.ts';

const TYPES = ['identify', 'track', 'page', 'screen', 'group', 'alias'];

/** Verbs that query a running server. */
export function addReadingVerbs(program: Command, run: Run): void {
  addControlOptions(
    program
      .command('status')
      .description(
        'what a running server has received, delivered and still owes, and whether its ledger balances',
      ),
  )
    .addHelpText('after', '\nExample:\n  millrace status')
    .action(run(async () => (await import('./status.ts')).status));
  addControlOptions(
    program
      .command('trace')
      .description("one event's whole life: received, planned, every attempt, what happens next")
      .argument('<messageId>', 'messageId of the event')
      .option('--source <name>', 'only what this source sent'),
  )
    .addHelpText('after', '\nExample:\n  millrace trace order-1')
    .action((messageId: string, options: Omit<TraceOptions, 'messageId'>) =>
      run(async () => (await import('./trace.ts')).trace)({ ...options, messageId }),
    );
}

/** Verbs that change a running server. */
export function addRepairVerbs(program: Command, run: Run): void {
  const verb = (name: string, description: string, example = `millrace ${name} crm`) =>
    addControlOptions(
      program.command(name).description(description).argument('<destination>', 'name of the destination'),
    ).addHelpText('after', `\nExample:\n  ${example}`);
  const switches = {
    pause: 'holds everything of a destination, what arrives too, until it is resumed; disable is what skips',
    resume: 'sends to a paused destination again, what has waited first',
    disable: 'skips what arrives for a destination, which never gets it; what it is owed already waits',
    enable: 'ends disable: a destination gets what arrives again, and what has waited',
  } as const;
  for (const [name, description] of Object.entries(switches) as [keyof typeof switches, string][]) {
    verb(name, description).action((destination: string, options: ControlFlags) =>
      run(async () => (await import('./switch-verbs.ts'))[name])({ ...options, destination }),
    );
  }
  const letters = [
    'millrace redeliver crm --reason status_410 --dry-run',
    'millrace redeliver crm --message-id order-1 order-2',
    'millrace redeliver crm --state delivered --type track --since 2h --dry-run',
  ];
  const redeliver = verb(
    'redeliver',
    'sends events to a destination once more: its dead letters, or what the options name',
    letters.join('\n  '),
  )
    .option('--id <id...>', 'these deliveries, as deliveries and trace --json show their ids')
    .option('--message-id <id...>', 'these events, delivered or not')
    .addOption(
      new Option('--state <state>', 'only deliveries that ended so (default: dead; with ids: any)').choices([
        ...['delivered', 'dead', 'dropped'],
      ]),
    )
    .option('--reason <reason>', 'only those that died of this, such as status_410, or were dropped for it')
    .option('--source <name>', 'only events of this source')
    .addOption(new Option('--type <type>', 'only events of this type').choices(TYPES));
  addTimeRange(redeliver, {
    from: 'only those given up (delivered ones: arrived) from this time on: 2026-03-04T05:06:07Z',
    to: 'only those given up (arrived) before this time',
  })
    .option('--rate <number>', 'delivered events a second at most (default: 1000)', entries)
    .option('--dry-run', 'only say how many there are')
    .action((destination: string, options: Omit<RedeliverOptions, 'destination'>) =>
      run(async () => (await import('./control-verbs.ts')).redeliver)({ ...options, destination }),
    );
  verb('test', 'sends an example of an event to each endpoint of a destination, and shows request and answer')
    .addOption(new Option('--type <type>', 'type of the example').choices(TYPES).default('track'))
    .action((destination: string, options: Omit<TestOptions, 'destination'>) =>
      run(async () => (await import('./test-destination.ts')).testDestination)({ ...options, destination }),
    );
}

/** The verb `alert`. */
export function addAlerts(program: Command, run: Run): void {
  const load = () => import('./alerts.ts');
  const parent = program
    .command('alert')
    .description('who is told when a destination fails or deliveries die');
  addControlOptions(
    parent.command('list').description('each alert with its receiver and how its last message fared'),
  )
    .addHelpText('after', '\nExample:\n  millrace alert list')
    .action(run(async () => (await load()).listAlerts));
  addControlOptions(
    parent
      .command('test')
      .description('sends a message that says that it is a test, and shows what the receiver answered')
      .argument('<name>', 'its name'),
  )
    .addHelpText('after', '\nExample:\n  millrace alert test oncall')
    .action((name: string, options: Omit<NamedAlertOptions, 'name'>) =>
      run(async () => (await load()).testAlert)({ ...options, name }),
    );
}
