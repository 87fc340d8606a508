import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { sentencesOf, wrongQuotations } from './quotations.ts';

const PAGE = readFileSync(new URL('../spec/specification.md', import.meta.url), 'utf8');

const wrongIn = (test: string, page = PAGE) =>
  wrongQuotations([
    { path: 'spec/specification.md', text: page },
    { path: 'a.clients.ts', text: test },
  ]);

describe('sentencesOf', () => {
  it('reads paragraphs and lists, over line ends, without links and tables', () => {
    const page =
      '# A\nFirst [one](#x) of\ntwo ([b](#b)). `Second`.\n\n| no | table |\n|---|---|\n\n1. Third, e.g. x\n   goes on.\n2. [C](c.md) has more.\n\n## D\nNot it.\n';
    expect(sentencesOf(page, /^# A$/)).toEqual(['First one of two.', '`Second`.', 'Third, e.g. x goes on.']);
  });
});

describe('wrongQuotations', () => {
  it('names a quotation that the page does not have word for word', () => {
    const test =
      "it(\n  quoted(\n    'A key never changes.',\n    'A key never changed.',\n  ),\n  () => {});";
    expect(wrongIn(test).filter((line) => line.startsWith('a.clients.ts'))).toEqual([
      'a.clients.ts:2: spec/specification.md has no such sentence: A key never changed.',
    ]);
  });

  it('names a sentence that no test quotes any more', () => {
    const missing = 'spec/specification.md, "Keys of audiences": no test quotes: A key never changes.';
    expect(wrongIn('')).toContain(missing);
    expect(wrongIn(`quoted("A key never changes.")`)).not.toContain(missing);
  });

  it('names a chapter that has gone', () => {
    const page = PAGE.replace('### Keys of audiences', '### Keys');
    expect(wrongIn('', page)).toContain(
      'spec/specification.md: no chapter "Keys of audiences", whose sentences tests quote',
    );
  });
});
