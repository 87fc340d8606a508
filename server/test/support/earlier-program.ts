import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ROOT } from './program.ts';

/** Whether the repository has this commit: a shallow one has not. */
export function knows(commit: string): boolean {
  try {
    execFileSync('git', ['cat-file', '-e', `${commit}^{commit}`], { cwd: ROOT, stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

/**
 * The program of a commit in a folder of its own, beside the packages of this one; `cli/bin/millrace.js` in
 * it starts it.
 */
export function checkedOut(commit: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-earlier-'));
  const parts = ['cli', 'server', 'clients/typescript', 'spec', 'package.json'];
  const archive = execFileSync('git', ['archive', commit, ...parts], { cwd: ROOT, maxBuffer: 2 ** 28 });
  execFileSync('tar', ['x', '-C', folder], { input: archive });
  const packages = join(folder, 'node_modules');
  mkdirSync(join(packages, '@millrace'), { recursive: true });
  for (const name of readdirSync(join(ROOT, 'node_modules')))
    if (name !== '@millrace') symlinkSync(join(ROOT, 'node_modules', name), join(packages, name));
  symlinkSync(join(folder, 'server'), join(packages, '@millrace/server'));
  symlinkSync(join(folder, 'clients/typescript'), join(packages, '@millrace/client'));
  return folder;
}
