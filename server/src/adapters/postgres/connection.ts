import { readFileSync } from 'node:fs';
import { readFile, stat } from 'node:fs/promises';
import type { ConnectionOptions as TlsOptions } from 'node:tls';
import type { ClientConfig } from 'pg';
import { distrustOf } from '../../model/file-rights.ts';
import { isLoopback } from '../../model/loopback.ts';
import { StorageError } from '../../ports/event-log.ts';

/** Names the file that holds the password alone. */
const PASSWORD_FILE = 'MILLRACE_DATABASE_PASSWORD_FILE';

const SSL_MODES = ['disable', 'require', 'verify-ca', 'verify-full'] as const;

type SslMode = (typeof SSL_MODES)[number];

/**
 * A server. What is absent is that of PostgreSQL's own clients: PGHOST and PGPORT, or this machine and 5432.
 */
export interface Host {
  readonly host: string | undefined;
  readonly port: number | undefined;
}

/**
 * The servers that an address names, as PostgreSQL's own clients read it:
 * `postgres://user@one:5432,two:5432/name`, or `host=one,two` with `port=5432,5432`. One of them is the
 * primary. Throws a `StorageError`.
 */
export function hostsOf(address: string): readonly Host[] {
  const { url, authority } = parse(address);
  const given = url.searchParams.get('host');
  if (given === null)
    return authority.map((one) => {
      const [, host = '', port] = /^(.*?)(?::(\d+))?$/.exec(one)!;
      return hostOf(host, url.searchParams.get('port') ?? port);
    });
  const hosts = given.split(',');
  const ports = (url.searchParams.get('port') ?? url.port).split(',');
  if (ports.length !== 1 && ports.length !== hosts.length)
    throw new StorageError(
      `database: the address names ${hosts.length} hosts and ${ports.length} ports: name one, or one for each`,
    );
  return hosts.map((host, nth) => hostOf(host, ports[ports.length === 1 ? 0 : nth]));
}

function hostOf(host: string, port: string | undefined): Host {
  return { host: host || undefined, port: port ? Number(port) : undefined };
}

/**
 * How to reach a database by its address, `postgres://user@host:5432/name?sslmode=verify-full`, and by the
 * variables of PostgreSQL's own clients where the address is silent. The password is read at each connection
 * (from the address, the file that MILLRACE_DATABASE_PASSWORD_FILE names, PGPASSWORD or PGPASSFILE), so that
 * it can be changed while the program runs.
 *
 * `sslmode` means what it means to PostgreSQL's own clients: `require` encrypts, `verify-ca` also wants a
 * certificate by `sslrootcert` or a public authority, `verify-full` one for the host. See `hostsOf` for the
 * servers. Throws a `StorageError`.
 */
export function connectionOptions(address: string, env: NodeJS.ProcessEnv = process.env): ClientConfig {
  const { url, ...decoded } = parse(address);
  refuseUnknownSsl(url);
  const given = (name: string) => url.searchParams.get(name) ?? undefined;
  const user = given('user') ?? (decoded.user || undefined);
  const database = decoded.database || undefined;
  const password = decoded.password || passwordFrom(env);
  const ssl = tlsOf(
    given('sslmode') ?? env['PGSSLMODE'] ?? 'disable',
    given('sslrootcert') ?? env['PGSSLROOTCERT'],
  );
  return {
    user,
    database,
    password,
    ssl,
    application_name: given('application_name') ?? 'millrace',
    options: given('options'),
  };
}

/**
 * The servers of an address that are asked without TLS over a network, where everybody on the way reads
 * events, profiles and the password's exchange. A socket and an address of this machine are no network.
 * Throws a `StorageError`.
 */
export function unprotectedHosts(address: string, env: NodeJS.ProcessEnv = process.env): readonly string[] {
  if (connectionOptions(address, env).ssl !== false) return [];
  const hosts = hostsOf(address).map(({ host = env['PGHOST'] ?? 'localhost' }) => host);
  return hosts.filter((host) => !host.startsWith('/') && !isLoopback(host));
}

/**
 * Names the database of an address, for people: without a password, and the same however else it is written.
 * Throws a `StorageError`.
 */
export function placeOf(address: string): string {
  const { url } = parse(address);
  const hosts = hostsOf(address).map(
    ({ host = 'localhost', port = 5432 }) =>
      `${host.includes('/') ? encodeURIComponent(host) : host}:${port}`,
  );
  return `postgres://${hosts.join(',')}${url.pathname}`;
}

/** As `placeOf`, for messages: where the environment names the server, nothing is made up. */
export function shownPlace(address: string): string {
  const isNamed = hostsOf(address).every(({ host }) => host !== undefined);
  return isNamed ? `the database ${placeOf(address)}` : 'the database';
}

/** An address, decoded; what is absent is empty. */
interface Address {
  readonly url: URL;
  /** Hosts, with their ports. */
  readonly authority: readonly string[];
  readonly user: string;
  readonly password: string;
  readonly database: string;
}

/**
 * The address, and its servers as they are written there. `URL` knows one server at most: it gets the first.
 */
function parse(address: string): Address {
  try {
    const [, before, servers, rest] = /^([a-z]+:\/\/(?:[^/?@]*@)?)([^/?]*)(.*)$/i.exec(address)!;
    const authority = servers!.split(',');
    for (const server of authority) new URL(before! + server + rest!);
    const url = new URL(before! + authority[0]! + rest!);
    const [user, password, database] = [url.username, url.password, url.pathname.slice(1)].map(
      decodeURIComponent,
    );
    return {
      ...{ url, authority: authority.map(decodeURIComponent) },
      ...{ user: user!, password: password!, database: database! },
    };
  } catch {
    throw new StorageError(
      'database: the address cannot be read: write postgres://user@host:5432/name, with several hosts divided by commas, ' +
        'and in a user or a password @ as %40, / as %2F, % as %25',
    );
  }
}

/** A word that is not one of these could be meant to encrypt, and would not. */
const SSL_PARAMETERS = ['sslmode', 'sslrootcert'];

function refuseUnknownSsl(url: URL): void {
  for (const name of url.searchParams.keys())
    if (/^ssl/i.test(name) && !SSL_PARAMETERS.includes(name))
      throw new StorageError(
        `database: the address has ${JSON.stringify(name)}, which Millrace does not know: it takes ${SSL_PARAMETERS.join(' and ')}`,
      );
}

function passwordFrom(env: NodeJS.ProcessEnv): ClientConfig['password'] {
  const file = env[PASSWORD_FILE];
  if (!file) return undefined;
  return async () => {
    try {
      // A link is followed: an orchestrator puts one in the place of the file.
      const problem = distrustOf(await stat(file), process.getuid?.());
      if (problem === undefined) return (await readFile(file, 'utf8')).replace(/\r?\n$/, '');
      throw new StorageError(
        `the password of the database is in ${file}, which ${problem}: give it to this user or root, and take the right to write ` +
          'from others (chmod o-w)',
      );
    } catch (error) {
      if (error instanceof StorageError) throw error;
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
