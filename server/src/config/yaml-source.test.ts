// biome-ignore-all lint/suspicious/noTemplateCurlyInString: ${NAME} in a plain string is what this file is about.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { pathText, readConfigFile } from './yaml-source.ts';

function read(text: string, env: Record<string, string> = {}) {
  return readConfigFile({ path: 'f', text }, env);
}

/** Line, column, path and message of each problem. */
function problems(text: string, env: Record<string, string> = {}): string[] {
  return read(text, env).problems.map(
    ({ line, column, path, message }) => `${line}:${column} ${path}: ${message}`,
  );
}

describe('the syntax of the file', () => {
  it.each<[string, string, string]>([
    ['a tab as indentation', 'a:\n\tb: 1\n', '2:1 : is not valid YAML: Tabs are not allowed as indentation'],
    [
      'a wrong indentation',
      'a:\n  b: 1\n c: 2\n',
      '3:1 : is not valid YAML: All mapping items must start at the same column',
    ],
    [
      'an open list',
      'a: [1,\nb: 2\n',
      '2:1 : is not valid YAML: Flow sequence in block collection must be suffi',
    ],
    ['an open quote', 'a: 1\nb: "x\n', '3:1 : is not valid YAML: Missing closing "quote'],
    ['a nested mapping on one line', 'a: b: c\n', '1:4 : is not valid YAML: Nested mappings are not allowed'],
    ['an unknown tag', 'a: !secret x\n', '1:4 : is not valid YAML: a text that begins with !'],
    [
      'two documents',
      'a: 1\n---\nb: 2\n',
      '2:1 : must be one YAML document: remove the line with --- or ...',
    ],
  ])('is refused with its line: %s', (_, text, expected) => {
    const found = problems(text);
    expect(found).toHaveLength(1);
    expect(found[0]?.startsWith(expected)).toBe(true);
  });

  it('never quotes the text it stumbles over, which may be a secret', () => {
    const found = problems('- a\nb: "s3cr3t"\n');
    expect(found).toEqual(['2:1 : is not valid YAML: Unexpected scalar at node end']);
    expect(problems('- a\n"s3cr3t"\n').join()).not.toContain('s3cr3t');
  });

  it('reports every wrong line once', () => {
    expect(problems('a:\n\tb: 1\nc:\n\td: 2\n').map((line) => line.slice(0, 3))).toEqual(['2:1', '4:1']);
  });
});

describe('keys', () => {
  it('are refused the second time, at the place of the second', () => {
    expect(problems('a: 1\nb:\n  c: 1\n  d: 2\n  c: 3\na: 2\n')).toEqual([
      '5:3 b.c: is given twice, first in line 3',
      '6:1 a: is given twice, first in line 1',
    ]);
  });

  it('are plain texts, and never __proto__', () => {
    expect(problems('a:\n  ? [x]\n  : 1\n')).toEqual(['2:5 a: must have plain text as keys']);
    expect(problems('a: { __proto__: { x: 1 } }\n')).toEqual(['1:6 a.__proto__: is not a possible key']);
  });

  it('remember where they and their values stand', () => {
    const { places } = read('a:\n  - b: 1\n    c d: &x\n      - two\n  - *x\n');
    expect(places.get('a[0].b')).toEqual({
      key: { line: 2, column: 5 },
      at: { line: 2, column: 8 },
      value: 1,
    });
    expect(places.get('a[0]["c d"][0]')?.at).toEqual({ line: 4, column: 9 });
    expect(places.get('a[1]')?.at).toEqual({ line: 5, column: 5 });
  });

  it('stand at the same places with references, line ends of Windows and a byte order mark', () => {
    const { places } = read('\uFEFFa: { b: ${X}, c: 1 }\r\nd: 2\r\n', { X: 'long value' });
    expect(places.get('a.c')?.key).toEqual({ line: 1, column: 15 });
    expect(places.get('d')?.key).toEqual({ line: 2, column: 1 });
  });

  it('are written as paths that can be read back', () => {
    expect(pathText(['a', 0, 'X-Team', 'b c', 1])).toBe('a[0].X-Team["b c"][1]');
    expect(pathText([])).toBe('');
  });
});

describe('references to the environment', () => {
  it('are replaced in block, flow and quoted texts, several in one, in lists and values', () => {
    const text = `a: \${X}\nb: { c: \${X}, d: [\${Y}, "\${X}-\${Y}"] }\ne: 'in \${X}'\nf: |\n  \${Y}\n`;
    expect(read(text, { X: 'one', Y: 'two' }).value).toEqual({
      a: 'one',
      b: { c: 'one', d: ['two', 'one-two'] },
      e: 'in one',
      f: 'two\n',
    });
  });

  it('are refused when the variable is not set, with line and name, and not reported a second time', () => {
    const text = 'a: x\nb: { c: ${MISSING}, d: "${ALSO_MISSING} ${X}" }\n';
    const file = read(text, { X: '1' });
    expect(problems(text, { X: '1' })).toEqual([
      '2:9 b.c: reads ${MISSING}, but the environment variable MISSING is not set',
      '2:24 b.d: reads ${ALSO_MISSING}, but the environment variable ALSO_MISSING is not set',
    ]);
    expect([...file.unread]).toEqual(['b.c', 'b.d']);
  });

  it('do not find the properties that every object inherits', () => {
    expect(problems('a: ${constructor}')).toEqual([
      '1:4 a: reads ${constructor}, but the environment variable constructor is not set',
    ]);
  });

  it('may be set and empty', () => {
    expect(read('a: ${X}', { X: '' }).value).toEqual({ a: '' });
  });

  it('can be written literally as $${', () => {
    expect(read('a: $${X}\nb: { c: $${X} }\nd: $$${X}\ne: $5 {x} $', {}).value).toEqual({
      a: '${X}',
      b: { c: '${X}' },
      d: '$${X}',
      e: '$5 {x} $',
    });
  });

  it.each(['${}', '${a-b}', '"${A B}"', '"${X"', '${1A}'])(
    'are refused when they are no reference: %s',
    (text) => {
      expect(problems(`a: ${text}`)).toEqual([
        '1:4 a: holds a reference that is not ${NAME}: write $${ for a literal ${',
      ]);
    },
  );

  it('are left alone in keys and comments', () => {
    expect(read('${X}: 1 # ${Y}\n').value).toEqual({ '${X}': 1 });
  });

  it('are always one text: no value can add keys, become a number, or be read again', () => {
    const value = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.constantFrom('5', 'true', '}\nb: 2', '"', '${X}', ' #'),
    );
    fc.assert(
      fc.property(value, (secret) => {
        const { value: read_, problems: found } = read('a: ${X}\nb: { c: ${X}, d: [${X}] }\n', { X: secret });
        expect(found).toEqual([]);
        expect(read_).toEqual({ a: secret, b: { c: secret, d: [secret] } });
      }),
    );
  });

  it('keep the text as it was written, to be shown in place of the value', () => {
    expect(read('a: { b: x-${X} }', { X: 'secret' }).places.get('a.b')).toMatchObject({ written: 'x-${X}' });
  });
});

describe('anchors', () => {
  it('may be used again', () => {
    expect(read('a: &x { b: 1 }\nc: *x\n').value).toEqual({ a: { b: 1 }, c: { b: 1 } });
  });

  it('are refused when unknown, inside themselves, or standing for too much', () => {
    expect(problems('a: *x\n')).toEqual(['1:4 a: refers to an anchor that is not defined before it']);
    expect(problems('a: &x [1, *x]\n')).toEqual(['1:11 a[1]: refers to the collection it stands in']);
    const levels = Array.from({ length: 9 }, (_, level) => {
      const inner = level === 0 ? 'x' : `*l${level - 1}`;
      return `k${level}: &l${level} [${Array.from({ length: 10 }, () => inner).join(', ')}]`;
    });
    const found = problems(levels.join('\n'));
    expect(found).toHaveLength(1);
    expect(found[0]).toContain('the file stands for more than 100000 values');
  });

  it('mean the last anchor of that name before them', () => {
    expect(read('a: &x 1\nb: *x\nc: &x { d: *x }\ne: &y *x\nf: *x\n').problems).toHaveLength(1);
    expect(read('a: &x 1\nb: *x\nc: &x 2\nd: [*x, &x 3, *x]\n').value).toEqual({
      a: 1,
      b: 1,
      c: 2,
      d: [2, 3, 3],
    });
  });

  it('may be used thousands of times', () => {
    const found = read(`a: &x 1\nb: [${'*x, '.repeat(50_000)}]\n`);
    expect(found.problems).toEqual([]);
    expect((found.value as { b: number[] }).b).toHaveLength(50_000);
  });
});

describe('a file that is too much', () => {
  it.each<[string, string]>([
    ['lists on one line', `a: ${'['.repeat(101)}${']'.repeat(101)}`],
    ['more lists than the parser can follow', `a: ${'['.repeat(20_000)}${']'.repeat(20_000)}`],
    ['lists by dashes', `a:\n ${'- '.repeat(101)}x`],
    ['mappings', `${'{a: '.repeat(102)}1${'}'.repeat(102)}`],
  ])('is refused when it nests too deeply: %s', (_, text) => {
    const found = problems(text);
    expect(found).toHaveLength(1);
    expect(found[0]).toContain('is nested more than 100 levels deep');
  });

  it('is refused by its length before it is parsed', () => {
    expect(problems(`# ${'x'.repeat(4 * 1024 * 1024)}`)).toEqual([
      'undefined:undefined : must have at most 4194304 characters, and has 4194306',
    ]);
  });

  it('is reported by its first problems', () => {
    expect(problems(`a:\n${'\tb: 1\n'.repeat(1000)}`)).toHaveLength(21);
    expect(problems(`a:\n${'  - ${X}\n'.repeat(1000)}`)).toHaveLength(21);
  });
});
