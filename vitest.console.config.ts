import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

/** The console in a real browser against a real server, a run of its own (`npm run test:console`); it wants `console/dist`. */
export default defineConfig({
  test: {
    include: ['console/test/**/*.browser.ts'],
    // As in vitest.config.ts.
    env: { NODE_COMPILE_CACHE: fileURLToPath(new URL('node_modules/.cache/compile', import.meta.url)) },
    // Ends a test that hangs, and measures nothing.
    testTimeout: 300_000,
    hookTimeout: 300_000,
    pool: 'forks',
    fileParallelism: false,
  },
});
