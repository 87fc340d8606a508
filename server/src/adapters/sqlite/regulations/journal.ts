import { constants, existsSync, readFileSync } from 'node:fs';
import { chmod, copyFile, type FileHandle, open, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { REGULATION_TYPES, type RegulationType } from '../../../model/regulation.ts';
import type { Time } from '../../../model/time.ts';
import { StorageError } from '../../../ports/event-log.ts';
import { NO_LINK } from '../data-folder/files.ts';
import { asStorageError } from '../database.ts';

/** Name of the journal in the data folder and in backups. */
export const JOURNAL_FILE = 'regulations.journal';

/** Paths of the backups that were made of this folder, one a line. */
export const BACKUPS_FILE = 'backups.list';

/** A regulation as the journal keeps it: whom it is about only as keyed hashes. */
export interface JournalEntry {
  readonly id: string;
  readonly type: RegulationType;
  readonly at: Time;
  /**
   * Hashes of userIds and of joined ids, two words each, little endian, in base64. Without a userId it takes
   * the regulation back.
   */
  readonly users: string;
  readonly joined: string;
}

/**
 * Regulations beside the store, so that a backup from before one can be made to heed it: a line of JSON for
 * each, appended here and to every backup of this folder that is still in its place. A later line of the same
 * regulation replaces an earlier one.
 */
export class RegulationJournal {
  readonly #folder: string;
  #lastWrite: Promise<unknown> = Promise.resolve();

  constructor(folder: string) {
    this.#folder = folder;
  }

  /**
   * Resolves when the line is on stable storage in the data folder. Backups that cannot be written are left
   * out. Rejects with a `StorageError` when nothing was written.
   */
  append(entry: JournalEntry): Promise<void> {
    const written = this.#lastWrite.then(async () => {
      const line = `${JSON.stringify(entry)}\n`;
      await appendSynced(join(this.#folder, JOURNAL_FILE), line).catch((error: unknown) => {
        throw asStorageError(error, this.#folder);
      });
      for (const backup of await this.#backups()) {
        if (existsSync(join(backup, 'millrace.db')))
          await appendSynced(join(backup, JOURNAL_FILE), line).catch(() => {});
      }
    });
    this.#lastWrite = written.catch(() => {});
    return written;
  }

  /** Copies the journal into a new backup, and appends to that one too from now on. */
  follow(backup: string): Promise<void> {
    const followed = this.#lastWrite.then(async () => {
      const path = join(this.#folder, JOURNAL_FILE);
      if (existsSync(path)) {
        await rm(join(backup, JOURNAL_FILE), { force: true });
        await copyFile(path, join(backup, JOURNAL_FILE));
        await chmod(join(backup, JOURNAL_FILE), 0o600);
      }
      await appendSynced(join(this.#folder, BACKUPS_FILE), `${backup}\n`);
    });
    this.#lastWrite = followed.catch(() => {});
    return followed;
  }

  /** Ids in the journal. */
  ids(): ReadonlySet<string> {
    const path = join(this.#folder, JOURNAL_FILE);
    return new Set(existsSync(path) ? readJournal(path).map(({ id }) => id) : []);
  }

  async #backups(): Promise<string[]> {
    const text = await readFile(join(this.#folder, BACKUPS_FILE), 'utf8').catch(() => '');
    return [...new Set(text.split('\n').filter((path) => path !== ''))];
  }
}

/** Adds a line as a whole or not at all: a piece of one would make the next line unreadable. */
async function appendSynced(path: string, line: string): Promise<void> {
  const file = await open(path, constants.O_RDWR | constants.O_APPEND | constants.O_CREAT | NO_LINK, 0o600);
  try {
    const end = await endOfLines(file);
    try {
      await file.truncate(end);
      await file.appendFile(line);
      await file.sync();
    } catch (error) {
      await file.truncate(end).catch(() => {});
      throw error;
    }
  } finally {
    await file.close();
  }
}

/** Bytes read at once. */
const PIECE = 65_536;

/** Where the last whole line ends. Behind it is what a crash or a full disk has left of another one. */
async function endOfLines(file: FileHandle): Promise<number> {
  const piece = Buffer.alloc(PIECE);
  for (let { size: to } = await file.stat(); to > 0; ) {
    const from = Math.max(0, to - PIECE);
    const { bytesRead } = await file.read(piece, 0, to - from, from);
    const at = piece.subarray(0, bytesRead).lastIndexOf('\n');
    if (at >= 0) return from + at + 1;
    to = from;
  }
  return 0;
}

/**
 * The entries of a journal in their order. A line that was cut by a crash is left out: its regulation is in
 * the store, or its caller had no answer. Throws a `StorageError` for a file that is no journal.
 */
export function readJournal(path: string): JournalEntry[] {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    throw new StorageError(
      `cannot read ${path} (${(error as Error).message}): name the ${JOURNAL_FILE} of a data folder`,
    );
  }
  const byId = new Map<string, JournalEntry>();
  const lines = text.split('\n').filter((line) => line !== '');
  for (const [nth, line] of lines.entries()) {
    // Earlier versions wrote the next line behind one that was cut.
    const entry = parse(line) ?? parse(line.slice(line.lastIndexOf(BEGINNING)));
    if (entry?.users === '') byId.delete(entry.id);
    else if (entry !== undefined) byId.set(entry.id, entry);
    else if (nth < lines.length - 1 || lines.length === 1)
      throw new StorageError(
        `line ${nth + 1} of ${path} is no regulation: name the ${JOURNAL_FILE} of a data folder`,
      );
  }
  return [...byId.values()];
}

/** Of every line. */
const BEGINNING = '{"id":';

function parse(line: string): JournalEntry | undefined {
  try {
    const { id, type, at, users, joined } = JSON.parse(line) as Partial<JournalEntry>;
    const isEntry =
      typeof id === 'string' && typeof at === 'number' && REGULATION_TYPES.includes(type as never);
    if (!isEntry || typeof users !== 'string' || typeof joined !== 'string') return undefined;
    return { id, type: type!, at, users, joined };
  } catch {
    return undefined;
  }
}

export function encodeHashes(words: Uint32Array): string {
  return Buffer.from(words.buffer, words.byteOffset, words.byteLength).toString('base64');
}

export function decodeHashes(text: string): Uint32Array {
  const bytes = Buffer.from(text, 'base64');
  return new Uint32Array(Uint8Array.from(bytes).buffer, 0, Math.floor(bytes.length / 8) * 2);
}
