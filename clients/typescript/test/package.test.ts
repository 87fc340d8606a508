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
      'esm-only',
      '--format',
      'json',
    ]);
    const { analysis } = JSON.parse(stdout) as { analysis: { problems: { kind: string }[]; types: unknown } };
    // There is no version for `require`, and it does not pretend that there is one.
    expect(analysis.problems.filter(({ kind }) => kind !== 'CJSResolvesToESM')).toEqual([]);
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

  /** The Node of the machine is an older one where it is not that of the repository. */
  it.each([process.execPath, '/usr/bin/node', '/usr/local/bin/node'].filter(existsSync))(
    'works in %s',
    async (node) => {
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
    },
  );
});
