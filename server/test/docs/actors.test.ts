import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';

const ROOT = join(import.meta.dirname, '../../..');
const PAGE = readFileSync(join(ROOT, 'SECURITY.md'), 'utf8');

interface Line {
  readonly actor: string;
  readonly cannot: string;
  readonly file: string;
  /** The beginning of the title of its test. */
  readonly title: string;
}

/** Lines of the table of actors. An actor stands once, before the first of its lines. */
function linesOf(page: string): Line[] {
  const [, table = ''] = page.split('## What each actor can do, and cannot');
  let actor = '';
  return table.split('\n').flatMap((text): Line[] => {
    const cells = text.split(' | ').map((cell) => cell.replace(/^\| ?|\s*\|$/g, '').trim());
    const [, file, title] = /^`([^`]+)` (.+)$/.exec(cells[3] ?? '') ?? [];
    if (file === undefined || title === undefined) return [];
    if (cells[0] !== '') actor = cells[0]!;
    return [{ actor, cannot: cells[2]!, file, title }];
  });
}

const LINES = linesOf(PAGE);

describe('the table of actors', () => {
  it('is about everybody whom the product guards against', () => {
    const actors = [...new Set(LINES.map(({ actor }) => actor))];
    expect(actors.map((actor) => actor.replace(/\*/g, ''))).toEqual([
      'Public write key',
      'Content of events',
      'Receiver',
      'Viewer',
      'Editor',
      'Web page',
      'Local user',
      'Peer of the database',
      'Stolen backup',
    ]);
  });

  it.each(LINES)('has a test for each line: $cannot', ({ file, title }) => {
    const text = readFileSync(join(ROOT, file), 'utf8');
    expect(text.replace(/\s*\n\s*/g, ' ')).toContain(title);
  });
});
