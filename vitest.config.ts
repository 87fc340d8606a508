import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { configDefaults, defineConfig, type TestProjectInlineConfiguration } from 'vitest/config';
import { IS_LONG } from './server/test/support/runs.ts';
import { LongestFirst } from './tools/longest-first.ts';

type TestOptions = NonNullable<TestProjectInlineConfiguration['test']>;

/** Both keep what they ended with; a project that needs more of them names them too. */
const SEEDS = 'server/test/support/fixed-seeds.ts';
const LEAVE_AS_FOUND = 'server/test/support/leave-as-found.ts';
/** Bundles the program once for a run whose tests start it often. */
const BUNDLE = 'server/test/support/program-bundle.ts';

/**
 * Tests that start the whole program, or a browser. A start costs as much as hundreds of other tests; `unit`
 * keeps a few that start one.
 */
const END_TO_END = [
  'server/test/e2e/**/*.test.ts',
  'server/test/control-api/{agreement,viewer}.test.ts',
  'server/test/http/{hostile-clients,wire-rules}.test.ts',
  'server/test/webhooks/{program,service}.test.ts',
  'cli/test/{command-line,completion,regulations}.test.ts',
  'clients/typescript/test/{browser,package,readme}.test.ts',
];

/**
 * Tests of the whole program that the long run alone does. In the gate their promises are held by smaller
 * tests: audiences by clients/e2e/sentences and profiles-kill.faults.ts, threads that send by
 * adapters/http-client.test.ts.
 */
const LONG_ALONE = ['audiences', 'sender-threads'].map((name) => `server/test/e2e/${name}.test.ts`);

/**
 * Tests of the whole program that the gate runs on the embedded engine alone, and the long run on PostgreSQL
 * too. Most are about what stands beside the store. What the others ask of the store, the conformance suites
 * ask of PostgreSQL in the gate: of its log and queue, its profiles, its deletions (also killed at each step,
 * server/test/faults/deletion.postgres.ts).
 */
const LONG_ON_POSTGRES = [
  'alerts',
  'audiences',
  'bad-input',
  'changing-settings',
  'client',
  'client-address',
  'configuration',
  'definitions',
  'delivery-requests',
  'dev',
  'discards',
  'endpoint-health',
  'endpoints',
  'hostile-text',
  'metrics',
  'profiles',
  'records',
  'refused-requests',
  'regulations',
  'removal',
  'repair',
  'replay',
  'send',
  'send-file',
  'sender-threads',
  'start-cost',
  'start-errors',
  'tail',
  'trace',
  'url-secrets',
];

/**
 * A suite: `npx vitest run --project NAME`. CONTRIBUTING.md says what each is for, and package.json has a
 * script for each.
 */
function project(name: string, options: TestOptions): TestProjectInlineConfiguration {
  return {
    test: {
      name,
      // Both end a test that hangs, and measure nothing: whatever waits gives up before, with its reason
      // (support/until.ts).
      testTimeout: 300_000,
      hookTimeout: 300_000,
      pool: 'forks',
      setupFiles: [SEEDS],
      // Threads that tests start find their sources compiled and stripped of types. Hundreds of threads that
      // each strip types in WebAssembly have made V8 end the process besides: "Check failed: end > addr", in
      // ThreadIsolation::UnregisterWasmAllocation.
      env: { NODE_COMPILE_CACHE: fileURLToPath(new URL('node_modules/.cache/compile', import.meta.url)) },
      ...options,
    },
  };
}

/**
 * `npm run test:clients -- --update` writes the table of docs/reference/compatibility.md instead of comparing
 * with it.
 */
const updatesTable = process.argv.some((argument) => argument === '--update' || argument === '-u');

/** Where tools/ci.ts wants the results of a suite. */
const report = process.env['MILLRACE_TEST_REPORT'];

export default defineConfig({
  test: {
    reporters: report === undefined ? ['default'] : ['default', ['json', { outputFile: report }]],
    // In the gate: each failed test may have waited for minutes.
    bail: report === undefined || IS_LONG ? 0 : 4,
    sequence: { sequencer: LongestFirst },
    projects: [
      project('unit', {
        include: [
          'server/**/*.test.ts',
          'cli/**/*.test.ts',
          'clients/typescript/**/*.test.ts',
          'console/src/**/*.test.ts',
          'tools/**/*.test.ts',
        ],
        exclude: [...configDefaults.exclude, ...END_TO_END],
        // Files share processes and loaded modules: a process for each of 200 files took a third of all the
        // time.
        isolate: false,
        globalSetup: BUNDLE,
        setupFiles: [SEEDS, LEAVE_AS_FOUND],
        // One more than the cores: most tests wait for sockets and disks most of the time.
        maxWorkers: availableParallelism() + 1,
      }),
      // The program as people run it: started from its command line, asked over HTTP, killed and started
      // again. And the TypeScript client as it is published, in a browser and under every Node of the
      // machine.
      project('e2e', {
        include: END_TO_END,
        exclude: [...configDefaults.exclude, ...(IS_LONG ? [] : LONG_ALONE)],
        isolate: false,
        globalSetup: BUNDLE,
        setupFiles: [SEEDS, LEAVE_AS_FOUND],
        maxWorkers: availableParallelism(),
      }),
      // The whole program on PostgreSQL, by the tests that it passes on the embedded engine. Seven are about
      // that engine: they damage its files, take them away or make them impossible, look for its lock, give
      // them to an earlier version, spoil what its writer is told, or watch how it syncs.
      project('e2e-postgres', {
        include: ['server/test/e2e/**/*.test.ts'],
        exclude: [
          'damage',
          'data-folder',
          'doctor',
          'format-step',
          'invariants',
          'start-log',
          'sync',
          ...(IS_LONG ? [] : LONG_ON_POSTGRES),
        ].map((name) => `server/test/e2e/${name}.test.ts`),
        isolate: false,
        globalSetup: ['server/test/support/test-database-server.ts', BUNDLE],
        env: {
          MILLRACE_TEST_DATABASE: 'postgres',
          NODE_COMPILE_CACHE: fileURLToPath(new URL('node_modules/.cache/compile', import.meta.url)),
        },
        setupFiles: [SEEDS, LEAVE_AS_FOUND],
        fileParallelism: false,
      }),
      // The store on PostgreSQL, alone and with several processes.
      project('postgres', {
        include: ['server/test/**/*.postgres.ts'],
        // The first of them ends last. It fails where tests have left databases behind, and then nothing else
        // would end.
        globalSetup: ['server/test/support/postgres-server.ts', BUNDLE],
        isolate: false,
        fileParallelism: false,
      }),
      // The console in a real browser against a real server; it wants `console/dist`.
      project('console', {
        include: ['console/test/**/*.browser.ts'],
        isolate: false,
        fileParallelism: false,
      }),
      // Client libraries against the real server: published ones, and ours.
      project('clients', {
        globalSetup: BUNDLE,
        isolate: false,
        include: [
          'server/test/{clients,docs,packaging}/**/*.clients.ts',
          'clients/e2e/**/*.{clients,test}.ts',
        ],
        // It installs everything twice; in the gate the package is installed and started, and compose.yaml
        // and the charts are read.
        exclude: IS_LONG ? [] : ['server/test/packaging/image.clients.ts'],
        env: {
          ...(updatesTable ? { MILLRACE_UPDATE_TABLE: '1' } : {}),
          NODE_COMPILE_CACHE: fileURLToPath(new URL('node_modules/.cache/compile', import.meta.url)),
        },
        maxConcurrency: 16,
        fileParallelism: false,
        // Omissions and their reasons are printed as they come.
        disableConsoleIntercept: true,
      }),
      // Kills, power cuts, failing storage calls, full disks, clocks that are set.
      project('faults', {
        include: ['server/test/faults/**/*.faults.ts'],
        globalSetup: ['server/test/support/disk-faults/compile.ts', BUNDLE],
        // Each suite bounds its own work; this only ends what hangs.
        testTimeout: 3_600_000,
        isolate: false,
        setupFiles: [SEEDS, LEAVE_AS_FOUND],
        fileParallelism: false,
        // Seeds and sums are the output of this suite, printed as they come.
        disableConsoleIntercept: true,
      }),
      // What takes how long, beside a reference measured in the same run: reported, and never a reason to
      // refuse a change.
      project('timing', {
        include: ['{server,cli,clients/typescript}/**/*.timing.ts'],
        globalSetup: [
          'server/test/support/disk-faults/compile.ts',
          'server/test/support/postgres-server.ts',
          BUNDLE,
        ],
        fileParallelism: false,
        disableConsoleIntercept: true,
      }),
    ],
  },
});
