/**
 * Takes mendings of the history back, one at a time, and looks how soon the worlds of this tree notice. Each
 * is a patch of `drill/`: a sentence that says what is taken back, the situations that it concerns, which
 * worlds are to notice (`leases` for those of `npm run simulate:leases`), and the change. Exits
 * with 1 where a patch does not apply any more, or where a control broke a promise.
 *
 *   npm run drill                             the controls, and all patches
 *   npm run drill -- e6f07246-1 control       these alone
 *   npm run drill -- lease                    all patches whose names begin so
 *   npm run drill -- --seconds 60             for so many seconds of processor time each
 *   npm run drill -- --from 500000            with the worlds from this one on
 *   npm run drill -- --skip 500045            without these worlds, which break a promise by themselves
 *   npm run drill -- --check                  only whether every patch applies
 *   npm run drill -- --situations             how many worlds came into the situations that a miss concerns
 */
import { execFileSync, spawn } from 'node:child_process';
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    ...{ from: { type: 'string' }, seconds: { type: 'string' }, skip: { type: 'string' } },
    ...{ check: { type: 'boolean' }, situations: { type: 'boolean' } },
  },
});

const ROOT = join(import.meta.dirname, '../../..');
const PATCHES = join(import.meta.dirname, 'drill');
/** Runs without any patch, one for each kind of worlds. */
const CONTROLS: readonly Patch[] = [
  { name: 'control', sentence: 'Nothing is taken back.', concerns: [], worlds: '' },
  { name: 'control-leases', sentence: 'Nothing is taken back.', concerns: [], worlds: 'leases' },
];
/** Copied, so that a patch changes nothing of this tree; the others are only read. */
const COPIED = ['server', 'spec'];
const LINKED = ['node_modules', 'package.json', 'tsconfig.json'];
/** A run that lasts so many times its processor time has come into a loop without end. */
const PATIENCE = 30;
/** The processor time of Linux goes by so many ticks a second. */
const TICKS = 100;

interface Patch {
  readonly name: string;
  readonly sentence: string;
  readonly concerns: readonly string[];
  /** The kind of worlds that are to notice; empty for those of `npm run simulate`. */
  readonly worlds: string;
}

interface Found {
  readonly promise: string;
  readonly worlds: number;
  readonly seconds: number | undefined;
}

/** The end of a run, and all lines that it printed. */
interface Run {
  readonly found: Found | undefined;
  readonly lines: readonly string[];
}

function readPatch(name: string): Patch {
  const control = CONTROLS.find((one) => one.name === name);
  if (control !== undefined) return control;
  const [sentence = '', ...lines] = readFileSync(fileOf(name), 'utf8').split('\n');
  const head = lines.slice(0, lines.indexOf(''));
  const after = (key: string) => head.find((line) => line.startsWith(key))?.slice(key.length);
  const concerns = after('Concerns: ')?.split('; ') ?? [];
  return { name, sentence, concerns, worlds: after('Worlds: ') ?? '' };
}

function isControl(name: string): boolean {
  return CONTROLS.some((control) => control.name === name);
}

function fileOf(name: string): string {
  return join(PATCHES, `${name}.patch`);
}

/** Names of patches, the controls first. The beginning of names stands for all that begin so. */
function chosen(): string[] {
  const files = readdirSync(PATCHES).filter((file) => file.endsWith('.patch'));
  const all = [...CONTROLS.map(({ name }) => name), ...files.map((file) => file.slice(0, -6)).sort()];
  for (const wanted of positionals)
    if (!all.some((name) => name.startsWith(wanted)))
      throw new Error(`no patch is named ${wanted}: see ${PATCHES}`);
  return positionals.length === 0
    ? all
    : positionals.flatMap((wanted) => all.filter((name) => name.startsWith(wanted)));
}

/** Git finds no repository around the copy, and takes it for plain files. */
const OUTSIDE = { ...process.env, GIT_CEILING_DIRECTORIES: tmpdir() };

function apply(name: string, place: string, ...options: readonly string[]): void {
  execFileSync('git', ['apply', ...options, fileOf(name)], { cwd: place, env: OUTSIDE, stdio: 'pipe' });
}

function copyOfTree(): string {
  const place = mkdtempSync(join(tmpdir(), 'millrace-drill-'));
  for (const name of COPIED) cpSync(join(ROOT, name), join(place, name), { recursive: true });
  for (const name of LINKED) symlinkSync(join(ROOT, name), join(place, name));
  return place;
}

/** Seconds of processor time of a process so far; undefined where the system does not tell. */
function processorTimeOf(pid: number): number | undefined {
  try {
    // Its name stands in brackets before the fields, and may hold anything.
    const fields = readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ').at(-1)!.split(' ');
    return (Number(fields[11]) + Number(fields[12])) / TICKS;
  } catch {
    return undefined;
  }
}

/** Lives worlds in a copy of the tree until one breaks a promise, or until the time is over. */
async function live(
  { worlds }: Patch,
  { place, from, seconds }: { readonly place: string; readonly from: number; readonly seconds: number },
): Promise<Run> {
  const options = ['--from', String(from), '--seconds', String(seconds), '--situations', '--digests'];
  if (values.skip !== undefined) options.push('--skip', values.skip);
  const main = worlds === '' ? 'main.ts' : `${worlds}-main.ts`;
  const child = spawn(process.execPath, [`server/test/simulation/${main}`, ...options], {
    ...{ cwd: place, stdio: ['ignore', 'pipe', 'inherit'] },
  });
  const lines: string[] = [];
  let found: Found | undefined;
  const end = () => child.kill('SIGKILL');
  const timer = setTimeout(
    () => {
      found ??= { promise: 'a world ends', worlds: 0, seconds: processorTimeOf(child.pid!) };
      end();
    },
    seconds * PATIENCE * 1000,
  );
  for await (const line of createInterface({ input: child.stdout })) {
    lines.push(line);
    found ??= foundIn(line, from, () => processorTimeOf(child.pid!));
    // The process goes on to look for the faults that are enough: the drill does not need them.
    if (found !== undefined) end();
  }
  clearTimeout(timer);
  return { found, lines };
}

function foundIn(line: string, from: number, seconds: () => number | undefined): Found | undefined {
  const broken = /^seed (\d+) broke "(.*?)"/.exec(line);
  if (broken !== null)
    return { promise: broken[2]!, worlds: Number(broken[1]) - from + 1, seconds: seconds() };
  if (!line.startsWith('an error that nobody caught')) return undefined;
  return { promise: 'every error is caught', worlds: 0, seconds: seconds() };
}

/** How many worlds came into each of these situations, from the lines of a run. */
function reachedIn(lines: readonly string[], situations: readonly string[]): Map<string, number> {
  const counts = new Map(situations.map((one) => [one, 0]));
  for (const line of lines) {
    const [, count, situation] = /^ *(\d+) (.*)$/.exec(line) ?? [];
    if (situation !== undefined && counts.has(situation)) counts.set(situation, Number(count));
  }
  return counts;
}

/** The digests of the worlds of a run, in their order. */
function digestsIn(lines: readonly string[]): string[] {
  return lines.filter((line) => line.startsWith('digest ')).map((line) => line.slice(7));
}

/** In how many worlds the patch changed anything, where the control has lived them too. */
function tellChanged(lines: readonly string[], control: readonly string[]): void {
  const before = digestsIn(control);
  const both = digestsIn(lines).slice(0, before.length);
  const changed = both.filter((digest, nth) => digest !== before[nth]).length;
  if (both.length > 0) console.log(`  it changed the course of ${changed} of ${both.length} worlds`);
}

function tell(
  { name, sentence, concerns }: Patch,
  { found, lines }: Run,
  control: readonly string[] | undefined,
): void {
  console.log(`${name}: ${sentence}`);
  if (found !== undefined) {
    const time = found.seconds === undefined ? '' : `, ${found.seconds.toFixed(1)} s`;
    console.log(`  found after ${found.worlds} worlds${time}: ${found.promise}`);
    return;
  }
  const worlds = lines.findLast((line) => /^\d+ worlds, /.test(line));
  if (worlds === undefined) throw new Error(`the run of ${name} ended without a result`);
  console.log(`  not found: ${worlds}`);
  if (!isControl(name) && control !== undefined) tellChanged(lines, control);
  // A patch may take out what notes a situation.
  const reached = [...reachedIn(control ?? lines, concerns)];
  const none = reached.filter(([, count]) => count === 0).map(([situation]) => situation);
  if (none.length > 0) console.log(`  not reached: ${none.join('; ')}`);
  if (values.situations)
    for (const [situation, count] of reached) console.log(`  ${String(count).padStart(6)} ${situation}`);
}

/** Says which patches do not apply to this tree; true where all do. */
function check(names: readonly string[]): boolean {
  let isGood = true;
  for (const name of names) {
    if (isControl(name)) continue;
    try {
      apply(name, ROOT, '--check');
    } catch (error) {
      isGood = false;
      console.log(`${name} does not apply any more: ${String((error as { stderr: unknown }).stderr).trim()}`);
    }
  }
  return isGood;
}

async function run(): Promise<number> {
  const names = chosen();
  const isGood = check(names);
  if (values.check || !isGood) return isGood ? 0 : 1;
  const from = Number(values.from ?? 500_000);
  const seconds = Number(values.seconds ?? 60);
  const place = copyOfTree();
  let hits = 0;
  /** By the options of their worlds. */
  const controls = new Map<string, Run>();
  try {
    for (const name of names) {
      const patch = readPatch(name);
      if (!isControl(name)) apply(name, place);
      const result = await live(patch, { place, from, seconds });
      if (!isControl(name)) apply(name, place, '--reverse');
      if (isControl(name)) controls.set(patch.worlds, result);
      else if (result.found !== undefined) hits++;
      tell(patch, result, controls.get(patch.worlds)?.lines);
    }
  } finally {
    rmSync(place, { recursive: true });
  }
  console.log(`found ${hits} of ${names.filter((name) => !isControl(name)).length}`);
  return [...controls.values()].every(({ found }) => found === undefined) ? 0 : 1;
}

process.exitCode = await run();
