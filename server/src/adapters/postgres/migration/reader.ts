import type {
  EventRow,
  InstallationPart,
  InstallationReader,
  InstallationTables,
  PartCursor,
  PartPage,
} from '../../../ports/installation.ts';
import { hashLines, type KeyHash, keyHash } from '../../encoding/hashes.ts';
import type { Database, Statement, Transaction } from '../database.ts';
import { ChunkTable, type StoredRow } from '../log/chunk-table.ts';
import { readPage } from './part-tables.ts';

/** Bytes of JSON, events and chunks after which a page ends. */
const PAGE_BYTES = 4 * 1024 * 1024;
const PAGE_EVENTS = 8000;
const PAGE_CHUNKS = 1000;

const CURSOR: Statement = {
  name: 'migration.cursor',
  text: `select position, clock, next_profile as "nextProfile", next_outbox as "nextOutbox" from profile_cursor where commits > 0`,
};

/** Reads what was written to a database that no node uses. `stop` closes the database. */
export class DatabaseReader implements InstallationReader {
  readonly #database: Database;
  readonly #chunks: ChunkTable;
  readonly #hash: KeyHash;

  constructor(database: Database, keySecret: Uint8Array) {
    this.#database = database;
    this.#hash = keyHash(keySecret);
    this.#chunks = new ChunkTable(this.#hash, () => undefined);
  }

  async page<Part extends InstallationPart>(
    part: Part,
    after?: PartCursor,
  ): Promise<PartPage<InstallationTables[Part]>> {
    return await this.#database.read(async (read): Promise<PartPage<never>> => {
      const page = await this.#page(read, part, after);
      return page as PartPage<never>;
    });
  }

  async stop(): Promise<void> {
    await this.#database.stop();
  }

  async #page(
    read: Transaction,
    part: InstallationPart,
    after?: PartCursor,
  ): Promise<PartPage<InstallationTables[InstallationPart]>> {
    if (part === 'events') return await this.#events(read, after);
    if (part === 'profileCursor')
      return { rows: await read.rows<InstallationTables['profileCursor']>(CURSOR) };
    return await readPage(read, part, after);
  }

  async #events(read: Transaction, [after = 0]: PartCursor = []): Promise<PartPage<EventRow>> {
    const from = Number(after);
    const facts = await this.#chunks.factsFrom(read, from, PAGE_CHUNKS);
    let [bytes, events, taken] = [0, 0, 0];
    for (const { json, n } of facts) {
      if (bytes > PAGE_BYTES || events > PAGE_EVENTS) break;
      bytes += json;
      events += n;
      taken++;
    }
    const last = facts[taken - 1];
    if (last === undefined) return { rows: [] };
    const stored = await this.#chunks.whole(read, from, last.first + 1, taken);
    const rows = stored.map((row) => this.#rowOf(row));
    return taken === PAGE_CHUNKS || taken < facts.length ? { rows, next: [last.first + 1] } : { rows };
  }

  /** The keys are computed from the lines, as they were when they were stored. */
  #rowOf(row: StoredRow): EventRow {
    const { first, n, stage, at, until } = row;
    const chunk = this.#chunks.decode(row);
    if (chunk === undefined) return { kind: 'unreadable', first, n, at, until };
    const { body: lines, sources, times, plans, users } = chunk;
    const { keys } = hashLines(this.#hash, chunk);
    return { kind: 'events', first, n, stage, lines, sources, times, plans, keys, users };
  }
}
