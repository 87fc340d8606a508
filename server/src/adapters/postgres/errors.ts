import { RefusedContentError, StorageError } from '../../ports/event-log.ts';

export const SHARED_SESSIONS =
  'the pooler in front of the database gives each transaction another connection, which loses prepared statements and locks: ' +
  'set its pool_mode to session (pgbouncer), or name the address of the server itself in "database"';

/** SQLSTATE, where the server has one to give. None begins as codes of the system do, such as `EPIPE`. */
export function stateOf(error: unknown): string | undefined {
  const { code } = error as { code?: unknown };
  return typeof code === 'string' && /^(?!E)[0-9A-Z]{5}$/.test(code) ? code : undefined;
}

const ADVICE: readonly (readonly [RegExp, string])[] = [
  [/^25006$/, 'it is a standby: name the primary in "database", or all servers divided by commas'],
  [/^53100$/, 'its disk is full: free some space on it'],
  [/^53300$/, 'it has no connection left: raise its max_connections'],
  [
    /^28P01$/,
    'correct the user in "database", or the password where it is given: there, in the file of MILLRACE_DATABASE_PASSWORD_FILE, in PGPASSWORD or in PGPASSFILE',
  ],
  [/^28/, 'it does not let this user in from this machine: see pg_hba.conf of the server'],
  [/^3D000$/, 'create it (createdb --owner USER NAME), or correct the name in "database"'],
  [/^42501$/, 'the user named in "database" may not do this: make it the owner of the database'],
  [
    /^55P03$/,
    'another session, such as a dump, has a lock on one of its tables: wait until it is over, or end it',
  ],
  [/^(26000|42P05)$/, SHARED_SESSIONS],
  [/^42P07$/, 'it holds tables that Millrace did not write: make a database for Millrace alone'],
  [/^MR003$/, 'its tables are for that version alone'],
  [/^(08|57P)/, 'it is stopping or starting: wait, or look after the server'],
  [/^(XX|58)/, 'the server reports damage or a failing disk: see its log'],
];

/** By what the driver or the system says, where the server has said nothing. */
const ADVICE_WITHOUT_STATE: readonly (readonly [RegExp, string])[] = [
  [
    /does not support SSL/i,
    'turn ssl on in the configuration of the server, or take sslmode out of "database" where nobody else can listen on the way to it',
  ],
  [
    /ENOTFOUND|EAI_AGAIN/,
    'this machine does not find that host: correct it in "database". In a user or a password, write @ as %40, / as %2F and % as %25',
  ],
  [
    /certificate|altnames/i,
    'name the authority of its certificate with sslrootcert in "database", or the host that the certificate is for',
  ],
];

/** Data that a column cannot hold, a constraint that it breaks, a limit that it goes beyond. */
const OF_CONTENT = /^(22|23|54)/;

/** How the driver says that it has none. */
const NO_PASSWORD = /password must be a/i;
const PASSWORD_ADVICE =
  'it asks for a password, and none is given: name a file with MILLRACE_DATABASE_PASSWORD_FILE, or set PGPASSWORD or PGPASSFILE';

/**
 * An error of `pg` as a `StorageError`, whose reason is one line that says what to do. `place` says which
 * database it is about.
 */
export function asStorageError(error: unknown, place = 'the database'): StorageError {
  if (error instanceof StorageError) return error;
  const state = stateOf(error);
  const { message } = error as Error;
  if (state === undefined && NO_PASSWORD.test(message))
    return new StorageError(`cannot use ${place}: ${PASSWORD_ADVICE}`, { cause: error });
  const said = `${state === undefined ? '' : `${state} `}${message || String((error as { code?: string }).code)}`;
  const advice = state === undefined ? adviceWithoutState(said) : adviceOf(state);
  const Kind = state !== undefined && OF_CONTENT.test(state) ? RefusedContentError : StorageError;
  return new Kind(`cannot use ${place} (${said}): ${advice}`, { cause: error });
}

function adviceOf(state: string): string {
  return ADVICE.find(([pattern]) => pattern.test(state))?.[1] ?? 'see the log of the server';
}

function adviceWithoutState(said: string): string {
  const found = ADVICE_WITHOUT_STATE.find(([pattern]) => pattern.test(said));
  return found?.[1] ?? 'is the server running, and can this machine reach it?';
}
