/**
 * Changes the code in one place at a time, and looks whether a test notices. A mutant that none notices is a
 * line whose tests prove less than they seem to.
 *
 *   node tools/mutants.ts gate                      some mutants of the files that changed since the newest tag
 *                                                   (or the commit before), within three minutes; prints those
 *                                                   that nobody noticed, and fails nothing
 *   node tools/mutants.ts long                      all mutants of the code that decides about deliveries; fails
 *                                                   when one survives that tools/mutants/survivors.json does
 *                                                   not have, with its reason
 *   node tools/mutants.ts FILE… [--seconds 60]      the mutants of these files
 *   … --judge "COMMAND"                             judges beside the unit tests: see tools/mutants/judges.ts
 *   … --lanes 2                                     so many at once
 *   … --tests server/test/delivery                  test files that begin so, besides the nearest
 *
 * All mutants are in one copy of the repository; a variable says which is in force. The test files that
 * import a changed file are run once without any, to see which mutants each comes by. Then each mutant is
 * tried with the files that do.
 */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, globSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { parseArgs } from 'node:util';
import { readerOf, testsOf } from './mutants/importers.ts';
import { COMMANDS, Command, type CommandJudge, type Judge, place, UnitTests } from './mutants/judges.ts';
import { type Mutant, mutate } from './mutants/mutate.ts';

const ROOT = join(import.meta.dirname, '..');
const DURATIONS = join(import.meta.dirname, 'test-durations.json');
const SURVIVORS = join(import.meta.dirname, 'mutants/survivors.json');

/** Survivors and why they are no gap, by file and key. */
type Reasons = Readonly<Record<string, Readonly<Record<string, string>>>>;

/** The code of the long run: it decides about deliveries and nodes. */
const LONG = [
  'server/src/delivery/*.ts',
  'server/src/ingest/commit-queue.ts',
  'server/src/nodes/*.ts',
  'server/src/wiring/nodes.ts',
  'server/src/adapters/*/queue/settle.ts',
];

/** Test files that judge one file: the nearest by their imports. */
const MOST_TESTS = { gate: 6, long: 24 };

/** Tests of the whole program take too long for one mutant after the other. */
const WHOLE_PROGRAM = /^(server\/test\/(e2e|control-api|http|webhooks|clients|docs)|cli)\//;

/** Test files that take more milliseconds judge in the long run alone. */
const MOST_MS_IN_GATE = 5000;

/** Files that one run of the gate looks at. */
const GATE_FILES = 3;

/** Seconds that a run of the gate takes. */
const GATE_SECONDS = 170;

const say = (text: string) => process.stdout.write(`${text}\n`);
const git = (...args: string[]) => execFileSync('git', args, { cwd: ROOT, encoding: 'utf8' }).trim();

export interface Verdict {
  readonly mutant: Mutant;
  /** Where it was noticed; undefined where it was not. */
  readonly noticed: string | undefined;
}

/** Files of the server that changed since the newest tag, or since the commit before. */
function changedFiles(): string[] {
  try {
    const tag = git('tag', '--merged', 'HEAD~1', '--sort=-creatordate').split('\n')[0];
    return git('diff', '--name-only', tag || 'HEAD~1')
      .split('\n')
      .filter(isCode);
  } catch {
    // The first commit, or a clone that has no other.
    return [];
  }
}

const isCode = (path: string) =>
  /^server\/src\/.*\.ts$/.test(path) &&
  !/\.test\.ts$|\/assembly\//.test(path) &&
  existsSync(join(ROOT, path));

/** An order that is the same for the same tree, and another one for every other. */
function draw<Thing>(things: readonly Thing[], nameOf: (thing: Thing) => string): Thing[] {
  const tree = git('rev-parse', 'HEAD^{tree}');
  const lot = (thing: Thing) =>
    createHash('sha256')
      .update(`${tree} ${nameOf(thing)}`)
      .digest('hex');
  return things.toSorted((one, other) => (lot(one) < lot(other) ? -1 : 1));
}

/** Copies what git knows or would add, and writes the mutants into it. */
function copyInto(copy: string, files: readonly string[]): Mutant[] {
  const known = git('ls-files', '--cached', '--others', '--exclude-standard').split('\n');
  const mutants: Mutant[] = [];
  for (const path of known) {
    if (!existsSync(join(ROOT, path))) continue;
    const bytes = readFileSync(join(ROOT, path));
    if (files.includes(path)) {
      const made = mutate(path, bytes.toString(), mutants.length);
      mutants.push(...made.mutants);
      place(copy, path, made.text);
    } else place(copy, path, bytes);
  }
  const workspaces = globSync('{*,*/*,*/*/*}/package.json', { cwd: ROOT, exclude: ['node_modules'] });
  for (const path of ['node_modules', ...workspaces.map((file) => join(dirname(file), 'node_modules'))])
    if (existsSync(join(ROOT, path)) && existsSync(dirname(join(copy, path))))
      symlinkSync(join(ROOT, path), join(copy, path));
  return mutants;
}

interface Trial {
  readonly files: readonly string[];
  readonly mostTests: number;
  readonly lanes: number;
  readonly commands: readonly CommandJudge[];
  /** Beginnings of the paths of further test files. */
  readonly tests: readonly string[];
  /** Test files that took more milliseconds in a run of the gate do not judge. */
  readonly mostMs: number;
  /** When no further mutant is begun, by `performance.now`. Learning takes half of the time at most. */
  readonly until: number;
  /** The order in which mutants are tried. */
  readonly order: (mutants: readonly Mutant[]) => readonly Mutant[];
}

/** Tries the mutants of files, as many as the time allows. */
async function tryMutants(trial: Trial) {
  const { files, lanes, commands, until, order } = trial;
  const learnsUntil = (performance.now() + until) / 2;
  const copy = mkdtempSync(join(tmpdir(), 'mutants-'));
  const judges: Judge[][] = [];
  const verdicts: Verdict[] = [];
  const stop = () => {
    for (const judge of judges.flat()) judge.stop();
    rmSync(copy, { recursive: true, force: true });
  };
  process.once('exit', stop);
  try {
    const mutants = copyInto(copy, files);
    for (let lane = 0; lane < lanes; lane++)
      judges.push([new UnitTests(copy), ...commands.map((command) => new Command(command, copy))]);
    const [first, ...others] = judges.map(([units]) => units as UnitTests);
    for (const file of testFilesOf(trial)) {
      if (performance.now() > learnsUntil) break;
      const began = performance.now();
      const failed = await first!.learn(file);
      const took = ((performance.now() - began) / 1000).toFixed(1);
      say(`${file}: ${failed === undefined ? `judges, ${took} s` : `cannot judge: ${failed}`}`);
    }
    for (const other of others) other.learnFrom(first!);
    const waiting = [...order(mutants)];
    const work = async (lane: readonly Judge[]) => {
      for (let mutant = waiting.shift(); mutant !== undefined; mutant = waiting.shift()) {
        if (performance.now() > until) return;
        verdicts.push({ mutant, noticed: await judged(mutant, lane) });
      }
    };
    await Promise.all(judges.map(work));
    return { mutants, verdicts };
  } finally {
    process.off('exit', stop);
    stop();
  }
}

async function judged(mutant: Mutant, judges: readonly Judge[]): Promise<string | undefined> {
  for (const judge of judges) {
    const noticed = await judge.judge(mutant);
    if (noticed !== undefined) return noticed;
  }
  return undefined;
}

function testFilesOf({ files, mostTests, tests, mostMs }: Trial): string[] {
  const paths = globSync('{server,cli}/**/*.ts', {
    cwd: ROOT,
    exclude: (path) => path.includes('node_modules'),
  });
  const read = readerOf(ROOT);
  const durations = JSON.parse(readFileSync(DURATIONS, 'utf8')) as Readonly<Record<string, number>>;
  const canJudge = (test: string) => !WHOLE_PROGRAM.test(test) && (durations[`unit ${test}`] ?? 0) <= mostMs;
  const chosen = files.flatMap((file) => {
    const all = testsOf(file, paths, read).filter(canJudge);
    const named = all.filter((test) => tests.some((begin) => test.startsWith(begin)));
    return [...all.slice(0, mostTests), ...named];
  });
  return [...new Set(chosen)];
}

/** Lines about the survivors, and the number of those without a reason. */
export function reportOf(
  verdicts: readonly Verdict[],
  reasons: Reasons,
): { lines: string[]; unlisted: number } {
  const lines: string[] = [];
  const files = [...new Set(verdicts.map(({ mutant }) => mutant.path))].sort();
  let unlisted = 0;
  for (const path of files) {
    const of = verdicts.filter(({ mutant }) => mutant.path === path);
    const alive = of.filter(({ noticed }) => noticed === undefined).map(({ mutant }) => mutant);
    const listed = reasons[path] ?? {};
    const news = alive.filter(({ key }) => listed[key] === undefined).sort((a, b) => a.id - b.id);
    unlisted += news.length;
    const percent = Math.round((100 * (of.length - alive.length)) / of.length);
    lines.push(
      `${path}: ${of.length - alive.length} of ${of.length} noticed (${percent} %), ${news.length} survive without a reason`,
    );
    lines.push(...news.map(({ line, key }) => `  ${path}:${line}: ${key}`));
    const noticed = of.filter(
      ({ mutant, noticed: by }) => by !== undefined && listed[mutant.key] !== undefined,
    );
    lines.push(...noticed.map(({ mutant }) => `  is noticed now, take it from the list: ${mutant.key}`));
  }
  return { lines, unlisted };
}

async function main(): Promise<number> {
  const began = performance.now();
  const { positionals, values } = parseArgs({
    allowPositionals: true,
    options: {
      seconds: { type: 'string' },
      lanes: { type: 'string' },
      judge: { type: 'string', multiple: true },
      tests: { type: 'string', multiple: true },
      most: { type: 'string' },
    },
  });
  const [mode] = positionals;
  const isGate = mode === 'gate';
  const isLong = mode === 'long';
  const files = isGate
    ? draw(changedFiles(), (path) => path).slice(0, GATE_FILES)
    : globSync(isLong ? LONG : positionals, { cwd: ROOT }).filter(isCode);
  if (files.length === 0) {
    say(isGate ? 'no file of the server has changed' : 'name files below server/src, "gate" or "long"');
    return isGate ? 0 : 1;
  }
  const judges = (values.judge ?? []).map((command) => ({ command, files: /./ }));
  const seconds = Number(values.seconds ?? (isGate ? GATE_SECONDS : Number.POSITIVE_INFINITY));
  const { mutants, verdicts } = await tryMutants({
    files,
    mostTests: Number(values.most ?? (isGate ? MOST_TESTS.gate : MOST_TESTS.long)),
    lanes: Number(values.lanes ?? (isLong ? availableParallelism() : 1)),
    commands: [...(isLong ? COMMANDS : []), ...judges],
    tests: values.tests ?? [],
    mostMs: isGate ? MOST_MS_IN_GATE : Number.POSITIVE_INFINITY,
    until: began + seconds * 1000,
    order: (all) => (isGate ? draw(all, ({ path, key }) => `${path} ${key}`) : all),
  });
  const { lines, unlisted } = reportOf(verdicts, JSON.parse(readFileSync(SURVIVORS, 'utf8')) as Reasons);
  const alive = verdicts.filter(({ noticed }) => noticed === undefined).length;
  for (const line of lines) say(line);
  say(
    `${verdicts.length} of ${mutants.length} mutants tried, ${verdicts.length - alive} noticed, ${alive} not, ` +
      `${unlisted} of these without a reason; ${Math.round((performance.now() - began) / 1000)} s`,
  );
  return isLong && unlisted > 0 ? 1 : 0;
}

if (import.meta.main) {
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(130));
  process.exitCode = await main();
}
