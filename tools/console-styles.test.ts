// biome-ignore-all lint/suspicious/noTemplateCurlyInString: templates within plain strings are what this file is about.
import { describe, expect, it } from 'vitest';
import { styleFaults } from './console-styles.ts';

const files = (contents: Readonly<Record<string, string>>) =>
  Object.entries(contents).map(([path, text]) => ({ path, text }));

const MAIN = "import './base.css';\nimport './page.tsx';";
const faults = (contents: Readonly<Record<string, string>>) =>
  styleFaults(files({ 'main.tsx': MAIN, 'base.css': '', 'page.tsx': '', ...contents }));

describe('style sheets and components', () => {
  it('agree where each class is used, and loaded with what uses it', () => {
    expect(
      faults({
        'base.css': '/* .no-class */ .row:hover > .cell { color: red; background: url("./a.svg"); }',
        'page.tsx': 'export const Page = () => <p className="row"><b className={wide ? "cell" : ""} /></p>;',
      }),
    ).toEqual([]);
  });

  it('differ where a class is used by none', () => {
    expect(faults({ 'base.css': '@media (max-width: 1.5em) { .old { color: red; } }' })).toEqual([
      'base.css: no component has the class .old',
    ]);
  });

  it('may agree by a word that is a class only later, or by its beginning', () => {
    expect(
      faults({
        'base.css': '.warn {} .skel-0 {} .u-select {}',
        'page.tsx': "const TONES = { late: 'warn' }; const row = (nth: number) => `skel skel-${nth}`;",
      }),
    ).toEqual([]);
  });

  it('differ where a component has a class of no sheet', () => {
    expect(faults({ 'page.tsx': 'const a = <p className={`ro ${is === "x" ? "ded" : ""}`} />;' })).toEqual([
      'page.tsx: no style sheet has the class .ro',
      'page.tsx: no style sheet has the class .ded',
    ]);
  });

  it('differ where a page only looks right once another one was opened', () => {
    const table = {
      'ui/table.css': '.tbl {}',
      'ui/table.tsx': 'import \'./table.css\';\n<p className="tbl" />;',
    };
    const lazy = (text: string) =>
      faults({ ...table, 'features/lazy.tsx': `${text}\n<p className="tbl" />;` });
    expect(lazy("import { Table } from '../ui/table.tsx';")).toEqual([]);
    const fault = 'features/lazy.tsx: has the class .tbl and does not import ui/table.css';
    expect(lazy("import type { Table } from '../ui/table.tsx';")).toEqual([fault]);
    expect(lazy("const Table = lazy(() => import('../ui/table.tsx'));")).toEqual([fault]);
  });
});
