import { DatabaseSync, type StatementSync } from 'node:sqlite';
import {
  type ChunkRow,
  checkNumbers,
  decodeHead,
  decodeLines,
} from '../../src/adapters/encoding/chunk-codec.ts';
import { ledgerOf } from '../../src/adapters/encoding/ledger.ts';
import { decodeSet, withoutSetChecksum } from '../../src/adapters/encoding/pending-set.ts';
import { databaseUri } from '../../src/adapters/sqlite/data-folder/files.ts';
import type { Delivery } from '../../src/model/delivery.ts';
import type { Position } from '../../src/model/event.ts';
import type { Ledger } from '../../src/model/ledger.ts';
import type { RegulationSubject } from '../../src/model/regulation.ts';
import type { Replay } from '../../src/model/replay.ts';
import type { PendingSetId } from '../../src/ports/delivery-queue.ts';
import type { StoredRegulation } from '../../src/ports/regulations.ts';
import type { StoredRecord } from '../memory-store/contents.ts';
import type { StoreContents, StoredSet } from './world-store.ts';

interface SetRow {
  readonly id: PendingSetId;
  readonly destination: number;
  readonly state: number;
  readonly owner: number;
  readonly due: number;
  readonly origin: string | null;
  readonly refs: Uint8Array;
}

interface KnownSet extends StoredSet {
  holder: number | undefined;
  dueAt: number;
  deliveries: ReadonlyMap<Position, Delivery>;
  refs: Uint8Array;
  /** Of the last look that has found it. */
  look: number;
}

type Stored = Pick<StoredRecord, 'source' | 'messageId' | 'userId' | 'receivedAt' | 'json'>;

/**
 * The tables of the engine: a second connection looks at the file after each transaction, as
 * the program does that reads profiles.
 */
export class EngineContents implements StoreContents {
  readonly sets = new Map<PendingSetId, KnownSet>();
  readonly events = new Map<Position, Stored>();
  readonly regulations = new Map<string, StoredRegulation>();
  readonly regulationSubjects = new Map<string, readonly RegulationSubject[]>();
  readonly replayRecords = new Map<string, Replay>();
  readonly letters = { length: 0 };
  lastPosition = 0;
  readonly #unharmed: Unharmed;
  #look = 0;
  #changed: StoredSet[] = [];
  #folder: string | undefined;
  #file: OpenFile | undefined;

  /** @param unharmed runs what a failing disk must not touch */
  constructor(unharmed: Unharmed) {
    this.#unharmed = unharmed;
  }

  /** Looks at the file of a folder, which the engine has open. */
  open(folder: string): void {
    this.#folder = folder;
    this.readEvents(0);
    this.readSets();
    this.readLetters();
    this.readRecords();
  }

  close(): void {
    this.release();
    this.#folder = undefined;
  }

  /**
   * Closes the connection until the next look. The engine takes what is in the log of its file for written
   * or not where it is the first to open it, and may not meet another one there that no program has.
   */
  release(): void {
    const file = this.#file;
    this.#file = undefined;
    if (file !== undefined) this.#unharmed(() => file.database.close());
  }

  get isOpen(): boolean {
    return this.#folder !== undefined;
  }

  /** Whether it is the connection of this object. */
  isOwn(database: DatabaseSync): boolean {
    return this.#file?.database === database;
  }

  *newSets(): Iterable<StoredSet> {
    yield* this.#changed.splice(0);
  }

  ledger(): Ledger {
    return this.#at(({ counters, pending }) =>
      ledgerOf({ counters: counters.all() as never, pending: pending.all() as never }),
    );
  }

  /** Transactions of the file. */
  commits(): number {
    return this.#at(({ commits }) => (commits.get() as { value: number } | undefined)?.value ?? 0);
  }

  readSets(): void {
    const look = ++this.#look;
    for (const row of this.#at(({ sets }) => sets.all() as unknown as SetRow[])) {
      const known = this.sets.get(row.id);
      const holder = row.state === 0 ? row.owner : undefined;
      if (known !== undefined && Buffer.compare(known.refs, row.refs) === 0) {
        Object.assign(known, { holder, dueAt: row.due, look });
        continue;
      }
      const set = { ...setOf(row), holder, look };
      this.sets.set(row.id, set);
      this.#changed.push(set);
    }
    for (const [id, set] of this.sets) if (set.look !== look) this.sets.delete(id);
  }

  /** Reads the events from a position on anew. */
  readEvents(from: Position): void {
    for (const position of this.events.keys()) if (position >= from) this.events.delete(position);
    for (const row of this.#at(({ chunks }) => chunks.all(from) as unknown as ChunkRow[])) {
      this.lastPosition = Math.max(this.lastPosition, row.first + row.n);
      for (const [position, event] of eventsOf(row)) this.events.set(position, event);
    }
  }

  readLetters(): void {
    this.letters.length = this.#at(({ letters }) => letters.get() as { n: number }).n;
  }

  readRecords(): void {
    this.regulations.clear();
    this.regulationSubjects.clear();
    this.replayRecords.clear();
    this.#at(({ regulations, subjects, replays }) => {
      for (const { number, id, document } of regulations.all() as unknown as RegulationRow[])
        this.regulations.set(id, { ...JSON.parse(document), number });
      for (const { id, subjects: bytes } of subjects.all() as unknown as SubjectsRow[])
        this.regulationSubjects.set(id, JSON.parse(Buffer.from(bytes).toString('utf8').replaceAll('\0', '')));
      for (const { name, document } of replays.all() as unknown as ReplayRow[])
        this.replayRecords.set(name, JSON.parse(document));
    });
  }

  /** Looks at the file. */
  #at<Found>(look: (file: OpenFile) => Found): Found {
    const folder = this.#folder;
    if (folder === undefined) throw new Error('nobody has the store open');
    return this.#unharmed(() => {
      this.#file ??= new OpenFile(folder);
      return look(this.#file);
    });
  }
}

/** Runs what a failing disk must not touch. */
export type Unharmed = <Result>(run: () => Result) => Result;

interface SubjectsRow {
  readonly id: string;
  readonly subjects: Uint8Array;
}

interface ReplayRow {
  readonly name: string;
  readonly document: string;
}

interface RegulationRow {
  readonly number: number;
  readonly id: string;
  readonly document: string;
}

/** A connection that only looks. */
class OpenFile {
  readonly database: DatabaseSync;
  readonly sets: StatementSync;
  readonly chunks: StatementSync;
  readonly letters: StatementSync;
  readonly regulations: StatementSync;
  readonly subjects: StatementSync;
  readonly replays: StatementSync;
  readonly counters: StatementSync;
  readonly pending: StatementSync;
  readonly commits: StatementSync;

  constructor(folder: string) {
    const database = new DatabaseSync(databaseUri(folder, 'ro'), { readOnly: true });
    const prepare = (sql: string) => database.prepare(sql);
    this.database = database;
    this.sets = prepare('select id, destination, state, owner, due, origin, refs from pending');
    this.chunks = prepare('select * from chunk where first + n > ? order by first');
    this.letters = prepare('select coalesce(sum(n), 0) as n from dead_letter');
    this.regulations = prepare(`select number, id, document from regulation where document <> ''`);
    this.subjects = prepare('select id, subjects from regulation_subject join regulation using (number)');
    this.replays = prepare(`select name, document from record where kind = 'replay' and gone = 0`);
    this.counters = prepare(
      `select scope, id, name, value from ledger where scope in ('source', 'destination') order by scope, id, name`,
    );
    this.pending = prepare('select destination, sum(n) as n from pending group by destination');
    this.commits = prepare(`select value from ledger where scope = 'store' and id = 0 and name = 'commits'`);
  }
}

function setOf({ id, destination, due, origin, refs }: SetRow): Omit<KnownSet, 'holder' | 'look'> {
  const encoded = withoutSetChecksum(destination, refs);
  if (encoded === undefined) throw new Error(`the checksum of set ${id} does not hold`);
  const deliveries = new Map(decodeSet(encoded).map((delivery) => [delivery.position, delivery]));
  return { id, destination, origin: origin ?? undefined, dueAt: due, deliveries, refs };
}

/** A brace. */
const OBJECT = 0x7b;

function* eventsOf(row: ChunkRow): Iterable<[Position, Stored]> {
  const seed = checkNumbers(row, 0);
  const lines = seed && decodeLines(row, seed);
  const head = seed && decodeHead(row, seed);
  if (lines === undefined || head === undefined)
    throw new Error(`the events from ${row.first} on are damaged`);
  for (let nth = 0; nth < row.n; nth++) {
    const line = lines.body.subarray(lines.starts[nth]!, lines.starts[nth + 1]! - 1);
    // An erased event is an empty line, and one of which only the messageId is left a text.
    if (line[0] !== OBJECT) continue;
    const json = line.toString();
    const { messageId, userId } = JSON.parse(json) as Pick<Stored, 'messageId' | 'userId'>;
    const stored = { source: head.sources[nth]!, messageId, userId, receivedAt: head.times[nth]!, json };
    yield [row.first + nth, stored];
  }
}
