import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { readDiskUse } from './disk-use.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'millrace-disk-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

test('what uses the data folder is told by what its files hold', async () => {
  const files = {
    'millrace.db': 700,
    'millrace.db-shm': 30,
    'millrace.db-wal': 90,
    'users.db': 40,
    'users.db-wal': 5,
    'timeline-minute-2026-03-04.jsonl': 6,
    'timeline-tenMinutes-2026-03-04.jsonl': 1,
    'admin-token': 43,
    owner: 0,
  };
  for (const [name, size] of Object.entries(files)) writeFileSync(join(folder, name), Buffer.alloc(size));
  mkdirSync(join(folder, 'lost+found'));
  const use = await readDiskUse(folder);
  expect(use?.parts).toEqual({ store: 730, writeAheadLog: 95, profiles: 40, timeline: 7, other: 43 });
  expect(use?.used).toBe(915);
  expect(use?.free).toBeGreaterThan(0);
  expect(use?.size).toBeGreaterThanOrEqual(use?.free ?? Number.NaN);
});

test('a folder that is gone has no use', async () => {
  expect(await readDiskUse(join(folder, 'gone'))).toBeUndefined();
});
