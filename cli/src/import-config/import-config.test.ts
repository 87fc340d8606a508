import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { runVerb } from '../../test/program.ts';

const FIXTURES = join(import.meta.dirname, '../../../spec/fixtures/import-config');

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'import-config-'));
});

afterEach(() => rmSync(folder, { recursive: true, force: true }));

const run = async (...args: string[]) =>
  await runVerb(['import-config', ...args, '-o', join(folder, 'millrace.yaml')]);
const WORKSPACE = join(FIXTURES, 'workspace.json');

describe('millrace import-config', () => {
  it('writes files that only their owner can read, and says what comes next', async () => {
    const { code, out, err } = await run(WORKSPACE);
    expect({ code, last: out.trimEnd().split('\n').at(-1) }).toEqual({
      code: 0,
      last: '35 things of the export: 8 taken, 2 partly, 25 not.',
    });
    expect(out).toContain('\nTo be typed in or looked up\n  variable        what\n  PARTNER_SECRET  ');
    expect(err).toContain(`  millrace plan -f ${join(folder, 'millrace.yaml')}\n`);
    for (const name of ['millrace.yaml', 'millrace.suppressed.txt', 'millrace.tracking-plans.json'])
      expect(statSync(join(folder, name)).mode & 0o777).toBe(0o600);
  });

  it('replaces nothing, and writes nothing then, without --force', async () => {
    const plans = join(folder, 'millrace.tracking-plans.json');
    writeFileSync(plans, 'mine', { mode: 0o644 });
    expect(await run(WORKSPACE)).toMatchObject({
      code: 1,
      out: '',
      err: expect.stringMatching(/is there already/),
    });
    expect([readFileSync(plans, 'utf8'), existsSync(join(folder, 'millrace.yaml'))]).toEqual(['mine', false]);
    expect(await run(WORKSPACE, '--force')).toMatchObject({ code: 0 });
    expect(readFileSync(plans, 'utf8')).toContain('"tp_1"');
    expect(statSync(plans).mode & 0o777).toBe(0o600);
  });

  it('prints the report for programs', async () => {
    const { code, out } = await run(WORKSPACE, '--json');
    expect(code).toBe(0);
    expect(JSON.parse(out)).toMatchObject({
      files: [{ path: join(folder, 'millrace.yaml') }, {}, {}],
      things: { length: 35 },
      asked: expect.arrayContaining([{ variable: 'PARTNER_SECRET', text: expect.any(String) }]),
    });
  });

  it.each([
    ['a URL without a token', ['https://api.example'], 2, /SEGMENT_TOKEN/],
    ['a URL that others could listen to', ['http://api.example', '--token', 't'], 2, /must be https/],
    [
      'a URL with a password',
      ['https://a:b@api.example', '--token', 't'],
      2,
      /leave user name and password out/,
    ],
    ['a URL beside a file', ['https://api.example', 'x', '--token', 't'], 2, /either one URL/],
    ['a token of two words', ['https://api.example', '--token', 'a b'], 2, /one word/],
    ['a file that is not there', ['nowhere'], 1, /does not exist/],
  ])('refuses %s', async (_, args, code, message) => {
    expect(await run(...args)).toMatchObject({ code, out: '', err: expect.stringMatching(message) });
  });

  it('refuses a folder in which two exports stand, and one without any', async () => {
    const mixed = join(folder, 'mixed');
    mkdirSync(mixed);
    writeFileSync(join(mixed, 'notes.txt'), 'x');
    expect(await run(mixed)).toMatchObject({ code: 1, err: expect.stringMatching(/nothing in .* is known/) });
    writeFileSync(join(mixed, 'sources.json'), '{"data": {"sources": []}}');
    expect(await run(mixed)).toMatchObject({
      code: 1,
      err: expect.stringMatching(/no source and no destination/),
    });
    writeFileSync(join(mixed, 'rudder.json'), '{"workspaceId": "w", "sources": []}');
    expect(await run(mixed)).toMatchObject({ code: 1, err: expect.stringMatching(/an export of its own/) });
  });

  it('says so where a file of the folder is of another kind, or cannot be read', async () => {
    const answers = join(folder, 'answers');
    mkdirSync(answers);
    const metadata = { slug: 'javascript' };
    writeFileSync(
      join(answers, 'sources.json'),
      JSON.stringify({ data: { sources: [{ id: 's', name: 'S', writeKeys: ['k'], metadata }] } }),
    );
    writeFileSync(join(answers, 'transformations.json'), '{"data": ');
    writeFileSync(join(answers, 'notes.txt'), 'x');
    const { code, out } = await run(answers);
    expect(code).toBe(0);
    expect(out).toContain('answer GET /transformations: is not JSON\n');
    expect(out).toContain('file notes.txt: is neither JSON nor .tf, and was not read\n');
  });

  it('shows no character that a terminal obeys', async () => {
    const file = join(folder, 'answers.json');
    const name = 'a\u001b[31mb\u202e';
    const requests = { 'GET /sources': { data: { sources: [{ id: name, name, writeKeys: ['k'] }] } } };
    writeFileSync(file, JSON.stringify({ requests }));
    const { code, out, err } = await run(file);
    expect(code).toBe(0);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: it is about control characters.
    expect(out + err + readFileSync(join(folder, 'millrace.yaml'), 'utf8')).not.toMatch(/[\u001b\u202e]/);
  });
});
