import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ROOT } from './support/program.ts';

const LEVELS = ['debug', 'info', 'warn', 'error'];

describe('docs/reference/logs.md', () => {
  it('has every line the server can log, at its level, and no other', () => {
    expect(documented()).toEqual([...new Set([...logged(), ...noticed()])].sort());
  });
});

/** `level event` of every call of a logger in the source. */
function logged(): string[] {
  const files = globSync('server/src/**/*.ts', { cwd: ROOT }).filter((path) => !path.endsWith('.test.ts'));
  return files.flatMap((path) => {
    const text = readFileSync(join(ROOT, path), 'utf8');
    return Array.from(text.matchAll(/\blogger\??\.(\w+)\(|#logger\??\.(\w+)\(/g), (found) => {
      const level = found[1] ?? found[2] ?? '';
      const [, event] =
        /'([a-z_]+\.[a-z_]+)',?\s*$/.exec(inParentheses(text, found.index + found[0].length)) ?? [];
      expect([path, LEVELS.includes(level), event]).toEqual([path, true, expect.any(String)]);
      return `${level} ${event}`;
    });
  });
}

/** `level event` of every notice of `millrace start`. */
function noticed(): string[] {
  const files = globSync('cli/src/*.ts', { cwd: ROOT }).filter((path) => !path.endsWith('.test.ts'));
  return files.flatMap((path) => {
    const text = readFileSync(join(ROOT, path), 'utf8');
    return Array.from(text.matchAll(/\bnotices(?:Of\(err\))?\s*\.(\w+)\(/g), (found) => {
      const [, event] =
        /\bevent: '([a-z_]+\.[a-z_]+)'/.exec(inParentheses(text, found.index + found[0].length)) ?? [];
      expect([path, event]).toEqual([path, expect.any(String)]);
      return `${found[1]} ${event}`;
    });
  });
}

/** Text from here to the parenthesis that closes. */
function inParentheses(text: string, from: number): string {
  let open = 1;
  let at = from;
  while (open > 0 && at < text.length) {
    const character = text[at++];
    if (character === '(') open++;
    else if (character === ')') open--;
  }
  return text.slice(from, at - 1);
}

function documented(): string[] {
  const text = readFileSync(join(ROOT, 'docs/reference/logs.md'), 'utf8');
  return Array.from(
    text.matchAll(/^\| `([a-z_.]+)` \| `(\w+)` \|/gm),
    ([, event, level]) => `${level} ${event}`,
  ).sort();
}
