import type { Command } from 'commander';
import type {
  ComputationList,
  ComputationOptions,
  MembersOptions,
  NamedComputationOptions,
  PreviewOptions,
  SyncOptions,
} from './computations.ts';
import { addControlOptions, type Run } from './grammar-options.ts';
import { entries } from './quantity.ts';

/** The words of the help of both verbs. */
interface Wording {
  readonly list: ComputationList;
  readonly verb: string;
  readonly description: string;
  readonly noun: string;
  readonly members: string;
  readonly sync: string;
  readonly definition: string;
}

const WORDINGS: readonly Wording[] = [
  {
    list: 'audiences',
    verb: 'audience',
    description: 'audiences: conditions on users, and who meets them',
    noun: 'audience',
    members: 'the members of an audience, and since when',
    sync: 'tells a destination every member again, as after it has lost them',
    definition: "event('Order Completed').within(30 days).count() >= 2",
  },
  {
    list: 'traits',
    verb: 'trait',
    description: 'computed traits: values made of the events of each user',
    noun: 'computed trait',
    members: 'the users who have a value, and the value',
    sync: 'tells a destination the value of every user again, as after it has lost them',
    definition: "event('Order Completed').sum(property('total'))",
  },
];

/** The verbs `audience` and `trait`. */
export function addComputations(program: Command, run: Run): void {
  for (const wording of WORDINGS) addVerb(program, run, wording);
}

function addVerb(
  program: Command,
  run: Run,
  { list, verb, description, noun, members, sync, definition }: Wording,
) {
  const load = () => import('./computations.ts');
  const parent = program.command(verb).description(description);
  addControlOptions(
    parent
      .command('list')
      .description(`each ${noun} with its state, its number of users and its destinations`),
  )
    .addHelpText('after', `\nExample:\n  millrace ${verb} list`)
    .action((options: Omit<ComputationOptions, 'list'>) =>
      run(async () => (await load()).listComputations)({ ...options, list }),
    );
  addControlOptions(
    parent
      .command('show')
      .description(`one ${noun}: key, state, destinations and definition`)
      .argument('<name>', 'its name'),
  )
    .addHelpText('after', `\nExample:\n  millrace ${verb} show 'Repeat Buyers'`)
    .action((name: string, options: Omit<NamedComputationOptions, 'list' | 'name'>) =>
      run(async () => (await load()).showComputation)({ ...options, list, name }),
    );
  addControlOptions(
    parent
      .command('members')
      .description(members)
      .argument('<name>', 'its name')
      .option('--limit <number>', 'so many at most', entries, 100),
  )
    .addHelpText('after', `\nExample:\n  millrace ${verb} members 'Repeat Buyers' --limit 1000 --json`)
    .action((name: string, options: Omit<MembersOptions, 'list' | 'name'>) =>
      run(async () => (await load()).listMembers)({ ...options, list, name }),
    );
  addControlOptions(
    parent
      .command('sync')
      .description(sync)
      .argument('<name>', 'its name')
      .requiredOption('--destination <name>', 'the one that is told')
      .option('--dry-run', 'only say how many it would be told'),
  )
    .addHelpText('after', `\nExample:\n  millrace ${verb} sync 'Repeat Buyers' --destination crm`)
    .action((name: string, options: Omit<SyncOptions, 'list' | 'name'>) =>
      run(async () => (await load()).syncComputation)({ ...options, list, name }),
    );
  const preview = parent
    .command('preview')
    .description('how many users a definition would have; keeps nothing and sends nothing')
    .option('--definition <text>', 'the definition')
    .option('-f, --file <file>', 'a file with the definition, - for standard input')
    .option('--name <name>', 'compare with the one of this name, which it would replace');
  if (list === 'audiences') preview.option('--include-anonymous', 'count profiles without a userId too');
  addControlOptions(preview)
    .addHelpText('after', `\nExample:\n  millrace ${verb} preview --definition "${definition}"`)
    .action((options: Omit<PreviewOptions, 'list'>) =>
      run(async () => (await load()).previewComputation)({ ...options, list }),
    );
}
