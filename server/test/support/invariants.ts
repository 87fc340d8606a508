import { expect, it } from 'vitest';
import { InvariantError } from '../../src/model/invariant.ts';

/** The text of an invariant, and work that breaks it. */
export type Breach = readonly [text: string, work: () => unknown];

/** A test for each invariant: the work breaks it and no other. */
export function itNotices(breaches: readonly Breach[]): void {
  it.each(breaches)('notices when it is not so that %s', async (text, work) => {
    const breach = { name: InvariantError.name, message: text };
    await expect((async () => await work())()).rejects.toMatchObject(breach);
  });
}
