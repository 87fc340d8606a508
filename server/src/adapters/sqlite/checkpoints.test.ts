import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { Checkpoints } from './checkpoints.ts';
import { openDatabase } from './database.ts';

it('the checkpointer gives up the file each time it is told to, however soon after it was told to go on', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-checkpoints-'));
  const database = openDatabase(folder);
  const checkpoints = new Checkpoints(database, folder);
  try {
    for (let nth = 0; nth < 5000; nth++) {
      checkpoints.pause();
      checkpoints.resume(database);
    }
    checkpoints.pause();
    expect(() => checkpoints.pause()).not.toThrow();
    checkpoints.resume(database);
  } finally {
    await checkpoints.stop();
    database.close();
    rmSync(folder, { recursive: true });
  }
});
