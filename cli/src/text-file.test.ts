import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { afterAll, expect, it } from 'vitest';
import { readTextFile, readTextOf } from './text-file.ts';

const folder = mkdtempSync(join(tmpdir(), 'millrace-text-'));
const file = join(folder, 'millrace.yaml');
afterAll(() => rmSync(folder, { recursive: true }));

it('a file that is not UTF-8 is named with its line, from a disk and from standard input', async () => {
  const bytes = Buffer.from('# \xc3\xbc\r\nsources: []\ndestinations: [{ name: M\xfcller }]\n', 'latin1');
  writeFileSync(file, bytes);
  const reason = 'is not UTF-8 (line 3): save it as UTF-8';
  expect(readTextFile(file)).toMatchObject({ reason });
  expect(await readTextOf('-', Readable.from([bytes]))).toMatchObject({ reason });
});

it('any other file is its text, or why there is none', async () => {
  writeFileSync(file, '\ufeffü\r\n');
  expect(readTextFile(file)).toBe('\ufeffü\r\n');
  expect(await readTextOf(file, Readable.from([]))).toBe('\ufeffü\r\n');
  expect(readTextFile(join(folder, 'none'))).toMatchObject({ reason: 'does not exist' });
  expect(readTextFile(folder)).toMatchObject({ reason: 'cannot be read (EISDIR)' });
});
