import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

/** The fault suite, a run of its own (`npm run test:faults`): minutes long, and it wants the machine for itself. */
export default defineConfig({
  test: {
    include: ['server/test/faults/**/*.faults.ts'],
    globalSetup: ['server/test/support/disk-faults/compile.ts', 'server/test/support/program-bundle.ts'],
    // Each suite bounds its own time; this only ends what hangs.
    testTimeout: 3_600_000,
    hookTimeout: 60_000,
    pool: 'forks',
    // Some rounds measure time, and all of them keep both cores busy.
    fileParallelism: false,
    // Seeds and sums are the output of this suite, printed as they come.
    disableConsoleIntercept: true,
    // As in vitest.config.ts. Hundreds of threads that each strip types in WebAssembly have made V8 end the process besides:
    // "Check failed: end > addr", in ThreadIsolation::UnregisterWasmAllocation.
    env: { NODE_COMPILE_CACHE: fileURLToPath(new URL('node_modules/.cache/compile', import.meta.url)) },
  },
});
