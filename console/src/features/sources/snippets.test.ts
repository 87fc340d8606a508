import { execFileSync } from 'node:child_process';
import { describe, expect, it } from 'vitest';
import { sourceSnippets } from './snippets.ts';

const target = { origin: 'https://collect.example.com:8443', writeKey: 'wk_1' };

describe('the snippets of a source', () => {
  it('carry the address and the write key in every language', () => {
    for (const { language, code } of sourceSnippets(target)) {
      expect(code, language).toContain('wk_1');
      expect(code, language).toContain('collect.example.com');
      expect(code, language).toContain('8443');
    }
  });

  it('quote a write key so that a shell runs nothing of it', () => {
    const writeKey = "a'; echo broken; $(echo worse) `id` \\";
    const [curl] = sourceSnippets({ ...target, writeKey });
    const out = execFileSync('sh', ['-c', curl!.code.replace(/^curl/, "printf '%s\\n'")]).toString();
    expect(out.split('\n')[1]).toBe(`${writeKey}:`);
    expect(out.split('\n')).toHaveLength(6);
  });

  it('quote a write key so that Python reads the same', () => {
    const writeKey = "a' + \\\\ \\";
    const code = sourceSnippets({ ...target, writeKey }).find((one) => one.language === 'Python')!.code;
    const literal = /write_key = (.*)/.exec(code)![1]!;
    expect(execFileSync('python3', ['-c', `print(${literal})`]).toString()).toBe(`${writeKey}\n`);
  });
});
