import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { MINUTE, SECOND } from '../model/time.ts';
import { CrashFiles, InvariantError } from './crash-files.ts';

const NOON = Date.UTC(2026, 0, 1, 12);

describe('crash files', () => {
  let folder: string;
  let files: CrashFiles;

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'millrace-crash-'));
    files = new CrashFiles(folder);
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  const crash = (at: number, facts = {}) => {
    const error = new InvariantError('two and two are four');
    error.facts = facts;
    return files.write(error, '1.2.3', at);
  };

  it('say what was not so, where, and in which version, and show no id', () => {
    const path = crash(NOON, { commits: 7, operations: ['append'], user: 'ada@example.com' })!;
    expect(path).toBe(join(folder, 'crash-2026-01-01T12-00-00.000Z.json'));
    expect(JSON.parse(readFileSync(path, 'utf8'))).toEqual({
      at: '2026-01-01T12:00:00.000Z',
      version: '1.2.3',
      invariant: 'two and two are four',
      facts: { commits: 7, operations: ['append'], user: expect.stringMatching(/^sha256:[0-9a-f]{16}$/) },
      stack: expect.arrayContaining([expect.stringContaining('crash-files.test.ts')]),
    });
    expect(statSync(path).mode & 0o777).toBe(0o600);
  });

  it('are ten at most, and the oldest goes', () => {
    for (let nth = 0; nth < 12; nth++) crash(NOON + nth * SECOND);
    expect(readdirSync(folder)).toHaveLength(10);
    expect(readdirSync(folder).sort()[0]).toBe('crash-2026-01-01T12-00-02.000Z.json');
  });

  it('hold deliveries back after three ends within ten minutes, until somebody has seen them', () => {
    crash(NOON);
    crash(NOON + MINUTE);
    expect(files.isHolding()).toBe(false);
    crash(NOON + 10 * MINUTE);
    expect(files.isHolding()).toBe(true);
    files.see();
    expect(files.isHolding()).toBe(false);
    crash(NOON + 11 * MINUTE);
    crash(NOON + 12 * MINUTE);
    expect(files.isHolding(), 'those that were seen count no more').toBe(false);
    crash(NOON + 13 * MINUTE);
    expect(files.isHolding()).toBe(true);
  });

  it('hold nothing back where the ends are further apart', () => {
    for (let nth = 0; nth < 5; nth++) crash(NOON + nth * 6 * MINUTE);
    expect(files.isHolding()).toBe(false);
  });

  it('are left out where there is no folder to write to, and hold nothing back', () => {
    files = new CrashFiles('/proc/millrace-nowhere');
    expect(crash(NOON)).toBeUndefined();
    expect(files.isHolding()).toBe(false);
    files.see();
  });
});
