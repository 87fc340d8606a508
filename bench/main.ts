import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { startReceiver, whileDelivering, writeBacklog } from './delivering.ts';
import {
  accepting,
  alternate,
  CONNECTIONS,
  type Figure,
  line,
  middle,
  type Offered,
  rate,
  SECONDS,
  WARM_UP,
} from './figures.ts';
import { destination, startMillrace } from './millrace.ts';
import { compareOverload } from './overload.ts';
import { type Bench, result, run } from './processes.ts';
import { compareProfiles } from './users-load.ts';

/**
 * `npm run bench`: rates of the real program over real sockets and a real disk, each beside a bare reference
 * of the same run. Load generator, receiver and program share the machine, so compare ratios, not machines.
 * `SECONDS` and `ROUNDS` set how long each figure is measured and how often; `node bench/main.ts accept`
 * measures only one of `accept`, `deliver`, `through`, `overload` and `users`.
 */
const WANTED = process.argv.slice(2);

/**
 * A commit is shared by the calls that have arrived, so a call alone costs less the more clients there are.
 */
const OFFERED: readonly Offered[] = [
  { events: 1, connections: CONNECTIONS },
  { events: 1, connections: 4 * CONNECTIONS },
  { events: 1, connections: 16 * CONNECTIONS },
  { events: 100, connections: CONNECTIONS },
];

const RELAY = 'parse, insert and undici, one program';
const UNDICI = 'a loop of undici clients, signed';
/**
 * The least that is possible on this machine: sockets of Node, prepared bytes, nothing parsed and nothing
 * signed.
 */
const TAKING = 'bare sockets, answered unread';
const SENDING = 'bare sockets, prepared requests';

const folder = mkdtempSync(join(tmpdir(), 'millrace-bench-'));

try {
  for (const offered of wants('accept') ? OFFERED : []) {
    const name = `accept, ${nameOf(offered)}`;
    const [sockets = [], bare = [], ours = []] = await alternate(
      () => accepting(run(['bench/receiver.ts']), offered),
      () => accepting(run(['bench/bare.ts', 'echo']), offered),
      () => accepting(startMillrace(folder), offered),
    );
    report(name, { 'node:http, body collected and parsed': bare, [TAKING]: sockets }, ours, 'events');
  }
  if (wants('deliver')) {
    const [sockets = [], bare = [], ours = []] = await alternate(sendOverSockets, sendBare, deliverBacklog);
    report('deliver, signed, from the backlog', { [UNDICI]: bare, [SENDING]: sockets }, ours, 'requests');
  }
  for (const offered of wants('through') ? OFFERED : []) {
    const { events } = offered;
    const name = `end to end, ${nameOf(offered)}`;
    const [parse = [], insert = [], sender = [], relayed = [], through = []] = await alternate(
      () => accepting(run(['bench/bare.ts', 'echo']), offered),
      () => result(['bench/bare.ts', 'insert', join(folder, 'bare.db'), String(events), String(SECONDS)]),
      sendBare,
      () => endToEnd(startRelay, offered),
      () => endToEnd((port) => startMillrace(folder, { port }), offered),
    );
    report(name, { [RELAY]: relayed, [UNDICI]: sender }, through, 'requests');
    // One event costs at least what the parts cost alone, so they are added up as processor time.
    const parts =
      1 / [parse, insert, sender].reduce((sum, part) => sum + 1 / middle(part, 'perCpuSecond'), 0);
    const share = (middle(through, 'perCpuSecond') / parts).toFixed(2);
    console.log(
      `  parse, insert and send, each alone, added up: ${rate(parts)} per CPU second, ratio ${share}\n`,
    );
  }
  if (wants('overload')) await compareOverload();
  if (wants('users')) await compareProfiles();
} finally {
  rmSync(folder, { recursive: true, force: true });
}

function nameOf({ events, connections }: Offered): string {
  return `${events === 1 ? 'single calls' : `batches of ${events}`}, ${connections} connections`;
}

function wants(part: string): boolean {
  return WANTED.length === 0 || WANTED.includes(part);
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

async function sendOverSockets(): Promise<Figure> {
  const [receiver, port] = await startReceiver();
  const sent = await result<Figure>([
    ...['bench/load.ts', `http://127.0.0.1:${port}`, String(CONNECTIONS), String(SECONDS), '1'],
  ]);
  await receiver.stop();
  return sent;
}

/** A backlog written to disk beforehand; then the program is started on it. */
async function deliverBacklog(): Promise<Figure> {
  const [receiver, port] = await startReceiver();
  const data = join(folder, 'backlog');
  rmSync(data, { recursive: true, force: true });
  await writeBacklog(data, (SECONDS + WARM_UP) * 80_000, [destination(port)]);
  const server = startMillrace(folder, { data, port });
  await server.saw(/ready on/);
  const figure = await whileDelivering(server, receiver, WARM_UP);
  await server.stop();
  await receiver.stop();
  return figure;
}

/**
 * From the first call until the last of them has arrived: what is accepted faster than it is delivered counts
 * as well.
 */
async function endToEnd(start: (port: string) => Bench, { events, connections }: Offered): Promise<Figure> {
  const [receiver, port] = await startReceiver();
  const server = start(port);
  const [, url] = await server.saw(/ready on (\S+)/);
  const load = (seconds: number) =>
    result<Load>(['bench/load.ts', url!, String(connections), String(seconds), String(events)]);
  const warmUp = await load(WARM_UP);
  await arrived(receiver, warmUp.events);
  const [cpu, at] = [server.cpu(), performance.now()];
  const sent = await load(SECONDS);
  await arrived(receiver, warmUp.events + sent.events);
  const seconds = (performance.now() - at) / 1000;
  const figure = {
    perSecond: sent.events / seconds,
    perCpuSecond: sent.events / (server.cpu() - cpu),
    memory: server.memory(),
  };
  await server.stop();
  await receiver.stop();
  return { ...figure, p50: sent.p50, p99: sent.p99 };
}

function startRelay(port: string): Bench {
  return run(['bench/relay.ts', join(folder, 'relay.db'), port, String(CONNECTIONS)]);
}

interface Load {
  readonly events: number;
  readonly p50: number;
  readonly p99: number;
}

async function arrived(receiver: Bench, events: number): Promise<void> {
  while (Number(await receiver.ask('count')) < events) await sleep(20);
}

/** Prints a figure beside its references of the same run, and its ratio to each. */
function report(
  name: string,
  references: Readonly<Record<string, readonly Figure[]>>,
  ours: readonly Figure[],
  unit: string,
): void {
  console.log(`${name}\n${line('millrace', ours, unit)}`);
  for (const [reference, bare] of Object.entries(references)) {
    const ratio = (key: 'perSecond' | 'perCpuSecond') => (middle(ours, key) / middle(bare, key)).toFixed(2);
    console.log(line(reference, bare, unit));
    console.log(`  ratio ${ratio('perSecond')}, per CPU second ${ratio('perCpuSecond')}`);
  }
  console.log('');
}
