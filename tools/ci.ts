/**
 * The two lists of tests, and what runs them.
 *
 * The gate is what must pass before a change is merged: the smallest of each kind that shows that it still
 * works, with fixed seeds. The long run does what must be many or random; nobody waits for it.
 *
 *   node tools/ci.ts gate                    what `.ci/run` calls when it has installed what is needed
 *   node tools/ci.ts long --seed 7           `npm run test:long`; without --seed it draws one, and prints it
 *   node tools/ci.ts gate --only e2e,faults  some steps of a list
 *   node tools/ci.ts … --summary FILE        keeps the summary as JSON
 *   node tools/ci.ts durations FILE…         writes tools/test-durations.json from such summaries
 *
 * Suites that wait for servers, disks and browsers run side by side, three more than the machine has cores.
 * Each step has a temporary folder of its own: what is left in it, and each process that still knows it, is a
 * failure of that step's tests. The last line counts: "9 passed, 0 failed".
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism, cpus, loadavg, tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { parseArgs } from 'node:util';
import { leftBehind } from './left-behind.ts';

const ROOT = join(import.meta.dirname, '..');
const DURATIONS = join(import.meta.dirname, 'test-durations.json');

export interface Step {
  readonly name: string;
  /** As typed in a shell, at the root of the repository. */
  readonly command: string;
  /** True for a step that keeps all cores busy or measures time, so that nothing runs beside it. */
  readonly isAlone?: boolean;
  readonly env?: Readonly<Record<string, string>>;
  /** Its failure is printed and fails nothing. */
  readonly isReportOnly?: boolean;
}

/**
 * In the order in which they start: what fails soonest is first, and of the suites beside each other the
 * longest.
 */
export const GATE: readonly Step[] = [
  { name: 'check', command: 'npm run check', isAlone: true },
  {
    name: 'build',
    command:
      'npm run --silent build --workspace console && node server/test/support/program-bundle.ts "$MILLRACE_TEST_BUNDLE"',
    isAlone: true,
  },
  { name: 'test', command: 'npm test', isAlone: true },
  // Suites that do one thing after the other are in two parts, so that they do not end last. They wait for a
  // third of their time.
  { name: 'faults', command: 'npm run test:faults' },
  {
    name: 'console-rest',
    command: 'npx vitest run --project console --exclude "console/test/{pages,events}.*"',
  },
  { name: 'clients-own', command: 'npm run test:clients -- clients/e2e' },
  { name: 'postgres-rest', command: 'npm run test:postgres -- --exclude "server/test/adapters/**"' },
  { name: 'console', command: 'npx vitest run --project console pages events' },
  { name: 'e2e', command: 'npm run test:e2e' },
  { name: 'clients', command: 'npm run test:clients -- server/test' },
  { name: 'postgres', command: 'npm run test:postgres -- server/test/adapters' },
  { name: 'e2e-postgres', command: 'npm run test:e2e:postgres' },
  // It has three minutes, and takes what the suites beside it leave of the processor.
  { name: 'mutants', command: 'nice -n 10 npm run --silent mutants gate', isReportOnly: true },
  { name: 'go', command: 'npm run test:go' },
  { name: 'fuzz', command: 'npm run test:fuzz' },
  { name: 'simulate', command: 'npm run --silent simulate -- --gate' },
  { name: 'simulate-leases', command: 'npm run --silent simulate:leases -- --gate' },
  { name: 'simulate-engine', command: 'npm run --silent simulate:engine -- --gate' },
  { name: 'leases', command: 'npm run test:leases' },
];

/** Repeats the properties of fast-check with ten seeds. */
const PROPERTIES = `for nth in $(seq 10); do
  MILLRACE_TEST_SEED=$((MILLRACE_TEST_SEED + nth)) npx vitest run --project unit $(git grep -l fast-check -- '*.test.ts') || exit 1
done`;

/**
 * The suites of the gate do more of each kind here: MILLRACE_TEST_LIST tells them
 * (server/test/support/runs.ts).
 */
export const LONG: readonly Step[] = [
  ...GATE.filter(({ name }) => !['check', 'go', 'mutants'].includes(name)),
  { name: 'node-next', command: 'node tools/newest.ts node' },
  { name: 'postgres-next', command: 'node tools/newest.ts postgres' },
  { name: 'properties', command: PROPERTIES },
  // Reported alone until every survivor has its reason in tools/mutants/survivors.json.
  { name: 'mutants', command: 'npm run --silent mutants long', isReportOnly: true },
  { name: 'timing', command: 'npm run test:timing', isAlone: true, isReportOnly: true },
  { name: 'soak', command: 'node bench/soak.ts', isAlone: true, env: { MINUTES: '15' } },
];

interface Ended {
  readonly name: string;
  readonly isReportOnly: boolean;
  readonly code: number;
  readonly seconds: number;
  /** Processor time of all its processes that ended before it, in seconds. */
  readonly processorSeconds: number;
  /** Leftovers of its tests: one line each. */
  readonly left: readonly string[];
  /** Milliseconds of each test file, by its path. */
  readonly files: Readonly<Record<string, number>>;
  readonly output: string;
}

export interface Summary {
  readonly list: string;
  readonly commit: string;
  readonly seed: string;
  readonly began: string;
  readonly machine: { readonly cores: number; readonly model: string; readonly load: readonly number[] };
  readonly seconds: number;
  readonly steps: readonly Omit<Ended, 'output'>[];
}

/** Whether the step holds up a merge: it failed, or its tests left something behind. */
const hasFailed = ({ code, left, isReportOnly }: Omit<Ended, 'output'>) =>
  !isReportOnly && (code !== 0 || left.length > 0);

/** Steps that run: their process groups end with this program. */
const running = new Set<ChildProcess>();

function endRunning(): void {
  for (const { pid } of running) {
    try {
      process.kill(-pid!, 'SIGKILL');
    } catch {
      // It ended meanwhile.
    }
  }
}

/** Runs one step to its end. `folder` is for its output and its temporary files. */
async function runStep(step: Step, folder: string, env: NodeJS.ProcessEnv): Promise<Ended> {
  const { name, command, isReportOnly = false } = step;
  const temporary = join(folder, name);
  const [output, times, report] = ['log', 'times', 'json'].map((end) => join(folder, `${name}.${end}`));
  // Everybody may enter: PostgreSQL runs as a user who is not root.
  mkdirSync(temporary, { mode: 0o755 });
  const began = performance.now();
  const child = spawn(
    'bash',
    ['-c', `{ ${command}\n} >"$1" 2>&1; code=$?; times >"$2"; exit $code`, name, output!, times!],
    {
      cwd: ROOT,
      detached: true,
      stdio: 'ignore',
      env: { ...env, ...step.env, TMPDIR: temporary, MILLRACE_TEST_REPORT: report! },
    },
  );
  running.add(child);
  const [code, signal] = (await once(child, 'exit')) as [number | null, string | null];
  running.delete(child);
  const seconds = (performance.now() - began) / 1000;
  const left = await leftBehind(temporary);
  rmSync(temporary, { recursive: true, force: true });
  return {
    name,
    isReportOnly,
    code: code ?? (signal === null ? 1 : 128),
    seconds,
    processorSeconds: existsSync(times!) ? secondsOf(readFileSync(times!, 'utf8')) : 0,
    left,
    files: existsSync(report!) ? filesOf(readFileSync(report!, 'utf8')) : {},
    output: readFileSync(output!, 'utf8'),
  };
}

/** Seconds that the children of a shell have used, by the second line of `times`: "1m2.5s 0m3.25s". */
export function secondsOf(times: string): number {
  const [, ofChildren = ''] = times.split('\n');
  const parts = [...ofChildren.matchAll(/(\d+)m([\d.]+)s/g)];
  return parts.reduce((sum, [, minutes, seconds]) => sum + Number(minutes) * 60 + Number(seconds), 0);
}

/** Milliseconds of each file of a vitest report. */
export function filesOf(report: string): Record<string, number> {
  const { testResults } = JSON.parse(report) as {
    testResults: { name: string; startTime: number; endTime: number }[];
  };
  const entries = testResults.map(
    ({ name, startTime, endTime }) => [relative(ROOT, name), Math.round(endTime - startTime)] as const,
  );
  return Object.fromEntries(entries);
}

/** Runs steps in their order, each as soon as there is room for it. */
async function runSteps(steps: readonly Step[], env: NodeJS.ProcessEnv): Promise<Ended[]> {
  const folder = mkdtempSync(join(tmpdir(), 'ci-'));
  chmodSync(folder, 0o755);
  // The step `build` makes it. A suite that runs without that step makes its own.
  const ofAll = { ...env, MILLRACE_TEST_BUNDLE: join(folder, 'program') };
  const most = availableParallelism() + 3;
  const ended: Ended[] = [];
  const waiting = [...steps];
  const going = new Map<Step, Promise<void>>();
  try {
    while (waiting.length > 0 || going.size > 0) {
      const next = waiting[0];
      const isFree = ![...going.keys()].some(({ isAlone }) => isAlone);
      const hasRoom = going.size < (next?.isAlone === true ? 1 : most);
      if (next !== undefined && isFree && hasRoom) {
        waiting.shift();
        say(`\n== ${next.name}: ${next.command}`);
        const run = runStep(next, folder, ofAll).then((step) => {
          going.delete(next);
          ended.push(step);
          say(`\n== what ${step.name} said\n${step.output.trimEnd()}`);
          say(`== ${verdictOf(step)}, ${Math.round(step.seconds)} s`);
        });
        going.set(next, run);
      } else await Promise.race(going.values());
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  return ended;
}

function verdictOf(step: Omit<Ended, 'output'>): string {
  const { name, code, left, isReportOnly } = step;
  if (code === 0 && left.length === 0) return `${name}: passed`;
  const why = [...(code === 0 ? [] : [`exit code ${code}`]), ...left.map((line) => `left behind: ${line}`)];
  return `${name}: ${isReportOnly ? 'reported' : 'FAILED'}: ${why.join('; ')}`;
}

/** A table by step, with the time that passed and the time of the processor. */
export function tableOf({ list, seed, commit, seconds, steps }: Summary): string {
  const rows = steps.map((step) => [
    step.name,
    step.seconds.toFixed(0),
    step.processorSeconds.toFixed(0),
    verdictOf(step).slice(step.name.length + 2),
  ]);
  const processor = steps.reduce((sum, step) => sum + step.processorSeconds, 0);
  const table = [
    ['step', 'seconds', 'processor', ''],
    ...rows,
    ['all', seconds.toFixed(0), processor.toFixed(0), ''],
  ];
  const widths = [0, 1, 2].map((column) => Math.max(...table.map((row) => row[column]!.length)));
  const lines = table.map(([name, ...rest]) =>
    [name!.padEnd(widths[0]!), rest[0]!.padStart(widths[1]!), rest[1]!.padStart(widths[2]!), rest[2]!]
      .join('  ')
      .trimEnd(),
  );
  return [`${list} of ${commit.slice(0, 9)}, seed ${seed}`, ...lines].join('\n');
}

/** The files that took a second or more, longest first, with their suite before them. */
export function durationsOf(summaries: readonly Summary[]): Record<string, number> {
  const found = summaries.flatMap(({ steps }) =>
    steps.flatMap(({ name, files }) =>
      Object.entries(files).map(([path, ms]) => [`${PROJECTS[name] ?? name} ${path}`, ms] as const),
    ),
  );
  const long = found.filter(([, ms]) => ms >= 1000).toSorted(([, one], [, other]) => other - one);
  return Object.fromEntries(long);
}

/** The vitest projects whose names are not those of their steps. */
const PROJECTS: Readonly<Record<string, string>> = {
  test: 'unit',
  'clients-own': 'clients',
  'console-rest': 'console',
  'postgres-rest': 'postgres',
};

const say = (text: string) => process.stdout.write(`${text}\n`);

/**
 * The last lines of a failed step are printed again at the end: whoever reads a log of thousands of lines
 * starts there.
 */
const REPEATED_LINES = 80;

/** Tests that are named at the end of all, for each failed step. */
const NAMED_FAILURES = 10;

/** The tests that failed, each with the first line of its error, as vitest and Go tell of them. */
export function failuresOf(output: string): string[] {
  const lines = output.split('\n');
  const named = lines.flatMap((line, nth) => {
    const test = /(?<=^ FAIL {2}).+|(?<=^\s*--- )FAIL: \S+/.exec(line)?.[0];
    if (test === undefined) return [];
    const error = lines.slice(nth + 1, nth + 4).find((after) => /^\w*Error\b/.test(after));
    return error === undefined ? test : `${test}: ${error}`;
  });
  return [...new Set(named)];
}

interface Options {
  readonly seed?: string | undefined;
  readonly only?: string | undefined;
  readonly summary?: string | undefined;
}

async function runList(list: 'gate' | 'long', { seed, only, summary }: Options): Promise<number> {
  const names = only?.split(',');
  const steps = (list === 'gate' ? GATE : LONG).filter(({ name }) => names?.includes(name) ?? true);
  const unknown = names?.filter((name) => !steps.some((step) => step.name === name)) ?? [];
  if (unknown.length > 0) throw new Error(`the ${list} list has no step "${unknown[0]}"`);
  const drawn = seed ?? (list === 'long' ? String(Math.floor(Math.random() * 1e9)) : undefined);
  const env: NodeJS.ProcessEnv = {
    ...process.env,
    NO_COLOR: '1',
    MILLRACE_TEST_LIST: list,
    ...(drawn === undefined ? {} : { MILLRACE_TEST_SEED: drawn }),
  };
  const before = statusOf();
  const began = new Date();
  const load = loadavg();
  const ended = await runSteps(steps, env);
  const written: Summary = {
    list,
    commit: git('rev-parse', 'HEAD'),
    seed: drawn ?? 'of server/test/seeds.json',
    began: began.toISOString(),
    machine: { cores: availableParallelism(), model: cpus()[0]?.model ?? '', load },
    seconds: (Date.now() - began.getTime()) / 1000,
    steps: ended.map(({ output: _, ...step }) => step),
  };
  if (summary !== undefined) writeFileSync(summary, `${JSON.stringify(written, undefined, 2)}\n`);
  const failed = ended.filter(hasFailed);
  for (const { name, output } of failed)
    say(`\n== what ${name} said last\n${output.trimEnd().split('\n').slice(-REPEATED_LINES).join('\n')}`);
  say(`\n${tableOf(written)}`);
  // A record of a run may keep its end alone.
  for (const { name, output } of failed)
    for (const failure of failuresOf(output).slice(0, NAMED_FAILURES)) say(`${name}: ${failure}`);
  if (list === 'long') say(`again: npm run test:long -- --seed ${drawn}`);
  const changed = statusOf();
  if (changed !== before) say(`the tests changed the work tree:\n${changed}`);
  const failures = failed.length + (changed === before ? 0 : 1);
  say(`${ended.length - failed.length} passed, ${failures} failed`);
  return failures === 0 ? 0 : 1;
}

const git = (...args: string[]) => execFileSync('git', args, { cwd: ROOT, encoding: 'utf8' }).trim();
const statusOf = () => git('status', '--porcelain');

function writeDurations(files: readonly string[]): void {
  const summaries = files.map((file) => JSON.parse(readFileSync(file, 'utf8')) as Summary);
  writeFileSync(DURATIONS, `${JSON.stringify(durationsOf(summaries), undefined, 2)}\n`);
}

if (import.meta.main) {
  const { positionals, values } = parseArgs({
    allowPositionals: true,
    options: { seed: { type: 'string' }, only: { type: 'string' }, summary: { type: 'string' } },
  });
  const [verb, ...rest] = positionals;
  for (const signal of ['SIGINT', 'SIGTERM'] as const)
    process.once(signal, () => {
      endRunning();
      process.exit(130);
    });
  if (verb === 'durations') writeDurations(rest);
  else if (verb === 'gate' || verb === 'long') process.exitCode = await runList(verb, values);
  else
    throw new Error(
      'node tools/ci.ts gate|long [--seed N] [--only STEP,…] [--summary FILE], or durations FILE…',
    );
}
