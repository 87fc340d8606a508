import { constants } from 'node:fs';
import { appendFile, open, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { DAY, isoTime, type Time } from '../../model/time.ts';
import type { TimelineLevel, TimelineRow, TimelineStore } from '../../ports/timeline-store.ts';

const OWNER_ONLY = 0o600;
/** As `a`, but no link in the place of the file is followed. */
const APPEND = constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT | (constants.O_NOFOLLOW ?? 0);
const FILE_NAME = /^timeline-(?:minute|tenMinutes)-(\d{4}-\d\d-\d\d)\.jsonl$/;
const ROW_START = '{"at":';

/**
 * The timeline as one file a day and level in the data folder, with one row of JSON a line. Files are only
 * appended to, on the threads of Node, so that a slow disk holds up no call. A crash in the middle of a line
 * loses that row: the next line begins with a line feed of its own.
 */
export class TimelineFiles implements TimelineStore {
  readonly #folder: string;
  readonly #isReplaced: () => boolean;
  /**
   * Files that this process has written to: the first line of each goes behind what a crash may have left.
   */
  readonly #begun = new Set<string>();

  /**
   * While `isReplaced`, the folder of this name may belong to another program, and nothing is written there.
   */
  constructor(folder: string, isReplaced: () => boolean = () => false) {
    this.#folder = folder;
    this.#isReplaced = isReplaced;
  }

  async append(level: TimelineLevel, row: TimelineRow): Promise<void> {
    if (this.#isReplaced()) throw new Error('the data folder is not that of this process any more');
    const path = this.#path(level, row.at);
    const { at, ...numbers } = row;
    // `at` comes first: see `timeOf`.
    const line = `${JSON.stringify({ at, ...numbers })}\n`;
    await appendFile(path, this.#begun.has(path) ? line : `\n${line}`, { mode: OWNER_ONLY, flag: APPEND });
    this.#begun.add(path);
  }

  async *read(level: TimelineLevel, from: Time, to: Time): AsyncIterable<TimelineRow> {
    for (let day = Math.floor(from / DAY) * DAY; day < to; day += DAY) {
      for await (const line of linesOf(this.#path(level, day))) {
        const at = timeOf(line);
        if (!(at >= from && at < to)) continue;
        const row = parseRow(line);
        if (row !== undefined) yield row;
      }
    }
  }

  async forgetBefore(time: Time): Promise<void> {
    for (const name of await readdir(this.#folder)) {
      const day = FILE_NAME.exec(name)?.[1];
      if (day === undefined || Date.parse(day) + DAY > time) continue;
      const path = join(this.#folder, name);
      await rm(path, { force: true });
      this.#begun.delete(path);
    }
  }

  #path(level: TimelineLevel, at: Time): string {
    return join(this.#folder, `timeline-${level}-${isoTime(at).slice(0, 10)}.jsonl`);
  }
}

/** The lines of a file, read piece by piece; none where there is no file. */
async function* linesOf(path: string): AsyncIterable<string> {
  let file: Awaited<ReturnType<typeof open>>;
  try {
    file = await open(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return;
    throw error;
  }
  // The lines close the file, also when the reader stops early.
  yield* file.readLines();
}

/** Read without parsing the row, because most rows of a day are not asked for. NaN for what is no row. */
function timeOf(line: string): Time {
  if (!line.startsWith(ROW_START)) return Number.NaN;
  return Number(line.slice(ROW_START.length, line.indexOf(',', ROW_START.length)));
}

function parseRow(line: string): TimelineRow | undefined {
  try {
    return JSON.parse(line) as TimelineRow;
  } catch {
    return undefined;
  }
}
