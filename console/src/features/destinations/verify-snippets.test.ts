import { execFileSync } from 'node:child_process';
import { createHmac } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { VERIFY_SNIPPETS } from './verify-snippets.ts';

const BODY = '{"type":"track","event":"Gr\u00fc\u00dfe"}';
const SECRET = 'a-shared-secret-0001';
const SIGNATURE = createHmac('sha1', SECRET).update(BODY).digest('hex');

const code = (language: string) => VERIFY_SNIPPETS.find((one) => one.language === language)!.code;

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'millrace-verify-'));
});
afterAll(() => rmSync(folder, { recursive: true }));

describe('the snippets that verify a signature', () => {
  it('accept the right signature in Node, and no other', async () => {
    const file = join(folder, 'verify.mjs');
    writeFileSync(file, code('Node'));
    const { isAuthentic } = (await import(file)) as {
      isAuthentic(body: Buffer, signature: string | undefined, secret: string): boolean;
    };
    expect(isAuthentic(Buffer.from(BODY), SIGNATURE, SECRET)).toBe(true);
    expect(isAuthentic(Buffer.from(`${BODY} `), SIGNATURE, SECRET)).toBe(false);
    expect(isAuthentic(Buffer.from(BODY), undefined, SECRET)).toBe(false);
  });

  it('accept the right signature in Python, and no other', () => {
    const program = `${code('Python')}
body = ${JSON.stringify(BODY)}.encode()
print(is_authentic(body, "${SIGNATURE}", "${SECRET}"), is_authentic(body + b" ", "${SIGNATURE}", "${SECRET}"), is_authentic(body, None, "${SECRET}"))`;
    expect(execFileSync('python3', ['-c', program]).toString().trim()).toBe('True False False');
  });

  it('print the right signature in a shell', () => {
    writeFileSync(join(folder, 'body.json'), BODY);
    const out = execFileSync('sh', ['-c', code('Shell')], { cwd: folder, env: { ...process.env, SECRET } });
    expect(out.toString().trim().split(' ').at(-1)).toBe(SIGNATURE);
  });

  it('are as many as languages, each once', () => {
    const languages = VERIFY_SNIPPETS.map((one) => one.language);
    expect(new Set(languages).size).toBe(languages.length);
  });
});
