import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { breachesIn, isLookedAt } from './test-clocks.ts';

/** The lines of a file in which something is refused. */
const refused = (text: string) =>
  breachesIn({ path: 'a.test.ts', text }).map((line) => Number(/^a\.test\.ts:(\d+): ./.exec(line)![1]));

const began = 'const began = performance.now();\n';

describe('an upper bound on a time that passed', () => {
  it.each([
    [`${began}expect(performance.now() - began).toBeLessThan(9);`],
    [`${began}expect(Math.abs(Date.now() - 5)).toBeLessThanOrEqual(9);`],
    [`${began}expect(performance.now() - began).toBeCloseTo(9);`],
    [`${began}expect(performance.now() - began).not.toBeGreaterThan(9);`],
    [`${began}expect(performance.now() - began < 9).toBe(true);`],
    [`${began}if (performance.now() - began > 9) throw new Error('late');`],
    [`${began}if (isOver || performance.now() >= 9) { throw new Error('late'); }`],
    [`${began}expect(attempts[0]!.latencyMs).toBeLessThan(9);`],
    [`${began}expect(process.hrtime.bigint() - 1n).toBeLessThan(9n);`],
  ])('is refused: %s', (text) => {
    expect(refused(text)).toEqual([2]);
  });

  it('is refused through variables, functions, lists and parts of objects', () => {
    expect(
      refused(`
        const elapsed = () => performance.now() - began;
        async function took(): Promise<number> { await work(); return elapsed(); }
        const times: number[] = [];
        times.push(await took());
        let longest = 0;
        for (const one of times) longest = Math.max(longest, one);
        const { ms } = { ms: Date.now() };
        const found = { ms: elapsed(), count: 3 };
        expect(longest).toBeLessThan(9);
        expect(times.at(-1)).toBeLessThan(9);
        expect(Math.max(...times)).toBeLessThan(9);
        expect(ms).toBeLessThan(9);
        expect(found.ms).toBeLessThan(9);
        expect(found.count).toBeLessThan(9);
      `),
    ).toEqual([10, 11, 12, 13, 14]);
  });

  it.each([
    ['expect(performance.now() - began).toBeGreaterThanOrEqual(9);'],
    ['expect(began).toBeLessThanOrEqual(performance.now());'],
    ['expect(requests.length).toBeLessThan(9);'],
    ['expect(store.size(Date.now())).toBeLessThan(9);'],
    ['const answer = await ask(Date.now()); expect(answer).toBeLessThan(9);'],
    ['if (performance.now() - began > 9) return;'],
    ['{ const began = 3; expect(began).toBeLessThan(9); }'],
    ['const f = (began: number) => expect(began).toBeLessThan(9);'],
  ])('is not: %s', (text) => {
    expect(refused(began + text)).toEqual([]);
  });
});

describe('other breaches', () => {
  it.each([
    ['await vi.waitFor(() => {});'],
    ['await vi.waitUntil(() => true);'],
    ['await expect.poll(() => 1).toBe(1);'],
    ['const dice = Math.random();'],
    ['const options = { random: Math.random };'],
    ['const port = randomInt(9);'],
    ["it('works', { retry: 2 }, () => {});"],
    ["describe.concurrent('works', { retry: 2 }, () => {});"],
  ])('%s', (text) => {
    expect(refused(text)).toEqual([1]);
  });

  it('say what to do instead', () => {
    expect(breachesIn({ path: 'a.test.ts', text: 'await vi.waitFor(look);' })).toEqual([
      'a.test.ts:1: wait with until(…) of server/test/support/until.ts',
    ]);
  });

  it('are none in a text, in a comment, and under names of one’s own', () => {
    expect(
      refused(`const text = 'Math.random()'; // vi.waitFor
               const decision = { retry: 2 };
               world.vi.waitFor(look);`),
    ).toEqual([]);
  });
});

describe('a comment that excuses the line below it', () => {
  it('has to say why', () => {
    expect(refused('// clock: the port is tried.\nrandomInt(9);')).toEqual([]);
    expect(refused('// clock:\nrandomInt(9);')).toEqual([2]);
    expect(refused('// clock: the port is tried.\n\nrandomInt(9);')).toEqual([3]);
  });
});

describe('the files that are looked at', () => {
  it.each([
    ['server/src/http/tls.test.ts', true],
    ['server/test/support/receiver.ts', true],
    ['server/test/faults/kill.faults.ts', true],
    ['clients/typescript/test/collector.ts', true],
    ['clients/e2e/world.ts', true],
    ['console/test/frame.browser.ts', true],
    ['tools/ci.test.ts', true],
    ['server/src/http/tls.ts', false],
    ['server/test/http/hostile-clients.timing.ts', false],
    ['server/test/support/until.ts', false],
    ['bench/ingest.ts', false],
    ['server/test/seeds.json', false],
  ])('%s: %s', (path, expected) => {
    expect(isLookedAt(path)).toBe(expected);
  });
});

describe('node tools/test-clocks.ts', () => {
  it('ends with 1 and one line per breach in a repository that has some', () => {
    const folder = mkdtempSync(join(tmpdir(), 'millrace-clocks-'));
    execFileSync('git', ['init', '--quiet', folder]);
    writeFileSync(
      join(folder, 'a.test.ts'),
      "await vi.waitFor(() => {});\nit('works', { retry: 1 }, () => {});\n",
    );
    writeFileSync(join(folder, 'a.ts'), 'const dice = Math.random();\n');
    const tool = join(import.meta.dirname, 'test-clocks.ts');
    const options = { encoding: 'utf8', stdio: 'pipe' } as const;
    try {
      expect(() => execFileSync(process.execPath, [tool, folder], options)).toThrow(
        expect.objectContaining({
          status: 1,
          stderr: expect.stringMatching(/^a\.test\.ts:1: wait .*\na\.test\.ts:2: a test passes .*\n$/),
        }),
      );
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});
