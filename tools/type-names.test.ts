import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { repeatedTypeNames } from './type-names.ts';

const found = (files: Readonly<Record<string, string>>): string[] =>
  repeatedTypeNames(Object.entries(files).map(([path, text]) => ({ path, text })));

describe('repeatedTypeNames', () => {
  it('finds an interface, a class, an enumeration and an alias of one name', () => {
    const files = {
      'a.ts': 'export interface Chunk {}',
      'b.ts': 'export class Chunk {}',
      'c/d.ts': 'enum Chunk {}\nexport { Chunk };',
      'e.ts': 'type Chunk = string;\nexport { type Chunk };',
    };
    expect(found(files)).toEqual(['Chunk is a type of a.ts and of b.ts and of c/d.ts and of e.ts']);
  });

  it('leaves alone what stays within a file, is exported again, or is only a value', () => {
    const files = {
      'a.ts': 'export interface Chunk {}\nexport function Run(): void {}',
      'b.ts': "export type { Chunk } from './a.ts';\nexport interface Run {}",
      'c.ts': 'interface Chunk {}\n// export interface Chunk {}\nexport const Run = 1;',
    };
    expect(found(files)).toEqual([]);
  });

  it('takes overloads and merged declarations of one file for one type', () => {
    expect(found({ 'a.ts': 'export interface Chunk { a: 1 }\nexport interface Chunk { b: 2 }' })).toEqual([]);
  });
});

describe('node tools/type-names.ts', () => {
  it('ends with 1 and the files of the name in a tree that has one twice', () => {
    const folder = mkdtempSync(join(tmpdir(), 'millrace-names-'));
    mkdirSync(join(folder, 'inner'));
    writeFileSync(join(folder, 'a.ts'), 'export interface Chunk {}\n');
    writeFileSync(join(folder, 'inner/b.ts'), 'export type Chunk = number;\n');
    writeFileSync(join(folder, 'c.test.ts'), 'export type Chunk = number;\n');
    const tool = join(import.meta.dirname, 'type-names.ts');
    const options = { encoding: 'utf8', stdio: 'pipe' } as const;
    try {
      expect(() => execFileSync(process.execPath, [tool, folder], options)).toThrow(
        expect.objectContaining({ status: 1, stderr: 'Chunk is a type of a.ts and of inner/b.ts\n' }),
      );
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});
