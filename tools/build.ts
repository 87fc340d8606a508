/**
 * Makes the package that is published: the whole program compiled, because Node runs no TypeScript below
 * node_modules, with every dependency that is not ours named in one manifest.
 *
 *   npm run build                 writes dist
 *   node tools/build.ts FOLDER    writes somewhere else
 *   npm pack ./dist               makes the file to install
 *
 * The folders keep their places, so that compiled files find each other, their threads and spec/ as the
 * sources do. Types are not looked at here: `npm run check` does that. Nothing in this repository needs what
 * is made.
 */
import { cpSync, globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import ts from 'typescript';
import { build } from 'vite';
import { closureOf, noticesOf, packageAround } from './third-party-notices.ts';

const ROOT = resolve(import.meta.dirname, '..');

/** The workspaces that make up the program. */
const PARTS = ['server', 'cli', 'clients/typescript'];
const SOURCES = PARTS.map((part) => `${part}/src/**/*.ts`);
const LEFT_OUT = ['**/*.test.ts', '**/fast-path/assembly/**', '**/testing.ts'];
/** Code that is compiled already: see tools/encoder.ts. */
const COMPILED = PARTS.map((part) => `${part}/src/**/*.wasm`);
const COPIED = [
  ...['README.md', 'LICENSE', 'CHANGELOG.md', 'SECURITY.md', 'ARCHITECTURE.md', 'CONTRIBUTING.md'],
  ...['millrace.example.yaml', 'docs', 'cli/bin', 'spec'],
];
const NOT_COPIED = join(ROOT, 'spec/fixtures');

interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly description: string;
  readonly license: string;
  readonly engines: object;
  readonly exports?: Readonly<Record<string, string>>;
  readonly dependencies?: Readonly<Record<string, string>>;
}

const manifests = PARTS.map((part) => ({
  part,
  manifest: JSON.parse(readFileSync(join(ROOT, part, 'package.json'), 'utf8')) as Manifest,
}));

/** `@millrace/server/config` → `server/src/config/load.ts`: in one package they are files like all others. */
const OURS = new Map(
  manifests.flatMap(({ part, manifest: { name, exports = {} } }) =>
    Object.entries(exports).map(([path, file]) => [join(name, path), join(part, file)]),
  ),
);

const compilerOptions = {
  target: ts.ScriptTarget.ES2024,
  module: ts.ModuleKind.ESNext,
  verbatimModuleSyntax: true,
  rewriteRelativeImportExtensions: true,
};

function compiled(path: string): string {
  const source = readFileSync(join(ROOT, path), 'utf8').replace(
    /(?<=\bfrom ')@millrace\/[^']+(?=')/g,
    (name) => {
      const file = OURS.get(name);
      if (file === undefined) throw new Error(`${path} imports ${name}, which no workspace exports`);
      const from = relative(dirname(path), file);
      return from.startsWith('.') ? from : `./${from}`;
    },
  );
  return ts.transpileModule(source, { compilerOptions, fileName: path }).outputText;
}

function write(path: string, text: string): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
}

/**
 * The web console is made anew: what stands in its folder may be of another day. Returns the folders of the
 * packages that went into it.
 */
async function buildConsole(): Promise<string[]> {
  const result = await build({ root: join(ROOT, 'console'), logLevel: 'warn' });
  const { output } = [result].flat().find((one) => 'output' in one)!;
  const ids = output.flatMap((file) => (file.type === 'chunk' ? file.moduleIds : file.originalFileNames));
  return ids.flatMap((id) => {
    // Both put a little code of their own into what they build.
    const own = /^\0(vite|rolldown)\//.exec(id)?.[1];
    const folder = packageAround(
      own === undefined ? resolve(ROOT, 'console', id) : join(ROOT, 'node_modules', own, 'x'),
    );
    return folder ?? [];
  });
}

const json = (value: object) => `${JSON.stringify(value, undefined, 2)}\n`;

const folder = resolve(process.argv[2] ?? join(ROOT, 'dist'));
rmSync(folder, { recursive: true, force: true });
for (const path of globSync(SOURCES, { cwd: ROOT, exclude: LEFT_OUT })) {
  write(join(folder, path.replace(/\.ts$/, '.js')), compiled(path));
}
for (const path of globSync(COMPILED, { cwd: ROOT })) {
  cpSync(join(ROOT, path), join(folder, path));
}
for (const path of COPIED) {
  cpSync(join(ROOT, path), join(folder, path), { recursive: true, filter: (from) => from !== NOT_COPIED });
}
const bundled = await buildConsole();
cpSync(join(ROOT, 'console/dist'), join(folder, 'console/dist'), { recursive: true });
const program = join(folder, 'cli/bin/millrace.js');
writeFileSync(
  program,
  readFileSync(program, 'utf8').replace("import('../src/main.ts')", "import('../src/main.js')"),
);

const { manifest: cli } = manifests.find(({ part }) => part === 'cli')!;
const { version, description, license, engines } = cli;
// The parts read their version from their own.
for (const { part } of manifests)
  write(join(folder, part, 'package.json'), json({ version, type: 'module' }));
const dependencies = manifests
  .flatMap(({ manifest }) => Object.entries(manifest.dependencies ?? {}))
  .filter(([name]) => !name.startsWith('@millrace/'))
  .sort(([one], [other]) => (one < other ? -1 : 1));
const published = {
  ...{ name: 'millrace', version, description, license, type: 'module', engines },
  bin: { millrace: './cli/bin/millrace.js' },
  dependencies: Object.fromEntries(dependencies),
};
write(join(folder, 'package.json'), json(published));
const needed = manifests.flatMap(({ part, manifest }) => {
  const names = Object.keys(manifest.dependencies ?? {}).filter((name) => !name.startsWith('@millrace/'));
  return [...closureOf(names, join(ROOT, part))];
});
// The library of this compiler is part of the WebAssembly that it made.
const compiler = join(ROOT, 'node_modules/assemblyscript');
write(join(folder, 'THIRD-PARTY-NOTICES'), noticesOf([...needed, ...bundled, compiler]));
