import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type FileLine, fileLines, MOST_BYTES, type Place } from './file-lines.ts';

describe('the lines of a file', () => {
  let folder = '';
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'millrace-lines-'));
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  async function linesOf(content: string, from: Place = { offset: 0, line: 0 }): Promise<FileLine[]> {
    const path = join(folder, 'file');
    writeFileSync(path, content);
    const file = await open(path);
    const lines: FileLine[] = [];
    for await (const some of fileLines(file, from)) lines.push(...some);
    await file.close();
    return lines;
  }

  const shown = ({ number, bytes, end }: FileLine) => [number, bytes?.toString(), end];

  it('come with their numbers and where the next begins, the last one with or without a line feed', async () => {
    expect((await linesOf('a\n\nbc\n')).map(shown)).toEqual([
      [1, 'a', 2],
      [2, '', 3],
      [3, 'bc', 6],
    ]);
    expect((await linesOf('ä\nb')).map(shown)).toEqual([
      [1, 'ä', 3],
      [2, 'b', 4],
    ]);
    expect(await linesOf('')).toEqual([]);
  });

  it('can be read from any place where a line begins', async () => {
    const content = Array.from({ length: 20_000 }, (_, n) => `line ${n} ${'x'.repeat(n % 60)}`).join('\n');
    const all = await linesOf(content);
    expect(all.map(({ bytes }) => String(bytes)).join('\n')).toBe(content);
    const { number: line, end: offset } = all[12_345]!;
    expect((await linesOf(content, { offset, line })).map(shown)).toEqual(all.slice(12_346).map(shown));
  });

  it('are known by their place only when they are too long for a call', async () => {
    const lines = await linesOf(`a\n${'x'.repeat(MOST_BYTES + 1)}\n${'y'.repeat(MOST_BYTES)}\nb`);
    expect(lines.map(({ number, bytes }) => [number, bytes?.length])).toEqual([
      [1, 1],
      [2, undefined],
      [3, MOST_BYTES],
      [4, 1],
    ]);
  });
});
