import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ROOT } from '../support/program.ts';
import { contextFiles, contextOf, execForm, instructionsOf, readDockerfile } from './dockerfile.ts';

const KNOWN = [
  ...[
    'FROM',
    'WORKDIR',
    'COPY',
    'RUN',
    'ENV',
    'LABEL',
    'USER',
    'VOLUME',
    'EXPOSE',
    'HEALTHCHECK',
    'STOPSIGNAL',
  ],
  ...['ENTRYPOINT', 'CMD'],
];
const text = readFileSync(join(ROOT, 'Dockerfile'), 'utf8');
const stages = readDockerfile();
const final = stages.at(-1)!;
const last = (name: string) => final.instructions.findLast((one) => one.name === name)?.rest ?? '';

describe('the Dockerfile', () => {
  it('uses instructions that are known, and begins with an image', () => {
    const names = instructionsOf(text).map(({ name }) => name);
    expect(names.filter((name) => !KNOWN.includes(name))).toEqual([]);
    expect(names[0]).toBe('FROM');
  });

  it('takes every stage from the same image, of the very Node that the repository runs on', () => {
    const { devDependencies } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
      devDependencies: { node: string };
    };
    expect(new Set(stages.map(({ image }) => image))).toEqual(new Set([`node:${devDependencies.node}-slim`]));
  });

  it('copies from stages that exist and files that the build sees', () => {
    const files = contextFiles();
    for (const [nth, { instructions }] of stages.entries()) {
      for (const { name, flags, rest } of instructions) {
        if (name !== 'COPY') continue;
        const earlier = stages.slice(0, nth).map(({ name }) => name);
        if (flags['from'] !== undefined) expect(earlier).toContain(flags['from']);
        else {
          for (const source of rest.split(/\s+/).slice(0, -1))
            expect([source, source === '.' || files.includes(source)]).toEqual([source, true]);
        }
      }
    }
  });

  it('gives npm the manifest of every workspace, before anything that changes more often', () => {
    const { workspaces } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
      workspaces: string[];
    };
    const wanted = [
      'package.json',
      'package-lock.json',
      ...workspaces.map((folder) => `${folder}/package.json`),
    ];
    for (const { instructions } of stages.slice(0, -1)) {
      const before = instructions.slice(
        0,
        instructions.findIndex(({ rest }) => rest.startsWith('npm ci')),
      );
      const copied = before.flatMap(({ name, rest }) =>
        name === 'COPY' ? rest.split(/\s+/).slice(0, -1) : [],
      );
      expect(copied.sort()).toEqual(wanted.toSorted());
    }
  });

  it('runs without a shell, as a user that is not root, and is told to stop as every other process is', () => {
    expect(execForm(last('ENTRYPOINT'))[0]).toBe('node');
    expect(execForm(last('CMD'))).toEqual(['start']);
    expect(execForm(last('HEALTHCHECK').replace(/^CMD /, ''))[0]).toBe('node');
    expect(last('USER')).toMatch(/^[1-9]\d*:[1-9]\d*$/);
    expect(last('STOPSIGNAL')).toBe('SIGTERM');
    expect(last('VOLUME')).toBe('/data');
  });
});

describe('.dockerignore', () => {
  it('keeps data, history, tests and installed packages from the build, by the rules of the engine', () => {
    const files = contextFiles();
    expect(files.filter((path) => /^(data|\.git|bench)\/|\.test\.ts$|node_modules|\.go$/.test(path))).toEqual(
      [],
    );
    expect(files).toContain('server/src/app.ts');
    const seen = contextOf('*\n!a\n**/b\na/c/*\n!a/c/d\n# e\n');
    const expected = {
      a: true,
      'a/x': true,
      'a/b': false,
      'a/y/b/z': false,
      'a/c/e': false,
      'a/c/d/f': true,
      g: false,
    };
    expect(Object.fromEntries(Object.keys(expected).map((path) => [path, seen(path)]))).toEqual(expected);
  });
});
