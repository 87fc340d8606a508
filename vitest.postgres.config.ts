import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

/** The store on PostgreSQL, a run of its own (`npm run test:postgres`): it starts real servers, which `npm test` must not wait for. */
export default defineConfig({
  test: {
    include: ['server/test/**/*.postgres.ts'],
    globalSetup: 'server/test/support/program-bundle.ts',
    testTimeout: 300_000,
    hookTimeout: 300_000,
    pool: 'forks',
    // Each file has a server of its own, with a dozen processes.
    fileParallelism: false,
    env: { NODE_COMPILE_CACHE: fileURLToPath(new URL('node_modules/.cache/compile', import.meta.url)) },
  },
});
