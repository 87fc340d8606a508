import type { Command } from 'commander';
import type { Run } from './grammar-options.ts';

/** Verbs that earlier versions had, each with what to do instead. */
const REMOVED: Readonly<Record<string, string>> = {
  cells:
    'ask each server with a verb of its own; docs/operations/cells.md has a shell loop that does so for all of them',
};

/** Verbs that are gone still end with 2 and one sentence: a script that calls them must not be told that it has a typing error. */
export function addRemovedVerbs(program: Command, run: Run): void {
  for (const [name, advice] of Object.entries(REMOVED)) {
    program
      .command(name, { hidden: true })
      .helpOption(false)
      .allowUnknownOption()
      .argument('[rest...]')
      .action(() =>
        run(async () => async (_, { err }) => {
          err.write(`millrace: there is no verb ${name} any more: ${advice}.\n`);
          return 2;
        })({}),
      );
  }
}
