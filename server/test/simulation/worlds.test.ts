import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';

const MAIN = join(import.meta.dirname, 'main.ts');

/** A process of its own: worlds take over the timers of theirs. */
async function simulate(...args: readonly string[]): Promise<readonly string[]> {
  const { stdout } = await promisify(execFile)(process.execPath, [MAIN, ...args]);
  return stdout.trimEnd().split('\n');
}

it('some worlds keep their promises, and are the same in another process', async () => {
  const [one, other] = await Promise.all(
    [1, 2].map(() => simulate('--seeds', '3', '--hours', '0.01', '--digests')),
  );
  const digests = one!.filter((line) => line.startsWith('digest '));
  expect(digests).toHaveLength(3);
  expect(other!.filter((line) => line.startsWith('digest '))).toEqual(digests);
  expect(one!.at(-2)).toMatch(/^3 worlds, 0 broke a promise;/);
});

it('a world shows what happened in it', async () => {
  const lines = await simulate('--seed', '4', '--hours', '0.01', '--trace', '50');
  expect(lines.filter((line) => /^ *\d+\.\d{6} /.test(line)).length).toBeGreaterThanOrEqual(40);
});
