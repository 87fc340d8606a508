import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openDatabase } from '../../src/adapters/sqlite/database.ts';
import { DiskFaults, HAS_DISK_FAULTS, sayWhatIsLeftOut } from '../support/disk-faults/faults.ts';
import { IS_LONG } from '../support/runs.ts';
import { passed } from './passed.ts';

/** Number of commits in the file, and of further ones in the write-ahead log alone. */
const COMMITS = 20;
const KINDS = ['open', 'read', 'write', 'sync', 'truncate', 'unlink'] as const;
const ERRORS = ['EIO', 'ENOSPC', 'EROFS'] as const;
/** Upper bound on the calls of any one kind that an opening makes. */
const CALLS = 14;
/**
 * Numbers of failures in a row: some calls are tried again another way, and once more during the clean-up.
 */
const TIMES = IS_LONG ? [1, 2, 3, 4, 5, 6] : [1, 2, 6];

/** The errors of a failure: the gate tries one of them, by turns. */
const errorsOf = (nth: number, times: number) =>
  IS_LONG ? ERRORS : [ERRORS[(nth + times) % ERRORS.length]!];

sayWhatIsLeftOut('openings of the file that fail');

describe.runIf(HAS_DISK_FAULTS)('opening the file', () => {
  let place: string;
  let before: string;
  let folder: string;

  beforeEach(() => {
    place = mkdtempSync(join(tmpdir(), 'millrace-opening-'));
    before = join(place, 'before');
    folder = join(place, 'data');
    mkdirSync(before);
    const database = openDatabase(before, { isNew: true });
    database.exec('create table proof(n integer primary key, bytes blob)');
    const commit = database.prepare('insert into proof(bytes) values (zeroblob(3000))');
    for (let n = 0; n < COMMITS; n++) commit.run();
    database.exec('pragma wal_checkpoint(truncate)');
    for (let n = 0; n < COMMITS; n++) commit.run();
    // As a crash would leave it.
    cpSync(before, folder, { recursive: true });
    database.close();
    rmSync(before, { recursive: true });
    cpSync(folder, before, { recursive: true });
  });

  afterEach(() => rmSync(place, { recursive: true }));

  it('loses nothing that is in the write-ahead log, whichever calls fail, and however many in a row', async () => {
    const disk = new DiskFaults(folder);
    const opener = fork(fileURLToPath(new URL('../support/disk-faults/opener.ts', import.meta.url)), {
      env: { ...process.env, ...disk.env },
    });
    const tally = { rounds: 0, fired: 0, refused: 0 };
    try {
      for (const kind of KINDS) {
        for (let nth = 1; nth <= CALLS; nth++) {
          for (const times of TIMES) {
            for (const error of errorsOf(nth, times)) {
              rmSync(folder, { recursive: true });
              cpSync(before, folder, { recursive: true });
              const had = disk.failed();
              disk.fail([kind], { with: error, nth, times });
              const said = await open(opener, folder);
              disk.heal();
              tally.rounds++;
              if (disk.failed() > had) tally.fired++;
              if (said !== 'opened') tally.refused++;
              expect(commitsIn(folder), JSON.stringify({ kind, error, nth, times, said })).toBe(2 * COMMITS);
            }
          }
        }
      }
    } finally {
      opener.kill('SIGKILL');
      disk.remove();
    }
    expect(tally.refused).toBeGreaterThan(tally.rounds / 10);
    passed('openings that fail', { ...tally, lost: 0 });
  });
});

async function open(opener: ChildProcess, folder: string): Promise<unknown> {
  const answer = once(opener, 'message');
  opener.send(folder);
  const [said] = (await answer) as [unknown];
  return said;
}

function commitsIn(folder: string): number {
  const database = new DatabaseSync(join(folder, 'millrace.db'));
  try {
    return (database.prepare('select count(*) as n from proof').get() as { n: number }).n;
  } finally {
    database.close();
  }
}
