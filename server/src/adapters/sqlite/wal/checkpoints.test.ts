import { appendFileSync, cpSync, mkdtempSync, readdirSync, renameSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { until } from '../../../../test/support/until.ts';
import { walPath } from '../data-folder/files.ts';
import { openDatabase } from '../database.ts';
import { Checkpoints } from './checkpoints.ts';

describe('the checkpointer', () => {
  let folder: string;
  let database: DatabaseSync;
  let checkpoints: Checkpoints;

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'millrace-checkpoints-'));
    database = openDatabase(folder, { isNew: true });
    database.exec('create table filled(bytes)');
    checkpoints = new Checkpoints(database, folder);
  });

  afterEach(async () => {
    await checkpoints.stop();
    database.close();
    rmSync(folder, { recursive: true });
  });

  function commit(bytes: number): void {
    database.prepare('insert into filled values (zeroblob(?))').run(bytes);
    checkpoints.afterCommit();
  }

  /** The number of pages in the log that are not copied yet. */
  function pagesLeft(): number {
    const row = database.prepare('pragma wal_checkpoint(noop)').get() as {
      log: number;
      checkpointed: number;
    };
    return row.log - row.checkpointed;
  }

  it('starts when there is enough to copy, and copies it', async () => {
    commit(100_000);
    expect(checkpoints.isRunning).toBe(false);
    commit(450_000);
    expect(checkpoints.isRunning).toBe(true);
    expect(pagesLeft()).toBeGreaterThan(100);
    await until('all of it is copied', () => pagesLeft() === 0);
  });

  it('copies a log that has begun anew only when it is long again, however long its file is', async () => {
    commit(17_000_000);
    // The writer copies the rest of it, and the next commit begins anew.
    const afterSome = (count: () => number) => {
      for (let n = 0; n < 64; n++) commit(100);
      return count();
    };
    const pages = () => (database.prepare('pragma wal_checkpoint(noop)').get() as { log: number }).log;
    await until('the log has begun anew', () => afterSome(pages) < 1000);
    // The checkpointer may copy just then, which it does once a second.
    await until('commits are left in the log', () => afterSome(pagesLeft) >= 64);
  });

  it('closes the file at every pause, however soon after a resume', () => {
    commit(1_200_000);
    for (let nth = 0; nth < 5000; nth++) {
      checkpoints.pause();
      checkpoints.resume(database);
    }
    checkpoints.pause();
    expect(() => checkpoints.pause()).not.toThrow();
    checkpoints.resume(database);
  });

  it('touches no other files that have come into the place of the open ones', async () => {
    const [place, away] = [folder, `${folder}-away`];
    commit(100_000);
    renameSync(place, away);
    cpSync(away, place, { recursive: true });
    try {
      appendFileSync(walPath(place), Buffer.alloc(1_000_000));
      const copies = readdirSync(place).map((name) => [name, statSync(join(place, name)).size]);
      commit(1000);
      expect(checkpoints.isRunning).toBe(true);
      await new Promise((passed) => setTimeout(passed, 500));
      await checkpoints.stop();
      expect(readdirSync(place).map((name) => [name, statSync(join(place, name)).size])).toEqual(copies);
    } finally {
      rmSync(place, { recursive: true });
      renameSync(away, place);
    }
  });

  it('need not run when the log is emptied or the file is reopened', () => {
    commit(1000);
    checkpoints.pause();
    checkpoints.resume(database);
    expect(checkpoints.truncateWal()).toBe(true);
    expect(checkpoints.isRunning).toBe(false);
  });
});
