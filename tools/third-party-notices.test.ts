import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { closureOf, noticesOf, packageAround } from './third-party-notices.ts';

let root: string;

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'millrace-notices-'));
});

afterEach(() => rmSync(root, { recursive: true, force: true }));

/** Installs a package, and returns its folder. */
function install(place: string, manifest: object, files: Readonly<Record<string, string>> = {}): string {
  const folder = join(root, 'node_modules', place);
  mkdirSync(folder, { recursive: true });
  const name = place.split('node_modules/').at(-1);
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ name, version: '1.0.0', ...manifest }));
  for (const [file, text] of Object.entries(files)) writeFileSync(join(folder, file), text);
  return folder;
}

describe('third-party notices', () => {
  it('have what a package needs too, of the version that it finds', () => {
    const web = install('web', {
      dependencies: { log: '1', gone: '1' },
      optionalDependencies: { gone: '1' },
    });
    install('log', { version: '2.0.0' });
    const own = install('web/node_modules/log', { dependencies: { '@scope/deep': '1' } });
    const deep = install('@scope/deep', {});
    expect([...closureOf(['web'], root)].sort()).toEqual([deep, own, web].sort());
    expect(() => closureOf(['missing'], root)).toThrow('missing is not installed');
  });

  it('know the package of a file that was bundled', () => {
    const folder = install('@scope/font', {});
    expect(packageAround(join(folder, 'files/one.woff2'))).toBe(folder);
    expect(packageAround(join(root, 'console/src/main.tsx'))).toBeUndefined();
  });

  it('say the name, the version and the licence of each, by name', () => {
    const b = install('b', { license: 'MIT' }, { LICENSE: 'Copyright B\r\n', 'NOTICE.md': 'B says' });
    const a = install('a', { license: 'OFL-1.1' }, { 'LICENSE.txt': 'Copyright A' });
    const text = noticesOf([b, a, b]);
    expect(text).toMatch(
      /a 1\.0\.0\nOFL-1\.1\n-+\n\nCopyright A\n\n-+\nb 1\.0\.0\nMIT\n-+\n\nCopyright B\n\nB says\n$/,
    );
    expect(text.match(/Copyright B/g)).toHaveLength(1);
  });

  it('have the words of MIT where a package has only its name, and are not made without those of another licence', () => {
    const folder = install('short', { license: 'MIT', author: { name: 'Somebody' } });
    expect(noticesOf([folder])).toContain('Copyright (c) Somebody\n\nPermission is hereby granted');
    expect(() => noticesOf([install('unlicensed', { license: 'BSD-3-Clause' })])).toThrow('unlicensed');
  });
});
