import { chmodSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { readSecretKeys } from './secret-keys.ts';

const KEY = Buffer.alloc(32, 7).toString('base64');

describe('the file of a key', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'millrace-key-'));
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  const file = (name: string, text: string, mode = 0o600) => {
    const path = join(folder, name);
    writeFileSync(path, text);
    chmodSync(path, mode);
    return { file: path };
  };
  const problemOf = (key: { file: string }) => {
    try {
      readSecretKeys({ key, previousKeys: [] });
      return '';
    } catch (error) {
      return (error as Error).message;
    }
  };

  it('holds the key and white space around it, and may be behind a link', () => {
    const written = file('key', `${KEY}\n`);
    symlinkSync(written.file, join(folder, 'link'));
    const { current, previous } = readSecretKeys({
      key: { file: join(folder, 'link') },
      previousKeys: [Buffer.alloc(32, 8).toString('hex')],
    });
    expect(Buffer.from(current!)).toEqual(Buffer.alloc(32, 7));
    expect(previous.map((key) => Buffer.from(key))).toEqual([Buffer.alloc(32, 8)]);
  });

  it('is refused where it holds no key, is not there, or everybody may write it; nothing of it is said', () => {
    const wrong = file('wrong', 'hunter2hunter2');
    expect(problemOf(wrong)).toMatch(/^secrets\.key: .*wrong holds no key: what it holds must be 32 bytes/);
    expect(problemOf(wrong)).not.toContain('hunter2');
    expect(problemOf({ file: join(folder, 'none') })).toMatch(/none does not exist$/);
    expect(problemOf({ file: folder })).toMatch(/is a folder$/);
    expect(problemOf(file('open', KEY, 0o666))).toMatch(/open may be written by everybody .*chmod o-w/);
  });
});
