import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { startReceiver } from './delivering.ts';
import { CONNECTIONS } from './figures.ts';
import { startMillrace } from './millrace.ts';
import { median, result } from './processes.ts';

/**
 * A long time at a part of the full load: `node bench/soak.ts`, with MINUTES (30) of single calls at SHARE
 * (0.6) of the rate that the program takes and delivers at most, measured first. Prints for each minute what
 * was sent, how long calls took, what waited to be delivered at the end of it, memory and open files; then
 * the last third beside the first, and what the ledger says. FOLDER (/var/tmp) is to be on a real disk: half
 * an hour writes some gigabytes.
 */
const MINUTES = Number(process.env['MINUTES'] ?? 30);
const SHARE = Number(process.env['SHARE'] ?? 0.6);
const FOLDER = process.env['FOLDER'] ?? '/var/tmp';
/** Seconds in which the full rate is measured, after as many of warm-up. */
const TRIAL = 10;

interface Load {
  readonly events: number;
  readonly perSecond: number;
  readonly refused: number;
  readonly p50: number;
  readonly p99: number;
}

interface Minute extends Load {
  readonly waiting: number;
  readonly memory: number;
  readonly files: number;
}

const folder = mkdtempSync(join(FOLDER, 'millrace-soak-'));
const [receiver, port] = await startReceiver();
const data = join(folder, 'data');
const server = startMillrace(folder, { data, port });
try {
  const [, url] = await server.saw(/ready on (\S+)/);
  let sent = 0;
  const load = async (seconds: number, calls?: number): Promise<Load> => {
    const args = ['bench/load.ts', url!, String(CONNECTIONS), String(seconds), '1'];
    const answer = await result<Load>(args, calls === undefined ? {} : { RATE: String(calls) });
    if (answer.refused > 0) throw new Error(`${answer.refused} calls were refused`);
    sent += answer.events;
    return answer;
  };
  const waiting = async () => sent - Number(await receiver.ask('count'));
  await load(TRIAL);
  await delivered(waiting);
  const from = performance.now();
  const { events } = await load(TRIAL);
  await delivered(waiting);
  const full = (events * 1000) / (performance.now() - from);
  const calls = Math.round(full * SHARE);
  console.log(`takes and delivers ${Math.round(full)} calls a second; ${calls} for ${MINUTES} minutes`);
  console.log('minute    calls/s   p50 ms   p99 ms   waiting   memory MB   files');
  const minutes: Minute[] = [];
  for (let n = 1; n <= MINUTES; n++) {
    const minute = {
      ...(await load(60, calls)),
      waiting: await waiting(),
      memory: server.memory(),
      files: readdirSync(`/proc/${server.child.pid}/fd`).length,
    };
    minutes.push(minute);
    print(String(n), minute);
  }
  await delivered(waiting);
  const third = Math.ceil(MINUTES / 3);
  print('first', middle(minutes.slice(0, third)));
  print('last', middle(minutes.slice(-third)));
  console.log(`${sent} calls sent, ${await receiver.ask('count')} delivered`);
  const headers = { authorization: `Bearer ${readFileSync(join(data, 'admin-token'), 'utf8').trim()}` };
  const ledger = await fetch(new URL('/api/v1/ledger', url), { headers });
  console.log(`ledger: ${await ledger.text()}`);
} finally {
  await server.stop();
  await receiver.stop();
  rmSync(folder, { recursive: true, force: true });
}

async function delivered(waiting: () => Promise<number>): Promise<void> {
  while ((await waiting()) > 0) await sleep(20);
}

function middle(minutes: readonly Minute[]): Minute {
  const of = (key: keyof Minute) => median(minutes.map((minute) => minute[key]));
  return {
    events: of('events'),
    perSecond: of('perSecond'),
    refused: of('refused'),
    p50: of('p50'),
    p99: of('p99'),
    waiting: of('waiting'),
    memory: of('memory'),
    files: of('files'),
  };
}

function print(name: string, { perSecond, p50, p99, waiting, memory, files }: Minute): void {
  const cells: [string, number][] = [
    [perSecond.toFixed(0), 11],
    [p50.toFixed(2), 9],
    [p99.toFixed(2), 9],
    [String(waiting), 10],
    [memory.toFixed(0), 12],
    [String(files), 8],
  ];
  console.log(name.padStart(6) + cells.map(([text, width]) => text.padStart(width)).join(''));
}
