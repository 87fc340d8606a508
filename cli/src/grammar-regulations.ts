import type { Command } from 'commander';
import { addControlOptions, type Run } from './grammar-options.ts';
import type { RegulateOptions, RegulationOptions } from './regulations.ts';

/** A verb about users, with the options that name them. */
function addUsersVerb(
  program: Command,
  {
    name,
    description,
    examples,
  }: Readonly<{ name: string; description: string; examples: readonly string[] }>,
): Command {
  const command = program
    .command(name)
    .description(description)
    .argument('[ids...]', 'userIds')
    .option('-f, --file <file>', 'more userIds, one a line as they are; - is standard input')
    .option('--anonymous', 'each id is the anonymousId of a visitor without a userId')
    .option('--json-ids', 'each id is JSON text in its quotes, for characters that a line cannot hold')
    .option('--confirm', 'takes along userIds that calls of client sources alone have joined to these')
    .option('--yes', 'goes on where ids name nobody and look as if something stood around them');
  return addControlOptions(command)
    .option('--wait', 'wait for the end, and show the receipt')
    .addHelpText('after', `\nExamples:\n${examples.map((line) => `  ${line}`).join('\n')}`);
}

/** Verbs that delete and suppress users. */
export function addRegulations(program: Command, run: Run): void {
  const verb = (name: string, description: string, examples: readonly string[]) =>
    addUsersVerb(program, { name, description, examples }).option(
      '--dry-run',
      'only show whom it would take: each joined id, with what joined it',
    );
  const asked =
    (type: RegulateOptions['type']) =>
    async (ids: string[], options: Omit<RegulateOptions, 'ids' | 'type'>) =>
      await run(async () => (await import('./regulations.ts')).regulate)({ ...options, ids, type });
  verb(
    'delete-user',
    'erases users: events, profile, dead letters, what waits; tells every affected destination, and leaves a receipt',
    [
      'millrace delete-user user-17 --dry-run',
      'millrace delete-user user-17 --wait',
      'millrace delete-user --file ids.txt --suppress',
    ],
  )
    .option('--suppress', 'and take no calls of them any more')
    .action(
      async (ids: string[], options: Omit<RegulateOptions, 'ids' | 'type'> & { suppress?: boolean }) => {
        const { suppress = false, ...rest } = options;
        await asked(suppress ? 'SUPPRESS_WITH_DELETE' : 'DELETE_ONLY')(ids, rest);
      },
    );
  verb('suppress', 'takes no calls of users any more; what is stored stays', [
    'millrace suppress user-17',
  ]).action(asked('SUPPRESS_ONLY'));
  verb('unsuppress', 'takes calls of suppressed users again', ['millrace unsuppress user-17']).action(
    asked('UNSUPPRESS'),
  );
  addControlOptions(
    program
      .command('regulation')
      .description('the receipt of a deletion or suppression: what was erased, and who has confirmed it')
      .argument('<id>', 'its id'),
  )
    .option('--wait', 'wait for its end')
    .option('--subjects', 'show whom it is about instead, until it ends: each joined id, with what joined it')
    .addHelpText('after', '\nExample:\n  millrace regulation 0199c1a2-7b1e-7000-8000-000000000000')
    .action((id: string, options: Omit<RegulationOptions, 'id'>) =>
      run(async () => (await import('./regulations.ts')).regulation)({ ...options, id }),
    );
}
