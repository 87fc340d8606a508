import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { CallTemplate, Connections, PLACEHOLDER } from './calls.ts';
import { startReceiver } from './delivering.ts';
import { type Bench, median, run } from './processes.ts';

/**
 * Measures what an event costs with 1, 10, 100 and 1,000 destinations, of which one takes it: `node
 * bench/filters.ts`, with `ROUNDS` (10) windows for each and `EVENTS` (1,000) single calls in a window. They
 * differ by filter, on one source, or by source. All programs run side by side and are called by turns; a
 * window ends when everything is delivered. `BY` (`filter` or `source`) measures one way, `COUNTS` other
 * numbers of destinations, `TAKERS` lets the events go to only so many of them.
 */
const ROUNDS = Number(process.env['ROUNDS'] ?? 10);
const EVENTS = Number(process.env['EVENTS'] ?? 1000);
const COUNTS = (process.env['COUNTS'] ?? '1,10,100,1000').split(',').map(Number);
const WAYS = (process.env['BY'] ?? 'filter,source').split(',');
const TAKERS = Number(process.env['TAKERS'] ?? Number.POSITIVE_INFINITY);
const CONNECTIONS = 64;
/** Windows in which V8 compiles what runs often, connections open, and every plan is stored. */
const WARM_UP = 4;

interface Program {
  readonly destinations: number;
  readonly server: Bench;
  readonly data: string;
  readonly calls: readonly CallTemplate[];
  readonly connections: Connections;
  readonly windows: Window[];
}

/** Costs of one event: microseconds of processor time, bytes written, and bytes by which the files grew. */
interface Window {
  readonly cpu: number;
  readonly written: number;
  readonly grown: number;
  readonly perSecond: number;
}

const folder = mkdtempSync(join(tmpdir(), 'millrace-bench-'));
const [receiver, port] = await startReceiver();
try {
  for (const way of WAYS) await compare(way);
} finally {
  await receiver.stop();
  rmSync(folder, { recursive: true, force: true });
}

async function compare(way: string): Promise<void> {
  const programs: Program[] = [];
  for (const destinations of COUNTS) programs.push(await start(way, destinations));
  for (let round = 0; round < WARM_UP + ROUNDS; round++) {
    for (const program of programs) {
      const figures = await window(program);
      if (round >= WARM_UP) program.windows.push(figures);
    }
  }
  console.log(`by ${way}, ${ROUNDS} windows of ${EVENTS} events (least – most)`);
  for (const { destinations, windows } of programs) {
    const one = programs[0]!.windows;
    const of = (key: keyof Window, unit: string) => {
      const values = windows.map((figures) => figures[key]);
      const ratio = (median(values) / median(one.map((figures) => figures[key]))).toFixed(2);
      const spread = [Math.min(...values), Math.max(...values)].map(Math.round).join(' – ');
      return `${Math.round(median(values))} ${unit} (${spread}) × ${ratio}`;
    };
    console.log(
      `  ${String(destinations).padStart(5)} destinations   ${of('cpu', 'µs')}   written ${of('written', 'B')}   ` +
        `grown ${of('grown', 'B')}   ${of('perSecond', '/s')}`,
    );
  }
  for (const { server, connections } of programs) {
    connections.close();
    await server.stop();
  }
}

async function start(way: string, count: number): Promise<Program> {
  const home = mkdtempSync(join(folder, `${way}-`));
  const [config, data] = [join(home, 'millrace.yaml'), join(home, 'data')];
  const places = Array.from({ length: count }, (_, n) => n);
  const isByFilter = way === 'filter';
  writeFileSync(
    config,
    JSON.stringify({
      egress: { allow: ['127.0.0.0/8'] },
      sources: (isByFilter ? [0] : places).map((n) => ({ name: `source-${n}`, writeKeys: [`key-${n}`] })),
      destinations: places.map((n) => ({
        name: `destination-${n}`,
        type: 'webhooks',
        sources: [isByFilter ? 'source-0' : `source-${n}`],
        settings: {
          endpoints: [{ url: `http://127.0.0.1:${port}/in` }],
          sharedSecret: 'secret',
          ...(isByFilter ? { filter: { events: [`Event ${n}`] } } : {}),
        },
      })),
    }),
  );
  const args = ['--config', config, '--data', data, '--host', '127.0.0.1', '--port', '0'];
  const server = run(['cli/bin/millrace.js', 'start', ...args]);
  const [, url] = await server.saw(/ready on (\S+)/);
  const calls = Array.from(
    { length: Math.min(count, TAKERS) },
    (_, taker) => new CallTemplate([eventOf(`Event ${taker}`)], isByFilter ? 'key-0' : `key-${taker}`),
  );
  const connections = await Connections.open(url!, CONNECTIONS);
  return { destinations: count, server, data, calls, connections, windows: [] };
}

function eventOf(event: string): object {
  return {
    ...{ type: 'track', event, userId: 'user-20481', messageId: PLACEHOLDER },
    timestamp: '2026-03-04T05:06:07.089Z',
    properties: { pad: 'p'.repeat(400) },
  };
}

/** Sends the events of a window and waits until all are delivered, and their results written. */
async function window(program: Program): Promise<Window> {
  const { server, data, calls, connections } = program;
  const [before, cpu, written] = [Number(await receiver.ask('count')), server.cpu(), writtenBy(server)];
  const [grown, at] = [sizeOf(data), performance.now()];
  await Promise.all(
    Array.from({ length: EVENTS }, (_, n) => connections.call(calls[n % calls.length]!.next())),
  );
  while (Number(await receiver.ask('count')) < before + EVENTS) await sleep(10);
  const perSecond = EVENTS / ((performance.now() - at) / 1000);
  await sleep(100);
  return {
    cpu: ((server.cpu() - cpu) * 1e6) / EVENTS,
    written: (writtenBy(server) - written) / EVENTS,
    grown: (sizeOf(data) - grown) / EVENTS,
    perSecond,
  };
}

/** Bytes that the process gave to the disk. */
function writtenBy({ child }: Bench): number {
  return Number(/^write_bytes: (\d+)/m.exec(readFileSync(`/proc/${child.pid}/io`, 'utf8'))?.[1]);
}

/** Bytes of the database; the write-ahead log has a fixed size. */
function sizeOf(data: string): number {
  const files = readdirSync(data).filter((name) => name.endsWith('.db'));
  return files.reduce((sum, name) => sum + statSync(join(data, name)).size, 0);
}
