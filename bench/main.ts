import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openSqliteStore } from '../server/src/adapters/sqlite/store.ts';
import { accepting, alternate, type Figure, line, middle, SECONDS } from './figures.ts';
import { destination, startMillrace } from './millrace.ts';
import { type Bench, result, run } from './processes.ts';

/**
 * `npm run bench`: rates of the real program over real sockets and a real disk, each beside a bare reference of the same
 * run. Load generator, receiver and program share the machine, so compare ratios, not machines. `SECONDS` and `ROUNDS`
 * set how long each figure is measured and how often.
 */
const CONNECTIONS = 64;

const folder = mkdtempSync(join(tmpdir(), 'millrace-bench-'));

try {
  for (const events of [1, 100]) {
    const name = events === 1 ? 'accept, single calls' : `accept, batches of ${events}`;
    const [bare = [], ours = []] = await alternate(
      () => accepting(run(['bench/bare.ts', 'echo']), events),
      () => accepting(startMillrace(folder), events),
    );
    report(name, 'node:http, body collected and parsed', { bare, ours, unit: 'events' });
  }
  const [bare = [], ours = []] = await alternate(sendBare, deliverBacklog);
  report('deliver, signed, from the backlog', 'a loop of undici clients, signed', {
    bare,
    ours,
    unit: 'requests',
  });
  for (const events of [1, 100]) {
    const name = events === 1 ? 'end to end, single calls' : `end to end, batches of ${events}`;
    const [sender = [], through = []] = await alternate(sendBare, () => endToEnd(events));
    report(name, 'a loop of undici clients, signed', { bare: sender, ours: through, unit: 'requests' });
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
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
  const server = startMillrace(folder, { data, port });
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
  const server = startMillrace(folder, { port });
  const [, url] = await server.saw(/ready on (\S+)/);
  const load = result<{ p50: number; p99: number }>([
    'bench/load.ts',
    url!,
    '32',
    String(SECONDS + 2),
    String(events),
  ]);
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

function report(name: string, reference: string, { bare, ours, unit }: Compared): void {
  console.log(`${name}\n${line('millrace', ours, unit)}\n${line(reference, bare, unit)}`);
  const ratio = (key: 'perSecond' | 'perCpuSecond') => (middle(ours, key) / middle(bare, key)).toFixed(2);
  console.log(`  ratio ${ratio('perSecond')}, per CPU second ${ratio('perCpuSecond')}\n`);
}

interface Compared {
  readonly bare: readonly Figure[];
  readonly ours: readonly Figure[];
  readonly unit: string;
}

function delay(seconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, seconds * 1000));
}
