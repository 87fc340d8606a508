import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { makeFolder } from './folder.ts';

describe('the data folder', () => {
  let parent: string;
  beforeEach(() => {
    parent = mkdtempSync(join(tmpdir(), 'millrace-folder-'));
  });
  afterEach(() => rmSync(parent, { recursive: true }));

  it('is made with the folders above it, for its owner alone', () => {
    makeFolder(join(parent, 'deep', 'data'));
    expect(statSync(join(parent, 'deep', 'data')).mode & 0o777).toBe(0o700);
  });

  it('is refused at once where none can be made: below a file, and where the system refuses', () => {
    writeFileSync(join(parent, 'file'), '');
    const impossible = [join(parent, 'file'), join(parent, 'file', 'data'), join(parent, 'x'.repeat(300))];
    // The parent exists, yet the system answers that it does not.
    if (process.platform === 'linux') impossible.push('/proc/millrace', '/proc/millrace/data');
    for (const path of impossible) {
      expect(() => makeFolder(path)).toThrow(
        /cannot make the data folder .*: choose another one with --data/,
      );
    }
  });
});
