import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { TestProject } from 'vitest/node';

declare module 'vitest' {
  interface ProvidedContext {
    /** The shim as a shared object; empty where it cannot be made. */
    readonly shim: string;
  }
}

/** Compiles shim.c once for a whole run, into a folder that goes with it. */
export function setup({ provide }: TestProject): (() => void) | undefined {
  const compiler = ['cc', 'gcc'].find((name) => spawnSync(name, ['--version']).status === 0);
  if (process.platform !== 'linux' || compiler === undefined) {
    provide('shim', '');
    return undefined;
  }
  const folder = mkdtempSync(join(tmpdir(), 'millrace-shim-'));
  const library = join(folder, 'shim.so');
  const source = fileURLToPath(new URL('./shim.c', import.meta.url));
  const args = ['-O2', '-Wall', '-Wextra', '-Werror', '-fPIC', '-shared', '-pthread', '-o', library, source];
  const { status, stderr } = spawnSync(compiler, args, { encoding: 'utf8' });
  const remove = () => rmSync(folder, { recursive: true, force: true });
  if (status !== 0) {
    remove();
    throw new Error(`the shim does not compile:\n${stderr}`);
  }
  provide('shim', library);
  return remove;
}
