import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

/** `npm run test:clients -- --update` writes the table of docs/reference/compatibility.md instead of comparing with it. */
const update = process.argv.some((argument) => argument === '--update' || argument === '-u');

/**
 * Client libraries against the real server, a run of its own (`npm run test:clients`): published ones in several
 * versions, and ours.
 */
export default defineConfig({
  test: {
    include: ['server/test/{clients,docs,packaging}/**/*.clients.ts', 'clients/e2e/**/*.{clients,test}.ts'],
    env: {
      ...(update ? { MILLRACE_UPDATE_TABLE: '1' } : {}),
      // As in vitest.config.ts.
      NODE_COMPILE_CACHE: fileURLToPath(new URL('node_modules/.cache/compile', import.meta.url)),
    },
    // Clients wait between their tries as long as they do in life.
    testTimeout: 90_000,
    // Published libraries and a real browser have races of their own: a test that fails twice shows a fault of ours.
    retry: 1,
    hookTimeout: 60_000,
    maxConcurrency: 16,
    pool: 'forks',
    fileParallelism: false,
    // Omissions and their reasons are printed as they come.
    disableConsoleIntercept: true,
  },
});
