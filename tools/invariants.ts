/**
 * Checks the invariants of the server: each has a constant text of its own, and a test that shows it to fire,
 * by naming its text.
 *
 *   node tools/invariants.ts            prints one line per breach, exit code 1 if there is one
 *   node tools/invariants.ts --list     prints every invariant with its place, and how many there are
 */
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import ts from 'typescript';

/** Functions whose last argument is the text of an invariant. */
const CALLED = new Set(['invariant', 'expectInvariant']);

interface SourceFile {
  /** From the root, with slashes. */
  readonly path: string;
  readonly text: string;
}

/** An invariant in the sources. */
export interface StatedInvariant {
  /** File and line. */
  readonly place: string;
  /** Absent where it is no constant. */
  readonly text?: string;
}

/** Every call that states an invariant, in the order of the files. */
export function invariantsIn(files: readonly SourceFile[]): StatedInvariant[] {
  return files.flatMap(({ path, text }) => {
    const source = ts.createSourceFile(path, text, ts.ScriptTarget.Latest);
    const found: StatedInvariant[] = [];
    const visit = (node: ts.Node): void => {
      if (ts.isCallExpression(node) && CALLED.has(calledName(node.expression))) {
        const { line } = source.getLineAndCharacterOfPosition(node.getStart(source));
        const last = node.arguments.at(-1);
        const place = `${path}:${line + 1}`;
        found.push(last !== undefined && ts.isStringLiteral(last) ? { place, text: last.text } : { place });
      }
      ts.forEachChild(node, visit);
    };
    visit(source);
    return found;
  });
}

function calledName(expression: ts.Expression): string {
  if (ts.isIdentifier(expression)) return expression.text;
  return ts.isPropertyAccessExpression(expression) ? expression.name.text : '';
}

/** One line for each text that is no constant, stands twice, or that no test names. */
export function breaches(invariants: readonly StatedInvariant[], tests: readonly SourceFile[]): string[] {
  const places = new Map<string, string>();
  const named = tests.map(({ text }) => text).join('\n');
  return invariants.flatMap(({ place, text }) => {
    if (text === undefined) return [`${place}: the text of an invariant is a constant string`];
    const earlier = places.get(text);
    places.set(text, place);
    if (earlier !== undefined) return [`${place}: ${JSON.stringify(text)} stands at ${earlier} as well`];
    return isNamed(text, named) ? [] : [`${place}: no test names ${JSON.stringify(text)}`];
  });
}

function isNamed(text: string, tests: string): boolean {
  return [`'${text}'`, `"${text}"`].some((quoted) => tests.includes(quoted));
}

function filesOf(pattern: string, exclude: readonly string[]): SourceFile[] {
  const root = join(import.meta.dirname, '..');
  return globSync(pattern, { cwd: root, exclude: [...exclude, '**/node_modules/**'] })
    .toSorted()
    .map((path) => ({ path, text: readFileSync(join(root, path), 'utf8') }));
}

if (import.meta.main) {
  const invariants = invariantsIn(
    filesOf('server/src/**/*.ts', ['**/*.test.ts', 'server/src/model/invariant.ts']),
  );
  const tests = [...filesOf('server/src/**/*.test.ts', []), ...filesOf('server/test/**/*.ts', [])];
  if (process.argv.includes('--list')) {
    for (const { place, text } of invariants) console.log(`${place}: ${text}`);
    console.log(`${invariants.length} invariants`);
  }
  const found = breaches(invariants, tests);
  for (const line of found) console.error(line);
  process.exitCode = found.length === 0 ? 0 : 1;
}
