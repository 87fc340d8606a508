import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { Agent, createServer, request } from 'node:http';
import { type AddressInfo, createServer as createTcpServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { median, run } from './processes.ts';

/**
 * Whether one dead destination slows a healthy one: `node bench/isolation.ts`, with SECONDS (60) and ROUNDS (5). The same
 * load is offered to a program with one healthy destination, and to one that also owes everything to an endpoint that
 * takes requests and never answers, by turns.
 */
const SECONDS = Number(process.env['SECONDS'] ?? 60);
const ROUNDS = Number(process.env['ROUNDS'] ?? 5);
const RATE = Number(process.env['RATE'] ?? 5000);
const BATCH = 10;
/** Left out of the figures: opening connections, compiling. */
const WARM_UP = 2;

interface Figure {
  rate: number;
  p50: number;
  p99: number;
  memory: number;
}

const alone: Figure[] = [];
const beside: Figure[] = [];
for (let round = 0; round < ROUNDS; round++) {
  alone.push(await measure(false));
  beside.push(await measure(true));
}
print('healthy destination alone', alone);
print('healthy beside a black hole', beside);
const ratio = (key: keyof Figure) =>
  median(beside.map((one) => one[key])) / median(alone.map((one) => one[key]));
console.log(`ratio: rate ${ratio('rate').toFixed(3)}, p99 ${ratio('p99').toFixed(2)}`);

async function measure(withBlackHole: boolean): Promise<Figure> {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-bench-'));
  const arrivedAt = new Map<string, number>();
  const healthy = createServer({ keepAlive: true }, (incoming, answer) => {
    incoming.resume().on('end', () => answer.end());
    arrivedAt.set(String(incoming.headers['webhook-id']), performance.now());
  });
  const blackHole = createTcpServer((socket) => {
    socket.on('error', () => {});
    socket.resume();
  });
  const urls = [await listen(healthy), ...(withBlackHole ? [await listen(blackHole)] : [])];
  const config = join(folder, 'millrace.yaml');
  const destinations = urls.map((url, n) => ({
    name: `destination-${n}`,
    type: 'webhooks',
    sources: ['bench'],
    settings: { endpoints: [{ url }], sharedSecret: 'secret' },
  }));
  const sources = [{ name: 'bench', writeKeys: ['bench'] }];
  writeFileSync(
    config,
    JSON.stringify({ egress: { allow: ['127.0.0.0/8'] }, log: 'error', sources, destinations }),
  );
  const args = [
    'start',
    '--config',
    config,
    '--data',
    join(folder, 'data'),
    '--host',
    '127.0.0.1',
    '--port',
    '0',
  ];
  const program = run(['cli/bin/millrace.js', ...args]);
  const [, url] = await program.saw(/ready on (\S+)/);
  const answeredAt = await offer(url!);
  const memory = program.memory();
  await program.stop();
  healthy.closeAllConnections();
  healthy.close();
  blackHole.close();
  rmSync(folder, { recursive: true, force: true });
  return figureOf(answeredAt, arrivedAt, memory);
}

/** Sends at the rate, whatever the answers; resolves to when each event was answered for. */
async function offer(url: string): Promise<Map<string, number>> {
  const answeredAt = new Map<string, number>();
  const agent = new Agent({ keepAlive: true, maxSockets: 64 });
  const started = performance.now();
  const total = (RATE / BATCH) * SECONDS;
  const underWay: Promise<void>[] = [];
  for (let sent = 0; sent < total; ) {
    const due = Math.min(total, Math.floor(((performance.now() - started) / 1000) * (RATE / BATCH)));
    for (; sent < due; sent++) underWay.push(send(url, agent, sent, answeredAt));
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
  await Promise.all(underWay);
  await new Promise((resolve) => setTimeout(resolve, 500));
  agent.destroy();
  return answeredAt;
}

async function send(url: string, agent: Agent, nth: number, answeredAt: Map<string, number>): Promise<void> {
  const ids = Array.from({ length: BATCH }, (_, n) => `e-${nth}-${n}`);
  const batch = ids.map((messageId) => ({
    type: 'track',
    event: 'E',
    userId: 'u',
    messageId,
    properties: { nth, pad: 'p'.repeat(400) },
  }));
  const outgoing = request(`${url}/v1/batch`, { method: 'POST', agent, auth: 'bench:' });
  outgoing.end(JSON.stringify({ batch }));
  const [answer] = await once(outgoing, 'response');
  answer.resume();
  if (answer.statusCode !== 200) return;
  const now = performance.now();
  for (const id of ids) answeredAt.set(id, now);
}

function figureOf(answeredAt: Map<string, number>, arrivedAt: Map<string, number>, memory: number): Figure {
  const times = [...arrivedAt.values()];
  const first =
    times.reduce((least, time) => Math.min(least, time), Number.POSITIVE_INFINITY) + WARM_UP * 1000;
  const last = times.reduce((most, time) => Math.max(most, time), 0);
  const latencies: number[] = [];
  for (const [id, answered] of answeredAt) {
    const arrived = arrivedAt.get(id);
    if (arrived !== undefined && answered >= first) latencies.push(Math.max(0, arrived - answered));
  }
  latencies.sort((a, b) => a - b);
  const at = (share: number) => latencies[Math.floor(latencies.length * share)] ?? Number.NaN;
  const counted = times.filter((time) => time >= first).length;
  return { rate: counted / ((last - first) / 1000), p50: at(0.5), p99: at(0.99), memory };
}

async function listen(server: Server): Promise<string> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/in`;
}

function print(what: string, figures: Figure[]): void {
  const of = (key: keyof Figure) => median(figures.map((one) => one[key]));
  console.log(
    `${what.padEnd(28)} ${of('rate').toFixed(0)} deliveries/s   p50 ${of('p50').toFixed(2)}   p99 ${of('p99').toFixed(2)} ms` +
      `   ${of('memory').toFixed(0)} MB`,
  );
}
