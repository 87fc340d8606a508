import { Command, type OutputConfiguration } from 'commander';
import { addBackup } from './grammar-backup.ts';

import { addCompletion } from './grammar-completion.ts';
import { addComputations } from './grammar-computations.ts';
import { addConfiguration, addToken } from './grammar-configuration.ts';
import { addAlerts, addReadingVerbs, addRepairVerbs } from './grammar-control.ts';
import { addDoctor } from './grammar-doctor.ts';
import type { Run } from './grammar-options.ts';
import { addProfiles } from './grammar-profiles.ts';
import { addRegulations } from './grammar-regulations.ts';
import { addReplay } from './grammar-replay.ts';
import { addSearch } from './grammar-search.ts';
import { addSend } from './grammar-send.ts';
import { addEndpointVerbs, addServers } from './grammar-server.ts';
import { addTail } from './grammar-tail.ts';

/**
 * The whole command line. A verb loads its code when it runs: `--help` must not wait for a server to load.
 * `output`: where help and mistakes in the command line go; absent, to the process's own streams.
 */
export function grammar(run: Run, programVersion: string, output: OutputConfiguration = {}): Command {
  const program = new Command('millrace')
    .description('Event collection that anyone can run: calls in, signed webhooks out.')
    .version(programVersion, '--version', 'print the version')
    .helpOption('-h, --help', 'print help')
    .showHelpAfterError('Run it with --help to see what there is.')
    .configureOutput({
      ...output,
      outputError: (text, write) => write(text.replace(/^error: /, 'millrace: ')),
    })
    .exitOverride();
  addServers(program, run);
  addEndpointVerbs(program, run);
  addSend(program, run);
  addReadingVerbs(program, run);
  addSearch(program, run);
  addProfiles(program, run);
  addComputations(program, run);
  addTail(program, run);
  addRepairVerbs(program, run);
  addReplay(program, run);
  addRegulations(program, run);

  addAlerts(program, run);
  addBackup(program, run);
  addConfiguration(program, run);
  addToken(program, run);
  addDoctor(program, run);
  addCompletion(program, run);
  addRemovedVerbs(program, run);
  return program;
}

/** Verbs of earlier versions, each with what to do instead. */
const REMOVED: Readonly<Record<string, string>> = {
  cells:
    'ask each server with a verb of its own; docs/operations/cells.md has a shell loop that does so for all of them',
};

/**
 * Adds removed verbs, which end with 2 and one sentence: a script that calls them must not be told that it
 * has a typing error.
 */
function addRemovedVerbs(program: Command, run: Run): void {
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
