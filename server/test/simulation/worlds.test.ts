import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';

/** A process of its own: worlds take over the timers of theirs. */
async function run(main: string, ...args: readonly string[]): Promise<readonly string[]> {
  const path = join(import.meta.dirname, main);
  const { stdout } = await promisify(execFile)(process.execPath, [path, ...args]);
  return stdout.trimEnd().split('\n');
}

const simulate = (...args: readonly string[]) => run('main.ts', ...args);
const simulateEngine = (...args: readonly string[]) => run('engine-main.ts', ...args);

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

it('some worlds with the embedded engine do the same, with deaths of processes and of machines', async () => {
  const args = ['--seeds', '3', '--hours', '0.01', '--digests'];
  const one = await simulateEngine(...args);
  const other = await simulateEngine(...args);
  const digests = (lines: readonly string[]) => lines.filter((line) => line.startsWith('digest '));
  expect(digests(one)).toHaveLength(3);
  expect(digests(other)).toEqual(digests(one));
  expect(one.at(-2)).toMatch(/^3 worlds, 0 broke a promise;/);
  const isRecorded = !one.some((line) => line.startsWith('left out: power cuts'));
  expect(one.at(-1)).toMatch(
    isRecorded ? /^\d+ kills, [1-9]\d* power cuts/ : /^[1-9]\d* kills, 0 power cuts/,
  );
});

it('what cannot be lived is a failure, and says why', async () => {
  await expect(simulateEngine('--seed', '1', '--nodes', '2')).rejects.toMatchObject({
    code: 1,
    stdout: expect.stringContaining('leave out --nodes'),
  });
});
