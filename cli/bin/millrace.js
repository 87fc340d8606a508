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
