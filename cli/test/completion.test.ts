import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { grammar } from '../src/grammar.ts';
import { outlineOf } from '../src/outline.ts';
import { isThere, SHELLS } from './completing.ts';
import { runVerb } from './program.ts';

const verbs = outlineOf(grammar(() => async () => {}, '0.0.0'));

const left = SHELLS.filter((shell) => !isThere(shell)).map(({ name }) => name);
if (left.length > 0)
  console.log(`left out: completion in ${left.join(' and ')}: not installed, or without a terminal`);

describe.each(SHELLS.filter(isThere))('millrace completion $name', (shell) => {
  let folder = '';
  let script = '';
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'millrace-completion-'));
    script = join(folder, 'millrace-completion');
    const { code, out, err } = await runVerb(['completion', shell.name]);
    expect({ code, err }).toEqual({ code: 0, err: '' });
    writeFileSync(script, out);
    writeFileSync(join(folder, 'some file.yaml'), '');
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  const offered = (...lines: readonly string[][]) => shell.offered(script, lines);

  it('completes verbs, verbs below verbs, options, and their values in a real shell', async () => {
    const [ta, all, token, options, short, types, calls, shells, file, unknown] = await offered(
      ...[
        ['ta'],
        [''],
        ['token', ''],
        ['tail', '--'],
        ['tail', '--f'],
        ['tail', '--type', ''],
        ['send', 'tr'],
      ],
      ...[
        ['completion', ''],
        ['start', '--config', ''],
        ['tail', '--source', ''],
      ],
    );
    expect(ta).toEqual(['tail']);
    expect(all).toEqual(expect.arrayContaining(['dev', 'start', 'trace', 'completion']));
    expect(token).toEqual(expect.arrayContaining(['create', 'list', 'revoke']));
    expect(options).toEqual(
      expect.arrayContaining(['--source', '--destination', '--type', '--failed', '--json']),
    );
    expect(short).toEqual(['--failed']);
    expect(types!.toSorted()).toEqual(['alias', 'group', 'identify', 'page', 'screen', 'track']);
    expect(calls).toEqual(['track']);
    expect(shells).toEqual(expect.arrayContaining(['bash', 'zsh', 'fish']));
    expect(file!.join(' ')).toContain('some file.yaml');
    expect(unknown).toEqual([]);
  });

  it('knows every verb and every option there is', async () => {
    const bare = verbs.map(({ path }) => [...path, '']);
    const dashed = shell.hidesOptions ? ['-', '--'] : [];
    const answers = await offered(
      ...bare,
      ...dashed.flatMap((dash) => verbs.map(({ path }) => [...path, dash])),
    );
    verbs.forEach((verb, nth) => {
      const words = answers.flatMap((answer, place) => (place % verbs.length === nth ? answer : []));
      const expected = [...verb.verbs, ...verb.options.flatMap(({ flags }) => flags)];
      expect({ verb: verb.path, words }).toEqual({
        verb: verb.path,
        words: expect.arrayContaining(expected),
      });
    });
  });
});

describe('millrace completion', () => {
  it('knows no other shells', async () => {
    expect(await runVerb(['completion', 'csh'])).toMatchObject({
      ...{ code: 2, err: expect.stringContaining('Allowed choices are bash, zsh, fish') },
    });
  });
});
