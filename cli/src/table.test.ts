import { describe, expect, it } from 'vitest';
import { widthOf } from './column.ts';
import { paintFor } from './paint.ts';
import { type Heading, table } from './table.ts';

const plain = paintFor({}, {});
/** A terminal with this many columns. */
const on = (columns: number) => paintFor({ isTTY: true, columns }, { NO_COLOR: '1' });

describe('a table', () => {
  it('has columns as wide as their widest cell, numbers at the right, and nothing at the ends of lines', () => {
    const headings = [
      { title: 'name', align: 'left' },
      { title: 'n', align: 'right' },
      { title: 'more', align: 'left' },
    ] as const;
    const rows = [
      [{ text: 'crm' }, { text: '1,234' }, { text: 'why' }],
      [{ text: 'billing' }, { text: '5' }, { text: '' }],
      [{ text: 'Größe 🎉' }, { text: '' }],
    ];
    expect(table(headings, rows, plain)).toEqual([
      'name          n  more',
      'crm       1,234  why',
      'billing       5',
      'Größe 🎉',
    ]);
  });

  it('cuts what is too long, and takes the power over the terminal from every cell', () => {
    const headings = [
      { title: 'name', align: 'left', most: 6 },
      { title: 'n', align: 'right' },
    ] as const;
    const rows = [[{ text: 'a\u001b[2Jbcdef' }, { text: '1' }]];
    expect(table(headings, rows, on(80))).toEqual(['name    n', 'a·[2J…  1']);
    // A pipe gets every cell in full.
    expect(table(headings, rows, plain)).toEqual(['name    n', 'a·[2Jbcdef  1']);
  });

  it('keeps its widths when cells are coloured', () => {
    const colours = paintFor({ isTTY: true }, {});
    const headings = [
      { title: 'a', align: 'right' },
      { title: 'b', align: 'right' },
    ] as const;
    const rows = [
      [{ text: '1', draw: colours.red }, { text: '2' }],
      [{ text: '100' }, { text: '3' }],
    ];
    const [, first, second] = table(headings, rows, colours);
    expect(first).toBe(`  ${colours.red('1')}  2`);
    expect(second).toBe('100  3');
  });

  const WIDE: readonly Heading[] = [
    { title: 'name', align: 'left', most: 32, least: 8 },
    { title: 'n', align: 'right' },
    { title: 'id', align: 'left' },
    { title: 'reasons', align: 'left', least: 12 },
  ];
  const cells = (...texts: readonly string[]) => texts.map((text) => ({ text }));
  const ID = '0199b8a5-2f61-7c33-9d0e-6d6c1f0a4b11';
  const ROWS = [
    cells('a-long-name-of-a-source', '1,234', ID, 'no_user_anon_id 20, event_not_defined 4'),
    cells('日本語の名前です', '5', ID, ''),
  ];

  it('fits a terminal: texts are cut, the widest first, and numbers and ids never', () => {
    expect(table(WIDE, ROWS, on(80))).toEqual([
      'name                  n  id                                    reasons',
      'a-long-name-of-…  1,234  0199b8a5-2f61-7c33-9d0e-6d6c1f0a4b11  no_user_anon_id …',
      '日本語の名前です      5  0199b8a5-2f61-7c33-9d0e-6d6c1f0a4b11',
    ]);
  });

  it('puts below a row what has no room beside it, each with its title', () => {
    expect(table(WIDE, ROWS, on(50))).toEqual([
      'name                         n',
      'a-long-name-of-a-source  1,234',
      `    id ${ID}`,
      '    reasons no_user_anon_id 20, event_not_defined…',
      '日本語の名前です             5',
      `    id ${ID}`,
    ]);
  });

  it('is never wider than the terminal, however narrow that is, and loses no number', () => {
    for (let columns = 44; columns <= 130; columns++) {
      const lines = table(WIDE, ROWS, on(columns));
      for (const line of lines)
        expect([columns, line, widthOf(line) <= columns]).toEqual([columns, line, true]);
      expect(lines.join('\n')).toContain('1,234');
      expect(lines.filter((line) => line.includes(ID))).toHaveLength(2);
    }
    expect(table(WIDE, ROWS, on(5))[0]).toBe('name');
  });
});
