import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { adminToken } from './admin-token.ts';

describe('the admin token', () => {
  let folder: string;
  let file: string;

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'millrace-token-'));
    file = join(folder, 'admin-token');
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  test('that is configured is taken, and nothing is kept', () => {
    expect(adminToken('configured', folder)).toEqual({ token: 'configured' });
    expect(existsSync(file)).toBe(false);
  });

  test('is made when there is none, kept for its owner alone, and the same from then on', () => {
    const first = adminToken(undefined, folder);
    expect(first).toEqual({ token: expect.stringMatching(/^[\w-]{43}$/), file });
    expect(readFileSync(file, 'utf8')).toBe(`${first.token}\n`);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(readdirSync(folder)).toEqual(['admin-token']);
    expect(adminToken(undefined, folder)).toEqual(first);
  });

  test('differs from folder to folder', () => {
    const other = join(folder, 'other');
    mkdirSync(other);
    expect(adminToken(undefined, other).token).not.toBe(adminToken(undefined, folder).token);
  });

  test('is made anew when its file was emptied, with the same rights whatever a broken-off try left', () => {
    writeFileSync(file, '\n', { mode: 0o644 });
    writeFileSync(`${file}.new`, 'half a tok', { mode: 0o666 });
    const { token } = adminToken(undefined, folder);
    expect(token).toMatch(/^[\w-]{43}$/);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(readdirSync(folder)).toEqual(['admin-token']);
  });

  test('that somebody wrote into the file is taken, without the end of its line', () => {
    writeFileSync(file, 'chosen-by-hand\r\n');
    expect(adminToken(undefined, folder)).toEqual({ token: 'chosen-by-hand', file });
  });

  test('is refused in one line when the file holds something else, which is not shown', () => {
    writeFileSync(file, 'two words\nand lines\n');
    let message = '';
    try {
      adminToken(undefined, folder);
    } catch (error) {
      message = String(error);
    }
    expect(message).toContain(`${file} does not hold a token`);
    expect(message).not.toMatch(/two words|\n/);
  });

  test('says what to do when its file cannot be read', () => {
    mkdirSync(file);
    expect(() => adminToken(undefined, folder)).toThrow(/admin-token \(EISDIR\).*set admin\.token/);
  });

  test('says what to do when it cannot be kept', () => {
    const gone = join(folder, 'gone');
    expect(() => adminToken(undefined, gone)).toThrow(/gone\/admin-token \(ENOENT\).*set admin\.token/);
  });
});
