import { type Command, Option } from 'commander';
import type { ExportOptions } from './export.ts';
import { addControlOptions, type Run } from './grammar-options.ts';
import type { ImportConfigOptions } from './import-config/import-config.ts';
import type { ApplyOptions, PlanOptions } from './plan.ts';
import { ahead } from './time-range.ts';
import type { CreateTokenOptions, NamedTokenOptions, TokenOptions } from './tokens.ts';

/** The verbs of configuration as code. */
export function addConfiguration(program: Command, run: Run): void {
  const verb = (name: string, description: string) =>
    addControlOptions(
      program
        .command(name)
        .description(description)
        .requiredOption(
          '-f, --file <file>',
          `configuration file, YAML, - for standard input; $\{NAME} in it reads the environment`,
        )
        .option('--prune', 'also remove the records that the file does not name'),
    );
  verb('plan', 'what applying a configuration file to a running server would change; changes nothing')
    .addHelpText('after', '\nExample:\n  millrace plan -f millrace.yaml')
    .action((options: PlanOptions) => run(async () => (await import('./plan.ts')).plan)(options));
  verb('apply', 'makes the records of a running server what a configuration file says')
    .option('--dry-run', 'only show what would change, as plan does')
    .option('--yes', 'ask nothing, also where it disconnects a destination that something is still owed to')
    .addHelpText('after', '\nExample:\n  millrace apply -f millrace.yaml --prune')
    .action((options: ApplyOptions) => run(async () => (await import('./plan.ts')).apply)(options));
  addControlOptions(
    program
      .command('export')
      .description('the records of a running server as a configuration file, secrets left out')
      .option('-o, --output <file>', 'write it to a file; default: stdout'),
  )
    .addHelpText('after', '\nExample:\n  millrace export -o millrace.yaml')
    .action((options: ExportOptions) =>
      run(async () => (await import('./export.ts')).exportRecords)(options),
    );
  program
    .command('import-config')
    .description(
      'the export of a workspace of Segment or RudderStack as a configuration file, with a report of each thing in it; changes no server',
    )
    .argument(
      '<from...>',
      'answers of the Public API (files, a folder, or its URL), a folder of Git Sync, a state of Terraform, or a configuration of RudderStack',
    )
    .requiredOption('-o, --output <file>', 'the configuration file to write; others are written beside it')
    .option('--token <text>', 'token of the Public API, where a URL is named (SEGMENT_TOKEN)')
    .addOption(
      new Option(
        '--none <parts...>',
        'somebody has looked: the workspace has none of these, where the API does not tell',
      ).choices(['tracking-plans', 'transformations', 'insert-function-instances']),
    )
    .option('--force', 'replace files that are there')
    .option('--json', 'print the report as JSON')
    .addHelpText(
      'after',
      '\nExamples:\n  millrace import-config export/ -o millrace.yaml\n  millrace import-config https://api.segmentapis.com -o millrace.yaml',
    )
    .action((from: string[], options: Omit<ImportConfigOptions, 'from'>) =>
      run(async () => (await import('./import-config/import-config.ts')).importConfig)({ ...options, from }),
    );
}

/** The verbs for tokens of the control API. */
export function addToken(program: Command, run: Run): void {
  const token = program.command('token').description('tokens of the control API, each with a role');
  const load = () => import('./tokens.ts');
  addControlOptions(
    token
      .command('create')
      .description('make a token; it is shown this once')
      .argument('<name>', 'what the audit trail calls it')
      .addOption(
        new Option(
          '--role <role>',
          'metrics reads the page for Prometheus, viewer reads, editor changes records, admin makes tokens too',
        )
          .choices(['admin', 'editor', 'viewer', 'metrics'])
          .makeOptionMandatory(),
      )
      .addOption(new Option('--expires <duration>', 'ends after this time: 12h, 90d').argParser(ahead))
      .option('--source <name>', 'for this source and others named so, and nothing else', together, [])
      .option('--destination <name>', 'for this destination, the same', together, [])
      .option('--no-bodies', 'a viewer that sees which events there are, and not what they hold'),
  )
    .addHelpText('after', '\nExample:\n  TOKEN=$(millrace token create ci --role editor --expires 90d)')
    .action((name: string, options: Omit<CreateTokenOptions, 'name'>) =>
      run(async () => (await load()).createToken)({ ...options, name }),
    );
  addControlOptions(token.command('list').description('names, roles and ages of the tokens; never a token'))
    .addHelpText('after', '\nExample:\n  millrace token list')
    .action((options: TokenOptions) => run(async () => (await load()).listTokens)(options));
  addControlOptions(
    token
      .command('revoke')
      .description('make a token useless at once')
      .argument('<name>', 'of the token, as list shows it'),
  )
    .addHelpText('after', '\nExample:\n  millrace token revoke ci')
    .action((name: string, options: Omit<NamedTokenOptions, 'name'>) =>
      run(async () => (await load()).revokeToken)({ ...options, name }),
    );
}

/** Collects the values of an option that may stand several times. */
function together(name: string, before: readonly string[]): readonly string[] {
  return [...before, name];
}
