import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from '../support/program.ts';

/** One block of code of a page. */
export interface Block {
  readonly page: string;
  readonly line: number;
  /** The word behind the three backticks; empty for the output of a command. */
  readonly language: string;
  readonly text: string;
  /** `<!-- not run: why -->` before the block. */
  readonly notRun: string | undefined;
  /** `<!-- run by: path of a test -->` before the block: that test runs it, with what it needs. */
  readonly runBy: string | undefined;
}

/** Everything a user reads that may hold commands. */
export const PAGES: readonly string[] = [
  'README.md',
  ...globSync('docs/{guide,operations,reference}/*.md', { cwd: ROOT }).sort(),
];

/**
 * Made from the help of the program. Its examples are single lines for any machine: they are understood, not
 * run.
 */
export const GENERATED = 'docs/reference/cli.md';

export function textOf(page: string): string {
  return readFileSync(join(ROOT, page), 'utf8');
}

export function blocksOf(page: string): Block[] {
  const lines = textOf(page).split('\n');
  const blocks: Block[] = [];
  for (let at = 0; at < lines.length; at++) {
    const [, language] = /^```(\w*)/.exec(lines[at]!) ?? [];
    if (language === undefined) continue;
    const end = lines.indexOf('```', at + 1);
    if (end < 0) throw new Error(`${page}:${at + 1} begins a block that does not end`);
    const said = remarkBefore(lines, at);
    blocks.push({
      ...{ page, line: at + 1, language, text: `${lines.slice(at + 1, end).join('\n')}\n` },
      notRun: /^not run: (.+)$/.exec(said)?.[1],
      runBy: /^run by: (.+)$/.exec(said)?.[1],
    });
    at = end;
  }
  return blocks;
}

/** The comment on the line before, or before an empty line. */
function remarkBefore(lines: readonly string[], at: number): string {
  const before = lines[at - 1] === '' ? lines[at - 2] : lines[at - 1];
  return /^<!-- (.*) -->$/.exec(before ?? '')?.[1] ?? '';
}

/** `# millrace.yaml` or `// receiver.mjs` as the first line names the file that the text is to be kept in. */
export function fileNameOf({ text }: Block): string | undefined {
  return /^(?:#|\/\/) ([\w.-]+\.\w+)\n/.exec(text)?.[1];
}

export const whereOf = ({ page, line }: Block) => `${page}:${line}`;
