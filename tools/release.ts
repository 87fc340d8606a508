/**
 * Makes the files of a release, and tries them as somebody would who has nothing else of Millrace
 * (release-trial.ts).
 *
 *   npm run release:dry                says what a release of this tree still lacks, and keeps nothing
 *   npm run release:dry -- FOLDER      keeps the files
 *   npm run release -- FOLDER          makes nothing of a tree that lacks something
 *
 * It publishes nothing: CONTRIBUTING.md, "A release", has the steps, and who does them.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { GO_MODULE, GO_VERSION, type ReleaseFiles, tryRelease } from './release-trial.ts';
import { type Bom, billOf } from './sbom.ts';

const ROOT = resolve(import.meta.dirname, '..');

/** Manifests of what is published, and of the whole, which the SBOM is named after. */
const MANIFESTS = ['.', 'server', 'cli', 'clients/typescript', 'console'];

/** Facts about the tree that a release goes by. */
export interface Tree {
  /** Of each manifest, by its folder. */
  readonly versions: Readonly<Record<string, string>>;
  readonly goVersion: string;
  /** Tags of the commit. */
  readonly tags: readonly string[];
  /** True if the Go module is in this commit as it is at the tag of its version. */
  readonly hasGoTag: boolean;
  readonly hasChanges: boolean;
  readonly hasGo: boolean;
  readonly changelog: string;
}

/** The things that keep a tree from being a release, each with what to do. */
export function lacksOf(tree: Tree): string[] {
  const version = tree.versions['cli']!;
  const others = Object.entries(tree.versions).filter(([, other]) => other !== version);
  const headings = [...tree.changelog.matchAll(/^## (\S+)/gm)].map(([, heading]) => heading);
  return [
    ...others.map(
      ([part, other]) => `${part}/package.json has version ${other}, and cli ${version}: make them one`,
    ),
    ...(tree.hasChanges
      ? ['the work tree has changes: commit them, or make the release in a fresh clone']
      : []),
    ...(headings[0] === version
      ? []
      : [`CHANGELOG.md does not begin with a heading "## ${version}": write it`]),
    ...(tree.tags.includes(`v${version}`) ? [] : [`the commit has no tag v${version}: git tag v${version}`]),
    ...(tree.hasGoTag
      ? []
      : [
          `no tag ${goTagOf(tree)} has clients/go as it is here: raise Version in clients/go/version.go if that ` +
            `tag is there, then git tag ${goTagOf(tree)}`,
        ]),
    ...(tree.hasGo ? [] : ['Go is not installed, so its module cannot be tried: install Go 1.19 or newer']),
  ];
}

/** The name of the tag by which Go finds a module in a folder. */
const goTagOf = ({ goVersion }: Pick<Tree, 'goVersion'>) => `clients/go/v${goVersion}`;

const succeeds = (command: string, ...args: string[]) =>
  spawnSync(command, args, { cwd: ROOT, stdio: 'ignore' }).status === 0;

const outputOf = (command: string, ...args: string[]) =>
  execFileSync(command, args, { cwd: ROOT, encoding: 'utf8', maxBuffer: 2 ** 28 }).trim();

const textOf = (path: string) => readFileSync(join(ROOT, path), 'utf8');

function treeHere(): Tree {
  const versions = MANIFESTS.map((part) => {
    const { version } = JSON.parse(textOf(join(part, 'package.json'))) as { version: string };
    return [part, version] as const;
  });
  return {
    versions: Object.fromEntries(versions),
    goVersion: GO_VERSION,
    tags: outputOf('git', 'tag', '--points-at', 'HEAD').split('\n'),
    hasGoTag: succeeds(
      ...(['git', 'diff', '--quiet', `refs/tags/${goTagOf({ goVersion: GO_VERSION })}`] as const),
      ...['HEAD', '--', 'clients/go'],
    ),
    hasChanges: outputOf('git', 'status', '--porcelain') !== '',
    hasGo: succeeds('go', 'version'),
    changelog: textOf('CHANGELOG.md'),
  };
}

/** Packs what a build has written, and returns the path of the file. */
function pack(script: string, built: string, folder: string): string {
  execFileSync(process.execPath, [join(ROOT, script), built], {
    cwd: ROOT,
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  return join(folder, outputOf('npm', 'pack', built, '--silent', '--pack-destination', folder));
}

/**
 * Writes the files into an empty folder. The tarballs and the bill are of the work tree; the Go module is of
 * the commit, because Go takes it from a tag.
 */
function writeRelease(folder: string, scratch: string): ReleaseFiles {
  const program = pack('tools/build.ts', join(scratch, 'program'), folder);
  const client = pack('clients/typescript/tools/build.ts', join(scratch, 'client'), folder);
  cpSync(join(scratch, 'program/THIRD-PARTY-NOTICES'), join(folder, 'THIRD-PARTY-NOTICES'));
  const bom = JSON.parse(outputOf('npm', 'sbom', '--sbom-format', 'cyclonedx', '--package-lock-only')) as Bom;
  const committed = new Date(outputOf('git', 'log', '-1', '--format=%cI'));
  writeFileSync(
    program.replace(/\.tgz$/, '.cdx.json'),
    `${JSON.stringify(billOf(bom, committed), undefined, 2)}\n`,
  );
  const goModule = join(folder, `millrace-client-go-${GO_VERSION}.zip`);
  // The form in which Go itself makes an archive of a tag: the licence of the repository is put beside it.
  const prefix = `--prefix=${GO_MODULE}@v${GO_VERSION}/`;
  outputOf(
    'git',
    'archive',
    '--format=zip',
    `--output=${goModule}`,
    prefix,
    '--add-file=LICENSE',
    'HEAD:clients/go',
  );
  const sums = readdirSync(folder)
    .sort()
    .map(
      (file) =>
        `${createHash('sha256')
          .update(readFileSync(join(folder, file)))
          .digest('hex')}  ${file}\n`,
    );
  writeFileSync(join(folder, 'SHA256SUMS'), sums.join(''));
  return { program, client, goModule };
}

async function main(): Promise<number> {
  const { positionals, values } = parseArgs({
    allowPositionals: true,
    options: { dry: { type: 'boolean' } },
  });
  const isDry = values.dry === true;
  if (!isDry && positionals[0] === undefined) return fail('say where: npm run release -- FOLDER');
  const tree = treeHere();
  const lacks = lacksOf(tree);
  for (const lack of lacks) say(`${isDry ? 'a release lacks' : 'no release'}: ${lack}`);
  if (!isDry && lacks.length > 0)
    return fail('nothing was made: mend this first, or see `npm run release:dry`');
  const scratch = mkdtempSync(join(tmpdir(), 'millrace-release-'));
  try {
    const folder = resolve(positionals[0] ?? join(scratch, 'release'));
    mkdirSync(folder, { recursive: true });
    if (readdirSync(folder).length > 0) return fail(`${folder} is not empty: name a new folder`);
    const files = writeRelease(folder, scratch);
    for (const file of readdirSync(folder)) say(`made ${join(folder, file)}`);
    for await (const tried of tryRelease(files, join(scratch, 'trial'), tree.hasGo)) say(tried);
    say(isDry ? 'dry run: nothing is published' : 'to publish: CONTRIBUTING.md, "A release"');
    return 0;
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

const say = (text: string) => process.stdout.write(`${text}\n`);

function fail(reason: string): number {
  process.stderr.write(`${reason}\n`);
  return 1;
}

if (import.meta.main) process.exitCode = await main();
