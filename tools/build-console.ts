/**
 * Builds the web console after `npm ci`, so that a server of this checkout serves it at `/`. A failure here
 * fails no installation: the server works without the console, and says on its page how to build it.
 */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const CONSOLE = fileURLToPath(new URL('../console', import.meta.url));
const VITE = fileURLToPath(new URL('../node_modules/vite/bin/vite.js', import.meta.url));

const { status, error, stderr } = spawnSync(process.execPath, [VITE, 'build', '--logLevel', 'error'], {
  cwd: CONSOLE,
  encoding: 'utf8',
});
if (status !== 0) {
  console.log(`the web console was not built: ${error?.message ?? stderr.trim()}`);
  console.log('the server works without it; npm run build --workspace console tries again');
}
