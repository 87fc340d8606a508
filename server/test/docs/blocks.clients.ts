import { spawnSync } from 'node:child_process';
import { describe, expect, it } from 'vitest';
import { blocksOf, GENERATED, PAGES, whereOf } from './pages.ts';
import { Reader } from './reader.ts';

/**
 * Every command and program of the documentation, typed by a reader of its page. docs.test.ts checks the
 * rest.
 */

const LANGUAGES = ['sh', 'js', 'ts', 'py', 'go'];
const PROGRAMS = { py: 'python3', go: 'go', sh: 'curl' };

const missing = Object.entries(PROGRAMS)
  .filter(([, program]) => spawnSync(program, ['--help']).error !== undefined)
  .map(([language]) => language);

for (const page of PAGES) {
  if (page === GENERATED) continue;
  const blocks = blocksOf(page).filter(({ language }) => LANGUAGES.includes(language));
  for (const block of blocks) {
    if (block.notRun) console.log(`not run: ${whereOf(block)}: ${block.notRun}`);
    else if (missing.includes(block.language))
      console.log(`left out: ${whereOf(block)}: no ${block.language} here`);
  }
  const run = blocks.filter(
    ({ language, notRun, runBy }) => !notRun && !runBy && !missing.includes(language),
  );
  if (run.length === 0) continue;
  describe(page, () => {
    it('says what can be typed as it stands', async () => {
      const reader = new Reader(page);
      try {
        await reader.start();
        for (const block of run)
          expect([whereOf(block), await reader.run(block)]).toEqual([whereOf(block), undefined]);
      } finally {
        await reader.stop();
      }
    });
  });
}
