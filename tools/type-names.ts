/**
 * Checks that no two files of the server export a type of one name: a reader who searches for it finds one
 * definition. Looks at `server/src` without its tests. A type that is exported again from another file counts
 * once.
 *
 *   node tools/type-names.ts            prints one line per name, exit code 1 if there is one
 *   node tools/type-names.ts FOLDER     looks at another folder
 */
import { globSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import ts from 'typescript';

interface SourceFile {
  /** From the folder that is looked at. */
  readonly path: string;
  readonly text: string;
}

/** One line for each name that more than one file defines and exports, with those files. */
export function repeatedTypeNames(files: readonly SourceFile[]): string[] {
  const places = new Map<string, string[]>();
  for (const file of files) {
    for (const name of new Set(exportedTypes(file)))
      places.set(name, [...(places.get(name) ?? []), file.path]);
  }
  return [...places]
    .filter(([, paths]) => paths.length > 1)
    .map(([name, paths]) => `${name} is a type of ${paths.join(' and of ')}`)
    .toSorted();
}

/** Names of the classes, interfaces, enumerations and type aliases that a file defines and exports. */
function exportedTypes({ path, text }: SourceFile): string[] {
  const { statements } = ts.createSourceFile(path, text, ts.ScriptTarget.Latest);
  const exportedBelow = new Set(
    statements
      .filter((statement) => ts.isExportDeclaration(statement))
      .filter(({ moduleSpecifier }) => moduleSpecifier === undefined)
      .flatMap(({ exportClause }) =>
        exportClause !== undefined && ts.isNamedExports(exportClause)
          ? exportClause.elements.map(({ name, propertyName }) => (propertyName ?? name).text)
          : [],
      ),
  );
  return statements.filter(isTypeDeclaration).flatMap(({ name, modifiers }) => {
    if (name === undefined) return [];
    const isExported = modifiers?.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword) === true;
    return isExported || exportedBelow.has(name.text) ? [name.text] : [];
  });
}

function isTypeDeclaration(
  statement: ts.Statement,
): statement is ts.ClassDeclaration | ts.InterfaceDeclaration | ts.EnumDeclaration | ts.TypeAliasDeclaration {
  return (
    ts.isClassDeclaration(statement) ||
    ts.isInterfaceDeclaration(statement) ||
    ts.isEnumDeclaration(statement) ||
    ts.isTypeAliasDeclaration(statement)
  );
}

if (import.meta.main) {
  const folder = resolve(process.argv[2] ?? join(import.meta.dirname, '../server/src'));
  const paths = globSync('**/*.ts', { cwd: folder, exclude: ['**/*.test.ts'] }).toSorted();
  const found = repeatedTypeNames(
    paths.map((path) => ({ path, text: readFileSync(join(folder, path), 'utf8') })),
  );
  for (const line of found) console.error(line);
  process.exitCode = found.length === 0 ? 0 : 1;
}
