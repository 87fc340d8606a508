import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openSqliteStore } from '../server/src/adapters/sqlite/store.ts';
import { type Bench, median, result, run } from './processes.ts';

/**
 * `npm run bench`: rates of the real program over real sockets and a real disk, each beside a bare reference of the same
 * run. Load generator, receiver and program share the machine, so compare ratios, not machines. `SECONDS` and `ROUNDS`
 * set how long each figure is measured and how often.
 */
const SECONDS = Number(process.env['SECONDS'] ?? 4);
const ROUNDS = Number(process.env['ROUNDS'] ?? 3);
const CONNECTIONS = 64;

interface Load {
  perSecond: number;
  refused: number;
  p50: number;
  p99: number;
}
interface Figure {
  perSecond: number;
  perCpuSecond: number;
  p50?: number;
  p99?: number;
  memory?: number;
}

const folder = mkdtempSync(join(tmpdir(), 'millrace-bench-'));

try {
  for (const events of [1, 100]) {
    const name = events === 1 ? 'accept, single calls' : `accept, batches of ${events}`;
    const [bare, ours] = await alternate(
      () => acceptBare(events),
      () => acceptOurs(events),
    );
    report(name, 'node:http, body collected and parsed', { bare, ours, unit: 'events' });
  }
  const [bare, ours] = await alternate(sendBare, deliverBacklog);
  report('deliver, signed, from the backlog', 'a loop of undici clients, signed', {
    bare,
    ours,
    unit: 'requests',
  });
  for (const events of [1, 100]) {
    const name = events === 1 ? 'end to end, single calls' : `end to end, batches of ${events}`;
    const [sender, through] = await alternate(sendBare, () => endToEnd(events));
    report(name, 'a loop of undici clients, signed', { bare: sender, ours: through, unit: 'requests' });
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}

async function alternate(a: () => Promise<Figure>, b: () => Promise<Figure>): Promise<[Figure[], Figure[]]> {
  const figures: [Figure[], Figure[]] = [[], []];
  for (let round = 0; round < ROUNDS; round++) {
    figures[0].push(await a());
    figures[1].push(await b());
  }
  return figures;
}

async function acceptBare(events: number): Promise<Figure> {
  const server = run(['bench/bare.ts', 'echo']);
  return accept(server, (await server.saw(/ready on (\S+)/))[1]!, events);
}

async function acceptOurs(events: number): Promise<Figure> {
  const server = startMillrace();
  return accept(server, (await server.saw(/ready on (\S+)/))[1]!, events);
}

async function accept(server: Bench, url: string, events: number): Promise<Figure> {
  const before = server.cpu();
  const load = await result<Load>([
    'bench/load.ts',
    url,
    String(CONNECTIONS),
    String(SECONDS),
    String(events),
  ]);
  if (load.refused > 0) throw new Error(`${load.refused} requests were refused`);
  const cpu = server.cpu() - before;
  const figure = {
    perSecond: load.perSecond,
    perCpuSecond: (load.perSecond * SECONDS) / cpu,
    p50: load.p50,
    p99: load.p99,
    memory: server.memory(),
  };
  await server.stop();
  return figure;
}

async function sendBare(): Promise<Figure> {
  const [receiver, port] = await startReceiver();
  const sent = await result<{ perSecond: number; cpu: NodeJS.CpuUsage }>([
    ...['bench/bare.ts', 'sender', port, String(CONNECTIONS), 'yes', String(SECONDS)],
  ]);
  await receiver.stop();
  return {
    perSecond: sent.perSecond,
    perCpuSecond: (sent.perSecond * SECONDS * 1e6) / (sent.cpu.user + sent.cpu.system),
  };
}

/** A backlog written to disk beforehand; then the program is started on it. */
async function deliverBacklog(): Promise<Figure> {
  const [receiver, port] = await startReceiver();
  const data = join(folder, 'backlog');
  rmSync(data, { recursive: true, force: true });
  await writeBacklog(data, SECONDS * 100_000);
  const server = startMillrace({ data, port });
  await server.saw(/ready on/);
  const figure = await whileDelivering(server, receiver);
  await server.stop();
  await receiver.stop();
  return figure;
}

async function writeBacklog(data: string, events: number): Promise<void> {
  const store = await openSqliteStore({ folder: data });
  const [crm] = (await store.settings.apply({ sources: [], destinations: [destination('1')] })).destinations;
  const pad = 'x'.repeat(380);
  for (let n = 0; n < events; n += 500) {
    const batch = Array.from({ length: 500 }, (_, index) => {
      const messageId = `backlog-${n + index}`;
      const event = {
        messageId,
        type: 'track',
        channel: 'server',
        userId: 'u1',
        event: 'Order Completed',
        properties: { pad },
      };
      const times = { timestamp: '2026-03-04T05:06:07.089Z', receivedAt: '2026-03-04T05:06:07.189Z' };
      return {
        source: 1,
        messageId,
        json: JSON.stringify({ ...event, context: {}, integrations: {}, ...times }),
      };
    });
    const indexes = batch.map((_, index) => index);
    const owed = [{ destination: crm!.id, state: 'parked' as const, indexes }];
    await store.log.append({
      id: `b${n}`,
      receivedAt: Date.now(),
      events: batch,
      owed,
      skipped: [],
      received: [],
    });
  }
  await store.stop();
}

async function endToEnd(events: number): Promise<Figure> {
  const [receiver, port] = await startReceiver();
  const server = startMillrace({ port });
  const [, url] = await server.saw(/ready on (\S+)/);
  const load = result<Load>(['bench/load.ts', url!, '32', String(SECONDS + 2), String(events)]);
  const figure = await whileDelivering(server, receiver);
  const { p50, p99 } = await load;
  await server.stop();
  await receiver.stop();
  return { ...figure, p50, p99 };
}

/** What arrives while the program is at full speed; the first second is for warming up. */
async function whileDelivering(server: Bench, receiver: Bench): Promise<Figure> {
  await delay(1);
  const [count, cpu, at] = [Number(await receiver.ask('count')), server.cpu(), performance.now()];
  await delay(SECONDS);
  const arrived = Number(await receiver.ask('count')) - count;
  const seconds = (performance.now() - at) / 1000;
  return {
    perSecond: arrived / seconds,
    perCpuSecond: arrived / (server.cpu() - cpu),
    memory: server.memory(),
  };
}

async function startReceiver(): Promise<[Bench, string]> {
  const receiver = run(['bench/receiver.ts']);
  return [receiver, (await receiver.saw(/listening (\d+)/))[1]!];
}

function startMillrace({ data, port }: { data?: string; port?: string } = {}): Bench {
  const config = join(folder, 'millrace.yaml');
  const to = port === undefined ? [] : [destination(port)];
  writeFileSync(
    config,
    JSON.stringify({
      egress: { allow: ['127.0.0.0/8'] },
      sources: [{ name: 'bench', writeKeys: ['bench'] }],
      destinations: to,
    }),
  );
  const fresh = mkdtempSync(join(folder, 'data-'));
  return run([
    'cli/bin/millrace.js',
    'start',
    '--config',
    config,
    '--data',
    data ?? fresh,
    '--host',
    '127.0.0.1',
    '--port',
    '0',
  ]);
}

function destination(port: string) {
  const endpoints = [{ url: `http://127.0.0.1:${port}/in`, headers: {} }];
  const settings = { endpoints, sharedSecret: 'secret', format: 'documented', success: 'any' } as const;
  return { name: 'crm', type: 'webhooks', sources: ['bench'], enabled: true, settings } as const;
}

function report(
  name: string,
  reference: string,
  { bare, ours, unit }: { bare: Figure[]; ours: Figure[]; unit: string },
): void {
  const of = (figures: Figure[], key: 'perSecond' | 'perCpuSecond' | 'p50' | 'p99' | 'memory') =>
    median(figures.map((figure) => figure[key] ?? Number.NaN));
  const line = (who: string, figures: Figure[]) =>
    `  ${who.padEnd(38)} ${rate(of(figures, 'perSecond'))} ${unit}/s   ${rate(of(figures, 'perCpuSecond'))} per CPU second` +
    `   p50 ${of(figures, 'p50').toFixed(2)} ms   p99 ${of(figures, 'p99').toFixed(2)} ms   ${of(figures, 'memory').toFixed(0)} MB`;
  console.log(`${name}\n${line('millrace', ours)}\n${line(reference, bare)}`);
  const ratio = (key: 'perSecond' | 'perCpuSecond') => (of(ours, key) / of(bare, key)).toFixed(2);
  console.log(`  ratio ${ratio('perSecond')}, per CPU second ${ratio('perCpuSecond')}\n`);
}

function rate(value: number): string {
  return Math.round(value).toLocaleString('en').padStart(9);
}

function delay(seconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, seconds * 1000));
}
