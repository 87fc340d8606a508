/**
 * Holds the style sheets of the console against its components: each class of a sheet is used by some
 * component, each class of a component stands in some sheet, and the module that puts a class on imports its
 * sheet, itself or through another module. Otherwise a page would look right only after another one was
 * opened.
 *
 *   node tools/console-styles.ts      prints one line per fault, exit code 1 if there is one
 */
import { globSync, readFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';

interface TextFile {
  /** From the root of the console's source, with slashes. */
  readonly path: string;
  readonly text: string;
}

/** Entry module of the console: the sheets that it reaches count for every page. */
const ENTRY = 'main.tsx';
/** Classes that uPlot puts on what it draws. */
const FOREIGN = /^u-/;

/** Facts about the classes and imports of a module. */
interface Module {
  readonly path: string;
  /** Words of all its texts: a class may be chosen far from where it is put on. */
  readonly words: ReadonlySet<string>;
  /** Beginnings of words that are completed at run time, such as `skel-`. */
  readonly beginnings: ReadonlySet<string>;
  /** Words that are classes for certain, because they stand in a `className`. */
  readonly classes: ReadonlySet<string>;
  /** Paths of the modules and sheets that are loaded together with it. */
  readonly imports: readonly string[];
}

/** The classes of each sheet, by its path. */
type Sheets = ReadonlyMap<string, ReadonlySet<string>>;

/** One line for each fault. */
export function styleFaults(files: readonly TextFile[]): string[] {
  const sheets: Sheets = new Map(
    files.filter(({ path }) => path.endsWith('.css')).map(({ path, text }) => [path, classesOfSheet(text)]),
  );
  const modules = files.filter(({ path }) => /\.tsx?$/.test(path)).map(moduleOf);
  return [...unusedClasses(sheets, modules), ...homelessClasses(sheets, modules)];
}

function unusedClasses(sheets: Sheets, modules: readonly Module[]): string[] {
  const isUsed = (name: string) =>
    FOREIGN.test(name) ||
    modules.some(
      ({ words, beginnings }) => words.has(name) || [...beginnings].some((start) => name.startsWith(start)),
    );
  return [...sheets].flatMap(([path, classes]) =>
    [...classes]
      .filter((name) => !isUsed(name))
      .map((name) => `${path}: no component has the class .${name}`),
  );
}

function homelessClasses(sheets: Sheets, modules: readonly Module[]): string[] {
  const byPath = new Map(modules.map((module) => [module.path, module]));
  const everywhere = reachable(ENTRY, byPath);
  return modules.flatMap(({ path, classes }) => {
    const loaded = new Set([...everywhere, ...reachable(path, byPath)]);
    return [...classes].flatMap((name) => {
      const homes = [...sheets].filter(([, names]) => names.has(name)).map(([sheet]) => sheet);
      if (homes.length === 0) return [`${path}: no style sheet has the class .${name}`];
      if (homes.some((sheet) => loaded.has(sheet))) return [];
      return [`${path}: has the class .${name} and does not import ${homes.join(' or ')}`];
    });
  });
}

/** Everything that is loaded with a module. */
function reachable(path: string, modules: ReadonlyMap<string, Module>): ReadonlySet<string> {
  const found = new Set<string>();
  const open = [path];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    if (found.has(next)) continue;
    found.add(next);
    open.push(...(modules.get(next)?.imports ?? []));
  }
  return found;
}

/** Comments and values between braces name no class. */
function classesOfSheet(text: string): ReadonlySet<string> {
  const selectors = text
    .replaceAll(/\/\*[\s\S]*?\*\//g, '')
    .replaceAll(/\{[^{}]*\}/g, '{}')
    .replaceAll(/@(media|container)[^{]*\{/g, '');
  return new Set(Array.from(selectors.matchAll(/\.([a-z][\w-]*)/gi), ([, name = '']) => name));
}

function moduleOf({ path, text }: TextFile): Module {
  const source = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true, ts.ScriptKind.TSX);
  const found = { words: new Set<string>(), beginnings: new Set<string>(), classes: new Set<string>() };
  visit(source, false, found);
  const imports = source.statements.flatMap((statement) => {
    if (!ts.isImportDeclaration(statement) || statement.importClause?.isTypeOnly === true) return [];
    const { text: specifier } = statement.moduleSpecifier as ts.StringLiteral;
    return specifier.startsWith('.') ? [posix.join(posix.dirname(path), specifier)] : [];
  });
  return { path, ...found, imports };
}

/** Collects the words of a node and of those in it. `isClass`: its texts are classes. */
function visit(
  node: ts.Node,
  isClass: boolean,
  found: { words: Set<string>; beginnings: Set<string>; classes: Set<string> },
): void {
  if (ts.isImportDeclaration(node)) return;
  const text = textOf(node);
  if (text !== undefined) {
    const words = text.value.split(/\s+/).filter((word) => word !== '');
    const last = text.isOpen && !/\s$/.test(text.value) ? words.pop() : undefined;
    if (last !== undefined) found.beginnings.add(last);
    for (const word of words) {
      found.words.add(word);
      if (isClass) found.classes.add(word);
    }
  }
  // What is compared in a className is a state, and no class.
  const isQuestion =
    ts.isBinaryExpression(node) || ts.isCallExpression(node) || ts.isElementAccessExpression(node);
  const isName = ts.isJsxAttribute(node) && node.name.getText() === 'className';
  node.forEachChild((child) => visit(child, isName || (isClass && !isQuestion), found));
}

/** The text of a literal or of a piece of a template; `isOpen` when a value follows it. */
function textOf(node: ts.Node): { readonly value: string; readonly isOpen: boolean } | undefined {
  if (ts.isStringLiteralLike(node) || ts.isTemplateTail(node)) return { value: node.text, isOpen: false };
  if (ts.isTemplateHead(node) || ts.isTemplateMiddle(node)) return { value: node.text, isOpen: true };
  return undefined;
}

function filesIn(folder: string): TextFile[] {
  return globSync('**/*.{css,ts,tsx}', { cwd: folder })
    .map((path) => path.replaceAll('\\', '/'))
    .filter((path) => !/\.(test|d)\.tsx?$/.test(path))
    .map((path) => ({ path, text: readFileSync(join(folder, path), 'utf8') }));
}

if (import.meta.main) {
  const faults = styleFaults(filesIn(fileURLToPath(new URL('../console/src', import.meta.url))));
  for (const fault of faults) console.error(fault);
  process.exitCode = faults.length === 0 ? 0 : 1;
}
