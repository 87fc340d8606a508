import { randomBytes } from 'node:crypto';
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { crc32 } from 'node:zlib';
import type { Position } from '../../model/event.ts';
import type { Duration, Monotonic } from '../../model/time.ts';
import type { ClockMark } from '../../ports/clock.ts';
import { type Producer, StorageError } from '../../ports/event-log.ts';
import { commitsIn } from './earlier-slots.ts';

/** Facts about this installation, by name, each with a checksum. */
export class InstallationFacts {
  readonly #get: StatementSync;
  readonly #put: StatementSync;

  constructor(database: DatabaseSync) {
    this.#get = database.prepare('select value, sum from installation where name = ?');
    this.#put = database.prepare(
      `insert into installation(name, value, sum) values (?, ?, ?)
       on conflict do update set value = excluded.value, sum = excluded.sum`,
    );
  }

  /** Answers `damaged` where the checksum does not hold, and undefined where the fact was never written. */
  number(name: string): number | 'damaged' | undefined {
    const value = this.#value(name);
    return value === undefined || typeof value === 'number' ? value : 'damaged';
  }

  bytes(name: string): Uint8Array | 'damaged' | undefined {
    const value = this.#value(name);
    return value === undefined || value instanceof Uint8Array ? value : 'damaged';
  }

  put(name: string, value: number | Uint8Array): void {
    this.#put.run(name, value, factChecksum(name, value));
  }

  #value(name: string): unknown {
    const row = this.#get.get(name) as { value: number | Uint8Array; sum: number } | undefined;
    if (row === undefined) return undefined;
    return row.sum === factChecksum(name, row.value) ? row.value : 'damaged';
  }
}

export function factChecksum(name: string, value: number | Uint8Array): number {
  return crc32(typeof value === 'number' ? String(value) : value, crc32(name));
}

export interface InstallationIdentity {
  /** Number of this start. */
  readonly epoch: number;
  /** Secret of the key hash. */
  readonly keySecret: Uint8Array;
  /** Tells this store from every other. Copies and backups share it. */
  readonly id: string;
  /** See `Store.isBounded`. */
  readonly isBounded: boolean;
}

const BOUNDED = 'bounded';

function markBounded(facts: InstallationFacts): void {
  facts.put(BOUNDED, 1);
}

/** Where the fact is damaged nothing is let go. */
export function isBoundedIn(facts: InstallationFacts): boolean {
  return facts.number(BOUNDED) === 1;
}

/**
 * Called once per start: increments the epoch. The very first start makes the secret of the key hash and the
 * id.
 */
export function startEpoch(database: DatabaseSync): InstallationIdentity {
  const facts = new InstallationFacts(database);
  database.exec('begin immediate');
  const known = facts.bytes('key_secret');
  if (known === 'damaged') {
    throw new StorageError(
      'millrace.db is damaged: without the secret of its key hash no duplicate can be recognised; restore a backup with ' +
        'millrace restore',
    );
  }
  const keySecret = known ?? randomBytes(8);
  if (known === undefined) {
    facts.put('key_secret', keySecret);
    markBounded(facts);
  }
  const found = facts.bytes('id');
  // A damaged id may be replaced: only the high-water mark refers to it, and it is written anew.
  const id = found === undefined || found === 'damaged' ? randomBytes(16) : found;
  if (id !== found) facts.put('id', id);
  const last = facts.number('epoch') ?? 0;
  const epoch = (last === 'damaged' ? highestOwner(database) : last) + 1;
  facts.put('epoch', epoch);
  database.exec('commit');
  return { epoch, keySecret, id: toHex(id), isBounded: isBoundedIn(facts) };
}

/** The identity of the store in a file, where it says so, and how far it has come. */
export interface ObservedProgress {
  readonly id?: string | 'damaged';
  /** At least as many, where the place that counts them is damaged. */
  readonly commits: number;
  readonly isCountDamaged?: boolean;
}

/** Reads a file of any format, also one that has no table yet. */
export function readProgress(database: DatabaseSync): ObservedProgress {
  const has = database.prepare(`select 1 from sqlite_schema where type = 'table' and name = ?`);
  const row =
    has.get('installation') && database.prepare(`select * from installation where name = 'id'`).get();
  const { commits, isWhole: isCounted } = commitsIn(database);
  const count = isCounted ? { commits } : { commits, isCountDamaged: true };
  if (!row) return count;
  const { value, sum } = row as unknown as { value: Uint8Array; sum: number };
  const isWhole = value instanceof Uint8Array && sum === factChecksum('id', value);
  return { ...count, id: isWhole ? toHex(value) : 'damaged' };
}

function toHex(id: Uint8Array): string {
  return Buffer.from(id).toString('hex');
}

/** The highest epoch that still owns deliveries. */
function highestOwner(database: DatabaseSync): number {
  const { owner } = database.prepare('select max(owner) as owner from pending').get() as {
    owner: number | null;
  };
  return owner ?? 0;
}

/** How far maintenance has come. Stored in the file, so that a restart goes on from there. */
export class Watermarks {
  readonly #facts: InstallationFacts;
  #compactedTo: Position;
  #retainedFrom: Position;
  #keysFrom: Position;
  #verifyBegan: Monotonic;
  #verifiedTo: Position;
  /** Rows of lower positions may stand without checksums: format 1 wrote them. */
  readonly checksumsFrom: Position;
  /** Events of lower positions stand without the hash of their anonymousId: format 4 wrote them. */
  readonly anonymousFrom: Position;
  #clocks: ClockMark | undefined;
  #clocksWritten: ClockMark | undefined;

  constructor(database: DatabaseSync) {
    this.#facts = new InstallationFacts(database);
    // Zero instead of a damaged fact is right, only slower: maintenance starts over and changes nothing
    // twice.
    const read = (name: string, otherwise = 0) => {
      const value = this.#facts.number(name) ?? 0;
      return value === 'damaged' ? otherwise : value;
    };
    this.#compactedTo = read('sealed_to');
    this.#retainedFrom = read('retained_from');
    this.#keysFrom = read('keys_from');
    this.#verifyBegan = read('verify_began');
    this.#verifiedTo = read('verified_to');
    this.checksumsFrom = read('sums_from', Number.POSITIVE_INFINITY);
    this.anonymousFrom = read('anonymous_from', Number.POSITIVE_INFINITY);
    this.#clocks = readClocks(database);
    this.#clocksWritten = this.#clocks;
  }

  /** The latest reading of the clocks. */
  set clocks(mark: ClockMark) {
    this.#clocks = mark;
    // A set wall clock is worth a commit of its own; any other reading is written with the next commit.
    if (aheadIn(mark) !== aheadIn(this.#clocksWritten)) this.writeClocks();
  }

  writeClocks(): void {
    if (this.#clocks === undefined || this.#clocks === this.#clocksWritten) return;
    this.#facts.put(CLOCKS_FACT, Buffer.from(JSON.stringify(this.#clocks)));
    this.#clocksWritten = this.#clocks;
  }

  /** Keys of events below are gone. */
  get keysFrom(): Position {
    return this.#keysFrom;
  }

  set keysFrom(position: Position) {
    this.#keysFrom = position;
    this.#facts.put('keys_from', position);
  }

  /** When the last verification of everything stored began. */
  get verifyBegan(): Monotonic {
    return this.#verifyBegan;
  }

  set verifyBegan(time: Monotonic) {
    this.#verifyBegan = time;
    this.#facts.put('verify_began', time);
  }

  /** How far the running verification has come; 0 when none runs. */
  get verifiedTo(): Position {
    return this.#verifiedTo;
  }

  set verifiedTo(position: Position) {
    this.#verifiedTo = position;
    this.#facts.put('verified_to', position);
  }

  /** Chunks below are merged. */
  get compactedTo(): Position {
    return this.#compactedTo;
  }

  set compactedTo(position: Position) {
    this.#compactedTo = position;
    this.#facts.put('sealed_to', position);
  }

  /**
   * Events below this position are past their retention. Their remains are kept for dead letters and
   * messageIds.
   */
  get retainedFrom(): Position {
    return this.#retainedFrom;
  }

  set retainedFrom(position: Position) {
    this.#retainedFrom = position;
    this.#facts.put('retained_from', position);
    if (this.#compactedTo < position) this.compactedTo = position;
  }
}

const CLOCKS_FACT = 'clocks';

/** The last stored reading of the clocks; undefined where there is none or it is damaged. */
export function readClocks(database: DatabaseSync): ClockMark | undefined {
  const written = new InstallationFacts(database).bytes(CLOCKS_FACT);
  if (written === undefined || written === 'damaged') return undefined;
  return JSON.parse(Buffer.from(written).toString()) as ClockMark;
}

function aheadIn(mark: ClockMark | undefined): Duration | undefined {
  return mark?.steps.at(-1)?.ahead;
}

/**
 * The highest number that each producer has appended, written in the transaction of its batch. There are two
 * or three producers, so each number is a fact of the installation, with a checksum.
 *
 * A damaged number counts as 0: the events are then recognised by their messageIds, for as long as those are
 * remembered. An event too many is better than one too few.
 */
export class ProducerSequences {
  readonly #facts: InstallationFacts;
  readonly #names: StatementSync;

  constructor(database: DatabaseSync) {
    this.#facts = new InstallationFacts(database);
    this.#names = database.prepare(
      `select name from installation where name >= '${PRODUCER}' and name < '${PRODUCER}\x7f' order by name`,
    );
  }

  /** Every producer with its highest number, by name. */
  all(): { readonly name: string; readonly sequence: number }[] {
    return this.#names.all().map((row) => {
      const name = (row as { name: string }).name.slice(PRODUCER.length);
      return { name, sequence: this.highest(name) };
    });
  }

  /** Sets the number of a producer. */
  put(producer: string, sequence: number): void {
    this.#facts.put(factOf(producer), sequence);
  }

  highest(producer: string): number {
    const value = this.#facts.number(factOf(producer));
    return value === undefined || value === 'damaged' ? 0 : value;
  }

  /**
   * Moves the number of the batch's producer. The number of events at the beginning of the batch that it had
   * appended before.
   */
  advance(producer: Producer, events: number): number {
    const highest = this.highest(producer.name);
    const last = producer.sequence + events - 1;
    if (last > highest) this.put(producer.name, last);
    return Math.min(events, Math.max(0, highest - producer.sequence + 1));
  }
}

/** Before the names of producers among the facts. */
const PRODUCER = 'producer:';

function factOf(producer: string): string {
  return `${PRODUCER}${producer}`;
}
