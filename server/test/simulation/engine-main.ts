/**
 * Lives worlds with the embedded engine, each made of one integer: real store, writer, SQLite and files.
 *
 *   node server/test/simulation/engine-main.ts 1 20             kills alone
 *   node server/test/simulation/engine-main.ts 1 20 --disk      power cuts too, where a C compiler is there
 *   node server/test/simulation/engine-main.ts 46 1 400         one, with the last lines of what happened
 *   ... --twice  each world twice      --stop  up to the first broken promise
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { compiled } from '../support/disk-faults/compile.ts';
import { liveInEngine } from './engine-live.ts';
import { engineScenarioOf } from './engine-scenario.ts';
import { ROOT } from './engine-store.ts';
import { realImmediate } from './globals.ts';
import { checkThatPromisesSettle } from './kernel.ts';
import { DISK, HAS_DISK } from './recorded-disk.ts';

/** Lives the worlds in a process whose writes and syncs are recorded. */
function runRecorded(): void {
  const compiler = ['cc', 'gcc'].find((name) => spawnSync(name, ['--version']).status === 0);
  if (compiler === undefined) {
    console.log('left out: power cuts, because they need a C compiler (cc or gcc)');
    return;
  }
  const folder = mkdtempSync(join(ROOT, 'millrace-disk-'));
  writeFileSync(join(folder, 'control'), Buffer.alloc(4096));
  const env = {
    ...process.env,
    LD_PRELOAD: compiled(compiler, './shim.c', join(folder, 'shim.so')),
    [DISK.folder]: join(folder, 'data'),
    [DISK.control]: join(folder, 'control'),
    [DISK.recording]: join(folder, 'recording'),
  };
  const { status } = spawnSync(process.execPath, process.argv.slice(1), { env, stdio: 'inherit' });
  rmSync(folder, { recursive: true });
  process.exitCode = status ?? 1;
}

if (process.argv.includes('--disk') && !HAS_DISK) runRecorded();
else
  realImmediate(() => {
    checkThatPromisesSettle();
    const [from = 1, seeds = 1, trace = 0] = process.argv
      .slice(2)
      .filter((one) => !one.startsWith('--'))
      .map(Number);
    const isTwice = process.argv.includes('--twice');
    Error.stackTraceLimit = trace > 0 || seeds === 1 ? 20 : 0;
    const cpu = process.cpuUsage();
    let [steps, hours, kills, unequal] = [0, 0, 0, 0];
    const reached = new Map<string, number>();
    for (let seed = from; seed < from + seeds; seed++) {
      const { world, outcome } = liveInEngine(engineScenarioOf(seed), trace);
      steps += outcome.steps;
      hours += outcome.lasted / 3_600_000;
      kills += outcome.counts.kills;
      for (const [name, n] of outcome.reached) reached.set(name, (reached.get(name) ?? 0) + n);
      const { user, system } = process.cpuUsage(cpu);
      console.log(
        seed,
        outcome.digest,
        outcome.steps,
        JSON.stringify(outcome.counts),
        ((user + system) / 1e6).toFixed(1),
      );
      if (trace > 0) console.log(world.kernel.lines.slice(-trace).join('\n'));
      if (outcome.broken !== undefined)
        console.log(seed, 'BROKEN', outcome.broken.promise, '|', outcome.broken.message);
      if (outcome.broken !== undefined && process.argv.includes('--stop')) break;
      if (!isTwice) continue;
      const again = liveInEngine(engineScenarioOf(seed)).outcome;
      if (again.digest === outcome.digest) continue;
      unequal++;
      console.log(seed, 'UNEQUAL', again.digest, again.steps);
    }
    const { user, system } = process.cpuUsage(cpu);
    const used = (user + system) / 1e6;
    console.log(
      `${seeds} worlds, ${kills} kills, ${unequal} unequal, ${used.toFixed(1)} s, ${Math.round(steps / used)} steps/s, ${hours.toFixed(1)} h`,
    );
    console.log(reached.size, [...reached].map(([name, n]) => `${name}: ${n}`).join(', '));
  });
