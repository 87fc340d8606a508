import { describe, expect, it } from 'vitest';
import { ConfigError } from './load.ts';
import { readRecords } from './records.ts';

const FILE = `host: 0.0.0.0
database: \${DATABASE_URL}
sources:
  - name: website
    writeKeys: [\${KEY}]
    dedupeWindow: 2h
destinations:
  - { name: crm, type: webhooks, sources: [website], settings: { endpoints: [{ url: https://a.example }] } }
`;

function problemsOf(text: string): string[] {
  try {
    readRecords({ path: 'f.yaml', text }, {});
    return [];
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return error.message.split('\n');
  }
}

describe('the records of a configuration file', () => {
  it('are as written, with references replaced, beside the keys that only a start reads', () => {
    const { sources, destinations, otherKeys } = readRecords({ path: 'f.yaml', text: FILE }, { KEY: 'wk' });
    expect(sources).toEqual([{ name: 'website', writeKeys: ['wk'], dedupeWindow: '2h' }]);
    expect(destinations).toMatchObject([{ name: 'crm', sources: ['website'] }]);
    expect(otherKeys).toEqual(['host', 'database']);
  });

  it('need the variables they refer to; those of the other keys belong to the machine of the server', () => {
    expect(problemsOf(FILE)).toEqual([
      expect.stringMatching(/^f\.yaml:5:\d+ {2}sources\[0\]\.writeKeys\[0\] {2}.*variable KEY is not set$/),
    ]);
  });

  it('are refused with the whole file: other keys, unknown keys and syntax', () => {
    expect(problemsOf('port: 70000\nsuorces: []\n')).toEqual([
      expect.stringMatching(/^f\.yaml:1:7 {2}port {2}must be a whole number/),
      expect.stringMatching(/^f\.yaml:2:1 {2}suorces {2}is not a known key; did you mean sources\?/),
    ]);
    expect(problemsOf('sources: [')).toEqual([
      expect.stringMatching(/^f\.yaml:\d+:\d+ {2}is not valid YAML/),
    ]);
    expect(problemsOf('- a')).toHaveLength(1);
    expect(problemsOf('')).toEqual([]);
  });

  it('have places: of the value, or of the innermost thing around it', () => {
    const { lineAt } = readRecords({ path: 'f.yaml', text: FILE }, { KEY: 'wk' });
    expect(lineAt('sources[0].writeKeys[0]', 'no')).toBe('f.yaml:5:17  sources[0].writeKeys[0]  no');
    expect(lineAt('destinations[0].settings.endpoints[0].headers["a.b"].x', 'no')).toMatch(
      /^f\.yaml:8:77 {2}/,
    );
    expect(lineAt('sources[7].name', 'no')).toMatch(/^f\.yaml:4:3 {2}sources\[7\]/);
    expect(lineAt('nowhere', 'no')).toBe('f.yaml  nowhere  no');
  });
});
