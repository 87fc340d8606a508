import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { testsOf } from './mutants/importers.ts';
import { mutate } from './mutants/mutate.ts';
import { reportOf } from './mutants.ts';

describe('the tests of a file', () => {
  it('are those that import it, the nearest first, whatever imports whom in a circle', () => {
    const files: Record<string, string> = {
      'a/code.ts': "import type { B } from '../b.ts'; import 'node:fs';",
      'b.ts': "export { a } from './a/code.ts';",
      'c.test.ts': "import { a } from './b.ts';",
      'a/code.test.ts': "import { a } from './code.ts';",
      'other.test.ts': "import { b } from './other.ts';",
    };
    expect(testsOf('a/code.ts', Object.keys(files), (path) => files[path]!)).toEqual([
      'a/code.test.ts',
      'c.test.ts',
    ]);
  });
});

describe('the report', () => {
  const mutant = (id: number) => ({ id, path: 'a.ts', line: id, key: `key ${id}` });

  it('has what survives without a reason, and reasons that are not needed any more', () => {
    const verdicts = [
      { mutant: mutant(3), noticed: undefined },
      { mutant: mutant(1), noticed: 'a.test.ts > adds' },
      { mutant: mutant(2), noticed: undefined },
      { mutant: mutant(4), noticed: 'a.test.ts > adds' },
    ];
    const reasons = { 'a.ts': { 'key 2': 'a log line', 'key 4': 'a measure' } };
    expect(reportOf(verdicts, reasons)).toEqual({
      lines: [
        'a.ts: 2 of 4 noticed (50 %), 1 survive without a reason',
        '  a.ts:3: key 3',
        '  is noticed now, take it from the list: key 4',
      ],
      unlisted: 1,
    });
  });
});

describe('a program with mutants in it', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'mutant-'));
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  function run(code: string, env: Record<string, string>) {
    const file = join(folder, 'program.ts');
    writeFileSync(file, mutate('program.ts', code).text);
    const { stdout, signal } = spawnSync(process.execPath, [file], {
      encoding: 'utf8',
      env: { ...process.env, ...env },
    });
    return { stdout, signal };
  }

  const COUNTS = 'let n = 0; while (n < 3) n++; console.log(n);';

  it('does as before without a number, and the changed with one', () => {
    const { mutants } = mutate('program.ts', COUNTS);
    const never = mutants.find(({ key }) => key === 'false: n < 3')!;
    expect(run(COUNTS, {}).stdout).toBe('3\n');
    expect(run(COUNTS, { MILLRACE_MUTANT: String(never.id) }).stdout).toBe('0\n');
  });

  it('ends itself when it goes on for ever', () => {
    const { mutants } = mutate('program.ts', COUNTS);
    const endless = mutants.find(({ key }) => key === 'left out: n++;')!;
    const env = { MILLRACE_MUTANT: String(endless.id), MILLRACE_MUTANT_STEPS: '1000' };
    expect(run(COUNTS, env).signal).toBe('SIGKILL');
  });

  it('tells which mutants it comes by', () => {
    const reached = join(folder, 'reached');
    writeFileSync(reached, '');
    run('function f() { g(); } console.log(1); console.log(2);', { MILLRACE_MUTANTS_REACHED: reached });
    expect(readFileSync(reached, 'utf8')).toBe('1\n2\n');
  });
});
