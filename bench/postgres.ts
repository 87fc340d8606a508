import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmdirSync, rmSync, writeFileSync } from 'node:fs';
import { connect, createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { openPostgresStore } from '../server/src/adapters/postgres/store.ts';
import { systemClock } from '../server/src/adapters/system/clock.ts';
import { connectTo, findPostgres, type Postgres, startPostgres } from '../server/test/support/postgres.ts';
import { startReceiver } from './delivering.ts';
import { CONNECTIONS, ROUNDS, rate, SECONDS, WARM_UP } from './figures.ts';
import { destination } from './millrace.ts';
import { type Bench, cpuOf, median, result, run } from './processes.ts';

/**
 * The store on PostgreSQL beside the embedded one: `node bench/postgres.ts`, with SECONDS (4), ROUNDS (3) and
 * PARTS (`accept,deliver`). Both programs run all the time and are loaded by turns, in windows of SECONDS.
 * The load generator, the programs and a PostgreSQL of the benchmark's own share the machine, so that costs
 * per event and ratios say more than rates.
 *
 * NODES (1) programs share the database, each with a load of its own. So many programs also share the
 * machine, which has its cost, so the same number with a database each is measured beside them. OFFERED
 * events a second come to all nodes together, instead of as many as they take; or each program may use at
 * most SHARE of a core (on Linux, as root), so that there is something left for the next node. WAITING
 * deliveries wait for an endpoint that is down before anything is measured; keys have as much memory as an
 * operator with so many events a day would allow. EVENTS (`1,100`) are the events of a request. STATEMENTS
 * (0) prints as many of the statements on which the server spent most of its time. With BASE, another
 * checkout, the same number of its programs on a database of their own is measured, and nothing else.
 */
const BASE = process.env['BASE'];
const NODES = Number(process.env['NODES'] ?? 1);
const OFFERED = Number(process.env['OFFERED'] ?? Number.POSITIVE_INFINITY);
const SHARE = Number(process.env['SHARE'] ?? Number.POSITIVE_INFINITY);
const WAITING = Number(process.env['WAITING'] ?? 0);
const STATEMENTS = Number(process.env['STATEMENTS'] ?? 0);
const EVENTS = (process.env['EVENTS'] ?? '100,1').split(',').map(Number);
const PARTS = (process.env['PARTS'] ?? 'accept,deliver').split(',');

/** Settings of a tuned server: with the defaults, a checkpoint every few seconds would be measured. */
const SETTINGS = {
  shared_buffers: '1GB',
  max_wal_size: '4GB',
  ...(STATEMENTS === 0 ? {} : { shared_preload_libraries: 'pg_stat_statements' }),
};

/** Rows a second apart that all are younger than five and a half hours. */
const MOST_ROWS = 20_000;

type Client = Awaited<ReturnType<typeof connectTo>>;

/** Milliseconds in which what a client sends counts as sent together. */
const BURST = 2;

/** A destination that is down and takes another source: the measured events are not owed to it. */
const DOWN = { ...destination('9'), name: 'down', sources: ['idle'] };

interface Load {
  readonly events: number;
  readonly perSecond: number;
  readonly refused: number;
  readonly p50: number;
  readonly p99: number;
}

/** One window of load. Costs are microseconds of processor time per event. */
interface Window {
  readonly perSecond: number;
  readonly p50: number;
  readonly p99: number;
  readonly program: number;
  readonly server: number;
  /** Bytes of the write-ahead log per event. */
  readonly wal: number;
  /** Events per committed transaction of the database. */
  readonly perCommit: number;
}

/** One or several programs on one store. */
interface Side {
  readonly who: string;
  readonly programs: readonly Bench[];
  readonly addresses: readonly string[];
  readonly receiver?: Bench | undefined;
}

const bin = findPostgres();
if (bin === undefined) throw new Error('PostgreSQL 15 or newer is not installed');
const folder = mkdtempSync(join(tmpdir(), 'millrace-bench-pg-'));
const postgres = await startPostgres(bin, { settings: SETTINGS });
const groups: string[] = [];
try {
  for (const part of PARTS) for (const events of EVENTS) await compare(part === 'deliver', events);
} finally {
  await postgres.stop();
  // Their processes have ended.
  for (const group of groups) rmdirSync(group);
  rmSync(folder, { recursive: true, force: true });
}

async function compare(isDelivered: boolean, events: number): Promise<void> {
  const url = await postgres.makeDatabase();
  const admin = await connectTo(url);
  if (STATEMENTS > 0) await admin.query('create extension pg_stat_statements');
  const nodes = Array.from({ length: NODES }, () => url);
  const apart =
    NODES === 1 && BASE === undefined ? [] : await Promise.all(nodes.map(() => postgres.makeDatabase()));
  const sides = await startSides(isDelivered, nodes, apart);
  if (WAITING > 0) await writeWaiting(url);
  for (const side of sides) await load(side, { events, seconds: WARM_UP });
  if (SHARE < Number.POSITIVE_INFINITY)
    for (const { child } of sides.flatMap(({ programs }) => programs)) throttle(child.pid!);
  if (STATEMENTS > 0) await admin.query('select pg_stat_statements_reset()');
  const windows = sides.map((): Window[] => []);
  for (let round = 0; round < ROUNDS; round++)
    for (const [nth, side] of sides.entries()) windows[nth]!.push(await measure(side, events, admin));
  const beside = WAITING === 0 ? '' : `, ${WAITING.toLocaleString('en')} waiting`;
  const by = NODES === 1 ? '' : `, ${NODES} nodes`;
  console.log(
    `${isDelivered ? 'accepted and delivered' : 'accepted'}, ${events === 1 ? 'single calls' : `batches of ${events}`}${beside}${by}`,
  );
  for (const [nth, { who }] of sides.entries()) console.log(lineOf(who, windows[nth]!));
  const of = (nth: number) => median(windows[nth]!.map(({ perSecond }) => perSecond));
  console.log(`  ratio ${(of(1) / of(0)).toFixed(2)}`);
  await printStatements(admin);
  for (const { programs, receiver } of sides) {
    for (const program of programs) await program.stop();
    await receiver?.stop();
  }
  if (!isDelivered) console.log(`  ${await roundTrips(url, events, admin)} round trips per transaction`);
  console.log('');
  await admin.end();
  for (const one of [url, ...apart]) await postgres.dropDatabase(one);
}

/** The ratio that is printed is that of the second side to the first. */
async function startSides(
  isDelivered: boolean,
  nodes: readonly string[],
  apart: readonly string[],
): Promise<Side[]> {
  if (BASE !== undefined)
    return [
      await startSide('the other version', isDelivered, { urls: apart.map(() => apart[0]), root: BASE }),
      await startSide('this version', isDelivered, { urls: nodes }),
    ];
  return [
    await startSide('embedded', isDelivered, { urls: [undefined] }),
    await startSide('PostgreSQL', isDelivered, { urls: nodes }),
    ...(NODES === 1 ? [] : [await startSide('a database each', isDelivered, { urls: apart })]),
  ];
}

/** Programs that are ready: one for each address of a database, or for `undefined` on a folder of its own. */
async function startSide(
  who: string,
  isDelivered: boolean,
  { urls, root }: { readonly urls: readonly (string | undefined)[]; readonly root?: string },
): Promise<Side> {
  const [receiver, port] = isDelivered ? await startReceiver() : [];
  const programs: Bench[] = [];
  const addresses: string[] = [];
  for (const [nth, url] of urls.entries()) {
    const program = start(`node-${nth}`, { url, port, root });
    programs.push(program);
    addresses.push((await program.saw(/ready on (\S+)/))[1]!);
  }
  return { who, programs, addresses, receiver };
}

function start(
  node: string,
  { url, port, root }: Record<'url' | 'port' | 'root', string | undefined>,
): Bench {
  const data = mkdtempSync(join(folder, 'data-'));
  const config = join(data, 'millrace.yaml');
  const destinations = port === undefined ? [] : [destination(port)];
  const settings = {
    egress: { allow: ['127.0.0.0/8'] },
    sources: ['bench', 'idle'].map((name) => ({ name, writeKeys: [name] })),
    destinations: [...destinations, ...(WAITING === 0 ? [] : [DOWN])],
    ...(url === undefined ? {} : { database: url, node }),
    ...(WAITING === 0 ? {} : { limits: { dedupeMemory: `${64 + Math.ceil(WAITING / 400_000)}MB` } }),
  };
  writeFileSync(config, JSON.stringify(settings));
  const args = ['cli/bin/millrace.js', 'start', '--config', config, '--data', data];
  return run([...args, '--host', '127.0.0.1', '--port', '0'], {}, root);
}

/**
 * Deliveries to the destination that is down, in a row for each five hundred of them, or for more: all arrive
 * within the span of a slot.
 */
async function writeWaiting(url: string): Promise<void> {
  const store = await openPostgresStore({ clock: systemClock, url, node: 'filler' });
  const { destinations } = await store.settings.load();
  const { id } = destinations.find(({ name }) => name === 'down')!;
  const rows = Math.min(Math.ceil(WAITING / 500), MOST_ROWS);
  const indexes = Array.from({ length: Math.ceil(WAITING / rows) }, (_, index) => index);
  const now = Date.now();
  for (let row = 0; row < rows; row++) {
    const events = indexes.map((index) => {
      const messageId = `waiting-${row}-${index}`;
      return { source: 1, messageId, json: JSON.stringify({ messageId, type: 'track', event: 'Waiting' }) };
    });
    // Times that are further apart than what shares a row.
    const receivedAt = now + (row - rows) * 1001;
    const owed = [{ destination: id, state: 'parked' as const, indexes }];
    const plans = [{ owed: owed.map(({ destination: of }) => ({ id: of })), skipped: [] }];
    const planned = { plans, planIndexes: events.map(() => 0), owed };
    await store.log.append({ id: `w${row}`, receivedAt, events, ...planned, received: [] });
  }
  await store.stop();
}

async function measure(side: Side, events: number, admin: Client): Promise<Window> {
  const before = await readings(side, admin);
  const loaded = await load(side, { events, seconds: SECONDS });
  const after = await readings(side, admin);
  const per = (what: keyof typeof before, scale = 1) =>
    ((after[what] - before[what]) * scale) / loaded.events;
  return {
    ...loaded,
    // Until the last event has arrived: what is accepted faster than it is delivered counts as well.
    perSecond: side.receiver === undefined ? loaded.perSecond : loaded.events / loaded.seconds,
    program: per('program', 1e6),
    server: per('server', 1e6),
    wal: per('wal'),
    perCommit: 1 / per('commits'),
  };
}

async function readings({ programs }: Side, admin: Client) {
  const { rows } = await admin.query<{ wal: string; commits: string }>(
    `select pg_current_wal_lsn() - '0/0' as wal, (select sum(xact_commit) from pg_stat_database) as commits`,
  );
  return {
    program: programs.reduce((sum, program) => sum + program.cpu(), 0),
    server: postgresCpu(postgres),
    wal: Number(rows[0]!.wal),
    commits: Number(rows[0]!.commits),
  };
}

/** Loads all programs of a side at once, and waits until every event has arrived where it is delivered. */
async function load(side: Side, { events, seconds }: { readonly events: number; readonly seconds: number }) {
  const { addresses, receiver } = side;
  const earlier = receiver === undefined ? 0 : Number(await receiver.ask('count'));
  const rated =
    OFFERED === Number.POSITIVE_INFINITY ? {} : { RATE: String(OFFERED / events / addresses.length) };
  const at = performance.now();
  const loads = await Promise.all(
    addresses.map((address) =>
      result<Load>(['bench/load.ts', address, String(CONNECTIONS), String(seconds), String(events)], rated),
    ),
  );
  const sum = (key: keyof Load) => loads.reduce((total, one) => total + one[key], 0);
  if (sum('refused') > 0) throw new Error(`${sum('refused')} requests were refused`);
  const total = sum('events');
  while (receiver !== undefined && Number(await receiver.ask('count')) < earlier + total) await sleep(20);
  return {
    events: total,
    perSecond: sum('perSecond'),
    seconds: (performance.now() - at) / 1000,
    p50: sum('p50') / loads.length,
    p99: Math.max(...loads.map(({ p99 }) => p99)),
  };
}

/** Lets a process use SHARE of a core, by a control group of its own (version 1 of them). */
function throttle(pid: number): void {
  const group = `/sys/fs/cgroup/cpu/millrace-bench-${pid}`;
  mkdirSync(group);
  groups.push(group);
  const period = 10_000;
  for (const [file, value] of [
    ['cpu.cfs_period_us', period],
    ['cpu.cfs_quota_us', Math.round(period * SHARE)],
    ['cgroup.procs', pid],
  ] as const)
    writeFileSync(join(group, file), String(value));
}

/** Seconds of processor time of all processes of a server, also of those that have ended. */
function postgresCpu({ folder }: Postgres): number {
  const main = Number(readFileSync(join(folder, 'data/postmaster.pid'), 'utf8').split('\n')[0]);
  const children = readdirSync('/proc').filter((pid) => /^\d+$/.test(pid) && parentOf(pid) === main);
  return children.reduce((sum, pid) => sum + (cpuOf(Number(pid)) || 0), cpuOf(main, true));
}

function parentOf(pid: string): number | undefined {
  try {
    return Number(readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]!.split(' ')[1]);
  } catch {
    return undefined;
  }
}

function lineOf(who: string, windows: readonly Window[]): string {
  const of = (key: keyof Window) => median(windows.map((window) => window[key]));
  const rates = `  ${who.padEnd(16)}${rate(of('perSecond'))} events/s   p50 ${of('p50').toFixed(2)} ms   p99 ${of('p99').toFixed(2)} ms`;
  const cost = `${of('program').toFixed(1)} µs per event in the program`;
  if (who === 'embedded') return `${rates}   ${cost}`;
  return `${rates}   ${cost}, ${of('server').toFixed(1)} µs in PostgreSQL   ${of('wal').toFixed(0)} bytes of WAL   ${of('perCommit').toFixed(0)} events per commit`;
}

async function printStatements(admin: Client): Promise<void> {
  if (STATEMENTS === 0) return;
  const { rows } = await admin.query<Record<string, string>>(
    `select calls, round(total_exec_time) as total, round(mean_exec_time::numeric, 3) as mean, wal_bytes,
      left(regexp_replace(query, '\\s+', ' ', 'g'), 90) as query
    from pg_stat_statements order by total_exec_time desc limit ${STATEMENTS}`,
  );
  for (const { calls, total, mean, wal_bytes: wal, query } of rows)
    console.log(`  ${total} ms in ${calls} calls of ${mean} ms, ${wal} bytes of WAL: ${query}`);
}

/** How often the program sends something and waits for the answer, by a relay between it and the database. */
async function roundTrips(url: string, events: number, admin: Client): Promise<string> {
  const socket = join(folder, 'relay');
  mkdirSync(socket, { recursive: true });
  const bursts = { n: 0 };
  const target = join(postgres.folder, '.s.PGSQL.5432');
  const relay = await startRelay(join(socket, '.s.PGSQL.5432'), target, bursts);
  const address = url.replace(encodeURIComponent(postgres.folder), encodeURIComponent(socket));
  const side = await startSide('relay', false, { urls: [address] });
  await load(side, { events, seconds: 1 });
  const [before, from] = [await readings(side, admin), bursts.n];
  await load(side, { events, seconds: 2 });
  const [after, to] = [await readings(side, admin), bursts.n];
  for (const program of side.programs) await program.stop();
  relay.close();
  return ((to - from) / (after.commits - before.commits)).toFixed(2);
}

/** Passes bytes on, and counts the bursts of the clients: each of them waits for an answer. */
async function startRelay(path: string, target: string, bursts: { n: number }): Promise<Server> {
  const relay = createServer((client) => {
    const server = connect(target);
    let burst: Buffer[] = [];
    client.on('data', (data) => {
      if (burst.push(data) > 1) return;
      setTimeout(() => {
        bursts.n++;
        server.write(Buffer.concat(burst));
        burst = [];
      }, BURST);
    });
    server.on('data', (data) => client.write(data));
    for (const [one, other] of [
      [client, server],
      [server, client],
    ] as const) {
      one.on('error', () => other.destroy());
      one.on('close', () => other.end());
    }
  });
  await new Promise<void>((ready) => relay.listen(path, ready));
  return relay;
}
