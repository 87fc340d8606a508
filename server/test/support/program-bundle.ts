import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { rolldown } from 'rolldown';
import type { TestProject } from 'vitest/node';

const ROOT = fileURLToPath(new URL('../../../', import.meta.url));

/** Entry modules: the program, the threads that it starts, and a thread of the tests. */
const ENTRIES = [
  'cli/src/main',
  'server/src/wiring/users-thread',
  'server/src/adapters/http-client/sender',
  'server/src/adapters/sqlite/writer',
  'server/src/adapters/sqlite/wal/checkpointer',
  'server/src/adapters/sqlite/backup/worker',
  'server/test/support/shared-writer-thread',
];

/** Files that the program reads beside its code, and packages that are not bundled. */
const BESIDE = ['cli/package.json', 'server/src/ingest/fast-path/encoder.wasm', 'console', 'node_modules'];

/**
 * Bundles the program once for a whole run. Tests start it and its threads hundreds of times; from some 400
 * files of source a start takes half as much processor time again, and a thread of the store four times as
 * much. The suite of clients and the examples of the documentation start the program from its sources.
 *
 * A run that watches files gets no bundle, which would be of yesterday after the first change. The gate has
 * one for all its suites: `node server/test/support/program-bundle.ts FOLDER` writes it where
 * MILLRACE_TEST_BUNDLE says.
 */
export async function setup({ config }: TestProject): Promise<(() => void) | undefined> {
  if (config.watch) return undefined;
  const ofGate = process.env['MILLRACE_TEST_BUNDLE'];
  if (ofGate !== undefined && existsSync(ofGate)) return undefined;
  const folder = mkdtempSync(join(tmpdir(), 'millrace-bundle-'));
  const remove = () => rmSync(folder, { recursive: true, force: true });
  try {
    await writeBundle(folder);
  } catch (error) {
    remove();
    throw error;
  }
  process.env['MILLRACE_TEST_BUNDLE'] = folder;
  return () => {
    delete process.env['MILLRACE_TEST_BUNDLE'];
    remove();
  };
}

/**
 * `list`: the file that stands in the place of `destinations/list.ts`, for a program with other types of
 * destinations.
 */
export async function writeBundle(folder: string, list?: string): Promise<void> {
  const bundle = await rolldown({
    cwd: ROOT,
    platform: 'node',
    input: Object.fromEntries(ENTRIES.map((entry) => [entry, join(ROOT, `${entry}.ts`)])),
    // The driver of PostgreSQL is loaded by few; and it asks for packages that nobody has installed.
    external: ['pg'],
    plugins: [
      { name: 'addresses-of-the-package', transform: (code, id) => withAddress(code, id, folder) },
      ...(list === undefined
        ? []
        : [{ name: 'other-list', resolveId: (id: string) => (LIST.test(id) ? list : null) }]),
    ],
  });
  await bundle.write({ dir: folder, chunkFileNames: 'chunks/[name]-[hash].js' });
  await bundle.close();
  const bin = join(folder, 'cli/bin/millrace.js');
  cpSync(join(ROOT, 'cli/bin'), dirname(bin), { recursive: true });
  writeFileSync(
    bin,
    readFileSync(bin, 'utf8').replace("import('../src/main.ts')", "import('../src/main.js')"),
  );
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }\n');
  for (const path of BESIDE) {
    mkdirSync(join(folder, dirname(path)), { recursive: true });
    symlinkSync(join(ROOT, path), join(folder, path));
  }
}

const LIST = /(^|\/)destinations\/list\.ts$/;

/** Tells a module the address that it has in the published package: there it finds its threads and files. */
function withAddress(code: string, id: string, folder: string): string | undefined {
  const path = relative(ROOT, id);
  if (!code.includes('import.meta.url') || path.includes('node_modules')) return undefined;
  const address = pathToFileURL(join(folder, path.replace(/\.ts$/, '.js'))).href;
  return code.replaceAll('import.meta.url', JSON.stringify(address));
}

if (import.meta.main) await writeBundle(process.argv[2]!);
