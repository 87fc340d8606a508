import type { Command } from 'commander';
import type { CellsRegulateOptions, CellsRegulationOptions } from './cells/regulations.ts';
import type { CellsTraceOptions } from './cells/trace.ts';
import type { Run } from './grammar-options.ts';
import { addUsersVerb } from './grammar-regulations.ts';
import { addDeliveriesVerb, addEventsVerb } from './grammar-search.ts';

/** The verb `cells`: what is asked of all cells of an installation at once. docs/operations/cells.md. */
export function addCells(program: Command, run: Run): void {
  const parent = program
    .command('cells')
    .description('asks all cells of an installation at once: status, events, deliveries, deletions');
  addCellsOptions(
    parent
      .command('status')
      .description('each cell with its figures, the sums, and whether every ledger balances'),
  )
    .addHelpText('after', '\nExample:\n  millrace cells status --cells cells.yaml')
    .action(run(async () => (await import('./cells/status.ts')).cellsStatus));
  addCellsOptions(
    parent
      .command('trace')
      .description("one event's whole life, from the cell that knows it")
      .argument('<messageId>', 'messageId of the event')
      .option('--source <name>', 'only what this source sent'),
  )
    .addHelpText('after', '\nExample:\n  millrace cells trace order-1 --cells cells.yaml')
    .action((messageId: string, options: Omit<CellsTraceOptions, 'messageId'>) =>
      run(async () => (await import('./cells/trace.ts')).cellsTrace)({ ...options, messageId }),
    );
  addEventsVerb(parent, addCellsOptions)
    .addHelpText('after', '\nExample:\n  millrace cells events --user-id u1 --cells cells.yaml')
    .action(run(async () => (await import('./cells/search.ts')).cellsEvents));
  addDeliveriesVerb(parent, addCellsOptions)
    .addHelpText(
      'after',
      '\nExample:\n  millrace cells deliveries --state dead --since 1d --cells cells.yaml',
    )
    .action(run(async () => (await import('./cells/search.ts')).cellsDeliveries));
  addCellsRegulations(parent, run);
}

function addCellsRegulations(parent: Command, run: Run): void {
  const load = () => import('./cells/regulations.ts');
  type Given = Omit<CellsRegulateOptions, 'ids' | 'type'>;
  const asked = (type: CellsRegulateOptions['type']) => async (ids: string[], options: Given) =>
    await run(async () => (await load()).cellsRegulate)({ ...options, ids, type });
  const verb = (name: string, description: string, examples: readonly string[]) =>
    addUsersVerb(parent, { name, description, examples }, addCellsOptions);
  verb('delete-user', 'erases users in every cell; each leaves a receipt, and can be asked again', [
    'millrace cells delete-user user-17 --wait --cells cells.yaml',
    'millrace cells delete-user --file ids.txt --suppress --cells cells.yaml',
  ])
    .option('--suppress', 'and take no calls of them any more')
    .action(async (ids: string[], { suppress = false, ...rest }: Given & { suppress?: boolean }) => {
      await asked(suppress ? 'SUPPRESS_WITH_DELETE' : 'DELETE_ONLY')(ids, rest);
    });
  verb('suppress', 'takes no calls of users any more, in every cell; what is stored stays', [
    'millrace cells suppress user-17 --cells cells.yaml',
  ]).action(asked('SUPPRESS_ONLY'));
  verb('unsuppress', 'takes calls of suppressed users again, in every cell', [
    'millrace cells unsuppress user-17 --cells cells.yaml',
  ]).action(asked('UNSUPPRESS'));
  addCellsOptions(
    parent
      .command('regulation')
      .description('receipts of deletions or suppressions, from whichever cell has each')
      .argument('<ids...>', 'their ids'),
  )
    .option('--wait', 'wait for their end')
    .addHelpText(
      'after',
      '\nExample:\n  millrace cells regulation 0199c1a2-7b1e-7000-8000-000000000000 --cells cells.yaml',
    )
    .action((ids: string[], options: Omit<CellsRegulationOptions, 'ids'>) =>
      run(async () => (await load()).cellsRegulation)({ ...options, ids }),
    );
}

function addCellsOptions(command: Command): Command {
  return command
    .option('--cells <file>', 'YAML file that names the cells (MILLRACE_CELLS)')
    .option('--json', 'print the answers as JSON');
}
