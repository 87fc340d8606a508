import { existsSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

const DURATIONS = join(import.meta.dirname, 'test-durations.json');

/**
 * Starts the test files that took longest first, so that none of them runs alone at the end.
 * `tools/test-durations.json` has the milliseconds of each file of a second and more, by a run of the gate
 * (`node tools/ci.ts durations`); of all others the largest are first.
 */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const durations: Readonly<Record<string, number>> = existsSync(DURATIONS)
      ? JSON.parse(readFileSync(DURATIONS, 'utf8'))
      : {};
    const others = await super.sort(files);
    const durationOf = ({ moduleId, project }: TestSpecification) =>
      durations[`${project.name} ${relative(join(import.meta.dirname, '..'), moduleId)}`] ?? 0;
    return others.toSorted((one, other) => durationOf(other) - durationOf(one));
  }
}
