import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { startReceiver } from './delivering.ts';
import { CONNECTIONS } from './figures.ts';
import { startMillrace } from './millrace.ts';
import { result } from './processes.ts';

/**
 * Measures the memory that a busy period leaves behind: `node bench/memory.ts`, with SECONDS (60) of batches
 * of 100 to one destination, then REST (60) seconds without a call after everything is delivered. Prints the
 * resident memory before, at the end of the load, and after the rest; with BASE=/path/to/another/checkout for
 * both versions.
 */
const SECONDS = Number(process.env['SECONDS'] ?? 60);
const REST = Number(process.env['REST'] ?? 60);
const FOLDER = process.env['FOLDER'] ?? '/var/tmp';
const BASE = process.env['BASE'];

const folder = mkdtempSync(join(FOLDER, 'millrace-bench-'));
try {
  await measure('this version');
  if (BASE !== undefined) await measure('base', BASE);
} finally {
  rmSync(folder, { recursive: true, force: true });
}

async function measure(name: string, root?: string): Promise<void> {
  const [receiver, port] = await startReceiver();
  const server = startMillrace(mkdtempSync(join(folder, 'server-')), {
    port,
    ...(root === undefined ? {} : { root }),
  });
  try {
    const [, url] = await server.saw(/ready on (\S+)/);
    await sleep(3000);
    const idle = server.memory();
    const { events } = await result<{ events: number }>([
      ...['bench/load.ts', url!, String(CONNECTIONS), String(SECONDS), '100'],
    ]);
    const busy = server.memory();
    while (Number(await receiver.ask('count')) < events) await sleep(100);
    await sleep(REST * 1000);
    console.log(
      `${name}: ${events} events; ${mb(idle)} idle, ${mb(busy)} after ${SECONDS} s of load, ` +
        `${mb(server.memory())} after ${REST} s of rest; ${detailsOf(server.child.pid!)}`,
    );
  } finally {
    await server.stop();
    await receiver.stop();
  }
}

/** The parts of what is resident. */
function detailsOf(pid: number): string {
  const rollup = readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8');
  return ['Anonymous', 'Private_Clean', 'Shared_Clean']
    .map((part) => `${part} ${mb(Number(new RegExp(`^${part}:\\s+(\\d+)`, 'm').exec(rollup)?.[1]) / 1024)}`)
    .join(', ');
}

function mb(value: number): string {
  return `${value.toFixed(0)} MB`;
}
