import { execFile } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { VERSION } from '../src/version.ts';
import { startCollector } from './collector.ts';

const run = promisify(execFile);
const PACKAGE = fileURLToPath(new URL('..', import.meta.url));
const BIN = join(PACKAGE, '../../node_modules/.bin');

/** The Node of the machine is an older one where it is not that of the repository. */
const NODES = [process.execPath, '/usr/bin/node', '/usr/local/bin/node'].filter((node) => existsSync(node));

/** The package as it is published, in the folder of a program that has installed it. */
describe('the package', () => {
  let program: string;
  let built: string;

  beforeAll(async () => {
    program = mkdtempSync(join(tmpdir(), 'millrace-package-'));
    built = join(program, 'node_modules/@millrace/client');
    await run(process.execPath, [join(PACKAGE, 'tools/build.ts'), built]);
  });
  afterAll(() => rmSync(program, { recursive: true, force: true }));

  it('has nothing publint objects to', async () => {
    const { stdout } = await run(join(BIN, 'publint'), ['run', built, '--strict']);
    expect(stdout).toContain('All good!');
  });

  it('has types that every resolution of modules finds', async () => {
    const { stdout } = await run(join(BIN, 'attw'), [
      '--pack',
      built,
      '--profile',
      'node16',
      '--format',
      'json',
    ]);
    const { analysis } = JSON.parse(stdout) as { analysis: { problems: unknown[]; types: unknown } };
    expect(analysis.problems).toEqual([]);
    expect(analysis.types).toBeTruthy();
  });

  it('depends on nothing, is not private, and says its version on the wire', () => {
    const manifest = JSON.parse(readFileSync(join(built, 'package.json'), 'utf8')) as Record<string, unknown>;
    expect(manifest).toMatchObject({ name: '@millrace/client', version: VERSION });
    expect(manifest).not.toHaveProperty('private');
    expect(manifest).not.toHaveProperty('dependencies');
    for (const file of ['README.md', 'MIGRATING.md', 'LICENSE', 'browser.min.js']) {
      expect(existsSync(join(built, file)), file).toBe(true);
    }
  });

  it.each(NODES)('can be required in %s, also where that takes no modules of ECMAScript', async (node) => {
    const collector = await startCollector();
    const file = join(program, 'program.cjs');
    writeFileSync(
      file,
      `const { Client } = require('@millrace/client');
       const { diskSpool } = require('@millrace/client/spool');
       const { BrowserClient } = require('@millrace/client/browser');
       const spool = diskSpool({ dir: ${JSON.stringify(join(program, 'cjs-spool'))} });
       const client = new Client('wk', { endpoint: '${collector.url}', spool });
       client.track({ userId: 'u1', event: 'E' });
       client.close().then(({ delivered }) => console.log(delivered, typeof BrowserClient));`,
    );
    // Node before 20.19 has no such flag, and needs none.
    const flag = '--no-experimental-require-module';
    const asked = await run(node, ['-p', `process.allowedNodeEnvironmentFlags.has('${flag}')`]);
    const { stdout } = await run(node, [...(asked.stdout === 'true\n' ? [flag] : []), file]);
    expect(stdout).toBe('1 function\n');
    expect(collector.items).toMatchObject([{ event: 'E' }]);
    await collector.stop();
  });

  it.each(NODES)('works in %s', async (node) => {
    const collector = await startCollector();
    const file = join(program, 'program.mjs');
    writeFileSync(
      file,
      `import { Client } from '@millrace/client';
       import { diskSpool } from '@millrace/client/spool';
       import { BrowserClient } from '@millrace/client/browser';
       const spool = diskSpool({ dir: ${JSON.stringify(join(program, 'spool'))} });
       const client = new Client('wk', { endpoint: '${collector.url}', spool });
       client.track({ userId: 'u1', event: 'E' });
       const counts = await client.close();
       console.log(counts.delivered, typeof BrowserClient);`,
    );
    const { stdout } = await run(node, [file]);
    expect(stdout).toBe('1 function\n');
    expect(collector.items).toMatchObject([{ event: 'E' }]);
    await collector.stop();
  });
});
