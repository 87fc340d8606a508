import { describe, expect, it } from 'vitest';
import { deadLinks, nameless, tooLong } from './budgets.ts';

const lines = (n: number): string => 'const line = 1;\n'.repeat(n);

describe('tooLong', () => {
  it('allows 600 lines and refuses 601', () => {
    expect(tooLong({ path: 'server/src/a.ts', text: lines(600) })).toEqual([]);
    expect(tooLong({ path: 'server/src/a.ts', text: lines(601) })).toHaveLength(1);
  });

  it('accepts a longer file whose header says why, even where the words wrap', () => {
    const excuse =
      '/**\n * All statements in one place: over 600\n * lines because each has its reason beside it.\n */\n';
    expect(tooLong({ path: 'server/src/a.ts', text: excuse + lines(700) })).toEqual([]);
    expect(
      tooLong({ path: 'a.sql', text: `-- over 600 lines because of the tables\n${lines(700)}` }),
    ).toEqual([]);
  });

  it('does not take the words for an excuse when they stand elsewhere in the file', () => {
    const late = `${lines(700)}// over 600 lines because\n`;
    expect(tooLong({ path: 'server/src/a.ts', text: late })).toHaveLength(1);
  });

  it('looks at source files only, and not at tests', () => {
    for (const path of ['a.md', 'server/src/a.test.ts', 'server/test/e2e/a.ts', 'clients/go/a_test.go']) {
      expect(tooLong({ path, text: lines(601) })).toEqual([]);
    }
  });
});

describe('nameless', () => {
  it('refuses files and folders whose name says nothing', () => {
    for (const path of [
      'server/src/utils.ts',
      'server/src/common/a.ts',
      'cli/Helper.ts',
      'a/base.test.ts',
      'core/x.md',
    ]) {
      expect(nameless({ path, text: '' }), path).toHaveLength(1);
    }
  });

  it('accepts a longer name that happens to begin or end like one', () => {
    for (const path of ['server/src/baseline.ts', 'server/src/score.ts', 'docs/commonplace.md']) {
      expect(nameless({ path, text: '' }), path).toEqual([]);
    }
  });
});

describe('deadLinks', () => {
  const exists = (path: string): boolean =>
    ['docs/a.md', 'docs', 'README.md', 'docs/two words.md'].includes(path);
  const dead = (path: string, text: string): string[] => deadLinks({ path, text }, exists);

  it('resolves links from the folder of their document', () => {
    expect(dead('README.md', '[a](docs/a.md) [b](./docs/) [c](docs/a.md#part "title")')).toEqual([]);
    expect(dead('docs/a.md', '[up](../README.md) [root](/README.md) [spaced](two%20words.md)')).toEqual([]);
    expect(dead('docs/a.md', '[wrong](docs/a.md)')).toEqual([
      'docs/a.md: the link to docs/a.md leads nowhere',
    ]);
  });

  it('finds images, references and HTML as well', () => {
    const text = '![x](x.png)\n\n[ref]: gone.md\n\n<img src="y.png"> <a href="z.md">z</a>\n';
    expect(dead('README.md', text)).toHaveLength(4);
  });

  it('leaves other sites, places on the page and code alone', () => {
    const text =
      '[a](https://example.com/x) [b](#here) [c](mailto:a@b.c) `[d](gone.md)`\n```md\n[e](gone.md)\n```\n';
    expect(dead('README.md', text)).toEqual([]);
  });
});
