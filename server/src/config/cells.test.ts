import { describe, expect, it } from 'vitest';
import { readCells } from './cells.ts';
import { ConfigError } from './errors.ts';

const read = (text: string, env: Record<string, string> = {}) => readCells({ path: 'cells.yaml', text }, env);

/** The lines of the refusal. */
function refusal(text: string, env: Record<string, string> = {}): string[] {
  try {
    read(text, env);
  } catch (error) {
    if (error instanceof ConfigError) return error.message.split('\n');
    throw error;
  }
  throw new Error('the file was accepted');
}

const cell = (name: string, rest: string) => `  - name: ${name}\n    ${rest}\n`;
const EAST = cell('east', 'url: https://east.example.com\n    token: t-east');

describe('a file of cells', () => {
  it('names cells, their addresses, and their tokens or the files of them', () => {
    const west = cell('west', 'url: "http://10.0.0.2:8080/millrace/"\n    tokenFile: /run/secrets/west');
    // biome-ignore lint/suspicious/noTemplateCurlyInString: a reference.
    const text = `# ours\ncells:\n${EAST.replace('t-east', '${EAST_TOKEN}')}${west}`;
    expect(read(text, { EAST_TOKEN: 'from-env' }).cells).toEqual([
      { name: 'east', url: 'https://east.example.com', token: 'from-env' },
      { name: 'west', url: 'http://10.0.0.2:8080/millrace/', tokenFile: '/run/secrets/west' },
    ]);
  });

  it.each([
    [
      '',
      'cells.yaml:1:1  cells  is missing: must be a list of cells, each with name, url, and token or tokenFile',
    ],
    [
      'cells: []',
      'cells.yaml:1:8  cells  must be a list of cells, each with name, url, and token or tokenFile, found an empty list',
    ],
    [
      '- name: east',
      'cells.yaml:1:1  must be a mapping: write cells: and the list of cells below it, found a list of 1',
    ],
    [
      'cells: [east]',
      'cells.yaml:1:9  cells[0]  must be a mapping of name, url, and token or tokenFile, found text',
    ],
    [
      `cells:\n${EAST}    tokenfile: x`,
      'cells.yaml:5:5  cells[0].tokenfile  is not a known key; did you mean tokenFile? allowed here: name, url, token, tokenFile',
    ],
    [`cells:\n${EAST}x`, 'cells.yaml:5:1  is not valid YAML'],
    ['cells:\n  - [', 'cells.yaml:2'],
  ])('says with the line what is wrong in %j', (text, line) => {
    expect(refusal(text)[0]).toContain(line);
  });

  it('wants one token for each cell, or the file of one', () => {
    const none = cell('none', 'url: https://none.example.com');
    const both = cell('both', 'url: https://both.example.com\n    token: a\n    tokenFile: b');
    expect(refusal(`cells:\n${EAST}${none}${both}`)).toEqual([
      // biome-ignore lint/suspicious/noTemplateCurlyInString: a reference.
      'cells.yaml:5:5  cells[1]  must have a token, as in token: ${EAST_TOKEN}, which reads the environment, or a tokenFile, the path of a file that holds it',
      'cells.yaml:10:16  cells[2].tokenFile  must be left out where there is a token: one of the two',
    ]);
  });

  it.each([
    'east.example.com',
    'ftp://east.example.com',
    'https://user:pass@east.example.com',
    'https://east.example.com?a=b',
  ])('takes %s for no address', (url) => {
    const text = `cells:\n${cell('east', `url: "${url}"\n    token: t`)}`;
    expect(refusal(text)).toEqual([
      expect.stringMatching(
        /^cells\.yaml:3:10 {2}cells\[0\]\.url {2}must be the http or https URL of the cell/,
      ),
    ]);
    expect(refusal(text)[0]).not.toContain('pass');
  });

  it('has each cell once: the sums would count it twice', () => {
    const twin = cell('east', 'url: https://EAST.example.com/\n    token: t');
    expect(refusal(`cells:\n${EAST}${twin}`)).toEqual([
      'cells.yaml:5:11  cells[1].name  is also the name of cells[0]: each cell stands here once',
      'cells.yaml:6:10  cells[1].url  is also the url of cells[0]: each cell stands here once',
    ]);
  });

  it('shows no token, and names the variable that is not set', () => {
    const text = `cells:\n${cell('east', 'url: https://east.example.com\n    token: "S3CRET word"')}`;
    expect(refusal(text)).toEqual([
      'cells.yaml:4:12  cells[0].token  must be text of visible ASCII characters',
    ]);
    // biome-ignore lint/suspicious/noTemplateCurlyInString: a reference.
    const unset = refusal(text.replace('"S3CRET word"', '${NOT_SET}'));
    expect(unset).toEqual([
      // biome-ignore lint/suspicious/noTemplateCurlyInString: a reference.
      'cells.yaml:4:12  cells[0].token  reads ${NOT_SET}, but the environment variable NOT_SET is not set',
    ]);
  });
});
