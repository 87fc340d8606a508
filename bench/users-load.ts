import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { identityHash, keyHash } from '../server/src/adapters/encoding/hashes.ts';
import { openSqliteStore } from '../server/src/adapters/sqlite/store.ts';
import { openProfileStore } from '../server/src/adapters/sqlite/users/profile-store.ts';
import { startReceiver } from './delivering.ts';
import { type Bench, median, run } from './processes.ts';
import { fillProfiles } from './profiles.ts';
import { Traffic, type Turn } from './users-traffic.ts';

/**
 * The whole program with profiles beside the same program without: `node bench/main.ts users`, with USERS
 * profiles (20,000), a first sync of SYNC members (20,000) and TURNS turns of a second (6). One server has
 * profiles off, the other has 20 audiences, five with windows, and 10 computed traits. Load goes to one and
 * then to the other by turns, and the one that does not have the turn is stopped (SIGSTOP), so that neither
 * weighs on the other and other load on the machine weighs on both. Figures are medians of the ratios of
 * neighbouring turns.
 */
const SYNC = Number(process.env['SYNC'] ?? 20_000);
const USERS = Math.max(SYNC, Number(process.env['USERS'] ?? 20_000));
const TURNS = Number(process.env['TURNS'] ?? 6);

/**
 * Milliseconds. A stopped program's clock goes on, and so do the rests of its profiles: short turns would
 * measure mostly their ends.
 */
const TURN = 4000;

/** Calls a second during a first sync: latency under a load that the program carries easily. */
const LIVE_CALLS = 300;
const LIVE_CONNECTIONS = 16;

const TOKEN = 'bench';
/** Made when the measurement begins. */
let folder = '';

/** A running server with what counts at its ends. */
interface Side {
  readonly program: Bench;
  readonly url: string;
  /** Takes what the source `bench` sends. */
  readonly receiver: Bench;
  /** Takes what follows from profiles. */
  readonly listener: Bench;
}

/** Prints what profiles cost. Rejects when a server ends by itself. */
export async function compareProfiles(): Promise<void> {
  folder = mkdtempSync(join(process.env['DIR'] ?? tmpdir(), 'millrace-bench-profiles-'));
  try {
    await compareSides([await start('off'), await start('on')]);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function compareSides(sides: Sides): Promise<void> {
  const [off, on] = sides;
  console.log(
    `profiles on / off, ${USERS.toLocaleString('en')} profiles, ${TURNS} turns of ${seconds(TURN)} s each\n`,
  );
  try {
    await untilLive(on);
    await compareRates(sides);
    await showCatchingUp(on);
    await firstSync(sides);
    report('memory, most so far', `on ${mostMemory(on)} MB, off ${mostMemory(off)} MB (target below 1,000)`);
    await showRestart(on);
  } finally {
    for (const { program, receiver, listener } of sides) {
      program.child.kill('SIGCONT');
      await program.stop();
      await receiver.stop();
      await listener.stop();
    }
  }
}

async function start(profiles: 'off' | 'on'): Promise<Side> {
  const data = join(folder, profiles);
  mkdirSync(data);
  if (profiles === 'on') await makeProfiles(data);
  const [receiver, port] = await startReceiver();
  const [listener, listenerPort] = await startReceiver();
  writeFileSync(join(folder, `${profiles}.yaml`), JSON.stringify(configOf(profiles, port, listenerPort)));
  const program = launch(profiles);
  const [, url] = await program.saw(/ready on (\S+)/);
  return { program, url: url!, receiver, listener };
}

function launch(profiles: 'off' | 'on'): Bench {
  const args = ['--config', join(folder, `${profiles}.yaml`), '--data', join(folder, profiles)];
  return run(['cli/bin/millrace.js', 'start', ...args, '--host', '127.0.0.1', '--port', '0'], {
    MILLRACE_ADMIN_TOKEN: TOKEN,
  });
}

async function makeProfiles(data: string): Promise<void> {
  const store = await openSqliteStore({ folder: data });
  const { id, keySecret } = store.identity;
  const profiles = openProfileStore({ folder: data, log: id });
  await fillProfiles(profiles, identityHash(keyHash(keySecret)), { users: USERS, cohort: SYNC });
  await profiles.stop();
  await store.stop();
}

function configOf(profiles: 'off' | 'on', port: string, listenerPort: string): object {
  const destination = (name: string, sources: string[], at: string) => ({
    ...{ name, type: 'webhooks', sources },
    settings: { endpoints: [{ url: `http://127.0.0.1:${at}/in` }], sharedSecret: 'secret' },
  });
  const counted = (nth: number) => `event('Event Number ${1 + (nth % 10)}')`;
  const audience = (nth: number) => ({
    name: `audience ${nth}`,
    definition: `${counted(nth)}${nth < 5 ? '.within(7 days)' : ''}.count() >= 3`,
    destinations: ['listener'],
  });
  const trait = (nth: number) => ({
    name: `trait ${nth}`,
    definition: `${counted(nth)}.${['count()', "sum(property('total'))", "last(property('sku'))"][nth % 3]}`,
    destinations: ['listener'],
  });
  return {
    ...{ egress: { allow: ['127.0.0.0/8'] }, profiles, log: 'error' },
    sources: [{ name: 'bench', writeKeys: ['bench'] }],
    destinations: [destination('crm', ['bench'], port), destination('listener', [], listenerPort)],
    ...(profiles === 'off' ? {} : { audiences: list(20, audience), traits: list(10, trait) }),
  };
}

function list<Item>(length: number, item: (nth: number) => Item): Item[] {
  return Array.from({ length }, (_, nth) => item(nth));
}

/** The figures of one turn of one server. */
interface Taken {
  /** Events a second. */
  readonly rate: number;
  readonly p99: number;
}

type Sides = readonly [off: Side, on: Side];
type TakeTurn = (side: Side) => Promise<Taken>;

async function compareRates(sides: Sides): Promise<void> {
  const batches = trafficTo(sides, { events: 100, connections: 16 });
  const singles = trafficTo(sides, { events: 1, connections: 64 });
  const full = { time: TURN };
  // Delivering the events of this time takes about a turn.
  const short = { time: TURN / 8 };
  const measures: [string, number, TakeTurn][] = [
    ['receiving and delivering, batches', 0.9, (side) => through(side, [[batches.get(side)!, short]])],
    [
      'mixed, 10,000 events/s',
      0.9,
      (side) =>
        through(side, [
          [batches.get(side)!, { ...full, rate: 80 }],
          [singles.get(side)!, { ...full, rate: 2000 }],
        ]),
    ],
    ['single calls, full load', 0.75, (side) => accepted(singles.get(side)!, full)],
  ];
  for (const [name, target, take] of measures) {
    // V8 compiles what runs often.
    await byTurns(sides, 2, take);
    const [off, on] = await byTurns(sides, TURNS, take);
    const ratios = on.map(({ rate }, nth) => rate / off[nth]!.rate);
    const shown = (taken: readonly Taken[]) =>
      `${whole(median(taken.map(({ rate }) => rate)))} events/s, p99 ${median(taken.map(({ p99 }) => p99)).toFixed(1)} ms`;
    report(name, `off ${shown(off)}; on ${shown(on)}; ratio ${median(ratios).toFixed(2)} (target ${target})`);
  }
}

function trafficTo(sides: Sides, offered: { events: number; connections: number }): Map<Side, Traffic> {
  return new Map(sides.map((side) => [side, new Traffic(side.url, { ...offered, users: USERS })]));
}

/** Runs turns of both servers one after the other. The other server is stopped meanwhile. */
async function byTurns(sides: Sides, turns: number, take: TakeTurn): Promise<[off: Taken[], on: Taken[]]> {
  const taken: [Taken[], Taken[]] = [[], []];
  for (let turn = 0; turn < turns; turn++) {
    for (const nth of [0, 1] as const) {
      await giveTurn(sides, nth);
      taken[nth].push(await take(sides[nth]));
    }
  }
  sides[0].program.child.kill('SIGSTOP');
  return taken;
}

/** Afterwards only the one of this index runs. */
async function giveTurn(sides: Sides, nth: 0 | 1): Promise<void> {
  sides[1 - nth]!.program.child.kill('SIGSTOP');
  sides[nth].program.child.kill('SIGCONT');
  // The server first ends what the stop interrupted.
  await sleep(50);
}

/** Events a second from the first call until the last of them has arrived. */
async function through(side: Side, offers: readonly (readonly [Traffic, Turn])[]): Promise<Taken> {
  const before = Number(await side.receiver.ask('count'));
  const startedAt = performance.now();
  const results = await Promise.all(offers.map(([traffic, turn]) => traffic.offer(turn)));
  const events = results.reduce((sum, one) => sum + one.events, 0);
  while (Number(await side.receiver.ask('count')) < before + events) await sleep(5);
  const rate = events / ((performance.now() - startedAt) / 1000);
  return { rate, p99: p99Of(results.flatMap(({ latencies }) => latencies)) };
}

/** Events a second that were answered with 200. */
async function accepted(traffic: Traffic, turn: Turn): Promise<Taken> {
  const startedAt = performance.now();
  const { events, latencies } = await traffic.offer(turn);
  return { rate: events / ((performance.now() - startedAt) / 1000), p99: p99Of(latencies) };
}

async function showCatchingUp(on: Side): Promise<void> {
  const behind = (await metrics(on)).get('millrace_profiles_behind_events') ?? 0;
  const startedAt = performance.now();
  while (((await metrics(on)).get('millrace_profiles_behind_events') ?? 0) > 0) await sleep(50);
  const seconds = (performance.now() - startedAt) / 1000;
  report('catching up afterwards', `${whole(behind)} events behind, ${seconds.toFixed(1)} s`);
}

/**
 * The latency of live calls before and during the first sync of an audience, beside the server without
 * profiles.
 */
async function firstSync(sides: Sides): Promise<void> {
  const [, on] = sides;
  const traffic = trafficTo(sides, { events: 1, connections: LIVE_CONNECTIONS });
  const live: TakeTurn = (side) => accepted(traffic.get(side)!, { time: TURN, rate: LIVE_CALLS });
  await byTurns(sides, 2, live);
  const before = await byTurns(sides, TURNS, live);
  const heard = Number(await on.listener.ask('count'));
  const startedAt = performance.now();
  await control(on, 'POST', 'audiences', {
    name: 'cohort',
    definition: `trait('cohort') = 'synced'`,
    destinations: ['listener'],
  });
  const during: [Taken[], Taken[]] = [[], []];
  let busy = 0;
  for (let told = 0; told < SYNC; ) {
    const [off, [taken]] = await byTurns(sides, 1, live);
    told = Number(await on.listener.ask('count')) - heard;
    // The last turn is quiet for the most part.
    if (told >= SYNC && during[1].length > 0) break;
    during[0].push(...off);
    during[1].push(taken!);
    busy++;
    const { progress, state } = await control<{ progress: number; state: string }>(
      on,
      'GET',
      'audiences/cohort',
    );
    console.log(
      `  first sync: ${state}, walked ${Math.round(progress * 100)} %, ${whole(told)} of ${whole(SYNC)} told`,
    );
  }
  const p99 = (taken: readonly Taken[]) => median(taken.map((one) => one.p99));
  const seconds = (performance.now() - startedAt) / 1000;
  report(`first sync of ${whole(SYNC)} members`, `${seconds.toFixed(1)} s, half of them without a turn`);
  const shown = ([off, taken]: readonly [Taken[], Taken[]]) =>
    `on ${p99(taken).toFixed(2)} ms, off ${p99(off).toFixed(2)} ms`;
  report('  p99 of live calls before', shown(before));
  report(`  p99 in ${busy} turns during it`, shown(during));
  const ratio = ([off, taken]: readonly [Taken[], Taken[]]) =>
    median(taken.map((one, nth) => one.p99 / off[nth]!.p99));
  const bare = p99(during[1]) / p99(before[1]);
  const beside = ratio(during) / ratio(before);
  report('  during / before', `${bare.toFixed(2)}, beside off ${beside.toFixed(2)} (target 2.00)`);
}

/** Waits until the stage has applied something again after a kill. */
async function showRestart(on: Side): Promise<void> {
  const traffic = new Traffic(on.url, { events: 100, connections: 4, users: USERS });
  await traffic.offer({ time: TURN });
  on.program.child.kill('SIGKILL');
  const startedAt = performance.now();
  const program = launch('on');
  const [, url] = await program.saw(/ready on (\S+)/);
  const ready = performance.now() - startedAt;
  while (((await metrics({ url: url! })).get('millrace_profiles_applied_events_total') ?? 0) === 0)
    await sleep(10);
  const on2 = performance.now() - startedAt;
  await program.stop();
  report('restart after a kill', `ready ${seconds(ready)} s, profiles go on ${seconds(on2)} s (target 5)`);
}

async function untilLive(on: Side): Promise<void> {
  for (;;) {
    const { data } = await control<{ data: { state: string }[] }>(on, 'GET', 'audiences?limit=100');
    if (data.every(({ state }) => state === 'live')) return;
    await sleep(100);
  }
}

async function control<Answer>(side: Side, method: string, path: string, body?: object): Promise<Answer> {
  const answer = await fetch(`${side.url}/api/v1/${path}`, {
    method,
    headers: { Authorization: `Bearer ${TOKEN}`, 'Content-Type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
  return (await answer.json()) as Answer;
}

/** Metrics without labels, by name. */
async function metrics({ url }: Pick<Side, 'url'>): Promise<Map<string, number>> {
  const answer = await fetch(`${url}/metrics`, { headers: { Authorization: `Bearer ${TOKEN}` } });
  const text = await answer.text();
  return new Map([...text.matchAll(/^(\w+) (\S+)$/gm)].map(([, name, value]) => [name!, Number(value)]));
}

/** MB. */
function mostMemory({ program }: Side): string {
  const status = readFileSync(`/proc/${program.child.pid}/status`, 'utf8');
  return whole(Number(/VmHWM:\s+(\d+)/.exec(status)?.[1]) / 1024);
}

function p99Of(latencies: readonly number[]): number {
  const sorted = latencies.toSorted((a, b) => a - b);
  return sorted[Math.floor(sorted.length * 0.99)] ?? Number.NaN;
}

function report(what: string, figures: string): void {
  console.log(`${what.padEnd(36)} ${figures}`);
}

function whole(n: number): string {
  return Math.round(n).toLocaleString('en');
}

function seconds(ms: number): string {
  return (ms / 1000).toFixed(1);
}
