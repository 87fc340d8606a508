import type { Command } from 'commander';
import { addControlOptions, type Run } from './grammar-options.ts';
import { entries } from './quantity.ts';
import type { OneReplayOptions, ReplayOptions } from './replay.ts';
import { addTimeRange } from './time-range.ts';

/** The verbs that send stored events again. */
export function addReplay(program: Command, run: Run): void {
  const load = () => import('./replay.ts');
  const replay = addControlOptions(
    addTimeRange(
      program
        .command('replay')
        .description('sends the stored events of a range of time to one destination, as new deliveries')
        .argument('<destination>', 'name of the destination'),
      {
        from: 'events that arrived from this time on: 2026-03-04T05:06:07Z',
        to: 'and before this time (default: now)',
      },
    )
      .option('--source <name>', 'only of this source, also one that the destination is not connected to')
      .option('--types <types>', 'only of these types, such as track,page', (text) => text.split(','))
      .option('--rate <number>', 'events a second at most (default: 1000)', entries)
      .option('--dry-run', 'only say how many there are and how long it would take')
      .option('--detach', 'do not wait for its end'),
  )
    .addHelpText(
      'after',
      '\nExample:\n  millrace replay lake --from 2026-03-04T00:00:00Z --to 2026-03-05T00:00:00Z --types track --dry-run',
    )
    .action((destination: string, options: Omit<ReplayOptions, 'destination'>) =>
      run(async () => (await load()).replay)({ ...options, destination }),
    );
  const one = (name: string, description: string) =>
    addControlOptions(
      replay.command(name).description(description).argument('<id>', 'of the replay, as list shows it'),
    ).addHelpText('after', `\nExample:\n  millrace replay ${name} 019b8a5e-2f61-7c33-9d0e-6d6c1f0a4b11`);
  // `replay` has the same options, and its parser takes them first.
  one('status', 'how far a replay has come').action((id: string, _: object, command: Command) =>
    run(async () => (await load()).replayStatus)({ ...command.optsWithGlobals<OneReplayOptions>(), id }),
  );
  one('cancel', 'ends a replay; what it has owed until then is still delivered').action(
    (id: string, _: object, command: Command) =>
      run(async () => (await load()).cancelReplay)({ ...command.optsWithGlobals<OneReplayOptions>(), id }),
  );
  addControlOptions(
    replay
      .command('list')
      .description('the replays that run and those that have ended last, the newest first'),
  )
    .addHelpText('after', '\nExample:\n  millrace replay list')
    .action((_: object, command: Command) =>
      run(async () => (await load()).listReplays)(command.optsWithGlobals()),
    );
}
