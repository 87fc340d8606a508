import { resolve } from 'node:path';
import { readSecretKeys, reapplyRegulations, restoreBackup, StorageError } from '@millrace/server';
import { count } from './column.ts';
import type { ExitCode, RunContext } from './run-context.ts';

export interface RestoreOptions {
  /** The argument of the verb. */
  readonly dir: string;
  readonly data?: string;
  readonly acceptDamage?: boolean;
  /** The journal of the data folder that is lost, where it is newer than that of the backup. */
  readonly regulations?: string;
  /** The file that holds `secrets.key`. Default: that of the environment, if it has one. */
  readonly secretsKeyFile?: string;
  readonly json?: boolean;
}

/**
 * `millrace restore DIR`: copies a backup into an empty data folder and verifies the copy. It needs no
 * server; start the server for this folder afterwards. spec/contract.md, "Verbs that change".
 */
export async function restore(
  { dir, data, acceptDamage = false, regulations, secretsKeyFile, json }: RestoreOptions,
  context: RunContext,
): Promise<ExitCode> {
  const folder = resolve(data ?? (context.env['MILLRACE_DATA'] || './data'));
  try {
    const {
      bytes,
      damage,
      notes = [],
    } = restoreBackup(resolve(dir), folder, {
      acceptDamage,
      awaitsRegulations: true,
      secretKeys: readSecretKeys({ ...writtenKey(secretsKeyFile, context.env), previousKeys: [] }),
    });
    const files = regulations === undefined ? [] : [resolve(regulations)];
    const reapplied = await reapplyRegulations(resolve(dir), folder, files);
    if (json) context.out.write(`${JSON.stringify({ folder, bytes, reapplied, damage, notes })}\n`);
    else {
      context.out.write(
        `${count(Math.ceil(bytes / 1024 / 1024))} MB are in ${folder}, ${
          damage === undefined ? 'and everything in it can be read' : 'with what cannot be read'
        }.\n`,
      );
      for (const note of notes) context.err.write(`millrace: ${note}.\n`);
      if (reapplied.regulations > 0) context.out.write(reappliedText(reapplied));
      context.err.write(
        'Start Millrace with it. What was delivered after the moment of the backup is delivered once more, with the same ' +
          'Webhook-Id; without an admin token of the configuration, the start makes a new one.\n',
      );
    }
    return 0;
  } catch (error) {
    if (!(error instanceof StorageError)) throw error;
    context.err.write(`millrace: ${error.reason}.\n`);
    return 1;
  }
}

/** `secrets.key` as the command line or the environment gives it. */
function writtenKey(file: string | undefined, env: RunContext['env']) {
  const path = file ?? env['MILLRACE_SECRETS_KEY_FILE'];
  if (path) return { key: { file: path } };
  const key = env['MILLRACE_SECRETS_KEY'];
  return key ? { key } : {};
}

function reappliedText({
  regulations,
  events,
  dropsProfiles,
}: Awaited<ReturnType<typeof reapplyRegulations>>) {
  const what = regulations === 1 ? 'regulation is' : 'regulations are';
  const profiles = dropsProfiles ? ' The profiles are made from the log again.' : '';
  return `${count(regulations)} ${what} newer than the backup and done again: ${count(events)} events erased.${profiles}\n`;
}
