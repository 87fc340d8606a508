import { describe, expect, it } from 'vitest';
import { paintFor } from './paint.ts';
import { table } from './table.ts';

const plain = paintFor({}, {});

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
      'name         n  more',
      'crm      1,234  why',
      'billing      5',
      'Größe 🎉',
    ]);
  });

  it('cuts what is too long, and takes the power over the terminal from every cell', () => {
    const headings = [
      { title: 'name', align: 'left', most: 6 },
      { title: 'n', align: 'right' },
    ] as const;
    expect(table(headings, [[{ text: 'a\u001b[2Jbcdef' }, { text: '1' }]], plain)).toEqual([
      'name    n',
      'a·[2J…  1',
    ]);
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
});
