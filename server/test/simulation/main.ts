import { inWorld, realImmediate } from './globals.ts';
import { checkThatPromisesSettle } from './kernel.ts';
import { type Scenario, scenarioOf } from './scenario.ts';
import { type Outcome, World } from './world.ts';
function live(scenario: Scenario, trace = 0): { world: World; outcome: Outcome } {
  const world = new World(scenario);
  world.kernel.keepsLines = trace > 0;
  return { world, outcome: inWorld(world.kernel, scenario.seed, () => world.live()) };
}
realImmediate(() => {
  checkThatPromisesSettle();
  const from = Number(process.argv[2] ?? 1), n = Number(process.argv[3] ?? 1), trace = Number(process.argv[4] ?? 0);
  Error.stackTraceLimit = trace > 0 ? 20 : 0;
  const cpu = process.cpuUsage(); let steps = 0, hours = 0;
  const reached = new Map<string, number>(); const broken = new Map<string, number>();
  for (let seed = from; seed < from + n; seed++) {
    const { world, outcome } = live(scenarioOf(seed), trace);
    steps += outcome.steps; hours += outcome.lasted / 3600e3;
    for (const [k, v] of outcome.reached) reached.set(k, (reached.get(k) ?? 0) + v);
    if (n === 1) console.log(JSON.stringify(outcome.counts), outcome.digest, outcome.steps, JSON.stringify({ ...world.scenario, faults: world.scenario.faults.length }));
    if (trace > 0) console.log(world.kernel.lines.slice(-trace).join('\n'));
    if (outcome.broken) { broken.set(outcome.broken.promise, (broken.get(outcome.broken.promise) ?? 0) + 1); if (broken.get(outcome.broken.promise)! <= 3) console.log(seed, outcome.broken.promise, '|', outcome.broken.message); }
  }
  const u = process.cpuUsage(cpu); const s = (u.user + u.system) / 1e6;
  console.log(n, 'worlds', s.toFixed(1), 's', steps, 'steps', Math.round(steps / s), '/s', hours.toFixed(0), 'h', Math.round(hours * 3600 / s), 'x');
  console.log([...broken]); console.log(reached.size, [...reached].map(([k, v]) => `${k}: ${v}`).join(', '));
});
