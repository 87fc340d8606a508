import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Connections, writeRequest } from './calls.ts';
import { median, run } from './processes.ts';

/**
 * A public write key in the wrong hands: `node bench/flood.ts`, with IDS (1,000,000) users that nobody has,
 * each in a call of its own, and every thousandth with 30 KB of traits. RATES (2000, 5000, 10000) are the
 * calls a second, by turns; 0 is as fast as they are answered. Beside them a server source tells of users of
 * an audience, one every 200 ms. Shown are how long the webhook of the audience takes, quiet and in the
 * flood, and what the flood leaves in the data folder (DISK, 200 MB) and in memory.
 *
 * The calls come from loopback, whose address has no rate limit; from another address a client source gets
 * 200 a second by default.
 */
const IDS = Number(process.env['IDS'] ?? 1_000_000);
const DISK = Number(process.env['DISK'] ?? 200);
const RATES = (process.env['RATES'] ?? '2000,5000,10000').split(',').map(Number);

/** Calls of a batch, and every how many calls one is bloated. */
const BATCH = 100;
const BLOATED = 1000;

/** Milliseconds between two users of the audience, and how many tell what is quiet. */
const HONEST = 200;
const QUIET = 50;

const TOKEN = 'bench';
const folder = mkdtempSync(join(process.env['DIR'] ?? tmpdir(), 'millrace-bench-flood-'));
const heard = new Map<string, (at: number) => void>();

const receiver = createServer((request, response) => {
  let text = '';
  request.setEncoding('utf8').on('data', (part: string) => {
    text += part;
  });
  request.on('end', () => {
    response.end();
    const { userId, traits } = JSON.parse(text) as { userId: string; traits?: { pros?: boolean } };
    if (traits?.pros === true) heard.get(userId)?.(performance.now());
  });
});
await new Promise<void>((resolve) => receiver.listen(0, '127.0.0.1', resolve));

try {
  writeFileSync(
    join(folder, 'millrace.yaml'),
    JSON.stringify(config((receiver.address() as AddressInfo).port)),
  );
  for (const rate of RATES) await measure(rate);
} finally {
  receiver.close();
  rmSync(folder, { recursive: true, force: true });
}

async function measure(rate: number): Promise<void> {
  const data = join(folder, `${rate}`);
  const server = run(
    [
      'cli/bin/millrace.js',
      'start',
      '--config',
      join(folder, 'millrace.yaml'),
      '--data',
      data,
      '--host',
      '127.0.0.1',
      '--port',
      '0',
    ],
    { MILLRACE_ADMIN_TOKEN: TOKEN },
  );
  const [, url] = await server.saw(/ready on (\S+)/);
  await lagsOf(url!, 10);
  const quiet = await lagsOf(url!, QUIET);
  let largest = 0;
  let isFlooding = true;
  const watched = (async () => {
    while (isFlooding) {
      largest = Math.max(largest, sizeOf(data));
      await sleep(1000);
    }
  })();
  const begun = performance.now();
  const flood = send(url!, rate);
  const during = await lagsOf(
    url!,
    () => isFlooding,
    flood.then(() => {
      isFlooding = false;
    }),
  );
  const took = (performance.now() - begun) / 1000;
  await watched;
  const behind = await metric(url!, 'millrace_profiles_behind_events');
  const after = performance.now();
  while ((await metric(url!, 'millrace_profiles_behind_events')) > 0) await sleep(100);
  const caughtUp = (performance.now() - after) / 1000;
  console.log(
    `${IDS.toLocaleString('en')} ids, ${rate === 0 ? 'as fast as answered' : `${rate} a second`}: sent in ${took.toFixed(0)} s`,
  );
  console.log(`  audience hears, quiet     ${shown(quiet)}`);
  console.log(
    `  audience hears, flooded   ${shown(during)}, ratio of medians ${(median(during) / median(quiet)).toFixed(2)}`,
  );
  console.log(`  behind at the end         ${behind} events, caught up after ${caughtUp.toFixed(1)} s`);
  await sleep(15_000);
  const profiles = await metric(url!, 'millrace_profiles');
  console.log(
    `  data folder               ${largest.toFixed(0)} MB at most, ${sizeOf(data).toFixed(0)} MB in the end, limit ${DISK} MB, ${profiles} profiles`,
  );
  console.log(`  memory                    ${(peakMemory(server.child.pid!)).toFixed(0)} MB at most\n`);
  await server.stop();
}

/**
 * Milliseconds from the call of a user to the webhook that says it is a member: of so many users, or until
 * `goesOn` says no.
 */
async function lagsOf(
  url: string,
  many: number | (() => boolean),
  ended: Promise<void> = Promise.resolve(),
): Promise<number[]> {
  const connections = await Connections.open(url, 4);
  const lags: Promise<number>[] = [];
  const goesOn = typeof many === 'number' ? () => lags.length < many : many;
  while (goesOn()) {
    const userId = `honest-${performance.now()}`;
    const sentAt = performance.now();
    lags.push(new Promise((resolve) => heard.set(userId, (at) => resolve(at - sentAt))));
    await connections.call(writeRequest('identify', { userId, traits: { plan: 'pro' } }, 'backend'));
    await sleep(HONEST);
  }
  await ended;
  const all = await Promise.all(lags);
  heard.clear();
  connections.close();
  return all;
}

/** Resolves when every call is answered. */
async function send(url: string, rate: number): Promise<void> {
  const connections = await Connections.open(url, 8);
  const begun = performance.now();
  const answers = new Set<Promise<void>>();
  for (let id = 0; id < IDS; id += BATCH) {
    const batch = Array.from({ length: BATCH }, (_, nth) => callOf(id + nth));
    const answer = connections.call(writeRequest('batch', { batch }, 'browser')).then(() => {
      answers.delete(answer);
    });
    answers.add(answer);
    if (answers.size >= 8) await Promise.race(answers);
    const early = rate === 0 ? 0 : begun + ((id + BATCH) / rate) * 1000 - performance.now();
    if (early > 0) await sleep(early);
  }
  await Promise.all(answers);
  connections.close();
}

function callOf(id: number): object {
  const ids = { userId: `made-up-${id}`, anonymousId: `device-${id}` };
  return id % BLOATED === 0
    ? {
        type: 'identify',
        ...ids,
        traits: Object.fromEntries(Array.from({ length: 30 }, (_, nth) => [`t${nth}`, 'x'.repeat(1000)])),
      }
    : { type: 'track', ...ids, event: 'Made Up', integrations: { All: false } };
}

function config(port: number): object {
  return {
    ...{ egress: { allow: ['127.0.0.0/8'] }, profiles: 'on', log: 'error', limits: { disk: `${DISK}MB` } },
    sources: [
      { name: 'browser', writeKeys: ['browser'], trust: 'client' },
      { name: 'backend', writeKeys: ['backend'], trust: 'server' },
    ],
    destinations: [
      {
        name: 'listener',
        type: 'webhooks',
        sources: [],
        settings: { endpoints: [{ url: `http://127.0.0.1:${port}/in` }] },
      },
    ],
    audiences: [{ name: 'Pros', definition: "trait('plan') = 'pro'", destinations: ['listener'] }],
  };
}

async function metric(url: string, name: string): Promise<number> {
  const answer = await fetch(`${url}/metrics`, { headers: { Authorization: `Bearer ${TOKEN}` } });
  return Number(new RegExp(`^${name}(?:\\{[^}]*\\})? (\\S+)$`, 'm').exec(await answer.text())?.[1]);
}

/** MB. */
function sizeOf(data: string): number {
  return (
    readdirSync(data).reduce(
      (sum, name) => sum + statSync(join(data, name), { throwIfNoEntry: false })!.size,
      0,
    ) /
    1024 ** 2
  );
}

/** MB. */
function peakMemory(pid: number): number {
  return Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024;
}

function shown(lags: readonly number[]): string {
  const sorted = lags.toSorted((a, b) => a - b);
  return `median ${median(lags).toFixed(0)} ms, 95 % ${sorted[Math.floor(sorted.length * 0.95)]!.toFixed(0)} ms, longest ${sorted.at(-1)!.toFixed(0)} ms (${lags.length})`;
}
