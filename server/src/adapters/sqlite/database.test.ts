import { chmodSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { makeFolder, refuseOldSqlite } from './database.ts';

describe('the data folder', () => {
  let parent: string;
  beforeEach(() => {
    parent = mkdtempSync(join(tmpdir(), 'millrace-folder-'));
  });
  afterEach(() => rmSync(parent, { recursive: true }));

  it('is made for its owner alone', () => {
    makeFolder(join(parent, 'deep', 'data'));
    expect(statSync(join(parent, 'deep', 'data')).mode & 0o777).toBe(0o700);
  });

  it('keeps the rights that somebody gave it', () => {
    chmodSync(parent, 0o750);
    makeFolder(parent);
    expect(statSync(parent).mode & 0o777).toBe(0o750);
  });
});

describe('the SQLite that Node carries', () => {
  it.each(['3.51.3', '3.53.4', '3.100.0', '4.0.0'])('%s will do', (version) => {
    expect(() => refuseOldSqlite(version)).not.toThrow();
  });

  it.each(['3.51.2', '3.50.7', '3.9.3'])('%s may lose a commit and is refused', (version) => {
    expect(() => refuseOldSqlite(version)).toThrow(/SQLite 3\.\d+\.\d, which may lose.*use Node 24\.15/);
  });
});
