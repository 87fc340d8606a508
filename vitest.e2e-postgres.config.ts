import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

/** The whole program on PostgreSQL, by the tests that it passes on the embedded engine (`npm run test:e2e:postgres`). */
export default defineConfig({
  test: {
    include: ['server/test/e2e/**/*.test.ts'],
    // Of the embedded engine: they damage its files, take them away, look for its lock, or watch how it syncs.
    exclude: ['server/test/e2e/{damage,data-folder,doctor,sync}.test.ts'],
    globalSetup: ['server/test/support/program-bundle.ts', 'server/test/support/test-database.ts'],
    testTimeout: 300_000,
    hookTimeout: 300_000,
    pool: 'forks',
    fileParallelism: false,
    env: { NODE_COMPILE_CACHE: fileURLToPath(new URL('node_modules/.cache/compile', import.meta.url)) },
  },
});
