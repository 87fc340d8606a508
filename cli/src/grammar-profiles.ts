import type { Command } from 'commander';
import { addControlOptions, type Run } from './grammar-options.ts';
import type { MergesOptions, ProfileOptions, RebuildOptions } from './profiles.ts';
import type { SplitOptions } from './splits.ts';

/** Verbs about users as the server knows them. */
export function addProfiles(program: Command, run: Run): void {
  const load = () => import('./profiles.ts');
  addControlOptions(
    program
      .command('profile')
      .description('what is known of one user: ids, traits, audiences, and why its ids belong together')
      .argument('<user>', 'userId, also a former one')
      .option('--anonymous-id', 'the argument is an anonymousId'),
  )
    .addHelpText(
      'after',
      '\nExamples:\n  millrace profile u1\n  millrace profile --anonymous-id 5f0c2a9e-41d2-4b6e-9a51-0d8f5c1e7b22',
    )
    .action((user: string, options: Omit<ProfileOptions, 'user'>) =>
      run(async () => (await load()).profile)({ ...options, user }),
    );
  const profiles = program.command('profiles').description('all users as the server knows them');
  addControlOptions(
    profiles
      .command('merges')
      .description(
        'userIds that are one profile and that their stored events would not join by the rules of today; changes nothing',
      )
      .option('--dry-run', 'the same: it is always one'),
  )
    .addHelpText('after', '\nExample:\n  millrace profiles merges --dry-run')
    .action((options: MergesOptions) => run(async () => (await load()).doubtfulMerges)(options));
  addControlOptions(
    profiles
      .command('split')
      .description('takes a wrong merge apart: two ids are never ids of one profile from now on')
      .argument('<user>', 'a userId of the profile')
      .argument('<other>', 'the userId that is somebody else')
      .option('--anonymous-id', 'the second argument is an anonymousId')
      .option('--external <trait>', 'the second argument is the value of this external id, such as email')
      .option('--dry-run', 'only say which profiles come of it, and what destinations hear')
      .option('--yes', 'do not ask'),
  )
    .addHelpText(
      'after',
      '\nExamples:\n  millrace profiles split bob ann --dry-run\n  millrace profiles split ann kiosk-7 --anonymous-id',
    )
    .action((user: string, other: string, options: Omit<SplitOptions, 'user' | 'other'>) =>
      run(async () => (await import('./splits.ts')).splitProfile)({ ...options, user, other }),
    );
  addControlOptions(
    profiles
      .command('rebuild')
      .description('forgets all profiles and applies the stored events again')
      .option('--dry-run', 'only say what would be lost')
      .option('--yes', 'do not ask'),
  )
    .addHelpText('after', '\nExample:\n  millrace profiles rebuild --dry-run')
    .action((options: RebuildOptions) => run(async () => (await load()).rebuildProfiles)(options));
}
