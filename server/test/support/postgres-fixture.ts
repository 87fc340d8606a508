import { basename } from 'node:path';
import { afterAll, afterEach, beforeEach, expect, inject } from 'vitest';
import {
  type Databases,
  databasesIn,
  type Postgres,
  type PostgresSettings,
  startPostgres,
} from './postgres.ts';

/**
 * Whether tests have a server of PostgreSQL. Without one they are left out, which the run says once
 * (postgres-server.ts).
 */
export const HAS_POSTGRES = Boolean(inject('postgres'));

/**
 * PostgreSQL for the tests of one `describe`. What it makes in a test ends with the test, and everything else
 * with the file.
 */
export interface PostgresFixture extends Databases {
  /** Makes a database that has the tables of this version, and nothing else. */
  makeDatabaseWithTables(): Promise<string>;
  /** A server for what kills or freezes it, or changes its settings. */
  startServer(settings?: Pick<PostgresSettings, 'settings'>): Promise<Postgres>;
}

type End = () => Promise<unknown>;

/**
 * The server of the run (postgres-server.ts). Called before other hooks are declared, it removes what it has
 * made after them, also when they or the test have failed.
 */
export function usePostgres(): PostgresFixture {
  const [ofFile, ofTest]: [End[], End[]] = [[], []];
  let isInTest = false;
  beforeEach(() => {
    isInTest = true;
  });
  afterEach(async () => {
    isInTest = false;
    await endAll(ofTest);
  });
  afterAll(() => endAll(ofFile));
  return new Fixture((end) => (isInTest ? ofTest : ofFile).push(end));
}

class Fixture implements PostgresFixture {
  readonly #ends: (end: End) => void;
  readonly #dropped = new Set<string>();
  #databases: Databases | undefined;

  constructor(ends: (end: End) => void) {
    this.#ends = ends;
  }

  get folder(): string {
    return this.#server.folder;
  }

  get #server(): Databases {
    this.#databases ??= databasesIn(serverOfRun().folder, nameOfFile());
    return this.#databases;
  }

  async makeDatabase(template?: string): Promise<string> {
    const url = await this.#server.makeDatabase(template);
    this.#ends(async () => {
      if (!this.#dropped.has(url)) await this.dropDatabase(url);
    });
    return url;
  }

  makeDatabaseWithTables(): Promise<string> {
    return this.makeDatabase(serverOfRun().tables);
  }

  async dropDatabase(url: string): Promise<void> {
    this.#dropped.add(url);
    await this.#server.dropDatabase(url);
  }

  isBlocked(url: string, statements?: number): Promise<void> {
    return this.#server.isBlocked(url, statements);
  }

  administrate(sql: string): Promise<Record<string, unknown>[]> {
    return this.#server.administrate(sql);
  }

  async startServer(settings: Pick<PostgresSettings, 'settings'> = {}): Promise<Postgres> {
    const { bin, files } = serverOfRun();
    const server = await startPostgres(bin, { ...settings, fsync: 'off', files });
    this.#ends(() => server.stop());
    return server;
  }
}

function serverOfRun() {
  const server = inject('postgres');
  if (server === null) throw new Error('no PostgreSQL 15 or newer is installed');
  return server;
}

/**
 * The name of the test file, as the name of a database may begin: one that is left behind shows whose it was.
 */
function nameOfFile(): string {
  const file = basename(expect.getState().testPath ?? 'millrace');
  return file
    .replace(/\..*$/, '')
    .replaceAll(/[^a-z0-9]/g, '_')
    .slice(0, 40);
}

/** Ends everything, the last first, also when one of them fails. */
async function endAll(ends: End[]): Promise<void> {
  const failures: unknown[] = [];
  for (const end of ends.splice(0).reverse()) await end().catch((error: unknown) => failures.push(error));
  if (failures.length > 0) throw new AggregateError(failures, 'what a test has made could not be removed');
}
