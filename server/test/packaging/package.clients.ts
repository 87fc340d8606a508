import { execFile, execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ROOT } from '../support/program.ts';

let scratch: string;
let release: string;
let said: string;

/** The program of `npm run release:dry -- FOLDER`. */
const dryRun = (folder: string) =>
  promisify(execFile)(process.execPath, [join(ROOT, 'tools/release.ts'), '--dry', folder], {
    cwd: scratch,
    env: { ...process.env, TMPDIR: scratch },
  });

const textOf = (file: string) => readFileSync(join(release, file), 'utf8');

const filesIn = (tarball: string) =>
  execFileSync('tar', ['-tzf', join(release, tarball)], { encoding: 'utf8' })
    .trim()
    .split('\n');

describe('the files of a release', () => {
  beforeAll(async () => {
    scratch = mkdtempSync(join(tmpdir(), 'millrace-package-'));
    release = join(scratch, 'release');
    ({ stdout: said } = await dryRun(release));
  });

  afterAll(() => rmSync(scratch, { recursive: true, force: true }));

  it('are installed in empty folders, and take and deliver an event of each client there', () => {
    expect(said).toContain('tried: the program and the TypeScript client');
    expect(said).toMatch(/tried: the Go module|not tried: the Go module, as Go is not installed/);
    expect(said).toContain('dry run: nothing is published');
  });

  it('are all named with their sums, and nothing is left beside them', () => {
    const sums = textOf('SHA256SUMS').trim().split('\n');
    const named = sums.map((line) => line.split('  ')[1]!);
    expect([...named, 'SHA256SUMS'].sort()).toEqual(readdirSync(release).sort());
    for (const file of named) {
      const sum = createHash('sha256').update(readFileSync(join(release, file)));
      expect(sums).toContain(`${sum.digest('hex')}  ${file}`);
    }
    expect(readdirSync(scratch)).toEqual(['release']);
  });

  it('have the pages that the documentation sends its readers to, and no tests', () => {
    const [program] = readdirSync(release).filter((file) => /^millrace-\d.*\.tgz$/.test(file));
    const files = filesIn(program!);
    for (const path of [
      'docs/guide/production.md',
      'docs/operations/millrace.service',
      'millrace.example.yaml',
      'THIRD-PARTY-NOTICES',
      'LICENSE',
    ])
      expect(files).toContain(`package/${path}`);
    expect(files.filter((file) => /\.test\.|fixtures/.test(file))).toEqual([]);
  });

  it('say the licences of all that is installed with the program, or was built into it', () => {
    const notices = textOf('THIRD-PARTY-NOTICES');
    const dependencies = ['server', 'cli'].flatMap((part) => {
      const manifest = JSON.parse(readFileSync(join(ROOT, part, 'package.json'), 'utf8')) as {
        dependencies: Record<string, string>;
      };
      return Object.keys(manifest.dependencies).filter((name) => !name.startsWith('@millrace/'));
    });
    for (const name of [...dependencies, 'react', 'uplot', '@fontsource-variable/inter', 'assemblyscript'])
      expect(notices).toContain(`\n${name} `);
    expect(notices).toContain('SIL OPEN FONT LICENSE');
  });

  it('have a bill of materials with every package of the lock, and nothing else', () => {
    const [file] = readdirSync(release).filter((name) => name.endsWith('.cdx.json'));
    const bill = JSON.parse(textOf(file!)) as {
      bomFormat: string;
      components: { name: string; version: string; purl: string; properties: { name: string }[] }[];
    };
    expect(bill.bomFormat).toBe('CycloneDX');
    const { packages } = JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8')) as {
      packages: Record<string, { name?: string; version?: string; link?: true; dev?: true }>;
    };
    const locked = Object.entries(packages)
      .filter(([path, { link }]) => path !== '' && link === undefined)
      .map(([path, { name = path.split('node_modules/').at(-1)!, version }]) => `${name}@${version}`);
    const nameOf = ({ name, version }: { name: string; version: string }) => `${name}@${version}`;
    expect(new Set(bill.components.map(nameOf))).toEqual(new Set(locked));
    // Tools of the repository are told from what is installed with the program.
    const isTool = (wanted: string) =>
      bill.components
        .find((one) => one.name === wanted)!
        .properties.some((property) => property.name === 'cdx:npm:package:development');
    expect([isTool('fastify'), isTool('vitest')]).toEqual([false, true]);
  });

  it('are never written over others', async () => {
    expect(existsSync(release)).toBe(true);
    await expect(dryRun(release)).rejects.toThrow('is not empty: name a new folder');
  });
});
