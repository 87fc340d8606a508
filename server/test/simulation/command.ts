/**
 * Lives worlds, each made of one integer, and says which promises they break. Exits with 1 where one did, or
 * where the gate's worlds did not come into every situation; with 2 where two lives of one world differ.
 *
 *   npm run simulate                                 200 worlds
 *   npm run simulate -- --from 500 --seeds 100       others
 *   npm run simulate -- --seed 700656 --trace 400    one, with the last lines of what happened in it
 *   npm run simulate -- --seed 7 --without 4,13      one, without some of its faults
 *   npm run simulate -- --seconds 60                 as many as so many seconds of processor time allow
 *   npm run simulate -- --skip 500,511               all but these
 *   npm run simulate -- --nodes 2 --hours 1          as many servers, for so long
 *   npm run simulate -- --go-on                      past a broken promise
 *   npm run simulate -- --twice                      each world twice
 *   npm run simulate -- --situations                 how many worlds came into each situation
 *   npm run simulate -- --gate                       what the gate does
 */
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { realImmediate } from './globals.ts';
import { checkThatPromisesSettle } from './kernel.ts';
import { type Lived, lastLines, live, shrink, without } from './live.ts';
import { type Scenario, scenarioOf } from './scenario.ts';
import { type Reached, SITUATIONS } from './situations.ts';

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
 * Worlds that the gate lives, and how many of them in two processes. It goes on to so many times as many
 * while they have not come into every situation: any change of the program gives every world another course.
 */
const GATE_SEEDS = 200;
const GATE_PATIENCE = 3;
const TWICE = 20;
const MOST_TRACE = 40;
const FOUND = join(import.meta.dirname, 'found');

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

  hasReachedAll(): boolean {
    return SITUATIONS.every((situation) => this.reached.has(situation));
  }

  text(): string {
    const { worlds, failed, seconds, steps, lasted, counts } = this;
    const hours = lasted / 3_600_000;
    const rates = `${Math.round(steps / seconds)} steps and ${Math.round((hours * 3600) / seconds)} simulated seconds a second of processor`;
    const facts = Object.entries(counts).map(([name, count]) => `${count} ${name}`);
    return `${worlds} worlds, ${failed} broke a promise; ${seconds.toFixed(1)} s of processor, ${steps} steps, ${hours.toFixed(0)} simulated hours: ${rates}\n${facts.join(', ')}; situations ${this.reached.size} of ${SITUATIONS.length}`;
  }
}

/** Says how a promise was broken, with the faults that are enough and the line that lives the world again. */
function explain(scenario: Scenario, { broken, steps }: Lived): void {
  const { promise, message } = broken!;
  console.log(`seed ${scenario.seed} broke "${promise}": ${message}, ${steps} steps`);
  const left = shrink(scenario, promise);
  for (const [nth, fault] of scenario.faults.entries())
    if (!left.has(nth)) console.log(`  ${nth}: ${JSON.stringify(fault)}`);
  const rest = left.size === 0 ? '' : ` --without ${[...left].sort((a, b) => a - b).join(',')}`;
  const line = `npm run simulate -- --seed ${scenario.seed}${rest}`;
  console.log(
    `${scenario.faults.length - left.size} of ${scenario.faults.length} faults are enough; again: ${line} --trace 400`,
  );
  const { trace } = live(without(scenario, left), true);
  for (const one of lastLines(trace, MOST_TRACE)) console.log(`  ${one}`);
}

const MOST_EXPLAINED = 3;

function runSeeds(tally: Tally): number {
  const { seed, from = '1', seconds = 'Infinity' } = values;
  const first = number(seed ?? from)!;
  const wanted =
    seed === undefined
      ? (number(values.seeds) ?? (values.seconds ? Number.POSITIVE_INFINITY : GATE_SEEDS))
      : 1;
  const [left, skipped] = [numbers(values.without), numbers(values.skip)];
  const wishes = { nodes: number(values.nodes), hours: number(values.hours) };
  const hasTrace = values.trace !== undefined;
  const mostWanted = values.gate ? wanted * GATE_PATIENCE : wanted;
  for (let nth = 0; nth < mostWanted && tally.seconds < Number(seconds); nth++) {
    if (nth >= wanted && tally.hasReachedAll()) break;
    if (skipped.has(first + nth)) continue;
    const scenario = without(scenarioOf(first + nth, wishes), left);
    const lived = live(scenario, hasTrace);
    tally.add(lived);
    if (hasTrace) for (const line of lived.trace.slice(-Number(values.trace))) console.log(line);
    if (seed !== undefined)
      console.log(`digest ${lived.digest}, ${scenario.nodes} nodes, ${scenario.faults.length} faults`);
    if (values.twice && live(scenario).digest !== lived.digest) {
      console.log(`seed ${scenario.seed}: two lives of this world differ`);
      return 2;
    }
    if (lived.broken === undefined) continue;
    if (hasTrace) console.log(`broke "${lived.broken.promise}": ${lived.broken.message}`);
    else if (tally.broken.get(lived.broken.promise)! <= MOST_EXPLAINED) explain(scenario, lived);
    if (!values['go-on']) return 1;
  }
  return tally.failed === 0 ? 0 : 1;
}

/** The worlds that once broke a promise keep it now. */
function runFound(): number {
  let failed = 0;
  const names = readdirSync(FOUND).filter((name) => name.endsWith('.json'));
  for (const name of names) {
    const { scenario } = JSON.parse(readFileSync(join(FOUND, name), 'utf8')) as Found;
    const lived = live(scenario);
    if (lived.broken === undefined) continue;
    failed++;
    console.log(`${name} breaks "${lived.broken.promise}" again: ${lived.broken.message}`);
  }
  console.log(`${names.length} worlds that were found before, ${failed} broke a promise`);
  return failed === 0 ? 0 : 1;
}

/** Two processes live the same worlds: nothing in them may depend on anything else. */
function runTwice(tally: Tally): number {
  const args = ['--from', values.from ?? '1', '--seeds', String(TWICE), '--go-on', '--digests'];
  const output = execFileSync(process.execPath, [import.meta.filename, ...args], { encoding: 'utf8' });
  const other = output
    .split('\n')
    .filter((line) => line.startsWith('digest '))
    .map((line) => line.slice(7));
  const differing = other.findIndex((digest, nth) => digest !== tally.digests[nth]);
  if (other.length === TWICE && differing < 0) return 0;
  console.log(`world ${differing} of the first ${TWICE} differs in another process: something real is in it`);
  return 2;
}

function tellUnreached({ reached }: Tally): number {
  const unreached = SITUATIONS.filter((situation) => !reached.has(situation));
  for (const situation of unreached) console.log(`no world came into this situation: ${situation}`);
  return unreached.length === 0 ? 0 : 1;
}

function run(): number {
  checkThatPromisesSettle();
  const tally = new Tally();
  const codes = values.gate ? [runFound()] : [];
  codes.push(runSeeds(tally));
  if (values.digests) for (const digest of tally.digests) console.log(`digest ${digest}`);
  if (values.gate) codes.push(tellUnreached(tally), runTwice(tally));
  if (values.situations)
    for (const situation of SITUATIONS)
      console.log(`${String(tally.reached.get(situation) ?? 0).padStart(6)} ${situation}`);
  for (const [promise, count] of tally.broken) console.log(`${count} times: ${promise}`);
  console.log(tally.text());
  return Math.max(...codes);
}

// Errors of the store are many, and nobody reads where they were made.
if (values.trace === undefined) Error.stackTraceLimit = 0;
/** An invariant that ends its process ends the run: nothing in a world may throw past its step. */
let rejected: unknown;
process.on('uncaughtException', (error) => {
  rejected ??= error;
});
process.on('unhandledRejection', (error) => {
  rejected ??= error;
});
realImmediate(() => {
  const code = run();
  realImmediate(() => {
    if (rejected !== undefined)
      console.log(`an error that nobody caught: ${rejected instanceof Error ? rejected.stack : rejected}`);
    process.exitCode = rejected === undefined ? code : 1;
  });
});
