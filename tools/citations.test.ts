import { describe, expect, it } from 'vitest';
import { headingsOf, wrongCitations } from './citations.ts';

const SPEC = [
  '# Specification',
  '## Delivery',
  '### Several endpoints',
  '### Retry `window`',
  '```sh',
  '# no heading',
  '```',
  '## Retries',
  '## Retries',
].join('\n');

/** The wrong citations of one file beside a specification and a few pages. */
function wrongIn(path: string, text: string): string[] {
  return wrongCitations([
    { path: 'spec/specification.md', text: SPEC },
    { path: 'README.md', text: '# Us' },
    { path: 'clients/go/MIGRATION.md', text: '# Migration' },
    { path: 'docs/guide/first.md', text: '# First' },
    { path, text },
  ]);
}

const inCode = (...lines: string[]) => wrongIn('server/src/a.ts', lines.join('\n'));
const inPage = (...lines: string[]) => wrongIn('docs/page.md', lines.join('\n'));

describe('a citation in a comment', () => {
  it('leads to a heading that is there', () => {
    expect(inCode('/** spec/specification.md, "Several endpoints". */')).toEqual([]);
    expect(inCode('// `spec/specification.md`, "Delivery", "Retry window" and "Retries"')).toEqual([]);
    expect(inCode('// as spec/specification.md#several-endpoints says')).toEqual([]);
    expect(inCode('// ARCHITECTURE of README.md')).toEqual([]);
  });

  it('is wrong about a heading that is not there, and told which is nearest', () => {
    expect(inCode('const a = 1;', '', '/** spec/specification.md, "Severel endpoints". */')).toEqual([
      'server/src/a.ts:3: spec/specification.md, "Severel endpoints": no such heading; nearest: "Several endpoints"',
    ]);
    expect(inCode('// spec/specification.md#several-endpoint')).toEqual([
      'server/src/a.ts:1: spec/specification.md#several-endpoint: no such heading; nearest: #several-endpoints',
    ]);
  });

  it('is looked at in each of several headings', () => {
    const wrong = inCode('// spec/specification.md, "Delivery" and "Order", "Retries"');
    expect(wrong).toHaveLength(1);
    expect(wrong[0]).toContain('"Order": no such heading');
  });

  it('is wrong about a document that is not there, in any case of its letters', () => {
    expect(inCode('// service.md "Endpoints"')).toEqual([
      'server/src/a.ts:1: service.md, "Endpoints": no such document; nearest: spec/specification.md, "Several endpoints"',
    ]);
    expect(inCode('// readme.md')).toEqual([
      'server/src/a.ts:1: readme.md: no such document; nearest: README.md',
    ]);
    expect(inCode('// specification.md')).toHaveLength(1);
  });

  it('has a name and no number', () => {
    expect(inCode('// spec/specification.md section 2, "Retries"')).toEqual([
      'server/src/a.ts:1: spec/specification.md section 2: headings have names and no numbers; cite one of spec/specification.md by its name',
    ]);
  });

  it('may be wrapped, in the comments of every language', () => {
    expect(
      inCode('/**', ' * One is enough (spec/specification.md,', ' * "Several', ' * endpoints").', ' */'),
    ).toEqual([]);
    expect(
      inCode('/**', ' * One is enough.', ' * (spec/specification.md, "Several', ' * ends").', ' */'),
    ).toEqual([
      'server/src/a.ts:3: spec/specification.md, "Several ends": no such heading; nearest: "Several endpoints"',
    ]);
    expect(wrongIn('clients/go/a.go', '// spec/specification.md,\n// "Retries"')).toEqual([]);
    expect(wrongIn('a.yml', '# spec/specification.md,\n# "Gone"')).toHaveLength(1);
  });

  it('ends with its paragraph', () => {
    expect(inCode('/**', ' * As in README.md', ' *', ' * "Quoted" words.', ' */')).toEqual([]);
  });

  it('is seen from the folder of the file and from those above it', () => {
    expect(wrongIn('clients/go/test/a.go', '// MIGRATION.md')).toEqual([]);
    expect(wrongIn('clients/a.go', '// MIGRATION.md')).toHaveLength(1);
  });
});

describe('a citation in other places', () => {
  it('is looked at in strings of tests, data and scripts', () => {
    for (const path of ['server/test/a.test.ts', 'spec/fixtures/a.json', '.ci/run', 'Dockerfile']) {
      expect(wrongIn(path, '{"name": "the example of wire.md section 2"}')).toHaveLength(1);
      expect(wrongIn(path, '{"name": "spec/specification.md, \\"Retries\\""}')).toEqual([]);
      expect(wrongIn(path, '{"name": "spec/specification.md, \\"Tries\\""}')).toHaveLength(1);
    }
  });

  it('is no address on another site, no pattern and no longer name', () => {
    expect(
      inCode('// https://example.com/a/gone.md', "const a = '*.md';", "b = 'x.mdx';", "c = 'x.md.ts'"),
    ).toEqual([]);
  });

  it('is not made by the names in a list', () => {
    expect(inCode(`const pages = ['README.md', "LICENSE"];`)).toEqual([]);
  });

  it('is not looked at in tests of tools, which make up their documents', () => {
    expect(wrongIn('tools/a.test.ts', '// gone.md')).toEqual([]);
  });
});

describe('a citation in a document', () => {
  it('is a link to a heading, here or elsewhere', () => {
    expect(inPage('# Page', '[a](#page) [b](../spec/specification.md#retries-1) [c](../README.md)')).toEqual(
      [],
    );
    expect(inPage('# Page', '', '[a](#pages)', '', '[b](../spec/specification.md#retries-2)')).toEqual([
      'docs/page.md:3: #pages: no such heading; nearest: #page',
      'docs/page.md:5: ../spec/specification.md#retries-2: no such heading; nearest: #retries-1',
    ]);
  });

  it('is a name in the text, and not the text of a link', () => {
    expect(inPage('see spec/specification.md, "Tries"')).toHaveLength(1);
    expect(inPage('see [`first.md`](guide/first.md) and [first.md](guide/first.md#first)')).toEqual([]);
  });

  it('is not looked for in blocks of code', () => {
    expect(inPage('```md', '[a](gone.md#x)', '```', '[b](gone.md#x)')).toEqual([
      'docs/page.md:4: gone.md#x: no such document; nearest: docs/page.md',
    ]);
  });

  it('belongs to the page that is made where a program writes one', () => {
    expect(inCode('const text = `[first](first.md)`;')).toEqual([]);
  });
});

describe('headingsOf', () => {
  it('has names without marks, and anchors as code hosts make them', () => {
    expect(headingsOf('# A `b`, c\n## [Links](x.md) too ##\n## Öffnen & more_so\n')).toEqual([
      { name: 'A b, c', anchor: 'a-b-c' },
      { name: 'Links too', anchor: 'links-too' },
      { name: 'Öffnen & more_so', anchor: 'öffnen--more_so' },
    ]);
    expect(headingsOf(SPEC).map(({ anchor }) => anchor)).toEqual([
      ...['specification', 'delivery', 'several-endpoints', 'retry-window', 'retries', 'retries-1'],
    ]);
  });
});
