import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { unclearBeginnings, wideComments } from './doc-comments.ts';

const found = (text: string): string[] => unclearBeginnings([{ path: 'a.ts', text }]);

const reported = (line: number, word: string) =>
  `a.ts:${line} begins with ${word}: name the thing first, and say what it is or does`;

describe('unclearBeginnings', () => {
  it.each(['What', 'Whatever', 'Which', 'Who', 'Whoever', 'Whom', 'Whose', 'Nobody', 'That', 'Those'])(
    'finds a doc comment that begins with %s',
    (word) => {
      expect(found(`\n/** ${word} it is. */\nconst a = 1;`)).toEqual([reported(2, word)]);
    },
  );

  it('finds it in a comment of several lines, and within a declaration', () => {
    const text = 'interface A {\n  /**\n   * Those of the others.\n   */\n  readonly a: 1;\n  /** Who. */\n}';
    expect(found(text)).toEqual([reported(2, 'Those'), reported(6, 'Who')]);
  });

  it('leaves alone a comment that has the word elsewhere, and a longer word', () => {
    const text = '/** Says what it is. That is all. */\n/** Whole numbers. */\n/** Thats. */\nconst a = 1;';
    expect(found(text)).toEqual([]);
  });

  it('leaves alone an ordinary comment, a text and a pattern of files', () => {
    const text = "// What it is.\n/* What it is. */\nconst a = '/** What */';\nconst b = 'src/** What';";
    expect(found(text)).toEqual([]);
  });
});

describe('wideComments', () => {
  const wide = (line: string) => wideComments([{ path: 'a.ts', text: `const a = 1;\n${line}\n` }]);
  const words = 'word '.repeat(24).trim();

  it.each([`// ${words}`, `/** ${words} */`, ` * ${words}`])('finds %s', (line) => {
    expect(wide(line)).toEqual([`a.ts:2 is ${line.length} columns wide: wrap it at 110`]);
    expect(wide(line.slice(0, 110))).toEqual([]);
  });

  it('leaves alone code, drawings and directives', () => {
    const drawn = ` *   one ──▶ ${words}`;
    for (const line of [`const b = '${words}';`, drawn, `// biome-ignore lint/a: ${words}`])
      expect(wide(line)).toEqual([]);
  });
});

describe('node tools/doc-comments.ts', () => {
  it('ends with 1 and the place in a tree that has one, apart from packages', () => {
    const folder = mkdtempSync(join(tmpdir(), 'millrace-comments-'));
    const comment = '/** What it is. */\nexport const a = 1;\n';
    for (const path of ['cli/src', 'cli/node_modules/b']) {
      mkdirSync(join(folder, path), { recursive: true });
      writeFileSync(join(folder, path, 'a.ts'), comment);
    }
    const tool = join(import.meta.dirname, 'doc-comments.ts');
    const options = { encoding: 'utf8', stdio: 'pipe' } as const;
    try {
      expect(() => execFileSync(process.execPath, [tool, folder], options)).toThrow(
        expect.objectContaining({
          status: 1,
          stderr: 'cli/src/a.ts:1 begins with What: name the thing first, and say what it is or does\n',
        }),
      );
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});
