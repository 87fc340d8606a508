import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { pathToFileURL } from 'node:url';
import type { Position } from '../../../model/event.ts';
import { DAY, type Duration, type Monotonic } from '../../../model/time.ts';
import type { Damage } from '../../../ports/event-log.ts';
import { keyHash } from '../../encoding/hashes.ts';
import { withoutSetChecksum } from '../../encoding/pending-set.ts';
import { Quarantine, readableRows } from '../damage.ts';
import { Watermarks } from '../installation.ts';
import { LedgerReader } from '../ledger-table.ts';
import { Chunks } from '../log/chunks.ts';
import type { KeyIndex } from '../log/key-index.ts';
import { FORMAT_WITH_CHECKSUMS } from '../schema.ts';
import { type RecordRow, recordChecksum } from '../settings/records.ts';

/** Time between the starts of two rounds. */
const PERIOD: Duration = DAY;

/** Time that one slice may take on the writer's thread. */
const SLICE_MS: Duration = 2;

/** Chunks between two writes of the watermark, from which a restart goes on. */
const CHUNKS_PER_SAVE = 4096;

export interface VerifierDependencies {
  readonly chunks: Chunks;
  readonly keys: KeyIndex;
  readonly watermarks: Watermarks;
}

/**
 * Reads every chunk and every sorted run once a day, a little each second, so that damage is found while a
 * backup from before it still exists. A damaged chunk is reported to `ChunksOptions.onDamage`; damaged keys
 * and users are repaired.
 */
export class Verifier {
  readonly #dependencies: VerifierDependencies;
  #position: Position;
  #sinceSaved = 0;
  /** The place of the run under way among the runs, and its next page. */
  #page: { run: number; page: number } | undefined;

  constructor(dependencies: VerifierDependencies) {
    this.#dependencies = dependencies;
    this.#position = dependencies.watermarks.verifiedTo;
  }

  /** Does one slice inside the caller's transaction, when a round is due or under way. */
  step(now: Monotonic): void {
    const { watermarks } = this.#dependencies;
    const isUnderWay = this.#position > 0 || this.#page !== undefined;
    const isTime = now >= watermarks.verifyBegan + PERIOD || now < watermarks.verifyBegan;
    if (!isUnderWay && !isTime) return;
    if (!isUnderWay) watermarks.verifyBegan = now;
    const end = performance.now() + SLICE_MS;
    while (performance.now() < end) {
      if (this.#next()) continue;
      this.#position = 0;
      this.#page = undefined;
      if (watermarks.verifiedTo > 0) watermarks.verifiedTo = 0;
      return;
    }
  }

  /** Checks one chunk or one page of a run. False at the end of the round. */
  #next(): boolean {
    const { chunks, keys, watermarks } = this.#dependencies;
    if (this.#page === undefined) {
      const next = chunks.verify(this.#position);
      if (next === undefined) this.#page = { run: 0, page: 0 };
      else {
        this.#position = next;
        if (++this.#sinceSaved % CHUNKS_PER_SAVE === 0) watermarks.verifiedTo = next;
      }
      return true;
    }
    this.#page = keys.verifyPage(this.#page);
    return this.#page !== undefined;
  }
}

/**
 * Reads every row of a database file and checks its checksums; undefined when all hold, or when its format
 * has none. `progress` is called with the positions checked so far and all positions.
 */
export function verifyFile(
  path: string,
  progress: (checked: number, of: number) => void = () => {},
): Damage | undefined {
  if (!existsSync(path)) return undefined;
  // Immutable: SQLite takes no lock and makes no file beside it.
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
  progress: (checked: number, of: number) => void,
): Damage | undefined {
  let events = 0;
  const others = new Set<string>();
  const quarantine = new Quarantine();
  const watermarks = new Watermarks(database);
  const chunks = new Chunks(database, {
    sumsFrom: watermarks.checksumsFrom,
    stored: new LedgerReader(database).total('source', 'accepted'),
    retainedFrom: () => watermarks.retainedFrom,
    hash: keyHash(new Uint8Array(8)),
    isReadOnly: true,
    quarantine,
    onDamage: (_, n) => {
      events += n;
    },
  });
  for (let at: Position | undefined = 0; at !== undefined; at = chunks.verify(at)) progress(at, chunks.next);
  const deliveries = damagedDeliveries(database, 'pending', quarantine);
  if (damagedDeliveries(database, 'dead_letter', quarantine) > 0) others.add('dead letters');
  const records = database.prepare('select id, kind, name, version, gone, document, sum from record');
  const recordRows = quarantine.unlessDamaged(() => records.all() as unknown as SummedRecord[]) ?? [];
  for (const row of recordRows)
    if (row.sum !== recordChecksum(row)) others.add(`the record of ${row.kind} ${JSON.stringify(row.name)}`);
  for (const step of quarantine.steps) others.add(step);
  if (events + deliveries + others.size === 0) return undefined;
  return { events, deliveries, others: [...others] };
}

/** How many deliveries the damaged sets of a table hold. */
function damagedDeliveries(
  database: DatabaseSync,
  table: 'pending' | 'dead_letter',
  quarantine: Quarantine,
): number {
  const statement = database.prepare(
    `select rowid as id, destination, n, refs from ${table} where rowid >= ? order by rowid`,
  );
  const rowsFrom = (key: number) => statement.iterate(key) as Iterable<unknown> as Iterable<SetRow>;
  const scan = {
    start: 0,
    end: Number.MAX_SAFE_INTEGER,
    direction: 1,
    nextKey: ({ id }: SetRow) => id + 1,
    quarantine,
  } as const;
  let deliveries = 0;
  for (const { destination, n, refs } of readableRows(rowsFrom, scan))
    if (withoutSetChecksum(destination, refs) === undefined) deliveries += n;
  return deliveries;
}

interface SetRow {
  readonly id: number;
  readonly destination: number;
  readonly n: number;
  readonly refs: Uint8Array;
}

type SummedRecord = RecordRow & { readonly sum: number };

/**
 * Verifies the data folder of a stopped server; undefined when it has no database. `later`: pages are still
 * in the write-ahead log since the last stop, so the next start must finish them first.
 */
export function verifyFolder(
  folder: string,
  progress?: (checked: number, of: number) => void,
): { readonly damage?: Damage } | 'later' | undefined {
  const path = join(folder, 'millrace.db');
  if (!existsSync(path)) return undefined;
  if ((statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? 0) > 0) return 'later';
  const damage = verifyFile(path, progress);
  return damage === undefined ? {} : { damage };
}
