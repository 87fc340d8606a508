import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startReceiver, whileDelivering, writeBacklog } from './delivering.ts';
import { alternate, type Figure, line, middle, SECONDS } from './figures.ts';
import { destination } from './millrace.ts';
import { result, run } from './processes.ts';

/**
 * Delivering to endpoints that take 50 ms to answer: `node bench/slow.ts`, with SECONDS (4), ROUNDS (3).
 * Eight destinations of 250 requests at once each are 2,000 connections; the same number of connections of a
 * bare undici loop is what it is measured against. The latency of ours is that of the attempts as `trace`
 * shows them, of 400 events.
 */
const ANSWERS_AFTER = 50;
const DESTINATIONS = 8;
const CONCURRENCY = 250;
/** A lane begins with 16 requests at once, and one more with each round trip. Seconds. */
const WARM_UP = 16;
const MOST_A_SECOND = 1000 * (1 / ANSWERS_AFTER) * DESTINATIONS * CONCURRENCY;
const SAMPLES = 400;

const folder = mkdtempSync(join(tmpdir(), 'millrace-bench-'));
try {
  const [bare = [], ours = []] = await alternate(sendBare, deliver);
  console.log(
    `deliver, signed, ${DESTINATIONS * CONCURRENCY} connections, answers after ${ANSWERS_AFTER} ms`,
  );
  console.log(line('millrace', ours, 'requests'));
  console.log(line('a loop of undici clients, signed', bare, 'requests'));
  console.log(`  ratio ${(middle(ours, 'perSecond') / middle(bare, 'perSecond')).toFixed(2)}`);
} finally {
  rmSync(folder, { recursive: true, force: true });
}

async function sendBare(): Promise<Figure> {
  const [receiver, port] = await startReceiver(ANSWERS_AFTER);
  const { perSecond, p99, cpu } = await result<{ perSecond: number; p99: number; cpu: NodeJS.CpuUsage }>([
    ...['bench/bare.ts', 'sender', port, String(DESTINATIONS * CONCURRENCY), 'yes', String(SECONDS)],
  ]);
  await receiver.stop();
  return { perSecond, p99, perCpuSecond: (perSecond * SECONDS * 1e6) / (cpu.user + cpu.system) };
}

async function deliver(): Promise<Figure> {
  const [receiver, port] = await startReceiver(ANSWERS_AFTER);
  const data = mkdtempSync(join(folder, 'data-'));
  const destinations = Array.from({ length: DESTINATIONS }, (_, n) => {
    const { settings, ...rest } = destination(port);
    // Addresses of their own, because a bound on connections is for each origin.
    const endpoints = [{ url: `http://127.0.0.${n + 1}:${port}/in`, headers: {} }];
    return { ...rest, name: `slow-${n}`, settings: { ...settings, endpoints, concurrency: CONCURRENCY } };
  });
  await writeBacklog(data, MOST_A_SECOND * (SECONDS + WARM_UP), destinations);
  const config = join(folder, 'slow.yaml');
  writeFileSync(config, JSON.stringify({ egress: { allow: ['127.0.0.0/8'] }, destinations }));
  const server = run(
    [
      ...['cli/bin/millrace.js', 'start', '--config', config, '--data', data],
      ...['--host', '127.0.0.1', '--port', '0'],
    ],
    { MILLRACE_ADMIN_TOKEN: 'bench' },
  );
  const [, url] = await server.saw(/ready on (\S+)/);
  const from = Date.now() + WARM_UP * 1000;
  const figure = await whileDelivering(server, receiver, WARM_UP);
  const p99 = await latencyOf(url!, { from, until: Date.now(), perSecond: figure.perSecond });
  await server.stop();
  await receiver.stop();
  return { ...figure, p99 };
}

/** Events lie in the order of their numbers, so those of the time measured can be reckoned. */
async function latencyOf(
  url: string,
  { from, until, perSecond }: { from: number; until: number; perSecond: number },
): Promise<number> {
  const latencies: number[] = [];
  const first = Number(perSecond * WARM_UP * 0.5);
  const last = perSecond * (WARM_UP + SECONDS);
  for (let n = 0; n < SAMPLES; n++) {
    const id = `backlog-${Math.floor(first + ((last - first) * n) / SAMPLES)}`;
    const answer = await fetch(`${url}/api/v1/events/${id}`, { headers: { Authorization: 'Bearer bench' } });
    const { data } = (await answer.json()) as { data: Traced[] };
    for (const { startedAt, latencyMs } of data.flatMap(({ deliveries }) =>
      deliveries.flatMap(({ attempts }) => attempts),
    )) {
      if (Date.parse(startedAt) >= from && Date.parse(startedAt) <= until) latencies.push(latencyMs);
    }
  }
  latencies.sort((a, b) => a - b);
  return latencies[Math.floor(latencies.length * 0.99)] ?? Number.NaN;
}

interface Traced {
  readonly deliveries: readonly { readonly attempts: readonly { startedAt: string; latencyMs: number }[] }[];
}
