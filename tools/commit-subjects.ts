/**
 * Checks that the first line of each commit message has at most 72 characters. Looks at the commits since
 * SINCE that this clone has: a shallow clone has some of them, and a folder without `.git` has none.
 *
 *   node tools/commit-subjects.ts            prints one line per subject that is too long, exit code 1 if there is one
 *   node tools/commit-subjects.ts FOLDER     looks at another repository
 */
import { execFileSync } from 'node:child_process';
import { join, resolve } from 'node:path';

const MOST_CHARACTERS = 72;

/** Older commits are not looked at: a published history is not written anew. */
const SINCE = '2026-11-22T15:10:00Z';

/** One line for each commit of `git log --format='%h %s'` whose subject is too long. */
export function longSubjects(log: string): string[] {
  return log.split('\n').flatMap((line) => {
    const [, commit, subject = ''] = /^(\S+) (.*)$/.exec(line) ?? [];
    const { length } = [...subject];
    return length <= MOST_CHARACTERS
      ? []
      : [`${commit}: the subject has ${length} characters, at most ${MOST_CHARACTERS}: ${subject}`];
  });
}

/** The commits since SINCE, without merges; none where this is no repository or has no commit. */
function logOf(root: string): string {
  const args = ['log', '--no-merges', '--format=%h %s', `--since=${SINCE}`];
  try {
    return execFileSync('git', args, { cwd: root, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
  } catch {
    return '';
  }
}

if (import.meta.main) {
  const found = longSubjects(logOf(resolve(process.argv[2] ?? join(import.meta.dirname, '..'))));
  for (const line of found) console.error(line);
  process.exitCode = found.length === 0 ? 0 : 1;
}
