/** The command line by which worlds are lived: see `main.ts` and `engine-main.ts`. */
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { realImmediate } from './globals.ts';
import { checkThatPromisesSettle } from './kernel.ts';
import { type Lived, lastLines, shrink, without } from './live.ts';
import type { Scenario, Wishes } from './scenario.ts';
import type { Reached, Situation } from './situations.ts';

/** Worlds with one kind of store, and how many of them the gate lives. */
export interface WorldKind {
  /** As it is typed. */
  readonly command: string;
  readonly scenarioOf: (seed: number, wishes: Wishes) => Scenario;
  readonly live: (scenario: Scenario, hasTrace?: boolean) => Lived;
  /** The folder of those that once broke a promise. */
  readonly found: string;
  /** The gate fails where its worlds do not come into all of these. */
  readonly situations: readonly Situation[];
  /** Worlds that the gate lives, and those that are lived where no number is given. */
  readonly gateSeeds: number;
  /** Of them: how many are lived in a second process too. */
  readonly twice: number;
}

const { values } = parseArgs({
  options: {
    ...{ from: { type: 'string' }, seeds: { type: 'string' }, seed: { type: 'string' } },
    ...{ without: { type: 'string' }, trace: { type: 'string' }, seconds: { type: 'string' } },
    ...{ nodes: { type: 'string' }, hours: { type: 'string' }, skip: { type: 'string' } },
    ...{ 'go-on': { type: 'boolean' }, twice: { type: 'boolean' }, situations: { type: 'boolean' } },
    ...{ gate: { type: 'boolean' }, digests: { type: 'boolean' } },
  },
});

const number = (text: string | undefined) => (text === undefined ? undefined : Number(text));
const numbers = (text = '') => new Set(text.split(',').filter(Boolean).map(Number));

/**
 * The gate goes on to so many times as many worlds while they have not come into every situation: any change
 * of the program gives every world another course.
 */
const GATE_PATIENCE = 3;
const MOST_TRACE = 40;

/** A scenario that once broke a promise, and what was mended. */
interface Found {
  readonly promise: string;
  readonly what: string;
  readonly scenario: Scenario;
}

/** The sums of all worlds of a run. */
class Tally {
  worlds = 0;
  failed = 0;
  steps = 0;
  lasted = 0;
  readonly counts: Record<string, number> = {};
  readonly reached: Reached = new Map();
  readonly broken = new Map<string, number>();
  readonly digests: string[] = [];
  readonly #began = process.cpuUsage();
  readonly #situations: readonly Situation[];

  constructor(situations: readonly Situation[]) {
    this.#situations = situations;
  }

  get seconds(): number {
    const { user, system } = process.cpuUsage(this.#began);
    return (user + system) / 1e6;
  }

  add(lived: Lived): void {
    this.worlds++;
    this.steps += lived.steps;
    this.lasted += lived.lasted;
    this.digests.push(lived.digest);
    for (const [name, count] of Object.entries(lived.counts))
      this.counts[name] = (this.counts[name] ?? 0) + count;
    for (const situation of lived.reached.keys())
      this.reached.set(situation, (this.reached.get(situation) ?? 0) + 1);
    if (lived.broken === undefined) return;
    this.failed++;
    this.broken.set(lived.broken.promise, (this.broken.get(lived.broken.promise) ?? 0) + 1);
  }

  unreached(): readonly Situation[] {
    return this.#situations.filter((situation) => !this.reached.has(situation));
  }

  text(): string {
    const { worlds, failed, seconds, steps, lasted, counts } = this;
    const hours = lasted / 3_600_000;
    const rates = `${Math.round(steps / seconds)} steps and ${Math.round((hours * 3600) / seconds)} simulated seconds a second of processor`;
    const facts = Object.entries(counts).map(([name, count]) => `${count} ${name}`);
    return `${worlds} worlds, ${failed} broke a promise; ${seconds.toFixed(1)} s of processor, ${steps} steps, ${hours.toFixed(0)} simulated hours: ${rates}\n${facts.join(', ')}; situations ${this.#situations.length - this.unreached().length} of ${this.#situations.length}`;
  }
}

/** Says how a promise was broken, with the faults that are enough and the line that lives the world again. */
function explain({ command, live }: WorldKind, scenario: Scenario, { broken, steps }: Lived): void {
  const { promise, message } = broken!;
  console.log(`seed ${scenario.seed} broke "${promise}": ${message}, ${steps} steps`);
  const left = shrink(scenario, (shorter) => live(shorter).broken?.promise === promise);
  for (const [nth, fault] of scenario.faults.entries())
    if (!left.has(nth)) console.log(`  ${nth}: ${JSON.stringify(fault)}`);
  const rest = left.size === 0 ? '' : ` --without ${[...left].sort((a, b) => a - b).join(',')}`;
  const line = `${command} -- --seed ${scenario.seed}${rest}`;
  console.log(
    `${scenario.faults.length - left.size} of ${scenario.faults.length} faults are enough; again: ${line} --trace 400`,
  );
  const { trace } = live(without(scenario, left), true);
  for (const one of lastLines(trace, MOST_TRACE)) console.log(`  ${one}`);
}

const MOST_EXPLAINED = 3;

function runSeeds(kind: WorldKind, tally: Tally): number {
  const { seed, from = '1', seconds = 'Infinity' } = values;
  const first = number(seed ?? from)!;
  const wanted =
    seed === undefined
      ? (number(values.seeds) ?? (values.seconds ? Number.POSITIVE_INFINITY : kind.gateSeeds))
      : 1;
  const [left, skipped] = [numbers(values.without), numbers(values.skip)];
  const wishes = { nodes: number(values.nodes), hours: number(values.hours) };
  const hasTrace = values.trace !== undefined;
  const mostWanted = values.gate ? wanted * GATE_PATIENCE : wanted;
  for (let nth = 0; nth < mostWanted && tally.seconds < Number(seconds); nth++) {
    if (nth >= wanted && tally.unreached().length === 0) break;
    if (skipped.has(first + nth)) continue;
    const scenario = without(kind.scenarioOf(first + nth, wishes), left);
    const lived = kind.live(scenario, hasTrace);
    tally.add(lived);
    if (hasTrace) for (const line of lived.trace.slice(-Number(values.trace))) console.log(line);
    if (seed !== undefined)
      console.log(`digest ${lived.digest}, ${scenario.nodes} nodes, ${scenario.faults.length} faults`);
    if (values.twice && kind.live(scenario).digest !== lived.digest) {
      console.log(`seed ${scenario.seed}: two lives of this world differ`);
      return 2;
    }
    if (lived.broken === undefined) continue;
    if (hasTrace) console.log(`broke "${lived.broken.promise}": ${lived.broken.message}`);
    else if (tally.broken.get(lived.broken.promise)! <= MOST_EXPLAINED) explain(kind, scenario, lived);
    if (!values['go-on']) return 1;
  }
  return tally.failed === 0 ? 0 : 1;
}

/** The worlds that once broke a promise keep it now. */
function runFound({ found, live }: WorldKind): number {
  let failed = 0;
  const names = readdirSync(found).filter((name) => name.endsWith('.json'));
  for (const name of names) {
    const { scenario } = JSON.parse(readFileSync(join(found, name), 'utf8')) as Found;
    const lived = live(scenario);
    if (lived.broken === undefined) continue;
    failed++;
    console.log(`${name} breaks "${lived.broken.promise}" again: ${lived.broken.message}`);
  }
  console.log(`${names.length} worlds that were found before, ${failed} broke a promise`);
  return failed === 0 ? 0 : 1;
}

/** Two processes live the same worlds: nothing in them may depend on anything else. */
function runTwice({ twice }: WorldKind, tally: Tally): number {
  const args = ['--from', values.from ?? '1', '--seeds', String(twice), '--go-on', '--digests'];
  const output = execFileSync(process.execPath, [process.argv[1]!, ...args], { encoding: 'utf8' });
  const other = output
    .split('\n')
    .filter((line) => line.startsWith('digest '))
    .map((line) => line.slice(7));
  const differing = other.findIndex((digest, nth) => digest !== tally.digests[nth]);
  if (other.length === twice && differing < 0) return 0;
  console.log(`world ${differing} of the first ${twice} differs in another process: something real is in it`);
  return 2;
}

function tellUnreached(tally: Tally): number {
  const unreached = tally.unreached();
  for (const situation of unreached) console.log(`no world came into this situation: ${situation}`);
  return unreached.length === 0 ? 0 : 1;
}

function run(kind: WorldKind): number {
  checkThatPromisesSettle();
  const tally = new Tally(kind.situations);
  const codes = values.gate ? [runFound(kind)] : [];
  codes.push(runSeeds(kind, tally));
  if (values.digests) for (const digest of tally.digests) console.log(`digest ${digest}`);
  if (values.gate) codes.push(tellUnreached(tally), runTwice(kind, tally));
  if (values.situations)
    for (const situation of kind.situations)
      console.log(`${String(tally.reached.get(situation) ?? 0).padStart(6)} ${situation}`);
  for (const [promise, count] of tally.broken) console.log(`${count} times: ${promise}`);
  console.log(tally.text());
  return Math.max(...codes);
}

/** Does what the arguments of this process ask for, with worlds of one kind, and sets its exit code. */
export function simulate(kind: WorldKind): void {
  // Errors of the store are many, and nobody reads where they were made.
  if (values.trace === undefined) Error.stackTraceLimit = 0;
  // An invariant that ends its process ends the run: nothing in a world may throw past its step.
  let rejected: unknown;
  const reject = (error: unknown) => {
    rejected ??= error;
  };
  process.on('uncaughtException', reject);
  process.on('unhandledRejection', reject);
  realImmediate(() => {
    let code = 1;
    try {
      code = run(kind);
    } catch (error) {
      reject(error);
    }
    realImmediate(() => {
      if (rejected !== undefined)
        console.log(`an error that nobody caught: ${rejected instanceof Error ? rejected.stack : rejected}`);
      process.exitCode = rejected === undefined ? code : 1;
    });
  });
}
