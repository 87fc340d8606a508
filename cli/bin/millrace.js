#!/usr/bin/env node
// Plain JavaScript that an old Node can read: a wrong version ends in one clear line and not in a syntax error.
// The namespace import has the same reason: a missing named export would fail before the check.
import * as nodeModule from 'node:module';
import { fileURLToPath } from 'node:url';

// Node 24.15 is the first 24 whose SQLite is safe to share between two threads.
const NODE = '24.15';

if (process.versions.node.localeCompare(NODE, 'en', { numeric: true }) < 0) {
  process.stderr.write(
    `millrace needs Node ${NODE} or newer, and this is ${process.version} (${process.execPath}).\n` +
      'In a checkout, `npm ci` installs the right one (without --ignore-scripts): run `npm start` or `npx millrace …` there.\n' +
      'Elsewhere install Node 24, by your version manager or from https://nodejs.org, and start millrace with it.\n',
  );
  process.exit(1);
}

// Three options of Node, each unless it is given already. By default, Node lets the space for new objects grow to 128 MB under
// load. An event's objects live for milliseconds, and need far less. The second one lets the program collect its garbage when a
// busy time is over (docs/decisions/0032-idle-memory.md). The third one keeps V8 from guessing which objects will live long: it
// guesses wrong here (docs/decisions/0040-request-memory.md). They can only be set before the heap exists, so the process
// executes itself again under the same id. Without them, as on Windows, the program works as well.
const OPTIONS = ['--max-semi-space-size=16', '--expose-gc', '--no-allocation-site-pretenuring'];
const isServer = ['dev', 'start'].includes(process.argv[2]);
const given = `${process.execArgv.join(' ')} ${process.env.NODE_OPTIONS ?? ''}`;
const missing = OPTIONS.filter((option) => !given.includes(option.split('=')[0]));
if (isServer && missing.length > 0 && process.platform !== 'win32') {
  const args = [process.execPath, ...missing, ...process.execArgv, ...process.argv.slice(1)];
  process.execve(process.execPath, args, process.env);
}

// The compile cache keeps compiled and type-stripped sources. With it, a start takes half the time and a third of the
// memory, because the program that strips types is not loaded. Worker threads start their own cache from the variable.
// The folder stands beside the program: in the system's temporary folder, another user could plant code. A folder that
// cannot be written keeps nothing.
const cache =
  process.env.NODE_COMPILE_CACHE ?? fileURLToPath(new URL('../node_modules/.cache/compile', import.meta.url));
nodeModule.enableCompileCache(cache);
process.env.NODE_COMPILE_CACHE = cache;

const { main } = await import('../src/main.ts');
await main(process.argv);
