import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { HclError, HclReference, parseHcl } from './hcl.ts';

const valueIn = (text: string) => parseHcl(`resource "a" "b" {\n  x = ${text}\n}`)[0]!.attributes['x'];

describe('a file of a workspace', () => {
  it('has blocks with labels and attributes', () => {
    const text = `\ufeff# a remark
import {
  to = segment_source.id-src_web // another
  id = "src_web"
}
/* and
a third */
resource "segment_source" "id-src_web" { enabled = true }`;
    expect(parseHcl(text)).toMatchObject([
      {
        type: 'import',
        labels: [],
        attributes: { to: new HclReference('segment_source.id-src_web'), id: 'src_web' },
      },
      { type: 'resource', labels: ['segment_source', 'id-src_web'], attributes: { enabled: true } },
    ]);
  });

  it.each([
    ['null', null],
    ['-1.5e3', -1500],
    ['[]', []],
    ['["a", 1, [true],]', ['a', 1, [true]]],
    ['{}', {}],
    ['{ a = 1\n "b c" = "d", e : 2 }', { a: 1, 'b c': 'd', e: 2 }],
    ['jsonencode({ a = [{ "@path" = "$.x" }] })', { a: [{ '@path': '$.x' }] }],
    [String.raw`"a\"b\\c\nd\te\u00e9\U0001f680"`, 'a"b\\c\nd\teé🚀'],
    [`"$$\{a} %%{b} $ % $$ %% $5"`, `$\{a} %{b} $ % $$ %% $5`],
  ])('has values: %s', (text, value) => {
    expect(JSON.parse(JSON.stringify(valueIn(text)))).toEqual(value);
  });

  it.each([
    [`"$\{a}"`, /line 2: \$\{…\} in a text is not understood/],
    ['"%{if}"', /%\{…\} in a text/],
    ['"a', /line 2: this text has no end/],
    ['"a\nb"', /this text has no end/],
    [String.raw`"\q"`, /\\q is not understood/],
    [String.raw`"\u00"`, /\\u is not understood/],
    ['<<EOT\na\nEOT', /expected a value/],
    ['[1 2]', /expected , or \]/],
    ['{ a 1 }', /expected = behind a/],
    ['{ a = 1, a = 2 }', /a is given twice/],
    ['jsonencode 1', /expected \( behind jsonencode/],
    [`${'['.repeat(200)}`, /nested more than 100 levels/],
    ['1\n  y { }', /a block y within a block/],
  ])('is refused where it has more: %s', (text, message) => {
    expect(() => valueIn(text)).toThrow(message);
    expect(() => valueIn(text)).toThrow(HclError);
  });

  it('never gives a value to the prototype', () => {
    const made = valueIn('{ __proto__ = { polluted = true }, constructor = 1 }') as object;
    expect(Object.keys(made)).toEqual(['__proto__', 'constructor']);
    expect(({} as { polluted?: true }).polluted).toBeUndefined();
  });

  it('is read or refused, and nothing else', () => {
    const parts = [
      'resource',
      '"a"',
      '{',
      '}',
      '=',
      '[',
      ']',
      'jsonencode',
      '(',
      ')',
      '"',
      '\\',
      '$',
      '{',
      '1',
      'x',
      '#',
      '/*',
      '\n',
    ];
    const text = fc.array(fc.constantFrom(...parts), { maxLength: 30 }).map((some) => some.join(' '));
    fc.assert(
      fc.property(fc.oneof(text, fc.string()), (some) => {
        try {
          parseHcl(some);
        } catch (error) {
          expect(error).toBeInstanceOf(HclError);
        }
      }),
    );
  });
});
