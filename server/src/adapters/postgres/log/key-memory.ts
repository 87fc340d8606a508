import type { Position } from '../../../model/event.ts';
import type { Statement, Transaction } from '../database.ts';
import { formOf, wordsOf } from './key-arrays.ts';
import { KeyTable } from './key-table.ts';

/** Rows of the tail that are read at once. */
const SLICE_ROWS = 256;

/**
 * `$1` the number up to which everything is known, `$2` process, `$3` first positions of its batches whose keys it has. In one
 * snapshot with the runs: no row is missing because its run was converted in between.
 */
const TAIL: Statement = {
  name: 'keys.tail',
  text: `select (select min(r.id) from key_run r where not r.is_converted) as unconverted, (select max(r.id) from key_run r) as open,
      k.seq, k.tag, k.run, k.process, k.first,
      case when not (k.process = $2 and k.first = any($3::bigint[])) then ${formOf('k.hashes')} end as hashes
    from (select) one left join lateral (select * from key_log where seq >= $1 order by seq limit ${SLICE_ROWS}) k on true order by k.seq`,
};

interface TailRow {
  readonly unconverted: number;
  readonly open: number;
  readonly seq: number | null;
  readonly tag: number;
  readonly run: number;
  readonly process: number;
  readonly first: Position;
  readonly hashes: string | null;
}

/** A batch of this process. */
export interface OwnKeys {
  readonly first: Position;
  readonly run: number;
  /** Pairs of words; two zeros for a duplicate. */
  readonly keys: Uint32Array;
  /** Its turn has ended without an answer: batches behind it, which may share keys with it, wait for it no more. */
  isFree: boolean;
  /** Its commit is known, and so are its keys. */
  isKnown: boolean;
}

/** What a batch knew when it looked for its keys. */
export interface KeyView {
  /** Every row of key_log up to this number was known. */
  readonly since: number;
  /** The oldest run whose keys are not in pages. */
  readonly unconverted: number;
  /** First positions of batches of this process that were known. */
  readonly own: readonly Position[];
}

/** The keys of one run. */
class RunKeys {
  readonly #tables: KeyTable[] = [new KeyTable()];
  /** No key is missing, and none comes any more. */
  isComplete = false;
  size = 0;

  /** Adds the keys of events that follow each other; two zeros stand for an event that is not there. */
  addAll(keys: Uint32Array, first: Position): void {
    this.size += keys.length / 2;
    for (let from = 0; from * 2 < keys.length; ) {
      if (this.#tables.at(-1)!.isFull) this.#tables.push(new KeyTable());
      from = this.#tables.at(-1)!.add(keys, from, first + from);
    }
  }

  /** See `KeyTable.find`. */
  find(keys: Uint32Array, first: number, found: Map<number, Position[]>): void {
    for (const table of this.#tables) table.find(keys, first, found);
  }

  /** See `KeyTable.slices`. */
  *slices(): Generator<Uint32Array> {
    for (const table of this.#tables) yield* table.slices();
  }
}

/**
 * The keys of all runs that are not in pages yet, of all nodes, in the memory of this one. It is exact as far as the rows of key_log up to
 * `#since`, which come in the order of their commits; `add_keys` looks at the others, and refuses a batch that shares a key with them.
 *
 * A crash of the server, or the end of a primary, may undo commits that this node has seen: batches let go of their locks before they are
 * synced. Their numbers are then given anew. So the last known row is asked for again with its tag, and when it is not there the memory
 * begins anew.
 */
export class KeyMemory {
  #runs = new Map<number, RunKeys>();
  #since = 0;
  #tag = 0;
  #unconverted = 0;
  /** Rises when the memory begins anew. */
  #generation = 0;
  /** Batches of this process, until their row is passed. */
  readonly #own = new Map<Position, OwnKeys>();
  /** Called when the memory begins anew. */
  readonly #onReset: () => void;

  constructor(onReset: () => void) {
    this.#onReset = onReset;
  }

  /** A batch of this process is about to send its keys. */
  begin(own: OwnKeys): void {
    this.#own.set(own.first, own);
  }

  /** A batch was committed. */
  commit(own: OwnKeys): void {
    if (!own.isKnown) this.#know(own);
  }

  /** Nothing of a batch was written, and never will be. */
  drop(own: OwnKeys): void {
    // A crash may have given its positions anew.
    if (this.#own.get(own.first) === own) this.#own.delete(own.first);
  }

  /**
   * Reads what was committed since the last call. Resolves to what `look` returns, which is called while the memory is as the view says.
   */
  async catchUp<Found>(read: Transaction, look: (view: KeyView) => Found): Promise<Found> {
    for (;;) {
      const [since, tag, before, generation] = [this.#since, this.#tag, this.#unconverted, this.#generation];
      const rows = await read.rows<TailRow>(TAIL, [since, read.process, [...this.#own.keys()]]);
      if (generation !== this.#generation) continue;
      const [first] = rows as [TailRow];
      const isAnother = since > 0 && (first.seq !== since || first.tag !== tag);
      if (isAnother || first.unconverted < before) {
        // The question may have waited until its row had become pages, and another one have passed that row meanwhile.
        if (since === this.#since) this.#reset();
        continue;
      }
      // An answer that comes late knows of fewer conversions than this node.
      const unconverted = Math.max(this.#unconverted, first.unconverted);
      for (const row of rows)
        if (row.seq !== null && row.seq > this.#since) this.#absorb(row, read.process, unconverted);
      if (rows.length === SLICE_ROWS) continue;
      this.#unconverted = unconverted;
      for (const [run, keys] of this.#runs) {
        // A run that is no longer open when its last row is known has all its keys here.
        if (run >= unconverted && run < first.open) keys.isComplete = true;
        else if (run < unconverted && !keys.isComplete) this.#runs.delete(run);
      }
      const own = [...this.#own.values()].filter(({ isKnown }) => isKnown).map((one) => one.first);
      return look({ since: this.#since, unconverted, own });
    }
  }

  /** First positions of batches of this process that `add_keys` need not look at. `isFirstTry`: those whose turn is not over share no key. */
  excluded({ own }: KeyView, isFirstTry: boolean): Position[] {
    if (!isFirstTry) return [...own];
    const apart = [...this.#own.values()].filter(({ isFree }) => !isFree).map(({ first }) => first);
    return [...own, ...apart];
  }

  /** Positions of keys in all runs that are here, by the index of the key; of those from the index `first` on. */
  find(keys: Uint32Array, first: number): Map<number, Position[]> {
    const found = new Map<number, Position[]>();
    for (const run of this.#runs.values()) run.find(keys, first, found);
    return found;
  }

  /** All keys of a run as pairs of words, some thousand at a time; undefined when some are not here. */
  slicesOf(run: number): Iterable<Uint32Array> | undefined {
    const keys = this.#runs.get(run);
    return keys?.isComplete === true ? keys.slices() : undefined;
  }

  /** Full runs all of whose keys are here. */
  get complete(): ReadonlySet<number> {
    return new Set([...this.#runs].flatMap(([run, { isComplete }]) => (isComplete ? [run] : [])));
  }

  /** How many keys are here. */
  get size(): number {
    return [...this.#runs.values()].reduce((sum, { size }) => sum + size, 0);
  }

  /** Drops the keys of runs in pages up to this one. */
  forget(to: number): void {
    for (const run of this.#runs.keys()) if (run <= to && run < this.#unconverted) this.#runs.delete(run);
  }

  #absorb({ seq, tag, run, process, first, hashes }: TailRow, self: number, unconverted: number): void {
    const own = process === self ? this.#own.get(first) : undefined;
    if (own !== undefined) {
      if (!own.isKnown) this.#know(own);
      this.#own.delete(first);
    } else if (hashes !== null && run >= unconverted) this.#add(run, first, wordsOf(hashes));
    [this.#since, this.#tag] = [seq!, tag];
  }

  #know(own: OwnKeys): void {
    this.#add(own.run, own.first, own.keys);
    own.isKnown = true;
  }

  #add(run: number, first: Position, keys: Uint32Array): void {
    const of = this.#runs.get(run) ?? new RunKeys();
    this.#runs.set(run, of);
    of.addAll(keys, first);
  }

  #reset(): void {
    this.#generation++;
    this.#runs = new Map();
    [this.#since, this.#tag, this.#unconverted] = [0, 0, 0];
    for (const own of this.#own.values()) own.isKnown = false;
    this.#onReset();
  }
}
