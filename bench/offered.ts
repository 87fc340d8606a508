import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { Agent, createServer, request } from 'node:http';
import type { AddressInfo, Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { median, run } from './processes.ts';

/** A steady load offered to the real program, and what becomes of it at an endpoint that is well. */
export interface Offer {
  /** Seconds. */
  readonly time: number;
  /** Events a second. */
  readonly rate: number;
  /** Events of one call. */
  readonly batch: number;
  /** Calls go to these sources by turns; each has its name as its write key. */
  readonly sources: readonly string[];
  /** URLs of endpoints and the source each takes everything from. */
  readonly destinations: (healthy: string) => readonly { readonly url: string; readonly source: string }[];
}

export interface Figure {
  /** Deliveries a second at the endpoint that is well. */
  readonly rate: number;
  /** Milliseconds from the 200 for an event to its arrival there. */
  readonly p50: number;
  readonly p99: number;
  /** MB. */
  readonly memory: number;
}

/** Left out of the figures: opening connections, compiling. Seconds. */
const WARM_UP = 2;

export async function measure(offer: Offer): Promise<Figure> {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-bench-'));
  const arrivedAt = new Map<string, number>();
  const healthy = createServer({ keepAlive: true }, (incoming, answer) => {
    incoming.resume().on('end', () => answer.end());
    arrivedAt.set(String(incoming.headers['webhook-id']), performance.now());
  });
  const config = join(folder, 'millrace.yaml');
  writeFileSync(config, configOf(offer, `${await listen(healthy)}/in`));
  const args = ['--config', config, '--data', join(folder, 'data'), '--host', '127.0.0.1', '--port', '0'];
  const program = run(['cli/bin/millrace.js', 'start', ...args]);
  const [, url] = await program.saw(/ready on (\S+)/);
  const answeredAt = await send(url!, offer);
  const memory = program.memory();
  await program.stop();
  healthy.closeAllConnections();
  healthy.close();
  rmSync(folder, { recursive: true, force: true });
  return figureOf(answeredAt, arrivedAt, memory);
}

function configOf({ sources, destinations }: Offer, healthy: string): string {
  return JSON.stringify({
    egress: { allow: ['127.0.0.0/8'] },
    log: 'error',
    sources: sources.map((name) => ({ name, writeKeys: [name] })),
    destinations: destinations(healthy).map(({ url, source }, n) => ({
      name: `destination-${n}`,
      type: 'webhooks',
      sources: [source],
      settings: { endpoints: [{ url }], sharedSecret: 'secret' },
    })),
  });
}

/** Sends at the rate, whatever the answers; resolves to when each event was answered for. */
async function send(url: string, { time, rate, batch, sources }: Offer): Promise<Map<string, number>> {
  const answeredAt = new Map<string, number>();
  const agent = new Agent({ keepAlive: true, maxSockets: 64 });
  const started = performance.now();
  const total = (rate / batch) * time;
  const underWay: Promise<void>[] = [];
  for (let sent = 0; sent < total; ) {
    const due = Math.min(total, Math.floor(((performance.now() - started) / 1000) * (rate / batch)));
    for (; sent < due; sent++) {
      const auth = `${sources[sent % sources.length]}:`;
      const ids = Array.from({ length: batch }, (_, n) => `e-${sent}-${n}`);
      underWay.push(call(request(`${url}/v1/batch`, { method: 'POST', agent, auth }), ids, answeredAt));
    }
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
  await Promise.all(underWay);
  await new Promise((resolve) => setTimeout(resolve, 500));
  agent.destroy();
  return answeredAt;
}

async function call(
  outgoing: ReturnType<typeof request>,
  ids: readonly string[],
  answeredAt: Map<string, number>,
): Promise<void> {
  const batch = ids.map((messageId) => ({
    type: 'track',
    event: 'E',
    userId: 'u',
    messageId,
    properties: { pad: 'p'.repeat(400) },
  }));
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

/** Resolves to the origin. */
export async function listen(server: Server): Promise<string> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** Both, by turns, with their medians and the ratio of the second to the first. */
export async function compare(rounds: number, one: [string, Offer], other: [string, Offer]): Promise<void> {
  const figures: [Figure[], Figure[]] = [[], []];
  for (let round = 0; round < rounds; round++) {
    figures[0].push(await measure(one[1]));
    figures[1].push(await measure(other[1]));
  }
  const of = (which: 0 | 1, key: keyof Figure) => median(figures[which].map((figure) => figure[key]));
  for (const which of [0, 1] as const) {
    console.log(
      `${[one, other][which]![0].padEnd(36)} ${of(which, 'rate').toFixed(0)} deliveries/s   p50 ${of(which, 'p50').toFixed(2)}` +
        `   p99 ${of(which, 'p99').toFixed(2)} ms   ${of(which, 'memory').toFixed(0)} MB`,
    );
  }
  const ratio = (key: keyof Figure) => of(1, key) / of(0, key);
  console.log(`ratio: rate ${ratio('rate').toFixed(3)}, p99 ${ratio('p99').toFixed(2)}`);
}
