import { describe, expect, it } from 'vitest';
import { breaches, invariantsIn } from './invariants.ts';

const file = (path: string, text: string) => ({ path, text });

describe('the check of invariants', () => {
  it('finds every call, also of an object, with its line', () => {
    const files = [
      file('a.ts', "invariant(one > 0, 'there is one');\nreports.expectInvariant(two, 'there are two');"),
      file('b.ts', "// invariant(x, 'in a comment')\nother(three, 'is none');"),
    ];
    expect(invariantsIn(files)).toEqual([
      { place: 'a.ts:1', text: 'there is one' },
      { place: 'a.ts:2', text: 'there are two' },
    ]);
  });

  it('refuses a text that is no constant, that stands twice, and that no test names', () => {
    const invariants = invariantsIn([
      file('a.ts', "invariant(one, 'there ' + one);\ninvariant(one, 'there is one');"),
      file('b.ts', "invariant(one, 'there is one');\ninvariant(two, 'there are two');"),
    ]);
    expect(breaches(invariants, [file('a.test.ts', "['there is one', () => one(0)]")])).toEqual([
      'a.ts:1: the text of an invariant is a constant string',
      'b.ts:1: "there is one" stands at a.ts:2 as well',
      'b.ts:2: no test names "there are two"',
    ]);
  });

  it('takes a whole text between quotes for named, and no part of one', () => {
    const invariants = invariantsIn([file('a.ts', "invariant(one, 'there is one');")]);
    expect(breaches(invariants, [file('a.test.ts', '"there is one"')])).toEqual([]);
    expect(breaches(invariants, [file('a.test.ts', "'there is one more'")])).toHaveLength(1);
  });
});
