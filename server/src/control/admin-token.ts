import { randomBytes } from 'node:crypto';
import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** In the data folder. `millrace status` looks for it under the same name. */
const FILE = 'admin-token';

const OWNER_ONLY = 0o600;

export interface AdminToken {
  readonly token: string;
  /** The file that keeps it; absent when the configuration gave it. */
  readonly file?: string;
}

/**
 * The token of the control API: the configured one, else the one kept in the data folder, which is made when there is
 * none (an emptied file counts as none). The folder must exist and be ours. contract.md section 1.
 * Throws an error whose message is one line for the operator; it never holds the token.
 */
export function adminToken(configured: string | undefined, folder: string): AdminToken {
  if (configured !== undefined) return { token: configured };
  const file = join(folder, FILE);
  try {
    return { token: keptIn(file) ?? makeIn(file), file };
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === undefined) throw error;
    throw new Error(
      `the token of the control API cannot be kept in ${file} (${code}): give this user the right to read and write ` +
        'it, or set admin.token or MILLRACE_ADMIN_TOKEN',
      { cause: error },
    );
  }
}

function keptIn(file: string): string | undefined {
  const text = read(file).trim();
  if (text === '') return undefined;
  if (/^[!-~]+$/.test(text)) return text;
  throw new Error(
    `${file} does not hold a token, which is one word of visible ASCII: remove it, and one is made`,
  );
}

function read(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return '';
    throw error;
  }
}

/**
 * Written beside and renamed, so that a crash leaves the whole token or none. The rights are given when the file is
 * created, which is why a leftover of an earlier try is removed and not written over.
 */
function makeIn(file: string): string {
  const token = randomBytes(32).toString('base64url');
  const unfinished = `${file}.new`;
  rmSync(unfinished, { force: true });
  writeFileSync(unfinished, `${token}\n`, { mode: OWNER_ONLY, flag: 'wx' });
  renameSync(unfinished, file);
  return token;
}
