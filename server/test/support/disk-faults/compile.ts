import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { TestProject } from 'vitest/node';

declare module 'vitest' {
  interface ProvidedContext {
    /** The shims as shared objects: of the disk, and of the wall clock. Empty where they cannot be made. */
    readonly shim: string;
    readonly clockShim: string;
  }
}

/** Compiles shim.c and clock.c once for a whole run, into a folder that goes with it. */
export function setup({ provide }: TestProject): (() => void) | undefined {
  const compiler = ['cc', 'gcc'].find((name) => spawnSync(name, ['--version']).status === 0);
  if (process.platform !== 'linux' || compiler === undefined) {
    provide('shim', '');
    provide('clockShim', '');
    return undefined;
  }
  const folder = mkdtempSync(join(tmpdir(), 'millrace-shim-'));
  const remove = () => rmSync(folder, { recursive: true, force: true });
  try {
    provide('shim', compiled(compiler, './shim.c', join(folder, 'shim.so')));
    provide('clockShim', compiled(compiler, '../clock-shim/clock.c', join(folder, 'clock.so')));
  } catch (error) {
    remove();
    throw error;
  }
  return remove;
}

/** Compiles a source beside this file into a shared object; returns its path. */
export function compiled(compiler: string, source: string, library: string): string {
  const path = fileURLToPath(new URL(source, import.meta.url));
  const args = ['-O2', '-Wall', '-Wextra', '-Werror', '-fPIC', '-shared', '-pthread', '-o', library, path];
  const { status, stderr } = spawnSync(compiler, args, { encoding: 'utf8' });
  if (status !== 0) throw new Error(`${source} does not compile:\n${stderr}`);
  return library;
}
