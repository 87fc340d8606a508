/**
 * Makes the folder that is published: compiled modules with their types, the same as CommonJS in `cjs`, the
 * browser client as one file, the manifest with its entry points turned to them.
 *
 *   npm run build -w clients/typescript        writes clients/typescript/dist
 *   node tools/build.ts FOLDER                 writes somewhere else
 *
 * Programs of this repository import the sources; nothing here is needed for `npm ci`.
 */
import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { bundleForBrowsers } from './bundle.ts';

const PACKAGE = fileURLToPath(new URL('..', import.meta.url));
const ROOT = join(PACKAGE, '../..');

interface Manifest {
  readonly private?: boolean;
  readonly scripts?: object;
  readonly devDependencies?: object;
  readonly exports: Readonly<Record<string, string>>;
}

/** Where the CommonJS modules are: `require` of Node 18 takes no others. */
const CJS = 'cjs';

/** `./src/index.ts` → what a user of the package gets for it. */
function entryPoint(source: string): object {
  const name = source.replace('./src/', '').replace(/\.ts$/, '');
  const modules = { types: `./${name}.d.ts`, default: `./${name}.js` };
  const required = { types: `./${CJS}/${name}.d.ts`, default: `./${CJS}/${name}.js` };
  return { import: modules, require: required, default: modules.default };
}

function manifest(): object {
  const own = JSON.parse(readFileSync(join(PACKAGE, 'package.json'), 'utf8')) as Manifest;
  const { private: _, scripts: _scripts, devDependencies: _tools, exports, ...published } = own;
  const entryPoints = Object.entries(exports).map(([path, source]) => [path, entryPoint(source)]);
  return {
    ...published,
    exports: { ...Object.fromEntries(entryPoints), './package.json': './package.json' },
  };
}

const folder = resolve(process.argv[2] ?? join(PACKAGE, 'dist'));
rmSync(folder, { recursive: true, force: true });
mkdirSync(folder, { recursive: true });
const compiler = join(ROOT, 'node_modules/typescript/bin/tsc');
const options = ['-p', join(PACKAGE, 'tsconfig.build.json'), '--outDir'];
execFileSync(process.execPath, [compiler, ...options, folder], { stdio: 'inherit' });
const commonJs = ['--module', 'commonjs', '--moduleResolution', 'bundler', '--verbatimModuleSyntax', 'false'];
execFileSync(process.execPath, [compiler, ...options, join(folder, CJS), ...commonJs], { stdio: 'inherit' });
writeFileSync(join(folder, CJS, 'package.json'), '{ "type": "commonjs" }\n');
writeFileSync(join(folder, 'package.json'), `${JSON.stringify(manifest(), null, 2)}\n`);
writeFileSync(join(folder, 'browser.min.js'), (await bundleForBrowsers()).code);
for (const page of ['README.md', 'MIGRATING.md']) copyFileSync(join(PACKAGE, page), join(folder, page));
copyFileSync(join(ROOT, 'LICENSE'), join(folder, 'LICENSE'));
