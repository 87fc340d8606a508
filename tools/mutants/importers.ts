import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import ts from 'typescript';

/**
 * The test files that import a file, itself or by way of others: the nearest first.
 *
 * @param paths of all files, from the root of the repository
 */
export function testsOf(path: string, paths: readonly string[], read: (path: string) => string): string[] {
  const importers = importersOf(paths, read);
  const found: string[] = [];
  const seen = new Set([path]);
  // A set is walked through to what was added meanwhile, so this is breadth first.
  for (const at of seen) {
    if (at.endsWith('.test.ts')) found.push(at);
    for (const importer of importers.get(at) ?? []) seen.add(importer);
  }
  return found;
}

const known = new WeakMap<readonly string[], ReadonlyMap<string, readonly string[]>>();

function importersOf(
  paths: readonly string[],
  read: (path: string) => string,
): ReadonlyMap<string, readonly string[]> {
  const before = known.get(paths);
  if (before !== undefined) return before;
  const importers = new Map<string, string[]>();
  for (const path of paths) {
    const { importedFiles } = ts.preProcessFile(read(path), true, false);
    for (const { fileName } of importedFiles) {
      if (!fileName.startsWith('.')) continue;
      const imported = join(dirname(path), fileName);
      importers.set(imported, [...(importers.get(imported) ?? []), path]);
    }
  }
  known.set(paths, importers);
  return importers;
}

/** Reads files of a repository. */
export const readerOf = (root: string) => (path: string) => readFileSync(join(root, path), 'utf8');
