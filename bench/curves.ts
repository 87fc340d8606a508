import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Curve, drawCurve } from './curve-picture.ts';
import { startReceiver, writeBacklog } from './delivering.ts';
import { CONNECTIONS, ROUNDS, SECONDS, WARM_UP } from './figures.ts';
import { destination, startMillrace } from './millrace.ts';
import { type Bench, result } from './processes.ts';

/**
 * How the cost of an event grows with what there is more of: `node bench/curves.ts`, with SECONDS (4) and
 * ROUNDS (3); `WANTED` names some of the curves. Each point is the processor time of the program from the
 * call to the end of its deliveries, for one delivery. The values of a curve are measured by turns. Writes
 * `curves.json` and a picture of each curve into FOLDER (docs/operations/performance). `node bench/curves.ts
 * draw` only draws the pictures anew.
 */
const FOLDER = process.env['FOLDER'] ?? 'docs/operations/performance';
const RAW = join(FOLDER, 'curves.json');
/** Data folders that are written once, and copied for each point. */
const prepared = new Map<string, string>();

const DOWN = { ...destination('9'), name: 'down' };

interface Offered {
  readonly connections: number;
  /** Events of a request, and bytes of an event. */
  readonly events: number;
  readonly bytes: number;
  readonly destinations: number;
  readonly sources: number;
  /**
   * Events that are stored before: all wait for a destination that is paused, or only their messageIds are
   * remembered.
   */
  readonly waiting: number;
  readonly remembered: number;
}

interface Sweep {
  readonly name: string;
  readonly title: string;
  readonly unit: string;
  readonly values: readonly number[];
  readonly offered: (value: number) => Partial<Offered>;
}

const STORED = [1000, 100_000, 1_000_000, 10_000_000];

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
  {
    name: 'sources',
    title: 'Sources that send by turns, single calls',
    unit: 'sources',
    values: [1, 10, 100, 1000],
    offered: (sources) => ({ sources }),
  },
  {
    name: 'backlog',
    title: 'Events that wait for another destination, batches of 20',
    unit: 'events',
    values: STORED,
    offered: (waiting) => ({ waiting, events: 20 }),
  },
  {
    name: 'keys',
    title: 'Events in the window of deduplication, batches of 20',
    unit: 'events',
    values: STORED,
    offered: (remembered) => ({ remembered, events: 20 }),
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
for (const stored of prepared.values()) rmSync(stored, { recursive: true, force: true });
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
        ...{ sources: 1, waiting: 0, remembered: 0 },
        ...offered(point.value),
      });
      point.micros.push(Number(micros.toFixed(2)));
    }
  console.log(`${name}: ${points.map(({ value, micros }) => `${value} ${micros.join('/')}`).join(', ')} µs`);
  return { name, title, unit, points };
}

/** Microseconds of processor time for one delivery. */
async function microsOf(offered: Offered): Promise<number> {
  const { connections, events, bytes, destinations, sources } = offered;
  const folder = mkdtempSync(join(tmpdir(), 'millrace-curve-'));
  const [receiver, port] = await startReceiver();
  const data = await storedBefore(offered, join(folder, 'data'));
  const paused = offered.waiting > 0 ? [DOWN] : [];
  const server = startMillrace(folder, { port, destinations, sources, data, paused });
  try {
    const [, url] = await server.saw(/ready on (\S+)/);
    const env = { BYTES: String(bytes), SOURCES: String(sources) };
    const load = async (seconds: number) => {
      const args = [url!, String(connections), String(seconds), String(events)];
      return (await result<{ events: number }>(['bench/load.ts', ...args], env)).events * destinations;
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

/** A data folder with what is to be stored before. */
async function storedBefore({ waiting, remembered }: Offered, data: string): Promise<string> {
  if (waiting + remembered === 0) return data;
  const key = `${waiting} ${remembered}`;
  let stored = prepared.get(key);
  if (stored === undefined) {
    stored = mkdtempSync(join(tmpdir(), 'millrace-stored-'));
    prepared.set(key, stored);
    await writeBacklog(stored, waiting + remembered, waiting > 0 ? [DOWN] : []);
  }
  cpSync(stored, data, { recursive: true });
  return data;
}

async function arrived(receiver: Bench, deliveries: number): Promise<void> {
  while (Number(await receiver.ask('count')) < deliveries) await sleep(20);
}
