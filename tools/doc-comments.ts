/**
 * Checks that no doc comment begins with What, Who, Those and the like, and that comments end at column 110.
 * Such a beginning makes the reader guess the noun; a comment says what the thing is or does instead. Looks
 * at the TypeScript of the server, the command line, the console, the client, the tools and the benchmarks.
 *
 *   node tools/doc-comments.ts            prints one line per comment, exit code 1 if there is one
 *   node tools/doc-comments.ts FOLDER     looks at another folder
 */
import { globSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

interface SourceFile {
  /** From the folder that is searched. */
  readonly path: string;
  readonly text: string;
}

/** Folders that are searched, below the root. */
const SEARCHED = ['bench', 'cli', 'clients', 'console', 'server', 'tools'];

const BEGINNING =
  /^[ \t]*\/\*\*\s+(?:\*\s+)?(What|Whatever|Which|Who|Whoever|Whom|Whose|Nobody|That|Those)\b/gm;

/** One line for each doc comment with such a beginning: its file, its line, and what to write instead. */
export function unclearBeginnings(files: readonly SourceFile[]): string[] {
  return files.flatMap(({ path, text }) =>
    Array.from(text.matchAll(BEGINNING), ({ index, 0: opening, 1: word }) => {
      const start = index + opening.indexOf('/**');
      const line = text.slice(0, start).split('\n').length;
      return `${path}:${line} begins with ${word}: name the thing first, and say what it is or does`;
    }),
  );
}

/** As in biome.json, which wraps code and no comments. */
const MOST_COLUMNS = 110;

/** Drawings, tables and examples, and directives, which are one line. */
const UNBREAKABLE = /[│┌└├─▶▲▼◀]|biome-ignore|@ts-|https?:\/\/\S{60}| {3}/;

/** One line for each comment that is wider than code. A comment behind code is not looked at. */
export function wideComments(files: readonly SourceFile[]): string[] {
  return files.flatMap(({ path, text }) =>
    text.split('\n').flatMap((line, nth) => {
      if (line.length <= MOST_COLUMNS || !/^\s*(\*|\/\/|\/\*)/.test(line)) return [];
      if (UNBREAKABLE.test(line.trim())) return [];
      return [`${path}:${nth + 1} is ${line.length} columns wide: wrap it at ${MOST_COLUMNS}`];
    }),
  );
}

if (import.meta.main) {
  const folder = resolve(process.argv[2] ?? join(import.meta.dirname, '..'));
  const paths = globSync(`{${SEARCHED.join(',')}}/**/*.{ts,tsx}`, {
    cwd: folder,
    exclude: ['**/node_modules/**', '**/dist/**'],
  });
  const files = paths
    .toSorted()
    // Made by a tool, from comments of others.
    .filter((path) => !path.endsWith('schema.d.ts'))
    .map((path) => ({ path, text: readFileSync(join(folder, path), 'utf8') }));
  const found = [...unclearBeginnings(files), ...wideComments(files)];
  for (const line of found) console.error(line);
  process.exitCode = found.length === 0 ? 0 : 1;
}
