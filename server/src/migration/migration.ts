import { defined } from '../model/json.ts';
import type { ClockMark } from '../ports/clock.ts';
import { StorageError } from '../ports/event-log.ts';
import {
  type EventRow,
  INSTALLATION_PARTS,
  type InstallationPart,
  type InstallationRow,
  type InstallationSource,
  type InstallationTables,
  type InstallationTarget,
  type MigrationProgress,
  type PartCursor,
} from '../ports/installation.ts';
import { checksumOfRows, EMPTY_CHECKSUM, hasEvents } from './checksums.ts';
import type { MigrationMoment, MigrationReport } from './contract.ts';

export interface MigrationOptions {
  readonly source: InstallationSource;
  readonly target: InstallationTarget;
  /** The clock that the times of the source are of, as it stands now. */
  readonly clock: ClockMark;
  /** Events of the source, about. */
  readonly ofEvents: number;
  /** Called after each page. */
  readonly watch?: (moment: MigrationMoment) => void;
  /** Asked between two pages: whether to stop and let a later run go on. */
  readonly isStopped?: () => boolean;
}

/** A run was asked to stop. Nothing is lost: the next one goes on. */
class MigrationStoppedError extends StorageError {}

/**
 * Moves an installation from the embedded engine into a database.
 *
 * ```
 *   copying ──all rows written──▶ copied ──read again, the same──▶ verified ──source marked──▶ complete
 *      ▲  │                          │                                │
 *      └──┴── killed: the next run goes on behind the last page ──────┘
 * ```
 *
 * Each page is written with the progress in one commit, so that a row is neither left out nor written twice.
 * The source is marked before the target can be started: at no moment could both deliver. Rejects with a
 * `StorageError`.
 */
export async function migrate(options: MigrationOptions): Promise<MigrationReport> {
  const { source, target, clock } = options;
  const state = await source.state();
  const movedTo = await source.movedTo();
  if (movedTo !== undefined && movedTo !== target.place) throw movedError(source.place, movedTo);
  const { identity, place } = source;
  const begun = await target.begin({ ...identity, place, clock, state, marks: await source.marks() });
  if (movedTo !== undefined && begun.phase !== 'verified' && begun.phase !== 'complete')
    throw new StorageError(
      `${source.place} was moved to ${movedTo}, which does not hold it any more: bring that back from its backup`,
    );
  if (begun.phase === 'complete') return reportOf(begun, source, { waiting: 0, balance: 0 });
  const copied = await copyAll(begun, options).catch(goingOn);
  const { verified, sums } = await compareAll(copied, options);
  if ((await source.state()) !== state)
    throw new StorageError(
      `${source.place} was used while it was moved: empty ${target.place}, and begin anew`,
    );
  await source.markMoved(target.place);
  await target.complete({ ...verified, phase: 'complete' });
  return reportOf(verified, source, sums);
}

function movedError(place: string, to: string): StorageError {
  return new StorageError(`${place} was moved to ${to} before: move from there`);
}

function reportOf(
  { phase, rows, messageIds, unreadable, leftOut }: MigrationProgress,
  source: InstallationSource,
  sums: DeliverySums,
): MigrationReport {
  const leftBehind = source.leftBehind();
  return { rows, messageIds, unreadable, leftOut, ...sums, wasComplete: phase === 'complete', leftBehind };
}

const PARTS = Object.keys(INSTALLATION_PARTS) as InstallationPart[];

/** Throws the error of a copy that ended early, with what to do. */
function goingOn(error: unknown): never {
  if (!(error instanceof StorageError) || error instanceof MigrationStoppedError) throw error;
  throw new StorageError(
    `${error.reason}; then run the same command again, and it goes on where this one ended`,
    {
      cause: error,
    },
  );
}

/** Writes what is missing in the target, part by part. */
async function copyAll(begun: MigrationProgress, options: MigrationOptions): Promise<MigrationProgress> {
  if (begun.phase !== 'copying') return begun;
  let progress = begun;
  const from = begun.part === undefined ? 0 : PARTS.indexOf(begun.part);
  for (const part of PARTS.slice(from)) {
    const after = part === begun.part ? begun.after : undefined;
    progress = await copyPart(part, { ...withoutCursor(progress), part, ...defined({ after }) }, options);
  }
  const copied: MigrationProgress = { ...withoutPart(progress), phase: 'copied' };
  await options.target.advance(copied);
  return copied;
}

async function copyPart(
  part: InstallationPart,
  begun: MigrationProgress,
  { source, target, ofEvents, watch, isStopped }: MigrationOptions,
): Promise<MigrationProgress> {
  let progress = begun;
  const { leftOut } = begun;
  const unreadableBefore = source.unreadableRows;
  for (let after: PartCursor | undefined = begun.after; ; ) {
    if (isStopped?.()) throw stoppedError();
    const { rows, next }: Awaited<ReturnType<typeof source.page>> = await source.page(part, after);
    progress = {
      ...added(withoutCursor(progress), part, rows),
      leftOut: leftOut + source.unreadableRows - unreadableBefore,
      ...defined({ after: next }),
    };
    // The end of a part stands in the progress of the next one: a part that is read again from its last row
    // on is empty.
    if (rows.length > 0)
      await target.write(part, rows, next === undefined ? endOf(progress, part) : progress);
    watch?.({ step: 'copying', part, ...countsIn(progress, part), ofEvents });
    if (next === undefined) return progress;
    after = next;
  }
}

/** The progress when a part has come to its end: the next run begins with the part behind it. */
function endOf(progress: MigrationProgress, part: InstallationPart): MigrationProgress {
  const next = PARTS[PARTS.indexOf(part) + 1];
  return next === undefined
    ? { ...withoutPart(progress), phase: 'copied' }
    : { ...withoutCursor(progress), part: next };
}

function countsIn({ rows }: MigrationProgress, part: InstallationPart) {
  return { what: WORDS[part], events: rows.events ?? 0, rows: rows[part] ?? 0 };
}

function withoutCursor({ after: _, ...progress }: MigrationProgress): MigrationProgress {
  return progress;
}

function withoutPart({ after: _, part: _part, ...progress }: MigrationProgress): MigrationProgress {
  return progress;
}

/** The progress with the rows of a page. */
function added(
  progress: MigrationProgress,
  part: InstallationPart,
  rows: readonly InstallationRow[],
): MigrationProgress {
  const checksum = checksumOfRows(progress.checksums[part] ?? EMPTY_CHECKSUM, part, rows);
  const ofEvents = part === 'events' ? countEvents(rows as readonly EventRow[]) : undefined;
  const n = (progress.rows[part] ?? 0) + (ofEvents?.events ?? rows.length);
  return {
    ...progress,
    rows: { ...progress.rows, [part]: n },
    checksums: { ...progress.checksums, [part]: checksum },
    messageIds: progress.messageIds + (ofEvents?.messageIds ?? 0),
    unreadable: progress.unreadable + (ofEvents?.unreadable ?? 0),
  };
}

function countEvents(rows: readonly EventRow[]) {
  const counts = { events: 0, messageIds: 0, unreadable: 0 };
  for (const row of rows) {
    if (row.kind === 'unreadable') counts.unreadable += row.n;
    else if (hasEvents(row)) {
      for (const source of row.sources) if (source !== 0) counts.events++;
      for (let at = 0; at < row.keys.length; at += 2)
        if (row.keys[at] !== 0 || row.keys[at + 1] !== 0) counts.messageIds++;
    }
  }
  return counts;
}

interface DeliverySums {
  readonly waiting: number;
  readonly balance: number;
}

/** Reads the target again and compares each part with what was meant. */
async function compareAll(
  copied: MigrationProgress,
  { target, ofEvents, watch, isStopped }: MigrationOptions,
): Promise<{ readonly verified: MigrationProgress; readonly sums: DeliverySums }> {
  const reader = await target.openReader();
  const books = new Books();
  let found: MigrationProgress = { ...copied, rows: {}, checksums: {}, messageIds: 0, unreadable: 0 };
  try {
    for (const part of PARTS) {
      for (let after: PartCursor | undefined; ; ) {
        if (isStopped?.()) throw stoppedError();
        const { rows, next }: Awaited<ReturnType<typeof reader.page>> = await reader.page(part, after);
        found = added(found, part, rows);
        books.add(part, rows);
        watch?.({ step: 'comparing', part, ...countsIn(found, part), ofEvents });
        if (next === undefined) break;
        after = next;
      }
      refuseDifference(part, { copied, found, place: target.place });
    }
  } finally {
    await reader.stop();
  }
  const verified: MigrationProgress = { ...copied, phase: 'verified' };
  if (copied.phase !== 'verified') await target.advance(verified);
  return { verified, sums: books.sums() };
}

interface Comparison {
  readonly copied: MigrationProgress;
  readonly found: MigrationProgress;
  readonly place: string;
}

function refuseDifference(part: InstallationPart, { copied, found, place }: Comparison): void {
  const isSame = (copied.checksums[part] ?? EMPTY_CHECKSUM) === (found.checksums[part] ?? EMPTY_CHECKSUM);
  const [meant, read] = [copied.rows[part] ?? 0, found.rows[part] ?? 0];
  if (isSame && meant === read) return;
  throw new StorageError(
    `${place} does not hold what was written to it (${WORDS[part]}: ${read} of ${meant}${meant === read ? ', with other content' : ''}): ` +
      'look after its disk and its memory, empty it, and begin anew; the source is as it was',
  );
}

/** Counters of deliveries that have ended, up to a reason. */
const ENDS: ReadonlySet<string> = new Set(['delivered', 'dead', 'dropped', 'erased']);

/** Sums of deliveries, from the counters and from the sets of what waits. */
class Books {
  #waiting = 0;
  #balance = 0;

  add(part: InstallationPart, rows: readonly InstallationRow[]): void {
    if (part === 'pending')
      for (const { n } of rows as readonly InstallationTables['pending'][]) this.#waiting += n;
    if (part !== 'ledger') return;
    for (const { scope, name, value } of rows as readonly InstallationTables['ledger'][]) {
      if (scope !== 'destination') continue;
      if (name === 'owed') this.#balance += value;
      else if (ENDS.has(name.split(':', 1)[0]!)) this.#balance -= value;
    }
  }

  sums(): DeliverySums {
    return { waiting: this.#waiting, balance: this.#balance - this.#waiting };
  }
}

function stoppedError(): MigrationStoppedError {
  return new MigrationStoppedError('stopped before its end: run it again, and it goes on');
}

/** The parts in the words of an operator. */
const WORDS: Readonly<Record<InstallationPart, string>> = {
  records: 'sources, destinations, tokens and definitions',
  audit: 'changes of the settings',
  skipSets: 'plans of events',
  plans: 'plans of events',
  producers: 'numbers of events of audiences',
  events: 'events',
  endpoints: 'addresses of endpoints',
  acceptedRequests: 'accepted requests',
  failedRequests: 'failed requests',
  pending: 'deliveries that wait',
  deadLetters: 'dead letters',
  origins: 'progress of replays',
  ledger: 'the ledger',
  endpointHealth: 'health of endpoints',
  regulations: 'deletions and suppressions',
  regulationSubjects: 'users of deletions under way',
  suppressions: 'suppressed users',
  profileCursor: 'profiles',
  profiles: 'profiles',
  identities: 'ids of profiles',
  timers: 'windows of definitions',
  outbox: 'events of audiences',
  merges: 'merges of profiles',
  profileDocuments: 'progress of definitions',
};
