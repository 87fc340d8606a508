#!/usr/bin/env node
// Plain JavaScript that an old Node can still read, so that a wrong version ends in one clear line and not in a
// syntax error. The namespace import is for the same reason: a missing named export would fail before the check.
import * as nodeModule from 'node:module';
import { fileURLToPath } from 'node:url';

// Node 24.15 is the first of its line with a SQLite that two threads can be trusted to share.
const NODE = '24.15';

if (process.versions.node.localeCompare(NODE, 'en', { numeric: true }) < 0) {
  process.stderr.write(
    `millrace needs Node ${NODE} or newer, and this is ${process.version} (${process.execPath}).\n` +
      'In a checkout, `npm ci` has installed the right one: run `npm start` or `npx millrace …` there.\n' +
      'Elsewhere install Node 24, by your version manager or from https://nodejs.org, and start millrace with it.\n',
  );
  process.exit(1);
}

// Left alone, Node lets the space for new objects grow to 128 MB in a server under load, for nothing: what an event needs
// lives for milliseconds. The limit can only be set before the heap is made, so the process begins anew with it, under
// the same id. Where that cannot be done (Windows), or somebody has set another limit, all else works as well.
const LIMIT = '--max-semi-space-size';
const isServer = ['dev', 'start'].includes(process.argv[2]);
const isLimited = [...process.execArgv, process.env.NODE_OPTIONS ?? ''].some((text) => text.includes(LIMIT));
if (isServer && !isLimited && process.platform !== 'win32') {
  const args = [process.execPath, `${LIMIT}=16`, ...process.execArgv, ...process.argv.slice(1)];
  process.execve(process.execPath, args, process.env);
}

// Keeps compiled and type-stripped sources: half the start time and a third of the memory, since the program that strips
// types is then not even loaded. The variable is for worker threads, which start their own cache from it. The folder is
// beside the program and not in the system's temporary one, where somebody else could have put code to run; where it
// cannot be written, nothing is kept.
const cache =
  process.env.NODE_COMPILE_CACHE ?? fileURLToPath(new URL('../node_modules/.cache/compile', import.meta.url));
nodeModule.enableCompileCache(cache);
process.env.NODE_COMPILE_CACHE = cache;

const { main } = await import('../src/main.ts');
await main(process.argv);
