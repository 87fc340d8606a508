/**
 * Everything a change must pass beside its tests. All checks run at once, because each is short and mostly alone on
 * its core; each is named, and only a failed one shows what it said.
 *
 *   npm run check      exit code 1 if any check failed
 */
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const BIN = join(ROOT, 'node_modules', '.bin');

interface Check {
  readonly name: string;
  /** A program of `node_modules/.bin` and its arguments; run at the root. */
  readonly command: readonly [program: string, ...args: string[]];
  /** What to do when it fails. */
  readonly hint: string;
}

interface Checked {
  readonly check: Check;
  readonly passed: boolean;
  readonly seconds: string;
  /** What it printed, both streams in the order they came. */
  readonly output: string;
}

/** The folders with code; one that does not exist yet is left out, because the cruiser stops at it. */
const CODE = ['server', 'cli', 'clients', 'bench', 'tools'].filter((folder) =>
  existsSync(join(ROOT, folder)),
);

const CHECKS: readonly Check[] = [
  {
    name: 'format and lint',
    command: ['biome', 'check', '--error-on-warnings', '--max-diagnostics=200', '.'],
    hint: 'npm run check:fix mends the format and what can be mended safely',
  },
  { name: 'types', command: ['tsc', '--noEmit'], hint: 'tsconfig.json says how strict' },
  {
    name: 'import rule',
    command: ['depcruise', '--config', '.dependency-cruiser.mjs', '--output-type', 'err-long', ...CODE],
    hint: 'each rule has its reason in .dependency-cruiser.mjs',
  },
  { name: 'dead code', command: ['knip'], hint: 'remove what is unused, or say in knip.json why it is not' },
  { name: 'budgets', command: ['node', 'tools/budgets.ts'], hint: 'split by noun' },
  {
    name: 'citations',
    command: ['node', 'tools/citations.ts'],
    hint: 'cite a document of this repository, and one of its headings by name',
  },
  { name: 'generated files', command: ['node', 'tools/generate.ts', '--check'], hint: 'npm run generate' },
];

/** Never rejects: a program that cannot be started has failed, with the reason as its output. */
function run(check: Check): Promise<Checked> {
  const started = performance.now();
  const [program, ...args] = check.command;
  // Checks find their programs here even when this file is run without npm. Colours would need a terminal.
  const env = { ...process.env, PATH: BIN + delimiter + (process.env['PATH'] ?? ''), NO_COLOR: '1' };
  const child = spawn(program, args, { cwd: ROOT, env, stdio: ['ignore', 'pipe', 'pipe'] });
  const output: Buffer[] = [];
  child.stdout.on('data', (part: Buffer) => output.push(part));
  child.stderr.on('data', (part: Buffer) => output.push(part));
  const { promise, resolve } = Promise.withResolvers<Checked>();
  const done = (passed: boolean): void => {
    const seconds = ((performance.now() - started) / 1000).toFixed(1);
    resolve({ check, passed, seconds, output: Buffer.concat(output).toString('utf8').trim() });
  };
  child.once('error', (error) => {
    output.push(Buffer.from(error.message));
    done(false);
  });
  child.once('close', (code) => done(code === 0));
  return promise;
}

function report({ check, passed, seconds, output }: Checked): void {
  console.log(`${passed ? 'ok    ' : 'FAILED'}  ${check.name.padEnd(16)} ${seconds} s`);
  if (passed) return;
  console.log(`\n$ ${check.command.join(' ')}\n${output}\n\n${check.name}: ${check.hint}\n`);
}

const checked = await Promise.all(
  CHECKS.map(async (check) => {
    const result = await run(check);
    report(result);
    return result;
  }),
);
const failed = checked.filter(({ passed }) => !passed);
console.log(`${checked.length - failed.length} passed, ${failed.length} failed`);
process.exitCode = failed.length === 0 ? 0 : 1;
