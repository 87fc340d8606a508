import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import type { ConnectionOptions as TlsOptions } from 'node:tls';
import type { ClientConfig } from 'pg';
import { StorageError } from '../../ports/event-log.ts';

/** Names the file that holds the password alone. */
const PASSWORD_FILE = 'MILLRACE_DATABASE_PASSWORD_FILE';

const SSL_MODES = ['disable', 'require', 'verify-ca', 'verify-full'] as const;

type SslMode = (typeof SSL_MODES)[number];

/**
 * How to reach a database by its address, `postgres://user@host:5432/name?sslmode=verify-full`, and by the variables of PostgreSQL's
 * own clients where the address is silent. The password is read at each connection (from the address, the file that
 * MILLRACE_DATABASE_PASSWORD_FILE names, PGPASSWORD or PGPASSFILE), so that it can be changed while the program runs.
 *
 * `sslmode` means what it means to PostgreSQL's own clients: `require` encrypts, `verify-ca` also wants a certificate by `sslrootcert`
 * or a public authority, `verify-full` one for the host. Throws a `StorageError`.
 */
export function connectionOptions(address: string, env: NodeJS.ProcessEnv = process.env): ClientConfig {
  const url = parse(address);
  const given = (name: string) => url.searchParams.get(name) ?? undefined;
  const host = given('host') ?? (decodeURIComponent(url.hostname) || undefined);
  const port = Number(given('port') ?? url.port) || undefined;
  const user = given('user') ?? (decodeURIComponent(url.username) || undefined);
  const database = decodeURIComponent(url.pathname.slice(1)) || undefined;
  const password = passwordOf(url, env);
  const ssl = tlsOf(
    given('sslmode') ?? env['PGSSLMODE'] ?? 'disable',
    given('sslrootcert') ?? env['PGSSLROOTCERT'],
  );
  return {
    ...(host === undefined ? {} : { host }),
    ...(port === undefined ? {} : { port }),
    ...(user === undefined ? {} : { user }),
    ...(database === undefined ? {} : { database }),
    ...(password === undefined ? {} : { password }),
    ssl,
    application_name: given('application_name') ?? 'millrace',
    ...(given('options') === undefined ? {} : { options: given('options')! }),
  };
}

function parse(address: string): URL {
  try {
    return new URL(address);
  } catch {
    throw new StorageError('database: the address cannot be read: write postgres://user@host:5432/name');
  }
}

function passwordOf(url: URL, env: NodeJS.ProcessEnv): ClientConfig['password'] {
  if (url.password !== '') return decodeURIComponent(url.password);
  const file = env[PASSWORD_FILE];
  if (!file) return undefined;
  return async () => {
    try {
      return (await readFile(file, 'utf8')).replace(/\r?\n$/, '');
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      throw new StorageError(
        `the password of the database cannot be read from ${file} (${code}), which ${PASSWORD_FILE} names`,
      );
    }
  };
}

function tlsOf(mode: string, rootCertificate: string | undefined): false | TlsOptions {
  if (!isSslMode(mode))
    throw new StorageError(
      `database: sslmode must be ${SSL_MODES.join(', ')}; found ${JSON.stringify(mode)}`,
    );
  if (mode === 'disable') return false;
  const ca = rootCertificate === undefined ? {} : { ca: readCertificate(rootCertificate) };
  if (mode === 'require') return { ...ca, rejectUnauthorized: rootCertificate !== undefined, ...ANY_HOST };
  return mode === 'verify-ca' ? { ...ca, ...ANY_HOST } : ca;
}

/** A certificate for another host will do. */
const ANY_HOST: TlsOptions = { checkServerIdentity: () => undefined };

function isSslMode(mode: string): mode is SslMode {
  return SSL_MODES.some((one) => one === mode);
}

function readCertificate(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new StorageError(
      `the certificate authorities of the database cannot be read from ${path} (${code}): correct sslrootcert or PGSSLROOTCERT`,
    );
  }
}
