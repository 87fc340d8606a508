import { chmodSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { makeFolder } from './database.ts';

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
