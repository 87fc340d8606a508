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

// By default, Node lets the space for new objects grow to 128 MB under load. An event's objects live for milliseconds, and need far less.
// The size can only be set before the heap exists, so the process executes itself again under the same id, unless it is given already.
// Without it, as on Windows, the program works as well. Most other options would make a start a sixth more expensive: V8 takes the compiled code of Node's own
// modules only with the options with which it was compiled.
const OPTION = '--max-semi-space-size';
const isServer = ['dev', 'start'].includes(process.argv[2]);
const isGiven = `${process.execArgv.join(' ')} ${process.env.NODE_OPTIONS ?? ''}`.includes(OPTION);
if (isServer && !isGiven && process.platform !== 'win32') {
  const args = [process.execPath, `${OPTION}=16`, ...process.execArgv, ...process.argv.slice(1)];
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
