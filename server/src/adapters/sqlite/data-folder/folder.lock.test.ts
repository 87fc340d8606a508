import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { folderUser, lockFolder } from './folder.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'millrace-lock-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

test('the process that has locked a folder is found, and finding it does not prevent the next lock', () => {
  expect(folderUser(folder)).toEqual({ isInUse: false });
  const lock = lockFolder(folder);
  expect(folderUser(folder)).toEqual({ isInUse: true, pid: process.pid });
  lock.release();
  expect(folderUser(folder)).toEqual({ isInUse: false });
  lockFolder(folder).release();
});

test('looking for the process makes no file', () => {
  expect(folderUser(join(folder, 'none'))).toEqual({ isInUse: false });
  folderUser(folder);
  expect(readdirSync(folder)).toEqual([]);
});
