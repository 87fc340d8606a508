import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync, type StatementSync } from 'node:sqlite';
import { pathToFileURL } from 'node:url';
import type { Position } from '../../../model/event.ts';
import { DAY, type Duration, type Time } from '../../../model/time.ts';
import type { Damage } from '../../../ports/event-log.ts';
import { Quarantine, readableRows, unlessDamaged } from '../damage.ts';
import { Watermarks } from '../installation.ts';
import { LedgerTable } from '../ledger.ts';
import { Chunks } from '../log/chunks.ts';
import { keyHash } from '../log/key-hash.ts';
import type { KeyIndex } from '../log/key-index.ts';
import { withoutSetChecksum } from '../queue/delivery-set-codec.ts';
import { FORMAT_WITH_CHECKSUMS } from '../schema.ts';
import { type RecordRow, recordChecksum } from '../settings/records.ts';

/** How often upkeep looks through everything stored. */
const PERIOD: Duration = DAY;

/** Milliseconds of the writer's time that one slice may take. */
const SLICE_MS: Duration = 2;

/** Chunks after which it is written down how far it has come, so that a restart does not begin anew. */
const CHUNKS_PER_SAVE = 4096;

export interface VerifierDependencies {
  readonly chunks: Chunks;
  readonly keys: KeyIndex;
  readonly marks: Watermarks;
}

/**
 * Reads everything stored once a day, a little each second, so that damage is found while a backup from before it still
 * exists. What is found is told by the parts themselves: chunks to `onDamage`; keys and users are made anew.
 */
export class Verifier {
  readonly #parts: VerifierDependencies;
  #position: Position;
  #sinceNoted = 0;
  /** Of the run that is looked through: its place among the runs, and the next page. */
  #page: { run: number; page: number } | undefined;

  constructor(parts: VerifierDependencies) {
    this.#parts = parts;
    this.#position = parts.marks.verifiedTo;
  }

  /** Does one slice inside the caller's transaction, when it is time for a round or one is under way. */
  step(now: Time): void {
    const { marks } = this.#parts;
    const isUnderWay = this.#position > 0 || this.#page !== undefined;
    const isTime = now >= marks.verifyBegan + PERIOD || now < marks.verifyBegan;
    if (!isUnderWay && !isTime) return;
    if (!isUnderWay) marks.verifyBegan = now;
    const end = performance.now() + SLICE_MS;
    while (performance.now() < end) {
      if (this.#next()) continue;
      this.#position = 0;
      this.#page = undefined;
      if (marks.verifiedTo > 0) marks.verifiedTo = 0;
      return;
    }
  }

  /** Looks at one chunk or one page of a run; false at the end of the round. */
  #next(): boolean {
    const { chunks, keys, marks } = this.#parts;
    if (this.#page === undefined) {
      const next = chunks.verify(this.#position);
      if (next === undefined) this.#page = { run: 0, page: 0 };
      else {
        this.#position = next;
        if (++this.#sinceNoted % CHUNKS_PER_SAVE === 0) marks.verifiedTo = next;
      }
      return true;
    }
    this.#page = keys.verifyPage(this.#page);
    return this.#page !== undefined;
  }
}

/**
 * Reads every row of a file and checks its checksums; undefined when all hold. `progress`: how many positions of how many
 * have been looked at. Of a file of format 1 only what it says of itself can be checked.
 */
export function verifyFile(
  path: string,
  progress: (looked: number, of: number) => void = () => {},
): Damage | undefined {
  if (!existsSync(path)) return undefined;
  // Immutable: SQLite makes no file beside it, and takes no lock.
  const address = pathToFileURL(path);
  address.searchParams.set('immutable', '1');
  const database = new DatabaseSync(address, { readOnly: true });
  try {
    const format = database.prepare('pragma user_version').get() as { user_version: number };
    if (format.user_version < FORMAT_WITH_CHECKSUMS) return undefined;
    return damageIn(database, progress);
  } finally {
    database.close();
  }
}

function damageIn(
  database: DatabaseSync,
  progress: (looked: number, of: number) => void,
): Damage | undefined {
  let events = 0;
  const others = new Set<string>();
  const marks = new Watermarks(database);
  const chunks = new Chunks(database, {
    sumsFrom: marks.checksumsFrom,
    stored: new LedgerTable(database).total('source', 'accepted'),
    retainedFrom: () => marks.retainedFrom,
    hash: keyHash(new Uint8Array(8)),
    isReadOnly: true,
    avoided: new Quarantine(),
    onDamage: (_, n) => {
      events += n;
    },
  });
  for (let at: Position | undefined = 0; at !== undefined; at = chunks.verify(at)) progress(at, chunks.next);
  const deliveries = damagedSets(database, 'pending');
  if (damagedSets(database, 'dead_letter') > 0) others.add('dead letters');
  const records = database.prepare('select id, kind, name, version, gone, document, sum from record');
  for (const row of rowsOf<RecordRow & { sum: number }>(records))
    if (row.sum !== recordChecksum(row)) others.add(`the record of ${row.kind} ${JSON.stringify(row.name)}`);
  if (events + deliveries + others.size === 0) return undefined;
  return { events, deliveries, others: [...others] };
}

/** How many deliveries are in sets that cannot be read. */
function damagedSets(database: DatabaseSync, table: 'pending' | 'dead_letter'): number {
  const statement = database.prepare(
    `select rowid as id, destination, n, refs from ${table} where rowid >= ? order by rowid`,
  );
  const rowsFrom = (key: number) => statement.iterate(key) as Iterable<unknown> as Iterable<SetRow>;
  const walk = {
    start: 0,
    end: Number.MAX_SAFE_INTEGER,
    towards: 1,
    keyBehind: ({ id }: SetRow) => id + 1,
  } as const;
  let deliveries = 0;
  for (const { destination, n, refs } of readableRows(rowsFrom, walk))
    if (withoutSetChecksum(destination, refs) === undefined) deliveries += n;
  return deliveries;
}

interface SetRow {
  readonly id: number;
  readonly destination: number;
  readonly n: number;
  readonly refs: Uint8Array;
}

function rowsOf<Row>(statement: StatementSync): Row[] {
  return unlessDamaged(() => statement.all() as unknown as Row[]) ?? [];
}

/**
 * The same of the data folder of a server that does not run. `later`: its write-ahead log was not emptied into the file at the
 * last stop, so that the file alone says too little.
 */
export function verifyFolder(
  folder: string,
  progress?: (looked: number, of: number) => void,
): { readonly damage?: Damage } | 'later' | undefined {
  const path = join(folder, 'millrace.db');
  if (!existsSync(path)) return undefined;
  if ((statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? 0) > 0) return 'later';
  const damage = verifyFile(path, progress);
  return damage === undefined ? {} : { damage };
}
