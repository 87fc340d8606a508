import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, it } from 'vitest';
import { ROOT } from '../support/program.ts';

/** The modules of Node that are loaded after these files of ours. */
function builtinsAfter(...files: readonly string[]): string[] {
  const imports = files.map((file) => `await import('${pathToFileURL(join(ROOT, file))}');`).join('\n');
  const script = `${imports}\nconsole.log(JSON.stringify(process.moduleLoadList))`;
  return JSON.parse(
    execFileSync(process.execPath, ['--input-type=module', '-e', script], { encoding: 'utf8' }),
  );
}

it('starting the server does not load the HTTP client of Node, which would be a tenth of its memory', () => {
  const loaded = builtinsAfter('cli/src/main.ts', 'cli/src/receiver.ts', 'server/src/app.ts');
  expect(loaded).toContain('NativeModule _http_server');
  expect(loaded.filter((name) => name.includes('undici'))).toEqual([]);
});
