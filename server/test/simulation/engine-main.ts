/**
 * Lives worlds with the embedded engine, each made of one integer: real store, writer, SQLite and files. What
 * its disk does is recorded, so that the power can fail and calls of the system too; without a C compiler
 * only processes die. Arguments and exit codes are those of `main.ts`.
 *
 *   npm run simulate:engine                                   20 worlds
 *   npm run simulate:engine -- --from 500 --seeds 100         others
 *   npm run simulate:engine -- --seed 46 --without 4,13 --trace 400
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { compiled } from '../support/disk-faults/compile.ts';
import { simulate } from './command.ts';
import { liveInEngine } from './engine-live.ts';
import { engineScenarioOf } from './engine-scenario.ts';
import { ROOT } from './engine-store.ts';
import { DISK, HAS_DISK } from './recorded-disk.ts';
import { ENGINE_SITUATIONS, PROCESS_SITUATIONS } from './situations.ts';

/** The same in a process whose disk is recorded. Answers its exit code; undefined where that cannot be. */
function runRecorded(): number | undefined {
  const compiler = ['cc', 'gcc'].find((name) => spawnSync(name, ['--version']).status === 0);
  if (process.platform !== 'linux' || compiler === undefined) {
    console.log(
      'left out: power cuts and failing disks, because they need Linux and a C compiler (cc or gcc)',
    );
    return undefined;
  }
  const folder = mkdtempSync(join(ROOT, 'millrace-disk-'));
  try {
    writeFileSync(join(folder, 'control'), Buffer.alloc(4096));
    const env = {
      ...process.env,
      LD_PRELOAD: compiled(compiler, './shim.c', join(folder, 'shim.so')),
      [DISK.folder]: join(folder, 'data'),
      [DISK.control]: join(folder, 'control'),
      [DISK.recording]: join(folder, 'recording'),
    };
    const { status } = spawnSync(process.execPath, process.argv.slice(1), { env, stdio: 'inherit' });
    return status ?? 1;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

const code = HAS_DISK ? undefined : runRecorded();
if (code !== undefined) process.exitCode = code;
else
  simulate({
    ...{ command: 'npm run simulate:engine', scenarioOf: engineScenarioOf, live: liveInEngine },
    found: join(import.meta.dirname, 'found', 'with-engine'),
    situations: HAS_DISK ? ENGINE_SITUATIONS : PROCESS_SITUATIONS,
    ...{ gateSeeds: 20, twice: 4 },
  });
