import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { grammar } from '../src/grammar.ts';
import { outlineOf } from '../src/outline.ts';
import { millrace } from './program.ts';

const make = () => grammar(() => async () => {}, '0.0.0');
const verbs = outlineOf(make()).filter(({ path, verbs }) => path.length > 0 && verbs.length === 0);

/** Every `millrace` command in a shell line. Commands in `$(…)` and `<(…)` are listed separately. */
function commandsIn(line: string): string[] {
  const inner: string[] = [];
  const outer = line.replace(/[$<]\(([^()]*)\)/g, (_, command: string) => {
    inner.push(command);
    return 'x';
  });
  return [outer, ...inner].filter((command) => /\bmillrace /.test(command));
}

/** The arguments of a command, without shell syntax after it. */
function argumentsIn(command: string): string[] {
  const [, typed = ''] = /\bmillrace (.*)$/.exec(command) ?? [];
  const words = typed.match(/(?:[^\s"'|>#]|"[^"]*"|'[^']*')+|[|>#].*/g) ?? [];
  const end = words.findIndex((word) => /^[|>#]/.test(word));
  return words.slice(0, end < 0 ? undefined : end).map((word) => word.replace(/^(["'])(.*)\1$/, '$2'));
}

describe('the help of every verb', () => {
  it.each(verbs)('$path shows how it is used', ({ path, description, examples, options }) => {
    expect(description).not.toBe('');
    for (const { flags, description: what } of options)
      expect({ flags, what }).not.toEqual({ flags, what: '' });
    const own = examples.filter((line) => line.includes(`millrace ${path.join(' ')}`));
    expect(own).not.toEqual([]);
  });

  it.each(verbs.flatMap(({ examples }) => examples))('is right about %s', async (line) => {
    const commands = commandsIn(line);
    expect(commands).not.toEqual([]);
    // A line that the grammar does not understand throws.
    for (const command of commands) await make().parseAsync(['node', 'millrace', ...argumentsIn(command)]);
  });

  it('is what `help VERB` prints, and stands in the reference', async () => {
    const [help, same] = await Promise.all(
      [
        ['help', 'tail'],
        ['tail', '--help'],
      ].map((args) => millrace(args).ended),
    );
    expect(help).toEqual(same);
    expect(help).toMatchObject({
      code: 0,
      err: '',
      out: expect.stringContaining('\nExamples:\n  millrace tail'),
    });
    const reference = readFileSync(join(import.meta.dirname, '../../docs/reference/cli.md'), 'utf8');
    for (const { path } of verbs) expect(reference).toContain(`\n## millrace ${path.join(' ')}\n`);
  });
});
