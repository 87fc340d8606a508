import { globSync, readFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import { describe, expect, it } from 'vitest';
import { type Mutant, mutate } from './mutate.ts';

/** Runs the body of a function with one mutant in force, or with none. */
function run(body: string, mutant: Mutant | undefined, values: Record<string, unknown>): unknown {
  const { text } = mutate('a.ts', `export function f(${Object.keys(values)}) {${body}}`);
  const code = stripTypeScriptTypes(text).replace(/const isMutant.*?\}\)\(\)\);/, '');
  const made = new Function('isMutant', `${code.replace('export', '')}; return f;`) as (
    isMutant: (id: number) => boolean,
  ) => (...given: unknown[]) => unknown;
  let left = 1000;
  return made((id) => {
    if (left-- === 0) throw new RangeError('goes on for ever');
    return id === mutant?.id;
  })(...Object.values(values));
}

/** Answers of a body by the mutant in force; the answer without any is named "none". */
function answers(body: string, values: Record<string, unknown> = {}): Record<string, unknown> {
  const { mutants } = mutate('a.ts', `export function f(${Object.keys(values)}) {${body}}`);
  const made: [string, unknown][] = [['none', run(body, undefined, values)]];
  for (const mutant of mutants) {
    let answer: unknown;
    try {
      answer = run(body, mutant, values);
    } catch (error) {
      answer = (error as Error).name;
    }
    made.push([mutant.key.replace('f: ', ''), answer]);
  }
  return Object.fromEntries(made);
}

describe('mutants', () => {
  it('change comparisons, one at a time', () => {
    expect(answers('return a < b === true', { a: 1, b: 1 })).toEqual({
      none: false,
      '=== → !==: a < b === true': true,
      '< → <=: a < b': true,
      'flipped: true': true,
    });
  });

  it('change what is added and joined, but not texts', () => {
    expect(answers('return String(a + b) + ":" + (a && b)', { a: 1, b: 2 })).toEqual({
      none: '3:2',
      '+ → -: a + b': '-1:2',
      '&& → ||: a && b': '3:1',
    });
  });

  it('fix conditions', () => {
    expect(answers('if (a) return 1; else return b ? 2 : 3;', { a: false, b: true })).toEqual({
      none: 2,
      'true: a': 1,
      'false: a': 2,
      'true: b': 2,
      'false: b': 3,
    });
    expect(answers('let n = 0; while (n < 3) n += 1; return n;')).toMatchObject({
      none: 3,
      'false: n < 3': 0,
      'left out: n += 1;': 'RangeError',
    });
  });

  it('leave statements out, and the other branch stays where it was', () => {
    expect(answers('let n = 0; if (a) n++; else n = 5; g(); return n;', { a: false, g: () => {} })).toEqual({
      none: 5,
      'true: a': 1,
      'false: a': 5,
      'left out: n++;': 5,
      'left out: n = 5;': 0,
      'left out: g();': 5,
    });
  });

  it('change what happens where there is nothing', () => {
    expect(answers('return a?.b?.[0]?.(1) ?? c', { a: undefined, c: 7 })).toEqual({
      none: 7,
      '?? → left: a?.b?.[0]?.(1) ?? c': undefined,
      '?? → right: a?.b?.[0]?.(1) ?? c': 7,
      '?. → .: a?.b?.[0]?.(1)': 7,
      '?. → .: a?.b?.[0]?.(1) (2)': 7,
      '?. → .: a?.b?.[0]?.(1) (3)': 'TypeError',
    });
  });

  it('leave types, imports and the fields of a constructor alone', () => {
    const text =
      "import a from './a.ts'; interface B { c: true } class D { e: 1 | 2; constructor() { this.e = 1; } }";
    const { mutants, text: same } = mutate('a.ts', text);
    expect(mutants).toEqual([]);
    expect(same.endsWith(text)).toBe(true);
  });

  it('have a number, a line, and a key that tells two of a kind apart', () => {
    const { mutants } = mutate('a.ts', 'class A {\n  f(a) {\n    a.b();\n    a.b();\n  }\n}', 10);
    expect(mutants).toEqual([
      { id: 10, path: 'a.ts', line: 3, key: 'A.f: left out: a.b();' },
      { id: 11, path: 'a.ts', line: 4, key: 'A.f: left out: a.b(); (2)' },
    ]);
  });

  it('keep every file of the server one that can be read', () => {
    const root = new URL('../../server/src/', import.meta.url).pathname;
    for (const path of globSync('{delivery,nodes,ingest}/*.ts', { cwd: root })) {
      const { text } = mutate(path, readFileSync(root + path, 'utf8'));
      expect(() => stripTypeScriptTypes(text), path).not.toThrow();
    }
  });
});
