import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { durationsOf, failuresOf, filesOf, GATE, LONG, type Summary, secondsOf, tableOf } from './ci.ts';
import { leftBehind } from './left-behind.ts';

const step = { isReportOnly: false, code: 0, seconds: 61.4, processorSeconds: 80, left: [], files: {} };
const summary: Summary = {
  list: 'gate',
  commit: '0123456789abcdef',
  seed: '7',
  began: '2026-01-01T00:00:00.000Z',
  machine: { cores: 2, model: 'any', load: [0, 0, 0] },
  seconds: 75,
  steps: [],
};

describe('the lists', () => {
  it('have one step of each name', () => {
    for (const list of [GATE, LONG]) expect(new Set(list.map(({ name }) => name)).size).toBe(list.length);
  });
});

describe('a summary', () => {
  it('adds up what the children of a shell used', () => {
    expect(secondsOf('0m0.010s 0m0.020s\n1m2.500s 0m3.250s\n')).toBe(65.75);
  });

  it('is a table with the time of each step, and says why one failed', () => {
    const steps = [
      { ...step, name: 'check' },
      { ...step, name: 'e2e', code: 1, left: ['process 7, postgres'] },
      { ...step, name: 'timing', code: 1, isReportOnly: true },
    ];
    expect(tableOf({ ...summary, steps }).split('\n')).toEqual([
      'gate of 012345678, seed 7',
      'step    seconds  processor',
      'check        61         80  passed',
      'e2e          61         80  FAILED: exit code 1; left behind: process 7, postgres',
      'timing       61         80  reported: exit code 1',
      'all          75        240',
    ]);
  });

  it('knows how long each file took, and keeps those of a second and more, longest first', () => {
    const report = JSON.stringify({
      testResults: [{ name: join(import.meta.dirname, 'a.test.ts'), startTime: 1000, endTime: 2500.4 }],
    });
    expect(filesOf(report)).toEqual({ 'tools/a.test.ts': 1500 });
    const steps = [
      { ...step, name: 'test', files: { 'tools/a.test.ts': 1500, 'tools/b.test.ts': 999 } },
      { ...step, name: 'e2e', files: { 'c.test.ts': 9000 } },
    ];
    expect(Object.entries(durationsOf([{ ...summary, steps }]))).toEqual([
      ['e2e c.test.ts', 9000],
      ['unit tools/a.test.ts', 1500],
    ]);
  });

  it('names the tests that failed, each once and with its error', () => {
    const output = [
      ' ✓ |e2e| server/test/e2e/sync.test.ts (3 tests) 900ms',
      ' FAIL  |e2e| server/test/e2e/tail.test.ts > the tail > follows',
      'Error: waited 240 s until it follows; the last look: false',
      ' ❯ until server/test/support/until.ts:33:13',
      ' FAIL  |unit| server/src/one.test.ts > adds',
      'AssertionError: expected 1 to be 2',
      ' FAIL  |e2e| server/test/e2e/tail.test.ts > the tail > follows',
      'Error: waited 240 s until it follows; the last look: false',
      '--- FAIL: TestFlush (0.01s)',
      '    client_test.go:7: got 1',
      '    --- FAIL: TestFlush/twice (0.00s)',
    ].join('\n');
    expect(failuresOf(output)).toEqual([
      '|e2e| server/test/e2e/tail.test.ts > the tail > follows: Error: waited 240 s until it follows; the last look: false',
      '|unit| server/src/one.test.ts > adds: AssertionError: expected 1 to be 2',
      'FAIL: TestFlush',
      'FAIL: TestFlush/twice',
    ]);
    expect(failuresOf('all is well')).toEqual([]);
  });
});

describe('what a suite leaves behind', () => {
  let folder: string;

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'left-'));
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  it('is nothing when its folder is empty', async () => {
    expect(await leftBehind(folder)).toEqual([]);
  });

  it('is a file or a folder in its temporary folder, named with what is in it', async () => {
    mkdirSync(join(folder, 'millrace-e2e-1'));
    writeFileSync(join(folder, 'millrace-e2e-1/data'), '');
    expect(await leftBehind(folder)).toEqual([`${folder}/millrace-e2e-1 data`]);
  });

  it.runIf(process.platform === 'linux')(
    'is a process that has the folder in its environment or runs in it, which is ended',
    async () => {
      const script = `process.on('SIGTERM', () => {}); console.log('up'); setInterval(() => {}, 1000);`;
      for (const options of [{ env: { ...process.env, TMPDIR: folder } }, { cwd: folder }]) {
        const child = spawn(process.execPath, ['--eval', script], {
          ...options,
          stdio: ['ignore', 'pipe', 'inherit'],
        });
        await once(child.stdout, 'data');
        const ended = once(child, 'exit');
        expect(await leftBehind(folder, 0)).toEqual([
          expect.stringContaining(`process ${child.pid}, ${process.execPath} --eval`),
        ]);
        expect(await ended).toEqual([null, 'SIGKILL']);
      }
    },
  );
});
