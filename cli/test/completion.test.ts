import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { grammar } from '../src/grammar.ts';
import { outlineOf } from '../src/outline.ts';
import { millrace } from './program.ts';

const run = promisify(execFile);
const verbs = outlineOf(grammar(() => async () => {}, '0.0.0'));

describe('millrace completion', () => {
  let folder = '';
  let script = '';
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'millrace-completion-'));
    script = join(folder, 'millrace.bash');
    const { code, out, err } = await millrace(['completion', 'bash']).ended;
    expect({ code, err }).toEqual({ code: 0, err: '' });
    writeFileSync(script, out);
    writeFileSync(join(folder, 'some file.yaml'), '');
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  /** What bash offers when Tab is pressed behind each of these lines; the last word is the one being typed. */
  async function offered(...lines: readonly string[][]): Promise<string[][]> {
    const asked = lines.map((words) => {
      const quoted = ['millrace', ...words].map((word) => `'${word}'`).join(' ');
      return `COMP_WORDS=(${quoted}); COMP_CWORD=${words.length}; COMPREPLY=(); _millrace; printf '%s\\0' "\${COMPREPLY[@]}"; echo`;
    });
    const program = `source '${script}'; complete -p millrace >/dev/null || exit 1\n${asked.join('\n')}`;
    const { stdout } = await run('bash', ['--norc', '-c', program], { cwd: folder });
    return stdout
      .split('\n')
      .slice(0, -1)
      .map((answer) => answer.split('\0').filter((word) => word !== ''));
  }

  it('completes verbs, verbs below verbs, options, and their values in a real bash', async () => {
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
    expect(all).toEqual(
      expect.arrayContaining(['dev', 'start', 'trace', 'completion', '--help', '--version']),
    );
    expect(token).toEqual(expect.arrayContaining(['create', 'list', 'revoke']));
    expect(options).toEqual(
      expect.arrayContaining(['--source', '--destination', '--type', '--failed', '--json']),
    );
    expect(short).toEqual(['--failed']);
    expect(types).toEqual(['identify', 'track', 'page', 'screen', 'group', 'alias']);
    expect(calls).toEqual(['track']);
    expect(shells).toEqual(expect.arrayContaining(['bash', 'zsh', 'fish']));
    expect(file!.join(' ')).toContain('some file.yaml');
    expect(unknown).toEqual([]);
  });

  it('knows every verb and every option there is', async () => {
    const answers = await offered(...verbs.map(({ path }) => [...path, '']));
    verbs.forEach((verb, nth) => {
      const expected = [...verb.verbs, ...verb.options.flatMap(({ flags }) => flags)];
      expect({ verb: verb.path, words: answers[nth] }).toEqual({
        verb: verb.path,
        words: expect.arrayContaining(expected),
      });
    });
  });

  it('prints a script for the other shells too, with every verb in it, and knows no others', async () => {
    for (const shell of ['zsh', 'fish']) {
      const { code, out } = await millrace(['completion', shell]).ended;
      expect(code).toBe(0);
      for (const { path } of verbs) if (path.length > 0) expect(out).toContain(`' ${path.join(' ')}'`);
    }
    expect(await millrace(['completion', 'csh']).ended).toMatchObject({
      ...{ code: 2, err: expect.stringContaining('Allowed choices are bash, zsh, fish') },
    });
  });
});
