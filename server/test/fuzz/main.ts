/**
 * Random and mutated requests against the real program over loopback, first to the listener with a good
 * client beside them, then to the control API, by a driver of ours and by schemathesis where it is installed:
 *
 *   npm run test:fuzz                                the attacks of the gate, some half a minute
 *   MILLRACE_TEST_LIST=long npm run test:fuzz        as many as the long run makes
 *   MILLRACE_TEST_SEED=7 npm run test:fuzz           others; their order in time is the machine's
 *   npm run test:fuzz -- 7:1234                      this one attack alone, as a complaint names it
 *
 * Exit code 1 when the program crashes, answers a 5xx that is not 503 or an error no client can read, loses a
 * call it accepted, refuses a good one, or grows without bound; and when the control API answers what its
 * document does not have. The long run also complains of a request that takes more than 100 ms of the event
 * loop.
 */
import { memoryOf } from '../http/memory-of.ts';
import { makePlace, type Program, startServer } from '../support/program.ts';
import { amountOf, replayOf, SEED } from '../support/runs.ts';
import { attack } from './attacker.ts';
import { fuzzControl } from './control.ts';
import { type Experience, startGoodClient } from './good-client.ts';
import { randomOf } from './random.ts';
import { attackOf } from './requests.ts';
import { runSchemathesis } from './schemathesis.ts';

const ONE = process.argv[2];
const ATTACKS = amountOf({ gate: 1000, long: 40_000 });
const CONTROL_REQUESTS = amountOf({ gate: 250, long: 6000 });
/** Examples that schemathesis makes for each operation. */
const EXAMPLES = amountOf({ gate: 2, long: 20 });
const AT_ONCE = 64;

/** In MB. The second half may take this much more than the first one: caches fill, heaps breathe. */
const MOST_MEMORY = 900;
const MOST_GROWTH = 150;

const TOKEN = 'token-of-the-fuzzer';
const CONFIGURATION = `
limits: { disk: 1GB }
sources:
  - { name: fuzzed, writeKeys: [wk] }
  - { name: good, writeKeys: [wk_good] }
`;

const complaints: string[] = [];
const statuses = new Map<number, number>();
const place = makePlace(CONFIGURATION);
const program = await startServer(place, { env: { MILLRACE_ADMIN_TOKEN: TOKEN } });
try {
  const port = Number(new URL(program.url).port);
  console.log(ONE === undefined ? `fuzz: ${ATTACKS} attacks, ${replayOf(SEED)}` : `attack ${ONE}`);
  if (ONE === undefined) {
    await fuzz(port);
    await askEverything();
  } else await attackBy(ONE, port);
  for (const [status, count] of [...statuses].sort()) console.log(`  answered ${status}: ${count}`);
} finally {
  const code = await program.stop();
  if (code !== 0) complaints.push(`the program ended with ${code}:\n${program.out.stderr.slice(-3000)}`);
  if (/request\.failed|"level":"(fatal|error)"/.test(program.out.stderr)) {
    complaints.push(`the program logged errors:\n${program.out.stderr.slice(-3000)}`);
  }
  place.remove();
}
for (const complaint of complaints.slice(0, 20)) console.log(`FAILED  ${complaint}`);
console.log(complaints.length === 0 ? 'passed' : `${complaints.length} complaints`);
process.exitCode = complaints.length === 0 ? 0 : 1;

async function fuzz(port: number): Promise<void> {
  const stopGood = startGoodClient(port, 'wk_good');
  const memory: number[] = [];
  const watch = setInterval(() => isAlive(program) && memory.push(memoryOf(program.pid)), 250);
  let attacks = 0;
  const attacker = async () => {
    while (attacks < ATTACKS && complaints.length < 100 && isAlive(program)) {
      await attackBy(`${SEED}:${attacks++}`, port);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, attacker));
  clearInterval(watch);
  const experience = await stopGood();
  reportMemory(memory);
  await reportGood(experience);
}

/** The control API, by both drivers. */
async function askEverything(): Promise<void> {
  const asked = { url: program.url, token: TOKEN, pid: program.pid };
  const {
    requests,
    statuses: answered,
    costliest,
    complaints: found,
  } = await fuzzControl(asked, SEED, CONTROL_REQUESTS);
  const counts = [...answered]
    .sort(([one], [other]) => one - other)
    .map(([status, count]) => `${status}: ${count}`);
  console.log(`control API: ${requests} requests, answered ${counts.join(', ')}`);
  console.log(
    costliest === undefined
      ? '  their work was not measured: this system does not tell what a thread has done'
      : `  the costliest took ${costliest.work.toFixed(1)} ms: ${costliest.request}`,
  );
  complaints.push(...found);
  const { said, complaints: others } = await runSchemathesis(asked, SEED, EXAMPLES);
  console.log(said);
  complaints.push(...others);
}

async function attackBy(name: string, port: number): Promise<void> {
  const [seed = 0, nth = 0] = name.split(':').map(Number);
  const made = attackOf(randomOf(seed * 1_000_003 + nth));
  const { statuses: seen, complaint } = await attack(made, port);
  for (const status of seen) statuses.set(status, (statuses.get(status) ?? 0) + 1);
  if (complaint !== undefined) complaints.push(`attack ${name}: ${complaint}`);
}

/** The median of the last quarter beside that of the second: the first is for warming up. */
function reportMemory(memory: readonly number[]): void {
  const quarter = Math.floor(memory.length / 4);
  const [early, late] = [median(memory.slice(quarter, 2 * quarter)), median(memory.slice(-quarter))];
  const most = Math.max(...memory);
  console.log(
    `memory: ${Math.round(early)} MB early, ${Math.round(late)} MB late, at most ${Math.round(most)} MB`,
  );
  if (most > MOST_MEMORY) complaints.push(`memory reached ${Math.round(most)} MB`);
  if (late - early > MOST_GROWTH)
    complaints.push(`memory grew from ${Math.round(early)} to ${Math.round(late)} MB`);
}

async function reportGood({ times, accepted, turnedAway, complaints: lost }: Experience): Promise<void> {
  complaints.push(...lost);
  const sorted = [...times].sort((a, b) => a - b);
  const at = (share: number) => (sorted[Math.floor(sorted.length * share)] ?? Number.NaN).toFixed(1);
  console.log(
    `good client: ${times.length} calls, ${accepted} accepted, ${turnedAway} asked to come again; ` +
      `p50 ${at(0.5)} ms, p99 ${at(0.99)} ms, p999 ${at(0.999)} ms, longest ${at(1 - 1 / sorted.length)} ms`,
  );
  const answer = await fetch(`${program.url}/api/v1/ledger`, {
    headers: { authorization: `Bearer ${TOKEN}` },
  });
  const ledger = (await answer.json()) as Ledger;
  const stored = ledger.sources['good']?.accepted;
  const { received = 0, accepted: kept = 0, duplicates = 0 } = ledger.sources['fuzzed'] ?? {};
  console.log(`fuzzed calls: ${received} received, ${kept} accepted, ${duplicates} duplicates`);
  if (stored !== accepted)
    complaints.push(`${accepted} good calls were answered 200, and ${stored} are stored`);
  if (!ledger.balanced) complaints.push('the ledger does not balance');
  if (accepted === 0 || kept === 0) complaints.push('nothing was accepted: this fuzzed nothing');
}

interface Ledger {
  readonly balanced: boolean;
  readonly sources: Readonly<Record<string, { received: number; accepted: number; duplicates: number }>>;
}

function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}

function isAlive({ pid }: Program): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    complaints.push('the program is gone');
    return false;
  }
}
