import {
  isDatabase,
  type MigrationMoment,
  type MovePreview,
  moveInstallation,
  previewMove,
  StorageError,
} from '@millrace/server/migration';
import { count, counted, span } from './column.ts';
import type { ExitCode, RunContext } from './run-context.ts';

export interface MigrateOptions {
  readonly from: string;
  readonly to: string;
  readonly dryRun?: boolean;
  readonly json?: boolean;
}

/**
 * Events and profiles that are copied and compared in a second, on two cores that both places share: for the
 * first guess.
 */
const EVENTS_PER_SECOND = 12_000;
const PROFILES_PER_SECOND = 5000;

/** Milliseconds between two lines of progress. */
const ON_A_TERMINAL = 200;
const IN_A_LOG = 10_000;

/**
 * `millrace migrate --from … --to …`: moves everything of an installation from a data folder into a database.
 * Needs no server. spec/contract.md, "Verbs that change".
 */
export async function migrate(options: MigrateOptions, context: RunContext): Promise<ExitCode> {
  const { from, to, dryRun = false } = options;
  const refusal = refusalOf(options);
  if (refusal !== undefined) {
    context.err.write(`millrace: ${refusal}.\n`);
    return 2;
  }
  try {
    if (dryRun) preview(await previewMove({ from, to }), options, context);
    else await move(options, context);
    return 0;
  } catch (error) {
    if (!(error instanceof StorageError)) throw error;
    context.err.write(`millrace: ${error.reason}.\n`);
    return 1;
  }
}

/** Reason why an installation cannot move between these; undefined from a folder into a database. */
function refusalOf({ from, to }: MigrateOptions): string | undefined {
  if (!isDatabase(from))
    return isDatabase(to)
      ? undefined
      : 'both places are folders: copy one with millrace backup and millrace restore';
  if (isDatabase(to))
    return 'both places are databases: copy one with the tools of PostgreSQL (pg_dump, pg_basebackup)';
  return (
    'an installation moves into a database and not out of it any more: start on the old folder again while nothing was delivered from the ' +
    'database, and copy the events otherwise (millrace events --json, millrace send --file); "The way back" in docs/guide/from-one-machine-to-three.md ' +
    'says what repeats then'
  );
}

function preview(found: MovePreview, { json }: MigrateOptions, context: RunContext): void {
  if (json) {
    context.out.write(`${JSON.stringify({ ...found, seconds: secondsFor(found) })}\n`);
    return;
  }
  context.out.write(`${whatText(found)}\nIt would take about ${span(secondsFor(found) * 1000)}.\n`);
  context.err.write(leftBehindText(found));
}

function whatText({ from, to, events, bytes, waiting, dead, profiles }: MovePreview): string {
  const things = [
    counted(events, 'event'),
    waitingText(waiting),
    counted(dead, 'dead letter'),
    counted(profiles, 'profile'),
  ];
  return (
    `${things.join(', ')}, with settings, tokens, histories, suppressions and the ledger (${megabytes(bytes)} in all): ` +
    `from ${from} to ${to}.`
  );
}

function waitingText(n: number): string {
  return `${count(n)} ${n === 1 ? 'delivery that waits' : 'deliveries that wait'}`;
}

function leftBehindText({ leftBehind }: Pick<MovePreview, 'leftBehind'>): string {
  return ['Not moved:', ...leftBehind.map((sentence) => `  ${sentence}.`), ''].join('\n');
}

function secondsFor({ events, profiles }: MovePreview): number {
  return Math.max(1, Math.ceil(events / EVENTS_PER_SECOND + profiles / PROFILES_PER_SECOND));
}

function megabytes(bytes: number): string {
  return `${count(Math.ceil(bytes / 1024 / 1024))} MB`;
}

async function move({ from, to, json }: MigrateOptions, context: RunContext): Promise<void> {
  let isStopped = false;
  void context.stopping.then(() => {
    isStopped = true;
  });
  const progress = new ProgressLine(context);
  const begin = (found: MovePreview) => context.err.write(`${whatText(found)}\n${leftBehindText(found)}`);
  try {
    const { leftBehind: _, ...moved } = await moveInstallation({
      from,
      to,
      begin,
      watch: (moment) => {
        progress.show(moment);
      },
      isStopped: () => isStopped,
    });
    progress.end();
    if (json) context.out.write(`${JSON.stringify(moved)}\n`);
    else context.out.write(endText(moved));
    context.err.write(
      `${moved.from} is as it was, and no start takes it any more. Start Millrace with that address under "database".\n`,
    );
  } finally {
    progress.end();
  }
}

type Moved = Omit<Awaited<ReturnType<typeof moveInstallation>>, 'leftBehind'>;

function endText({ rows, waiting, balance, unreadable, leftOut, wasComplete, from, to }: Moved): string {
  if (wasComplete) return `${from} was moved to ${to} before; nothing was left to do.\n`;
  const lines = [
    `${counted(rows.events ?? 0, 'event')}, ${waitingText(waiting)} and ${counted(rows.profiles ?? 0, 'profile')} are in ${to}. ` +
      'Everything was read again, and it is what was written.',
    balance === 0
      ? 'The ledger balances.'
      : `The ledger does not balance, there as here: ${count(balance)} deliveries (docs/reference/ledger.md).`,
  ];
  if (unreadable > 0)
    lines.push(
      `${count(unreadable)} events could not be read. They are unreadable there too: what is owed of them becomes dead letters.`,
    );
  if (leftOut > 0)
    lines.push(
      `${count(leftOut)} damaged rows were left out, which a start would leave out too. Those of profiles are made anew by millrace profiles rebuild.`,
    );
  return `${lines.join('\n')}\n`;
}

/** A line of progress: drawn again on a terminal, and written now and then in a log. */
class ProgressLine {
  readonly #context: RunContext;
  readonly #every: number;
  #drawnAt = performance.now();
  #isDrawn = false;
  /** Begin of the step under way, and the number of its events. */
  #step: { readonly name: string; readonly at: number; readonly events: number } | undefined;

  constructor(context: RunContext) {
    this.#context = context;
    this.#every = context.err.isTTY ? ON_A_TERMINAL : IN_A_LOG;
  }

  show(moment: MigrationMoment): void {
    const now = performance.now();
    if (this.#step?.name !== moment.step) this.#step = { name: moment.step, at: now, events: moment.events };
    if (now - this.#drawnAt < this.#every) return;
    this.#drawnAt = now;
    const text = this.#textOf(moment, now);
    this.#context.err.write(this.#context.err.isTTY ? `\r\u001b[K${text}` : `${text}\n`);
    this.#isDrawn = this.#context.err.isTTY;
  }

  /** Removes the line. */
  end(): void {
    if (this.#isDrawn) this.#context.err.write('\r\u001b[K');
    this.#isDrawn = false;
  }

  #textOf({ step, part, what, rows, events, ofEvents }: MigrationMoment, now: number): string {
    if (part !== 'events') return `${step}: ${what}, ${count(rows)}`;
    const begun = this.#step!;
    const rate = ((events - begun.events) / Math.max(1, now - begun.at)) * 1000;
    const left = rate > 0 ? `, ${span(((ofEvents - events) / rate) * 1000)} left of this step` : '';
    return `${step}: ${count(events)} of ${count(ofEvents)} events, ${count(Math.round(rate))}/s${left}`;
  }
}
