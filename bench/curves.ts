import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Curve, drawCurve } from './curve-picture.ts';
import { startReceiver } from './delivering.ts';
import { CONNECTIONS, ROUNDS, SECONDS, WARM_UP } from './figures.ts';
import { startMillrace } from './millrace.ts';
import { type Bench, result } from './processes.ts';

/**
 * How the cost of an event grows with what there is more of: `node bench/curves.ts`, with SECONDS (4) and ROUNDS (3); `WANTED` names some of
 * the curves. Each point is the processor time of the program from the call to the end of its deliveries, for one delivery. The values of
 * a curve are measured by turns. Writes `curves.json` and a picture of each curve into FOLDER (docs/operations/performance).
 * `node bench/curves.ts draw` only draws the pictures anew.
 */
const FOLDER = process.env['FOLDER'] ?? 'docs/operations/performance';
const RAW = join(FOLDER, 'curves.json');

interface Offered {
  readonly connections: number;
  /** Events of a request, and bytes of an event. */
  readonly events: number;
  readonly bytes: number;
  readonly destinations: number;
}

interface Sweep {
  readonly name: string;
  readonly title: string;
  readonly unit: string;
  readonly values: readonly number[];
  readonly offered: (value: number) => Partial<Offered>;
}

const SWEEPS: readonly Sweep[] = [
  {
    name: 'connections',
    title: 'Connections that send single calls',
    unit: 'connections',
    values: [1, 8, 64, 500, 2000],
    offered: (connections) => ({ connections }),
  },
  {
    name: 'batches',
    title: 'Events in a request',
    unit: 'events',
    values: [1, 5, 20, 100, 500],
    offered: (events) => ({ events }),
  },
  {
    name: 'size',
    title: 'Size of an event, in batches of 20',
    unit: 'bytes',
    values: [600, 1200, 2400, 4800, 9600],
    offered: (bytes) => ({ bytes, events: 20 }),
  },
  {
    name: 'destinations',
    title: 'Destinations that each get every event, single calls',
    unit: 'destinations',
    values: [1, 3, 10, 30],
    offered: (destinations) => ({ destinations }),
  },
];

const wanted = process.env['WANTED']?.split(',');
const [command] = process.argv.slice(2);
mkdirSync(FOLDER, { recursive: true });
const curves = new Map(known().map((curve) => [curve.name, curve]));
if (command !== 'draw') {
  for (const sweep of SWEEPS.filter(({ name }) => wanted?.includes(name) ?? true)) {
    curves.set(sweep.name, await measureCurve(sweep));
    writeFileSync(RAW, `${JSON.stringify([...curves.values()], undefined, 1)}\n`);
  }
}
for (const curve of curves.values()) writeFileSync(join(FOLDER, `${curve.name}.svg`), drawCurve(curve));

function known(): Curve[] {
  try {
    return JSON.parse(readFileSync(RAW, 'utf8')) as Curve[];
  } catch {
    return [];
  }
}

async function measureCurve({ name, title, unit, values, offered }: Sweep): Promise<Curve> {
  const points = values.map((value) => ({ value, micros: [] as number[] }));
  for (let round = 0; round < ROUNDS; round++)
    for (const point of points) {
      const micros = await microsOf({
        ...{ connections: CONNECTIONS, events: 1, bytes: 600, destinations: 1 },
        ...offered(point.value),
      });
      point.micros.push(Number(micros.toFixed(2)));
    }
  console.log(`${name}: ${points.map(({ value, micros }) => `${value} ${micros.join('/')}`).join(', ')} µs`);
  return { name, title, unit, points };
}

/** Microseconds of processor time for one delivery. */
async function microsOf({ connections, events, bytes, destinations }: Offered): Promise<number> {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-curve-'));
  const [receiver, port] = await startReceiver();
  const server = startMillrace(folder, { port, destinations });
  try {
    const [, url] = await server.saw(/ready on (\S+)/);
    process.env['BYTES'] = String(bytes);
    const load = async (seconds: number) => {
      const args = [url!, String(connections), String(seconds), String(events)];
      return (await result<{ events: number }>(['bench/load.ts', ...args])).events * destinations;
    };
    const before = await load(WARM_UP);
    await arrived(receiver, before);
    const cpu = server.cpu();
    const deliveries = await load(SECONDS);
    await arrived(receiver, before + deliveries);
    return ((server.cpu() - cpu) * 1e6) / deliveries;
  } finally {
    await server.stop();
    await receiver.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

async function arrived(receiver: Bench, deliveries: number): Promise<void> {
  while (Number(await receiver.ask('count')) < deliveries) await sleep(20);
}
