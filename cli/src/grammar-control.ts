import type { Command } from 'commander';
import type { ControlFlags } from './control-api.ts';
import type { RedeliverOptions } from './control-verbs.ts';
import { addControlOptions, type Run } from './grammar-options.ts';
import type { TraceOptions } from './trace.ts';

/** Verbs that ask a running server. */
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

/** Verbs that change what a running server does. */
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
  const letters = 'millrace redeliver crm --reason status_410 --dry-run';
  verb('redeliver', 'sends the dead letters of a destination once more', letters)
    .option('--id <id...>', 'only these deliveries, as trace --json shows their ids')
    .option('--reason <reason>', 'only those that died of this, such as status_410')
    .option('--from <time>', 'only those that died from this time on: 2026-03-04T05:06:07Z')
    .option('--to <time>', 'only those that died before this time')
    .option('--dry-run', 'only say how many there are')
    .action((destination: string, options: Omit<RedeliverOptions, 'destination'>) =>
      run(async () => (await import('./control-verbs.ts')).redeliver)({ ...options, destination }),
    );
}
