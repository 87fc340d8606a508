import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { longSubjects } from './commit-subjects.ts';

describe('longSubjects', () => {
  it('allows 72 characters and refuses 73', () => {
    expect(longSubjects(`aaaaaaa ${'x'.repeat(72)}\nbbbbbbb ${'y'.repeat(73)}\n`)).toEqual([
      `bbbbbbb: the subject has 73 characters, at most 72: ${'y'.repeat(73)}`,
    ]);
  });

  it('counts characters and not their bytes', () => {
    expect(longSubjects(`aaaaaaa ${'é'.repeat(72)}`)).toEqual([]);
    expect(longSubjects(`aaaaaaa ${'😀'.repeat(72)}`)).toEqual([]);
  });
});

describe('node tools/commit-subjects.ts', () => {
  let folder: string;
  let repository: string;

  const git = (...args: string[]): string =>
    execFileSync('git', ['-c', 'user.name=Test', '-c', 'user.email=test@localhost', ...args], {
      cwd: repository,
      encoding: 'utf8',
    });
  const check = (path: string): string =>
    execFileSync(process.execPath, [join(import.meta.dirname, 'commit-subjects.ts'), path], {
      encoding: 'utf8',
      stdio: 'pipe',
    });
  const failure = expect.objectContaining({
    status: 1,
    stderr: expect.stringMatching(/^\w+: the subject has 80 characters, at most 72: z{80}\n$/),
  });

  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'millrace-subjects-'));
    repository = folder;
    git('init', '--quiet', 'whole');
    repository = join(folder, 'whole');
    git('commit', '--quiet', '--allow-empty', '--date=now', '--message', 'x'.repeat(72));
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  it('passes where every subject is short, and in a folder that is no repository', () => {
    expect(check(repository)).toBe('');
    expect(check(folder)).toBe('');
  });

  it('ends with 1 in a whole and in a shallow clone that have a long one', () => {
    git('commit', '--quiet', '--allow-empty', '--message', 'z'.repeat(80));
    expect(() => check(repository)).toThrow(failure);
    git('clone', '--quiet', '--depth', '1', `file://${repository}`, join(folder, 'shallow'));
    expect(() => check(join(folder, 'shallow'))).toThrow(failure);
  });
});
