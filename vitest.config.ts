import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { configDefaults, defineConfig } from 'vitest/config';

/**
 * Tests that start the whole program, or a browser (`npm run test:e2e`, vitest.e2e.config.ts). A start costs as much as hundreds of other
 * tests; `npm test` keeps a few tests that start one program besides.
 */
export const END_TO_END = [
  'server/test/e2e/**/*.test.ts',
  'server/test/control-api/{agreement,viewer}.test.ts',
  'server/test/http/{hostile-clients,wire-rules}.test.ts',
  'server/test/webhooks/{program,service}.test.ts',
  'cli/test/{command-line,completion,regulations}.test.ts',
  'clients/typescript/test/{browser,package,readme}.test.ts',
];

export default defineConfig({
  test: {
    include: [
      'server/**/*.test.ts',
      'cli/**/*.test.ts',
      'clients/typescript/**/*.test.ts',
      'console/src/**/*.test.ts',
      'tools/**/*.test.ts',
    ],
    exclude: [...configDefaults.exclude, ...END_TO_END],
    // Ends a test that hangs, and measures nothing: beside 30 busy programs a server takes a minute to start.
    testTimeout: 300_000,
    hookTimeout: 300_000,
    pool: 'forks',
    // Files share processes and loaded modules: a process for each of 200 files took a third of all the time.
    isolate: false,
    globalSetup: 'server/test/support/program-bundle.ts',
    setupFiles: 'server/test/support/leave-as-found.ts',
    // One more than the cores: most tests wait for sockets and disks most of the time.
    maxWorkers: availableParallelism() + 1,
    // Threads that tests start find their sources compiled and stripped of types.
    env: { NODE_COMPILE_CACHE: fileURLToPath(new URL('node_modules/.cache/compile', import.meta.url)) },
  },
});
