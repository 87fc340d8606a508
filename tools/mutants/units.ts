/**
 * Runs test files of a copy of the repository, in one vitest for as long as it is asked to: a process of its
 * own, so that it can be ended from outside.
 *
 *   node tools/mutants/units.ts COPY     asked by messages; see `Asked` and `Answer`
 */
import { join, relative } from 'node:path';
import { BaseSequencer, createVitest, type TestSpecification } from 'vitest/node';

export interface Asked {
  readonly files: readonly string[];
  /** Variables that the tests see, besides those of this process. */
  readonly env: Readonly<Record<string, string>>;
}

export interface Answer {
  /** The test that failed, or why a process ended; undefined where all passed. */
  readonly failed: string | undefined;
}

/** After so long a test has failed. Each that is chosen takes much less. */
const TEST_TIMEOUT = 20_000;

/** Files are run as they are asked for: the quickest first. */
class AsAsked extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    return files;
  }
}

async function main(root: string): Promise<void> {
  const vitest = await createVitest('test', {
    config: false,
    root,
    include: ['{server,cli,tools}/**/*.test.ts'],
    setupFiles: [join(root, 'server/test/support/fixed-seeds.ts')],
    watch: false,
    // Its memory of other runs is in node_modules, which the copy shares.
    cache: false,
    bail: 1,
    reporters: [{}],
    sequence: { sequencer: AsAsked },
    pool: 'forks',
    isolate: false,
    maxWorkers: 1,
    testTimeout: TEST_TIMEOUT,
    hookTimeout: TEST_TIMEOUT,
  });
  const all = new Map<string, TestSpecification>();
  for (const spec of await vitest.globTestSpecifications()) all.set(relative(root, spec.moduleId), spec);
  process.on('message', ({ files, env }: Asked) => {
    void (async () => {
      Object.assign(process.env, env);
      vitest.state.filesMap.clear();
      vitest.state.clearErrors();
      const chosen = files.flatMap((file) => all.get(file) ?? []);
      const { testModules, unhandledErrors } = await vitest.runTestSpecifications(chosen, true);
      const failed = testModules.find((one) => !one.ok());
      const test = failed && [...failed.children.allTests('failed')][0];
      const error = unhandledErrors[0] as Error | undefined;
      const name =
        failed && `${relative(root, failed.moduleId)}${test === undefined ? '' : ` > ${test.fullName}`}`;
      process.send!({ failed: name ?? error?.message } satisfies Answer);
    })();
  });
  process.on('disconnect', () => process.exit());
  process.send!({ failed: undefined } satisfies Answer);
}

await main(process.argv[2]!);
