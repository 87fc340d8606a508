import type { Command } from 'commander';
import type { BackupOptions } from './backup.ts';
import { addControlOptions, type Run } from './grammar-options.ts';
import type { MigrateOptions } from './migrate.ts';
import type { RestoreOptions } from './restore.ts';

/** The verbs for copies of an installation, and for its move. */
export function addBackup(program: Command, run: Run): void {
  addControlOptions(
    program
      .command('backup')
      .description('a copy of a running server as it is now, in a folder on the machine of the server')
      .argument('<dir>', 'a folder that does not exist yet or is empty, on the machine of the server'),
  )
    .addHelpText('after', '\nExample:\n  millrace backup /var/backups/millrace/2026-03-04')
    .action((dir: string, options: Omit<BackupOptions, 'dir'>) =>
      run(async () => (await import('./backup.ts')).backup)({ ...options, dir }),
    );
  program
    .command('restore')
    .description('brings a backup into an empty data folder; no server runs on it yet')
    .argument('<dir>', 'the folder of the backup')
    .option('--data <folder>', 'the data folder, which does not exist yet or is empty (MILLRACE_DATA)')
    .option(
      '--regulations <file>',
      'regulations.journal of the lost data folder: deletions and suppressions since the backup are done again',
    )
    .option(
      '--secrets-key-file <file>',
      'the secrets.key of the server, which proves the manifest (MILLRACE_SECRETS_KEY_FILE, MILLRACE_SECRETS_KEY)',
    )
    .option('--accept-damage', 'take a backup in which some events cannot be read')
    .option('--json', 'print it as JSON')
    .addHelpText(
      'after',
      '\nExample:\n  millrace restore /var/backups/millrace/2026-03-04 --data /var/lib/millrace',
    )
    .action((dir: string, options: Omit<RestoreOptions, 'dir'>) =>
      run(async () => (await import('./restore.ts')).restore)({ ...options, dir }),
    );
  program
    .command('migrate')
    .description(
      'moves an installation from a data folder into a PostgreSQL database; no server runs on either',
    )
    .requiredOption('--from <folder>', 'data folder')
    .requiredOption('--to <address>', 'postgres:// address of a database that holds nothing')
    .option('--dry-run', 'only say what would be moved, and how long it takes')
    .option('--json', 'print it as JSON')
    .addHelpText(
      'after',
      '\nExample:\n  millrace migrate --from ./data --to postgres://millrace@db.internal/millrace --dry-run',
    )
    .action((options: MigrateOptions) => run(async () => (await import('./migrate.ts')).migrate)(options));
}
